"""What is open in a `with` block, or while a decorated function runs."""

from __future__ import annotations

import dis
import inspect
import sys
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import wraps
from typing import Any

from rfnb.errors import ParameterError

DECORATES = bytes((dis.opmap["CALL"], 0))
"""The instruction that calls a decorator: what it decorates is not counted."""


class Block(ContextDecorator):
    """A context manager that decorates functions, methods, generators and coroutines; each call opens one of its own.

    Args:
        arguments, options: of the class.
    """

    def __new__(cls, *arguments: Any, **options: Any) -> Any:
        """The decorated function, where the class is a decorator without brackets: its call then has no argument."""
        frame = sys._getframe(1)
        is_decorator = frame.f_code.co_code[frame.f_lasti : frame.f_lasti + 2] == DECORATES
        return cls()(*arguments) if is_decorator and len(arguments) == 1 else super().__new__(cls)

    def __init__(self, *arguments: Any, **options: Any):
        self._made_of = arguments, options

    def _recreate_cm(self) -> Block:
        arguments, options = self._made_of
        return type(self)(*arguments, **options)

    def __call__(self, function: Any) -> Any:
        """The function, in a block that is open while it runs. Raises ParameterError for other objects."""
        if isinstance(function, staticmethod | classmethod):
            return type(function)(self(function.__func__))
        if isinstance(function, type) or not callable(function) or inspect.isasyncgenfunction(function):
            raise ParameterError(
                f"{type(self).__name__}: only functions, methods, generators and coroutines are decorated",
                got=repr(function)[:60],
                hint=f"`with rf.{type(self).__name__}(…):` around the lines that run it",
            )
        if inspect.iscoroutinefunction(function):
            return wraps(function)(self._waits(function))
        return (
            wraps(function)(self._yields(function))
            if inspect.isgeneratorfunction(function)
            else super().__call__(function)
        )

    def _waits(self, function: Callable[..., Any]) -> Callable[..., Any]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            with self._recreate_cm():  # type: ignore[attr-defined]
                return await function(*args, **kwargs)

        return call

    def _yields(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            with self._recreate_cm():  # type: ignore[attr-defined]
                return (yield from function(*args, **kwargs))

        return call
