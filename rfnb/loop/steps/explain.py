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

    why: the reason, if it was known before the steps ran; "" leaves it to the explanation. seconds: how long it took
    outside of the steps of a recorded loop, on the CPU.
    """

    node: Node
    row: OpRow
    reads: frozenset[Var]
    makes: frozenset[Var]
    place: Place
    why: str = ""
    seconds: float | None = None


class OpTime(NamedTuple):
    """How long an op took in all steps together, and how often it ran."""

    seconds: float
    calls: int


class Profile(NamedTuple):
    """The times of the steps of a loop.

    steps: how many steps ran. calls: how often all of them ran; times are medians. seconds: of all steps together,
    without `overhead`, the seconds that the timing itself took. plain: the seconds of all steps without timing. device:
    where. times: of the ops, by id of their nodes.
    """

    steps: int
    calls: int
    seconds: float
    overhead: float
    plain: float
    device: str
    times: dict[int, OpTime]


class ExplainedOp(NamedTuple):
    """An op of a body: where it was computed, and why there. states: the names of the states that it depends on.

    time: how long it took, if that was measured; None too if the op is part of another one's call.
    """

    node: Node
    place: Place
    why: str
    states: tuple[str, ...] = ()
    time: OpTime | None = None

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

    rows: the ops, in order. ran: whether the loop has run. profile: the times of the steps, if they were measured.
    """

    def __init__(self, name: str, data: ExplanationData | None, profile: Profile | None = None):
        self.name, self.profile = name, profile
        self.ran = data is not None
        self.rows = [] if data is None else _explained_ops(data, profile)
        self.source = None if data is None else data.source


def _explained_ops(data: ExplanationData, profile: Profile | None) -> list[ExplainedOp]:
    needs = {var: frozenset([name]) for var, name in zip(data.states, data.names, strict=True)}
    ids = set(map(id, data.graph.all_nodes()))  # without ops that the loop itself added
    rows = []
    for op in sorted(data.placements, key=lambda op: op.node.number):
        if id(op.node) not in ids:
            continue
        names = frozenset[str]().union(*(needs.get(var, ()) for var in op.reads))
        needs |= dict.fromkeys(op.makes, names)
        why, states = op.why or _reason(op, names), tuple(sorted(names))
        rows.append(ExplainedOp(op.node, op.place, why, states, _time_of(op, profile)))
    return rows


def _time_of(op: OpPlacement, profile: Profile | None) -> OpTime | None:
    if profile is None:
        return None
    if op.place != "steps":
        return None if op.seconds is None else OpTime(op.seconds, 1)
    return time_in_steps(op.node, profile.times)


def time_in_steps(node: Node, times: dict[int, OpTime]) -> OpTime | None:
    """The time of a node with what is inside it; None if it has no call of its own."""
    time = times.get(id(node))
    if time is not None and node.kind in ("loop", "cond"):
        return time
    children = [t for child in node.body if (t := time_in_steps(child, times)) is not None]
    parts = [*([] if time is None else [time]), *children]
    return OpTime(sum(t.seconds for t in parts), max(t.calls for t in parts)) if parts else None


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
    if source is not None and source.layer is not None:
        loop = f"{loop}, layer {source.layer!r}"
    place = f", {source.place()} ({node.op})" if node is not None and source is not None else ""
    error.add_note(f"in step {step} of {loop}{place}")
    if isinstance(error, RfError):
        error.at = source
