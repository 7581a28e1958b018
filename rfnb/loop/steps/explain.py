"""Tells where the ops of a loop's body were done, and why there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from rfnb.backend.base.tape import Var
from rfnb.core.graph.graph import BodyGraph, Node
from rfnb.core.ground.show import Shown
from rfnb.core.ground.source import Source
from rfnb.core.tensor.op import OpRow
from rfnb.errors import RfError

Place = Literal["once", "frames", "steps", "after"]
WHERE = {"once": "once", "frames": "all steps", "steps": "each step", "after": "after the loop"}


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
    """An op of a body: where it was done, and why there. states: those that it needs."""

    node: Node
    place: Place
    why: str
    states: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """ "once", "all steps", "each step" or "after the loop"."""
        return WHERE[self.place]

    @property
    def text(self) -> str:
        """The expression, as it is written."""
        return self.node.source.text() if self.node.source is not None else self.node.op


class Told(NamedTuple):
    """What a loop keeps for its explanation: its ops, its graph, its states in a step, the line of its `with`."""

    done: Sequence[Done]
    graph: BodyGraph
    states: Sequence[Var]
    names: Sequence[str]
    source: Source | None


class Explanation(Shown):
    """Where the ops of a loop were done: before its steps, in them, or after them.

    rows: the ops, in order. ran: whether the loop has run.
    """

    def __init__(self, name: str, told: Told | None):
        self.name = name
        self.ran = told is not None
        self.rows = [] if told is None else _moved(told)
        self.source = None if told is None else told.source


def _moved(told: Told) -> list[Moved]:
    needs = {var: frozenset([name]) for var, name in zip(told.states, told.names, strict=True)}
    shown = set(map(id, told.graph.all_nodes()))  # not what the loop asked for itself
    rows = []
    for each in sorted(told.done, key=lambda each: each.node.number):
        if id(each.node) not in shown:
            continue
        needed = frozenset[str]().union(*(needs.get(var, ()) for var in each.reads))
        needs |= dict.fromkeys(each.makes, needed)
        rows.append(Moved(each.node, each.place, each.why or _reason(each, needed), tuple(sorted(needed))))
    return rows


def _reason(done: Done, needed: frozenset[str]) -> str:
    if done.place != "steps":
        return "only outputs need it" if done.place == "after" else ""
    if needed:
        return f"needs {', '.join(sorted(needed))}"
    if done.row.random or done.row.effect:
        return "draws random numbers" if done.row.random else "acts at every step"
    if done.row.frames is None:
        return f"{done.row.name} is done frame by frame"
    return "what it needs is done in the steps"


def tell_step(error: BaseException, step: int, loop: str, node: Node | None) -> None:
    """Adds to an error where it was: "in step 3 of decoder, cell 4, line 2 (log)"."""
    source = None if node is None else node.source
    place = f", {source.place()} ({node.op})" if node is not None and source is not None else ""
    error.add_note(f"in step {step} of {loop}{place}")
    if isinstance(error, RfError):
        error.at = source
