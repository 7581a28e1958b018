"""The step of a loop: a frozen record, made when a body is closed and passed to every later phase."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from rfnb.backend.base.tape import External, Tape, Var
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.ground.default import has_fractions
from rfnb.core.ground.source import NO_BLOCK, Block, Source
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.loop.program import Program, Schedule
from rfnb.ops.math import where
from rfnb.trace.record.record import Recorder
from rfnb.trace.record.traced import Pending, Traced

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.body.hypotheses import Hypotheses
    from rfnb.loop.body.print_value import Watcher
    from rfnb.loop.body.rerun import EnclosingCall
    from rfnb.loop.ends import EndedMask
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


@lru_cache(maxsize=256)
def frames_dim(steps: int) -> Dim:
    """The Dim that counts the steps; loops of equal length share it, and with it cached plans. Users never see it."""
    return Dim(steps, name="frames")


def first_frame(backend: type[Backend], source: Tensor, axis: Dim, repeat: bool = True) -> Tensor:
    """The first frame of each sequence; zeros for empty ones. {…, axis} → {…}"""
    going_on = None if repeat else _harmless(backend, source)
    source = source if going_on is None else going_on
    size, position = source.size_of(axis), source.axis(axis)
    shape = list(backend.get_shape_tuple_raw(source._raw))
    if size.max == 0:
        raw = backend.full_raw(shape[:position] + shape[position + 1 :], 0, source.dtype, source.device)
    else:
        raw = backend.alias_raw(backend.select_raw(source._raw, position, 0))
    frame = tensor_of(raw, align.without(source.sig, [axis]), source.lengths)
    return _zeros_if_empty(backend, frame, size) if size.max and going_on is None else frame


class Unstacked(NamedTuple):
    """The frames of a tensor along an axis. repeat: whether each sequence repeats its last frame in its padding; else
    only if padding could do harm."""

    axis: Dim
    repeat: bool

    def frames(self, backend: type[Backend], source: Tensor, limit: Size) -> Sequence[Any]:
        """All frames as raw tensors."""
        source = _without_padding(backend, source, self.axis, self.repeat)
        return backend.frames_raw(source._raw, source.axis(self.axis))

    def stacked(self, backend: type[Backend], source: Tensor, frames: Dim) -> Tensor:
        """All frames as one tensor, with `frames` in place of the axis; later frames than it counts are dropped."""
        axis, source = self.axis, _without_padding(backend, source, self.axis, self.repeat)
        place, steps = source.axis(axis), frames.dimension or 0
        raw = source._raw if source.size_of(axis).max == steps else backend.slice_raw(source._raw, place, 0, steps, 1)
        dims = [frames if dim is axis else dim for dim in source.dims]
        feature = None if source.feature_dim is axis else source.feature_dim
        return tensor_of(raw, align.sig(dims, source.sparse_dim, feature), source.lengths)


class StepNumber(NamedTuple):
    """The number of each step, 0, 1, …"""

    def frames(self, backend: type[Backend], source: None, limit: Size) -> Sequence[Any]:
        """All numbers as raw tensors."""
        return StepNumbers(backend)

    def stacked(self, backend: type[Backend], source: None, frames: Dim) -> Tensor:
        """All numbers as one tensor. {frames} int64"""
        return tensor_of(backend.range_raw(frames.get_dim_value(), "int64", None), align.sig([frames]), EMPTY)


class FrameInput(NamedTuple):
    """A sequence that gives each step one frame.

    var: the frame in the program. source: the tensor that has the frames, if there is one; in a kept step, its place
    among the given tensors.
    """

    var: Var
    kind: Unstacked | StepNumber | EndedMask
    source: Any = None

    @property
    def is_stackable(self) -> bool:
        """Whether all frames can be one tensor."""
        return isinstance(self.kind, Unstacked | StepNumber)


def _without_padding(backend: type[Backend], source: Tensor, axis: Dim, repeat: bool) -> Tensor:
    size = source.size_of(axis)
    if not size.ragged or not set(size.dims) <= set(source.dims):
        return source
    going_on = None if repeat else _harmless(backend, source)
    if going_on is not None:
        return going_on
    return _zeros_if_empty(backend, _repeat_last_frame(backend, source, axis, size), size)


def _harmless(backend: type[Backend], source: Tensor) -> Tensor | None:
    """The source with padding that does no harm in sequences that have ended: finite numbers, or labels in the range of
    their dim. None if its padding may be anything else."""
    labels = source.sparse_dim
    if labels is not None and labels.dimension:
        return source.like(backend.in_range(source, labels.dimension, source.dims))
    finite = has_fractions(source.dtype) and source.lengths.finite and not backend.version_raw(source._raw)
    return source if finite else None


def _repeat_last_frame(backend: type[Backend], source: Tensor, axis: Dim, size: Size) -> Tensor:
    steps = np.minimum(np.arange(size.max), np.maximum(size.values[..., None] - 1, 0))
    dims = [*size.dims, axis]
    in_order = steps.transpose([dims.index(dim) for dim in source.dims if dim in dims])
    shaped = in_order[tuple(slice(None) if dim in dims else None for dim in source.dims)]
    indices = backend.from_numpy_raw(shaped, source.device)
    return source.like(backend.gather_raw(source._raw, indices, source.axis(axis), 1))


def _zeros_if_empty(backend: type[Backend], frames: Tensor, size: Size) -> Tensor:
    if (size.values > 0).all() or not set(size.dims) <= set(frames.dims):
        return frames
    has_frames = tensor_of(backend.from_numpy_raw(size.values > 0, frames.device), align.sig(size.dims), frames.lengths)
    zero = False if frames.dtype == "bool" else 0  # which keeps the dtype
    zeroed: Tensor = where(has_frames, frames, zero).copy_transpose(frames.dims)
    return zeroed


class StepNumbers(Sequence[Any]):
    """The numbers of the steps as raw tensors, each created on access: the number of steps may not be known."""

    def __init__(self, backend: type[Backend]):
        self._backend = backend

    def __getitem__(self, step: Any) -> Any:
        return self._backend.full_raw([], step, "int64", None)

    def __len__(self) -> int:
        return 0


def has_steps(axis: Dim) -> bool:
    """Whether data or an op gave the axis its size. The size that an earlier loop gave it does not count."""
    return axis.is_defined() and not axis.given.loop
