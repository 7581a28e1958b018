"""Loops inside of a step: they are one call of it, and are recorded when somebody asks for their runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rfnb.trace.run import Run

Taker = Callable[["Run"], None]
_taker: ContextVar[Taker | None] = ContextVar("rfnb_inner_taker", default=None)


def asked() -> Taker | None:
    """Who wants the runs of the loops in the step that is done now."""
    return _taker.get()


@contextmanager
def taking_runs(taker: Taker | None) -> Iterator[None]:
    """Steps that are done inside give the runs of their loops to `taker`; not those of loops in these."""
    token = _taker.set(taker)
    try:
        yield
    finally:
        _taker.reset(token)
