"""Functions that are called after a module, or after any method of an object."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from rfnb.errors import ParameterError

__all__ = ["MethodWithHooks", "RemovableHandle", "setup_post_hook_on_method"]
__dir__ = __all__.copy  # what is offered for completion: no imports

ForwardHook = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]
"""`hook(module, args, kwargs, result)`; what it gives replaces the result, unless it is None."""

_serials = itertools.count()


class RemovableHandle:
    """A registered hook, which `remove` takes away again; so does leaving a `with` block.

    >>> calls = []
    >>> with rf.Functional(abs).register_forward_hook(lambda *call: calls.append(call)) as handle:
    ...     pass
    """

    def __init__(self, hooks: dict[int, ForwardHook], method: MethodWithHooks | None = None):
        self._hooks = hooks
        self._method = method
        self.serial = next(_serials)

    def remove(self) -> None:
        """The hook is called no more. Does nothing the second time."""
        self._hooks.pop(self.serial, None)
        if self._method is not None and not self._hooks:
            self._method.uninstall()

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


class MethodWithHooks:
    """What stands for a method of one object while there are hooks on it.

    >>> from collections import Counter
    >>> counter = Counter("aab")
    >>> handle = rf.hooks.setup_post_hook_on_method(counter, "total", lambda obj, args, kwargs, total: total + 1)
    >>> counter.total(), isinstance(counter.total, rf.hooks.MethodWithHooks)
    (4, True)
    """

    def __init__(self, obj: Any, attr: str):
        self.obj = obj
        self.attr = attr
        self.post_hooks: dict[int, ForwardHook] = {}
        self._method = getattr(obj, attr)
        self._before = vars(obj).get(attr)

    @classmethod
    def get(cls, obj: Any, attr: str) -> MethodWithHooks:
        """The one of this method; a new one if there is none."""
        found = vars(obj).get(attr)
        return found if isinstance(found, cls) and found.obj is obj else cls(obj, attr)

    def setup(self) -> None:
        """From now on, the object has it instead of the method."""
        vars(self.obj)[self.attr] = self

    def uninstall(self) -> None:
        """The object has its method again."""
        if vars(self.obj).get(self.attr) is self:
            del vars(self.obj)[self.attr]
            if self._before is not None:
                vars(self.obj)[self.attr] = self._before

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The method, and then the hooks."""
        return after(self.post_hooks, self.obj, args, kwargs, self._method(*args, **kwargs))


def setup_post_hook_on_method(obj: Any, attr: str, hook: ForwardHook, *, prepend: bool = False) -> RemovableHandle:
    """After each call of `obj.attr(…)`, `hook(obj, args, kwargs, result)` may look at the result, or give another.

    prepend: before the other hooks. On `__call__` of a module, it is `module.register_forward_hook`.

    >>> linear = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    >>> with rf.hooks.setup_post_hook_on_method(linear, "get_default_name", lambda *call: call[-1].upper()):
    ...     linear.get_default_name()
    'LINEAR'

    Raises ParameterError if there is no such method, or Python looks it up on the class.
    """
    if attr == "__call__" and hasattr(obj, "register_forward_hook"):
        handle: RemovableHandle = obj.register_forward_hook(hook, prepend=prepend)
        return handle
    if not callable(getattr(obj, attr, None)) or not hasattr(obj, "__dict__") or attr.startswith("__"):
        raise ParameterError(
            f"setup_post_hook_on_method: {type(obj).__name__} has no method {attr!r} that can be replaced",
            hint="Python looks it up on the class" if attr.startswith("__") and hasattr(obj, attr) else None,
        )
    method = MethodWithHooks.get(obj, attr)
    method.setup()
    return add_hook(method.post_hooks, hook, first=prepend, method=method)


def add_hook(
    hooks: dict[int, ForwardHook], hook: ForwardHook, *, first: bool = False, method: MethodWithHooks | None = None
) -> RemovableHandle:
    """Adds a hook behind the others, or before them."""
    handle = RemovableHandle(hooks, method)
    others = dict(hooks) if first else {}
    if first:
        hooks.clear()
    hooks[handle.serial] = hook
    hooks.update(others)
    return handle


def after(hooks: dict[int, ForwardHook], obj: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> Any:
    """The result, as the hooks leave it."""
    for hook in list(hooks.values()):
        other = hook(obj, args, kwargs, result)
        result = result if other is None else other
    return result
