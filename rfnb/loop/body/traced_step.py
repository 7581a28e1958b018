"""The step of a loop: a frozen record, made when a body is closed and passed to every later phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from rfnb.backend.base.tape import External, Tape, Var
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.source import NO_BLOCK, Block, Source
from rfnb.core.tensor.tensor import Tensor
from rfnb.loop.program.program import Program
from rfnb.loop.program.schedule import Schedule
from rfnb.loop.steps.frames import FrameInput
from rfnb.trace.record.record import Recorder
from rfnb.trace.record.traced import Pending, Traced

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.body.hypotheses import Hypotheses
    from rfnb.loop.body.print_value import Watcher
    from rfnb.loop.body.rerun import EnclosingCall
    from rfnb.loop.steps.beams import SearchPlan
    from rfnb.loop.steps.explain import ExplanationData

Kind = Literal["state", "ended", "lengths", "last", "search", "search ended"]


@dataclass(frozen=True)
class Carried:
    """A value that each step passes to the next one.

    Args:
        name: the full name of a state ("lstm.h"); "" for a value that the loop itself carries.
        kind: a "state" of the user; which sequences have "ended"; the "lengths", the number of steps that each sequence
            took; the "last" value of a tensor that is not a state; what a "search" carries, such as scores.
        before: the value on the traced frame, before the step: a Traced, or the Dim of an axis that grows.
        var: its variable in the program.
        initial: the value before the first step: a raw tensor, or a size.
        starts_empty: whether `initial` is a placeholder of zeros, which must not appear in a result.
    """

    name: str
    kind: Kind
    before: Any
    var: Var
    initial: Any = None
    starts_empty: bool = False


def place_of(carried: Sequence[Carried], kind: Kind) -> int | None:
    """The position of the only value of this kind, if there is one."""
    return next((place for place, carry in enumerate(carried) if carry.kind == kind), None)


@dataclass(frozen=True, kw_only=True)
class Step:
    """A step of a loop, without the tensors that one call of the loop gave it. All runs of the same steps share it.

    Args:
        source: location of the `with`. block: its lines, if the loop is recorded.
        program, schedule: the raw calls of a step, and which values are inputs, carried and outputs.
        size: length of the unstacked tensors. frames_size: how many frames each sequence has, by these or by the axis.
        limit: the largest number of steps of each sequence.
        axis: the dim of the steps. gives_size: whether the loop defines its size.
        ends: whether the body calls `end`.
        search: what a search keeps.
        reordered: whether `reorder` moves entries of the states.
        last_places: for each `last`, the position in `carried` whose final value it is.
        unfrozen: the positions in `carried` of states whose sequences go on after they have ended. Their final values
            are taken from the steps in which they end.
        own_ops: number of ops that the lines do; the loop adds more.
        states: the names of the states, nested ones by their outer name.
        vars: for a recorded loop, the Vars of the values in the graph; in_branches: those of values in the sides of
            branches. assigned_vars: what the body assigns to the states, with its dims, before ended sequences keep
            theirs. changes: a message that names the line which writes into something that the steps
            read, if any. explanation_data: where the ops were computed.
    """

    name: str
    source: Source | None
    block: Block = NO_BLOCK
    backend: type[Backend]
    recorder: Recorder
    program: Program
    schedule: Schedule
    carried: tuple[Carried, ...]
    size: Size | None
    frames_size: Size | None
    limit: Size
    axis: Dim
    gives_size: bool
    ends: bool
    include_eos: bool
    search: SearchPlan | None
    reordered: bool
    last_places: tuple[int, ...]
    unfrozen: tuple[int, ...]
    own_ops: int
    states: tuple[str, ...]
    vars: Mapping[int, Var | External] = field(default_factory=dict)
    in_branches: Mapping[int, Var] = field(default_factory=dict)
    assigned_vars: Mapping[str, tuple[Var, Sequence[Dim]]] = field(default_factory=dict)
    changes: str | None = None
    explanation_data: ExplanationData | None = None


@dataclass(frozen=True, kw_only=True)
class TracedStep(Step):
    """A step with the tensors of a call.

    Args:
        outer: the recorder of the body around this one.
        unstacked: each source and its frame. outputs, lasts: arguments of `stack` and `last`, with their results.
        hypotheses: those of a search.
        condition: the argument of `end`.
        originals: the states before the loop. assigned: the states after the lines, by full name.
        frames: sequences that give each step one frame.
        seed: seed for the random numbers of the steps. warns: whether there may be warnings about the body.
        watchers: one for each `rf.watch`. pauses: the lines that call `rf.pause`.
        set_states: the states that a line sets.
        reads: the numbers of the values that the body reads; None if this body has been judged before.
        generators: names of the global random generators that the body used.
        call: call of the user's function that the loop runs in, if the loop is recorded.
    """

    outer: Recorder | None
    unstacked: tuple[tuple[Tensor, Traced], ...]
    outputs: tuple[tuple[Traced, Pending], ...]
    lasts: tuple[tuple[Traced, Pending], ...]
    hypotheses: Hypotheses | None
    condition: Traced | None
    originals: dict[str, Any]
    assigned: Mapping[str, Any]
    frames: tuple[FrameInput, ...]
    seed: Any
    warns: bool
    watchers: tuple[Watcher, ...]
    pauses: tuple[Source, ...]
    set_states: frozenset[str]
    reads: frozenset[int] | None
    generators: tuple[str, ...]
    call: EnclosingCall | None = None

    @property
    def tape(self) -> Tape:
        """The raw calls of the traced frame."""
        return self.recorder.tape

    def without_tensors(self, **others: Any) -> Step:
        """The step alone. others: attributes with other values."""
        values = {f.name: getattr(self, f.name) for f in fields(Step)}
        return Step(**values | {"carried": tuple(replace(carry, initial=None) for carry in self.carried)} | others)
