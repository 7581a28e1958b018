"""Explains where the ops of a loop's body were computed, and why there."""

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


class OpPlacement(NamedTuple):
    """Where an op of a body was computed, and which values it read and made. It holds no tensors.

    why: the reason, if it was known before the steps ran; "" leaves it to the explanation.
    """

    node: Node
    row: OpRow
    reads: frozenset[Var]
    makes: frozenset[Var]
    place: Place
    why: str = ""


class ExplainedOp(NamedTuple):
    """An op of a body: where it was computed, and why there. states: the names of the states that it depends on."""

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
        """The expression in the user's code; the name of the op if the code is not known."""
        return self.node.source.text() if self.node.source is not None else self.node.op


class ExplanationData(NamedTuple):
    """What a loop keeps for its explanation: its ops, its graph, its states in a step, the line of its `with`."""

    placements: Sequence[OpPlacement]
    graph: BodyGraph
    states: Sequence[Var]
    names: Sequence[str]
    source: Source | None


class Explanation(Shown):
    """Where the ops of a loop were computed: before its steps, in them, or after them.

    rows: the ops, in order. ran: whether the loop has run.
    """

    def __init__(self, name: str, data: ExplanationData | None):
        self.name = name
        self.ran = data is not None
        self.rows = [] if data is None else _explained_ops(data)
        self.source = None if data is None else data.source


def _explained_ops(data: ExplanationData) -> list[ExplainedOp]:
    needs = {var: frozenset([name]) for var, name in zip(data.states, data.names, strict=True)}
    shown = set(map(id, data.graph.all_nodes()))  # without ops that the loop itself added
    rows = []
    for each in sorted(data.placements, key=lambda each: each.node.number):
        if id(each.node) not in shown:
            continue
        needed = frozenset[str]().union(*(needs.get(var, ()) for var in each.reads))
        needs |= dict.fromkeys(each.makes, needed)
        rows.append(ExplainedOp(each.node, each.place, each.why or _reason(each, needed), tuple(sorted(needed))))
    return rows


def _reason(op: OpPlacement, needed: frozenset[str]) -> str:
    if op.place != "steps":
        return "only outputs need it" if op.place == "after" else ""
    if needed:
        return f"needs {', '.join(sorted(needed))}"
    if op.row.random or op.row.effect:
        return "draws random numbers" if op.row.random else "has an effect at every step"
    if op.row.frames is None:
        return f"{op.row.name} works on one frame at a time"
    return "its operands are computed in the steps"


def note_step(error: BaseException, step: int, loop: str, node: Node | None) -> None:
    """Adds a note to an error that says where it was raised: "in step 3 of decoder, cell 4, line 2 (log)"."""
    source = None if node is None else node.source
    place = f", {source.place()} ({node.op})" if node is not None and source is not None else ""
    error.add_note(f"in step {step} of {loop}{place}")
    if isinstance(error, RfError):
        error.at = source
