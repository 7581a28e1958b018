"""Hooks: functions which a lower rank calls and a higher one registers, so that no import points up.

>>> greeting: Hook[[str], str] = Hook("core.ground.hook.greeting", by="display.register")
>>> greeting.register(lambda name: f"hello {name}")("you"), greeting("me")
('hello you', 'hello me')

`HOOKS` lists all that were declared: what is called where, and which module registers it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

HOOKS: list[Hook[Any, Any] | ClassHook[Any]] = []
"""All hooks, in the order they were declared."""


class Hook(Generic[P, R]):
    """One function. name: where the hook is declared. by: the module that registers the function.

    Until then `otherwise` is called; without one, a call raises LookupError.
    """

    __slots__ = ("by", "fn", "name")

    def __init__(self, name: str, *, by: str, otherwise: Callable[P, R] | None = None):
        self.name, self.by, self.fn = name, by, otherwise
        HOOKS.append(self)

    def register(self, fn: Callable[P, R]) -> Callable[P, R]:
        """Sets the function; returns it, so that this is a decorator."""
        self.fn = fn
        return fn

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function that is registered."""
        if self.fn is None:
            raise LookupError(f"{self.name} is not registered: import rfnb.{self.by}")
        return self.fn(*args, **kwargs)


class ClassHook(Generic[F]):
    """A function for each of several classes, which also serves their subclasses."""

    __slots__ = ("by", "fns", "name")

    def __init__(self, name: str, *, by: str):
        self.name, self.by = name, by
        self.fns: dict[type, F] = {}
        HOOKS.append(self)

    def register(self, *classes: type) -> Callable[[F], F]:
        """Sets the function for instances of these classes."""

        def decorate(fn: F) -> F:
            self.fns.update(dict.fromkeys(classes, fn))
            return fn

        return decorate

    def of(self, cls: type) -> Iterator[F]:
        """The functions for a class and its bases, the most specific first."""
        return (self.fns[base] for base in cls.__mro__ if base in self.fns)
