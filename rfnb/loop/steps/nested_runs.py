"""What is inside of one call of a step: the runs of its loops, and values in the sides of its branches.

Neither is kept: a replay of the step makes them when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import Var

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run


@dataclass
class Inner:
    """What is asked for of a step, and what it was.

    runs: of the loops in it, but not of loops in these; None if they are not asked for.
    wanted: values of the branches; those of sides that the step takes come into `values`.
    """

    runs: list[Run] | None = None
    wanted: Collection[Var] = ()
    values: dict[Var, Any] = field(default_factory=dict)


_asked: ContextVar[Inner | None] = ContextVar("rfnb_inner", default=None)


def asked() -> Inner | None:
    """What somebody wants to know of the step that is done now."""
    return _asked.get()


@contextmanager
def asking(inner: Inner | None) -> Iterator[None]:
    """Steps that are done inside tell `inner`."""
    token = _asked.set(inner)
    try:
        yield
    finally:
        _asked.reset(token)
