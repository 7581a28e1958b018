"""Tells where the ops of a loop's body were done, and why there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from rfnb.backend.base.tape import Var
from rfnb.core.graph import Node
from rfnb.core.op import OpRow

Place = Literal["once", "frames", "steps", "behind"]
WHERE = {"once": "once", "frames": "all steps", "steps": "step", "behind": "behind"}


class Done(NamedTuple):
    """An op of a body as it was done: in which place, and what it took and made. It holds no tensor.

    why: what is known already.
    """

    node: Node
    row: OpRow
    reads: frozenset[Var]
    makes: frozenset[Var]
    place: Place
    why: str = ""


class Moved(NamedTuple):
    """An op of a body: where it was done, and why there."""

    node: Node
    place: Place
    why: str

    @property
    def where(self) -> str:
        """ "once", "all steps", "step" or "behind"."""
        return WHERE[self.place]

    @property
    def text(self) -> str:
        """The expression, as it is written."""
        return self.node.source.text() if self.node.source is not None else self.node.op


class Explanation:
    """Where the ops of a loop were done: before its steps, in them, or behind them.

    told: the ops, and the names of the states by what they are in a step; None before the loop has run.
    """

    def __init__(self, name: str, told: tuple[Sequence[Done], Mapping[Var, str]] | None):
        self.name = name
        self.rows = [] if told is None else _moved(*told)
        self._ran = told is not None

    def __repr__(self) -> str:
        if not self._ran:
            return f"{self.name} has not run yet"
        once, together, each, behind = (sum(row.place == place for row in self.rows) for place in WHERE)
        head = (
            f"{self.name}: {once} op{'s' * (once != 1)} once, {together} for all steps together, {each} in each step, "
            f"{behind} behind the steps"
        )
        places = [row.node.source.place() if row.node.source is not None else "" for row in self.rows]
        width = max(map(len, places), default=0)
        lines = [
            f"  {row.where:<9}  {place:<{width}}  {row.node.op:<15} {row.text}{f'  # {row.why}' if row.why else ''}"
            for row, place in zip(self.rows, places, strict=True)
        ]
        return "\n".join([head, *lines])


def _moved(done: Sequence[Done], states: Mapping[Var, str]) -> list[Moved]:
    needs = {var: frozenset([name]) for var, name in states.items()}
    rows = []
    for each in done:
        needed = frozenset[str]().union(*(needs.get(var, ()) for var in each.reads))
        needs |= dict.fromkeys(each.makes, needed)
        rows.append(Moved(each.node, each.place, each.why or _reason(each, needed)))
    return rows


def _reason(done: Done, needed: frozenset[str]) -> str:
    if done.place != "steps":
        return "only outputs need it" if done.place == "behind" else ""
    if needed:
        return f"needs {', '.join(sorted(name.lstrip('#') for name in needed))}"
    if done.row.random or done.row.effect:
        return "draws random numbers" if done.row.random else "changes something"
    if done.row.frames is None:
        return f"{done.row.name} is done frame by frame"
    return "what it needs is done in the steps"


def in_step(step: int, loop: str, node: Node | None) -> str:
    """ "in step 3 of decoder, cell 4, line 2 (log)"."""
    place = f", {node.source.place()} ({node.op})" if node is not None and node.source else ""
    return f"in step {step} of {loop}{place}"
