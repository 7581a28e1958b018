"""What surrounds the code that runs now: the path of modules, and where random numbers come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
_path: ContextVar[tuple[str, ...]] = ContextVar("rfnb_path", default=())
_describe: ContextVar[Callable[[Any], Any] | None] = ContextVar("rfnb_describe", default=None)
_stream: ContextVar[Callable[[str], Any] | None] = ContextVar("rfnb_stream", default=None)


@contextmanager
def within(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Inside the block, and in this thread, the variable has this value."""
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)


def module_path() -> str:
    """The modules that are being called, outermost first: "decoder.att"."""
    return ".".join(_path.get())


def inside_module(name: str) -> AbstractContextManager[None]:
    """Inside the call of a module."""
    return within(_path, (*_path.get(), name))


def module_facts(module: Any) -> Any:
    """What is known of a module while somebody draws the calls of modules; None, most often."""
    describe = _describe.get()
    return None if describe is None else describe(module)


def modules_described_by(describe: Callable[[Any], Any]) -> AbstractContextManager[None]:
    """Each call of a module inside asks `describe(module)` for its facts."""
    return within(_describe, describe)


def random_stream(device: str) -> Any:
    """The generator that random ops draw from; None: the global one of the backend."""
    stream = _stream.get()
    return None if stream is None else stream(device)


def random_from(stream: Callable[[str], Any] | None) -> AbstractContextManager[None]:
    """Random ops inside the block draw from `stream(device)`."""
    return within(_stream, stream)
