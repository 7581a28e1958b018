"""Functions that are called after a module."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

ForwardHook = Callable[[Any, tuple[Any, ...], dict[str, Any], Any], Any]
"""`hook(module, args, kwargs, result)`; what it gives replaces the result, unless it is None."""

_serials = itertools.count()


class RemovableHandle:
    """A registered hook, which `remove` takes away again; so does leaving a `with` block.

    >>> calls = []
    >>> with rf.Functional(abs).register_forward_hook(lambda *call: calls.append(call)) as handle:
    ...     pass
    """

    def __init__(self, hooks: dict[int, ForwardHook]):
        self._hooks = hooks
        self.serial = next(_serials)

    def remove(self) -> None:
        """The hook is called no more. Does nothing the second time."""
        self._hooks.pop(self.serial, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def add_hook(hooks: dict[int, ForwardHook], hook: ForwardHook, *, first: bool = False) -> RemovableHandle:
    """Adds a hook behind the others, or before them."""
    handle = RemovableHandle(hooks)
    others = dict(hooks) if first else {}
    if first:
        hooks.clear()
    hooks[handle.serial] = hook
    hooks.update(others)
    return handle
