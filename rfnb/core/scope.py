"""What surrounds the code that runs now: the path of modules, and where random numbers come from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_path: ContextVar[tuple[str, ...]] = ContextVar("rfnb_path", default=())
_describe: ContextVar[Callable[[Any], Any] | None] = ContextVar("rfnb_describe", default=None)
_stream: ContextVar[Callable[[str], Any] | None] = ContextVar("rfnb_stream", default=None)


def module_path() -> str:
    """The modules that are being called, outermost first: "decoder.att"."""
    return ".".join(_path.get())


@contextmanager
def inside_module(name: str) -> Iterator[None]:
    """Inside the call of a module."""
    token = _path.set((*_path.get(), name))
    try:
        yield
    finally:
        _path.reset(token)


def module_facts(module: Any) -> Any:
    """What is known of a module while somebody draws the calls of modules; None, most often."""
    describe = _describe.get()
    return None if describe is None else describe(module)


@contextmanager
def modules_described_by(describe: Callable[[Any], Any]) -> Iterator[None]:
    """Each call of a module inside asks `describe(module)` for its facts."""
    token = _describe.set(describe)
    try:
        yield
    finally:
        _describe.reset(token)


def random_stream(device: str) -> Any:
    """The generator that random ops draw from; None: the global one of the backend."""
    stream = _stream.get()
    return None if stream is None else stream(device)


@contextmanager
def random_from(stream: Callable[[str], Any] | None) -> Iterator[None]:
    """Random ops inside the block draw from `stream(device)`."""
    token = _stream.set(stream)
    try:
        yield
    finally:
        _stream.reset(token)
