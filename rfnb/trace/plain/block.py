"""What is open in a `with` block, or while a decorated function runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import wraps
from typing import Any

from rfnb.errors import ParameterError


class Block(ContextDecorator):
    """A context manager that decorates functions, methods, generators and coroutines; each call opens one of its own.

    Args:
        arguments, options: of the class.
    """

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
