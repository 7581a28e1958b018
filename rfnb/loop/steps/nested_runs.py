"""Inspects the inside of a step: the runs of its inner loops, and values in the sides of its branches.

A recorded run keeps neither; replaying the step computes them on demand.
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
class Inspection:
    """What to collect from inside of a step, and what was found.

    runs: the runs of its inner loops, without loops inside of these; None to skip them.
    wanted: values of the branches; those of sides that the step takes are stored in `values`.
    """

    runs: list[Run] | None = None
    wanted: Collection[Var] = ()
    values: dict[Var, Any] = field(default_factory=dict)


_inspection: ContextVar[Inspection | None] = ContextVar("rfnb_inspection", default=None)


def current_inspection() -> Inspection | None:
    """The Inspection of the step that runs now; None if nothing is to be collected."""
    return _inspection.get()


@contextmanager
def inspecting(inspection: Inspection | None) -> Iterator[None]:
    """Steps that run in this context store what they find in `inspection`."""
    token = _inspection.set(inspection)
    try:
        yield
    finally:
        _inspection.reset(token)
