"""Conditions that the panel searches for, as functions of a step."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from rfnb.core.expression.expression import Expression
from rfnb.display.kit.data import to_numpy
from rfnb.display.panel.schema import Where
from rfnb.display.run.step import of_sequence
from rfnb.display.tensor.value import one_entry
from rfnb.errors import ExpressionError, ViewError
from rfnb.trace.run import when
from rfnb.trace.run.names import AtLine, NoValue

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.step import RunStep

Test = Callable[["RunStep"], bool]


def conditions_of(where: Where, run: Run, sequence: int | None) -> list[Test]:
    """The conditions of a search; a step matches if one holds. Raises ViewError for an unknown condition or value."""
    kind = where.get("kind")
    if kind == "expression":
        return [_holds(str(where["text"]), run, sequence)]
    if kind in OF_THE_TREE and sequence is None and run.batch:
        sequence = 0
    if kind not in READY:
        raise ViewError(f"find: no condition {str(kind)[:40]!r}", expected=", ".join(READY))
    return [READY[kind](where, name, sequence) for name in _names(where, run)]


READY: dict[str, Callable[[Where, Any, int | None], Test]] = {
    "not finite": lambda where, name, sequence: when.not_finite(name, batch=sequence),
    "over": lambda where, name, sequence: when.over(float(where["limit"] or 0), name, batch=sequence),
    "changes": lambda where, name, sequence: when.changes(name, batch=sequence),
    "repeats": lambda where, name, sequence: when.repeats(name, batch=sequence),
    "ends": lambda where, name, sequence: when.ends(batch=sequence),
    "best changes": lambda where, name, sequence: when.best_changes(batch=sequence),
    "falls out": lambda where, name, sequence: when.falls_out(str(where["text"]), batch=sequence),
}

OF_THE_TREE = ("best changes", "falls out")
"""Conditions on a search, which hold for the sequence whose tree is shown: the chosen one or the first one."""


def _names(where: Where, run: Run) -> list[str | None]:
    """The values searched: the given one; for a line, the values that it names, else all that it computes."""
    line = where.get("line")
    if line is None:
        return [where.get("name")]
    plain = not run.graph.values  # Python code, of which some steps skip lines
    steps = range(run.steps)[::-1][: None if plain else 1]
    values = next((values for step in steps if (values := [v for v in run[step].values() if v.line == line])), [])
    names: list[str] = [] if values else getattr(run.replay, "names_at", lambda line: [])(line)
    if not values and not names:
        raise ViewError(f"find: line {line} computes nothing in this loop")
    named = [value.name for value in values if value.name != value.op]
    return [AtLine.of(name, line) for name in dict.fromkeys(names or named or [value.name for value in values])]


def _holds(text: str, run: Run, sequence: int | None) -> Test:
    """Whether an expression is true anywhere, or anywhere in one sequence; numbers are true if not 0."""

    def test(at: RunStep) -> bool:
        try:
            value = at.eval(text)
        except NoValue:
            return False
        if not hasattr(value, "dims"):
            return bool(value)
        data = one_entry(value, of_sequence(run, sequence))
        mask = data.mask()
        true = to_numpy(data.raw) != 0
        return bool((true if mask is None else true & mask).any())

    with suppress(ExpressionError):  # which the test raises
        test.reads = Expression(text).reads  # type: ignore[attr-defined]
    return test
