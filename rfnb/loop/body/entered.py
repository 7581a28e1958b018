"""The bodies of nested loops that are being traced now."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rfnb.loop.body.body import Body

entered: ContextVar[tuple[Body, ...]] = ContextVar("rfnb_entered", default=())
"""The bodies that are being traced, outermost first."""


@contextmanager
def outside_of_bodies() -> Iterator[None]:
    """Ops inside are not traced by any body, and run in the modes active around the outermost loop."""
    bodies = entered.get()
    with ExitStack() as stack:
        for body in bodies:
            stack.enter_context(body.untraced())
            stack.enter_context(body.generators.ignored())
        for outermost in bodies[:1]:
            stack.enter_context(outermost.backend.modes(outermost.modes))
        yield
