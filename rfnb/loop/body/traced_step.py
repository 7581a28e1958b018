"""The traced step: a frozen record, made when a body is closed and passed to every later phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rfnb.backend.base.tape import Tape, Var
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.source import Source
from rfnb.core.tensor.tensor import Tensor
from rfnb.loop.program.program import Program
from rfnb.loop.program.schedule import Schedule
from rfnb.loop.steps.frames import StepNumbers, all_frames, stacked_frames, step_numbers
from rfnb.trace.record.record import Recorder
from rfnb.trace.record.traced import Pending, Traced

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.body.hypotheses import Hypotheses
    from rfnb.loop.body.print_value import Watcher
    from rfnb.loop.body.rerun import EnclosingCall

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
    return next((place for place, each in enumerate(carried) if each.kind == kind), None)


class FrameInput(NamedTuple):
    """A sequence that gives each step one frame.

    var: the frame in the program. frames: makes all frames as raw tensors. stacked: makes one tensor of them, over a
    given dim; None for frames that exist only one by one. made: what they are made of, to make those of another batch;
    None if that is not known.
    """

    var: Var
    frames: Callable[[], Sequence[Any]]
    stacked: Callable[[Dim], Tensor] | None
    made: tuple[Any, ...] | None = None


def unstacked_frames(var: Var, backend: type[Backend], source: Tensor, axis: Dim, repeat: bool) -> FrameInput:
    """The frames of a tensor. repeat: as in `all_frames`."""
    make = partial(all_frames, backend, source, axis, repeat=repeat)
    stack = partial(stacked_frames, backend, source, axis, repeat=repeat)
    return FrameInput(var, make, stack, ("frame", source, axis))


def step_numbers_as_frames(var: Var, backend: type[Backend]) -> FrameInput:
    """The numbers of the steps, which the loop computes."""
    return FrameInput(var, partial(StepNumbers, backend), partial(step_numbers, backend), ("number",))


@dataclass(frozen=True, kw_only=True)
class TracedLines:
    """A record of what the user's lines of a body did.

    Args:
        source: location of the `with`.
        outer: the recorder of the body around this one.
        size: length of the unstacked tensors.
        unstacked: each source and its frame. outputs, lasts: arguments of `stack` and `last`, with their results.
        hypotheses: those of a search.
        reordered: whether `reorder` moves entries of the states.
        condition: the argument of `end`.
        originals: the states before the loop. assigned: the states after the lines, by full name.
        own_ops: number of ops that the lines do; the loop adds more.
    """

    name: str
    source: Source | None
    backend: type[Backend]
    outer: Recorder | None
    recorder: Recorder
    size: Size | None
    carried: tuple[Carried, ...]
    unstacked: tuple[tuple[Tensor, Traced], ...]
    outputs: tuple[tuple[Traced, Pending], ...]
    hypotheses: Hypotheses | None
    reordered: bool
    lasts: tuple[tuple[Traced, Pending], ...]
    condition: Traced | None
    include_eos: bool
    originals: dict[str, Any]
    assigned: Mapping[str, Any]
    own_ops: int

    @property
    def tape(self) -> Tape:
        """The raw calls of the traced frame."""
        return self.recorder.tape


@dataclass(frozen=True, kw_only=True)
class TracedStep(TracedLines):
    """A complete step: the program that all steps of the loop run, and the limit on their number.

    Args:
        program, schedule: the raw calls of a step, and which values are inputs, carried and outputs.
        limit: the largest number of steps of each sequence.
        axis: the dim of the steps. gives_size: whether the loop defines its size.
        frames: sequences that give each step one frame.
        last_places: for each of `lasts`, the position in `carried` whose final value it is.
        unfrozen: the positions in `carried` of states whose sequences go on after they have ended. Their final values
            are taken from the steps in which they end.
        seed: seed for the random numbers of the steps. warns: whether there may be warnings about the body.
        call: call of the user's function that the loop runs in, if the loop is recorded.
        watchers: one for each `rf.watch`. pauses: the lines that call `rf.pause`.
        states: the names of the states, nested ones by their outer name. set_states: those that a line sets.
        reads: the numbers of the values that the body reads; None if this body has been judged before.
        generators: names of the global random generators that the body used.
    """

    program: Program
    schedule: Schedule
    limit: Size
    axis: Dim
    gives_size: bool
    frames: tuple[FrameInput, ...]
    last_places: tuple[int, ...]
    unfrozen: tuple[int, ...]
    seed: Any
    warns: bool
    call: EnclosingCall | None
    watchers: tuple[Watcher, ...]
    pauses: tuple[Source, ...]
    states: tuple[str, ...]
    set_states: frozenset[str]
    reads: frozenset[int] | None
    generators: tuple[str, ...]
