"""Hooks: functions that run after a call of a module, or of any method of an object."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from rfnb.errors import ParameterError

__all__ = ["MethodWithHooks", "RemovableHandle", "setup_post_hook_on_method"]
__dir__ = __all__.copy  # what is offered for completion: no imports

ForwardHook = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]
"""`hook(module, args, kwargs, result)`; its return value replaces the result, unless it is None."""

_serials = itertools.count()


class RemovableHandle:
    """A handle of a registered hook, which is removed by `remove` or at the end of a `with` block.

    >>> calls = []
    >>> with rf.Functional(abs).register_forward_hook(lambda *call: calls.append(call)) as handle:
    ...     pass
    """

    def __init__(self, method: MethodWithHooks | None, hooks_dict: dict[int, ForwardHook]):
        self._method = method
        self._hooks = hooks_dict
        self.serial = next(_serials)

    def remove(self) -> None:
        """Removes the hook. A second call has no effect."""
        self._hooks.pop(self.serial, None)
        if self._method is not None and not self._hooks:
            self._method.uninstall()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class MethodWithHooks:
    """Replaces a method of one object while there are hooks on it.

    >>> from collections import Counter
    >>> counter = Counter("aab")
    >>> handle = rf.hooks.setup_post_hook_on_method(counter, "total", lambda obj, args, kwargs, total: total + 1)
    >>> counter.total(), isinstance(counter.total, rf.hooks.MethodWithHooks)
    (4, True)
    """

    def __init__(self, obj: object, attr: str):
        self.obj = obj
        self.attr = attr
        self.post_hooks: dict[int, ForwardHook] = {}
        self._method = getattr(obj, attr)
        self._before = vars(obj).get(attr)

    @classmethod
    def get(cls, obj: object, attr: str) -> MethodWithHooks:
        """The existing replacement of this method, or a new one."""
        method = vars(obj).get(attr)
        return method if isinstance(method, cls) and method.obj is obj else cls(obj, attr)

    def setup(self) -> None:
        """Installs this in place of the object's method."""
        vars(self.obj)[self.attr] = self

    def uninstall(self) -> None:
        """Restores the object's own method."""
        if vars(self.obj).get(self.attr) is self:
            del vars(self.obj)[self.attr]
            if self._before is not None:
                vars(self.obj)[self.attr] = self._before

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """Calls the method, and then the hooks."""
        return run_post_hooks(self.post_hooks, self.obj, args, kwargs, self._method(*args, **kwargs))


def setup_post_hook_on_method(obj: object, attr: str, hook: ForwardHook, *, prepend: bool = False) -> RemovableHandle:
    """Calls `hook(obj, args, kwargs, result)` after each `obj.attr(…)`; the hook may return another result.

    prepend: whether it runs before the other hooks. For `__call__` of a module this is `module.register_forward_hook`.

    >>> linear = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> with rf.hooks.setup_post_hook_on_method(linear, "get_default_name", lambda *call: call[-1].upper()):
    ...     linear.get_default_name()
    'LINEAR'

    Raises ParameterError if there is no such method, or if Python looks it up on the class.
    """
    if attr == "__call__" and hasattr(obj, "register_forward_hook"):
        handle: RemovableHandle = obj.register_forward_hook(hook, prepend=prepend)
        return handle
    if not callable(getattr(obj, attr, None)) or not hasattr(obj, "__dict__") or attr.startswith("__"):
        raise ParameterError(
            f"setup_post_hook_on_method: {type(obj).__name__} has no replaceable method {attr!r}",
            hint="Python looks it up on the class" if attr.startswith("__") and hasattr(obj, attr) else None,
        )
    method = MethodWithHooks.get(obj, attr)
    method.setup()
    return add_hook(method.post_hooks, hook, first=prepend, method=method)


def add_hook(
    hooks: dict[int, ForwardHook], hook: ForwardHook, *, first: bool = False, method: MethodWithHooks | None = None
) -> RemovableHandle:
    """Adds a hook after the others; with `first`, before them. Raises ParameterError if it is not a function."""
    if not callable(hook):
        raise ParameterError(
            "a hook must be a function", got=f"{hook!r:.40}", expected="hook(module, args, kwargs, result)"
        )
    handle = RemovableHandle(method, hooks)
    followers = dict(hooks) if first else {}
    if first:
        hooks.clear()
    hooks[handle.serial] = hook
    hooks.update(followers)
    return handle


def run_post_hooks(
    hooks: dict[int, ForwardHook], obj: object, args: tuple[object, ...], kwargs: dict[str, object], result: object
) -> object:
    """Calls the hooks one after the other and returns the final result."""
    for hook in list(hooks.values()):
        new = hook(obj, args, kwargs, result)
        result = result if new is None else new
    return result
