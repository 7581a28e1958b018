"""A loop's step, a record that all later phases get and none changes, and how all steps run.

`Step` has no tensors of a call, `TracedStep` has them; `Bindings` are what one run gives to its steps, and `Outcome` is
what `execute` makes of them. `FrameInput` gives each step one frame."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

import numpy as np

from rfnb.backend.base.tape import Call, External, Reference, Stream, Tape, Var, current_tape, untaped
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Lengths, Size, frame_numbers
from rfnb.core.graph.graph import Node
from rfnb.core.graph.meter import MeasuredLoop, Meter
from rfnb.core.ground.defaults import has_fractions
from rfnb.core.ground.scope import current_meter, within
from rfnb.core.ground.source import NO_BLOCK, Block, Source
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.loop.program import Compiled, Program, Schedule, map_references
from rfnb.ops.math import where
from rfnb.trace.record.record import Recorder
from rfnb.trace.record.traced import Pending, Traced
from rfnb.trace.run.failure import Failure
from rfnb.trace.run.options import options
from rfnb.trace.run.random_numbers import OwnNumbers

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.body.hypotheses import Hypotheses, SearchPlan
    from rfnb.loop.body.print_value import Watcher
    from rfnb.loop.ends import EndedMask
    from rfnb.loop.replay.replay import EnclosingCall
    from rfnb.loop.steps.explain import ExplanationData
    from rfnb.loop.steps.hoist import DeferredGradients
    from rfnb.trace.run.run import Run


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
    initial: RawTensor = None
    starts_empty: bool = False


def place_of(carried: Sequence[Carried], kind: Kind) -> int | None:
    """The position of the only value of this kind, if there is one."""
    return next((place for place, carry in enumerate(carried) if carry.kind == kind), None)


@dataclass(kw_only=True, eq=False)
class Step:
    """A step of a loop, without the tensors that one call of the loop gave it. All runs of the same steps share it.

    Args:
        source: location of the `with`. block: its lines, if the loop is recorded.
        program, schedule: the raw calls of a step, and which values are inputs, carried and outputs.
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


@dataclass(kw_only=True, eq=False)
class TracedStep(Step):
    """A step with the tensors of a call.

    Args:
        size: length of the unstacked tensors. limit, frames_size: as in Bindings.
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
        renewed: variables from before the loop that the body sets: the name, the value before, and that of the step.
    """

    size: Size | None
    frames_size: Size | None
    limit: Size
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
    renewed: tuple[tuple[str, Reference, Var], ...]

    @property
    def tape(self) -> Tape:
        """The raw calls of the traced frame."""
        return self.recorder.tape

    def without_tensors(self, **others: object) -> Step:
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


def without_axis(lengths: Lengths, axis: Dim) -> Lengths:
    """The lengths of the other dims."""
    remaining = Lengths({serial: size for serial, size in lengths.sizes.items() if serial != axis.serial})
    return remaining if lengths.finite else remaining.infinite()


class Unstacked(NamedTuple):
    """The frames of a tensor along an axis. repeat: whether each sequence repeats its last frame in its padding; else
    only if padding could do harm."""

    axis: Dim
    repeat: bool

    def frames(self, backend: type[Backend], source: Tensor, limit: Size) -> Sequence[RawTensor]:
        """All frames as raw tensors."""
        source = _without_padding(backend, source, self.axis, self.repeat)
        return backend.unstack_raw(source._raw, source.axis(self.axis))

    def all_frames(self, backend: type[Backend], source: Tensor, limit: Size, steps: int) -> RawTensor:
        """All frames as one raw tensor. [steps, …]"""
        source = _without_padding(backend, source, self.axis, self.repeat)
        place = source.axis(self.axis)
        order = (place, *(axis for axis in range(len(source.dims)) if axis != place))
        return backend.slice_raw(align.permute(source._raw, order), 0, 0, steps, 1)

    def stacked(self, backend: type[Backend], source: Tensor, frames: Dim) -> Tensor:
        """All frames as one tensor, with `frames` in place of the axis; later frames than it counts are dropped."""
        axis, source = self.axis, _without_padding(backend, source, self.axis, self.repeat)
        place, steps = source.axis(axis), frames.dimension or 0
        raw = source._raw if source.size_of(axis).max == steps else backend.slice_raw(source._raw, place, 0, steps, 1)
        dims = [frames if dim is axis else dim for dim in source.dims]
        feature = None if source.feature_dim is axis else source.feature_dim
        return tensor_of(raw, align.sig(dims, source.sparse_dim, feature), source.lengths)


class StepNumber(NamedTuple):
    """The number of each step, from `first` on."""

    first: int = 0
    dtype: str = "int64"

    def frames(self, backend: type[Backend], source: None, limit: Size) -> Sequence[RawTensor]:
        """All numbers as raw tensors."""
        return StepNumbers(backend, self.first, self.dtype)

    def all_frames(self, backend: type[Backend], source: None, limit: Size | None, steps: int) -> RawTensor:
        """All numbers as one raw tensor. [steps]"""
        numbers = backend.range_raw(steps, self.dtype, None)
        return numbers + self.first if self.first else numbers

    def stacked(self, backend: type[Backend], source: None, frames: Dim) -> Tensor:
        """All numbers as one tensor. {frames}"""
        return tensor_of(self.all_frames(backend, None, None, frames.get_dim_value()), align.sig([frames]), EMPTY)


class LaterFrames(Sequence[RawTensor]):
    """Frames from a step on."""

    def __init__(self, frames: Sequence[RawTensor], first: int):
        self._frames, self._first = frames, first

    def __getitem__(self, step: Any) -> Any:
        if isinstance(step, slice):
            return [self[n] for n in range(*step.indices(len(self)))]
        return self._frames[self._first + step if step >= 0 else step]

    def __len__(self) -> int:
        return max(len(self._frames) - self._first, 0)


class FrameInput(NamedTuple):
    """A sequence that gives each step one frame.

    var: the frame in the program. source: the tensor that has the frames, if there is one.
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
    steps = np.minimum(frame_numbers(size.max), np.maximum(size.values[..., None] - 1, 0))
    how = align.move([*size.dims, axis], source.dims, trailing=False)
    indices = backend.from_numpy_raw(align.apply(how, steps), source.device)
    return source.like(backend.gather_raw(source._raw, indices, source.axis(axis), 1))


def _zeros_if_empty(backend: type[Backend], frames: Tensor, size: Size) -> Tensor:
    if (size.values > 0).all() or not set(size.dims) <= set(frames.dims):
        return frames
    has_frames = tensor_of(backend.from_numpy_raw(size.values > 0, frames.device), align.sig(size.dims), frames.lengths)
    zero = False if frames.dtype == "bool" else 0  # which keeps the dtype
    zeroed: Tensor = where(has_frames, frames, zero).copy_transpose(frames.dims)
    return zeroed


class StepNumbers(Sequence[RawTensor]):
    """The numbers of the steps as raw tensors, each created on access: the number of steps may not be known."""

    def __init__(self, backend: type[Backend], first: int, dtype: str):
        self._backend, self._first, self._dtype = backend, first, dtype

    def __getitem__(self, step: Any) -> Any:
        return self._backend.full_raw([], self._first + step, self._dtype, None)

    def __len__(self) -> int:
        return 0


def has_steps(axis: Dim) -> bool:
    """Whether data or an op gave the axis its size. The size that an earlier loop gave it does not count."""
    return axis.is_defined() and not axis.given.loop


@dataclass
class Outcome:
    """What a loop computed. kept: states of the steps before; states: the states after the last step."""

    states: tuple[RawTensor, ...]
    outputs: list[list[RawTensor]]
    steps: int = 0
    kept: StateHistory | None = None
    error: BaseException | None = None
    failed_call: int | None = None
    failure: Failure | None = None


_replaying: ContextVar[bool] = ContextVar("rfnb_replaying", default=False)


def replaying() -> AbstractContextManager[None]:
    """Steps that run in this context have no effects: they compute results only."""
    return within(_replaying, True)


def is_replaying() -> bool:
    """Whether steps must have no effects."""
    return _replaying.get()


@dataclass(frozen=True)
class Bindings:
    """What a run gives to its steps, beside the states.

    Args:
        frames: by input of a step, those of all steps.
        externals: the tensors that the steps read from outside.
        seed: of their random numbers.
        limit: the largest number of steps of each sequence.
        frames_size: how many frames each sequence has, by tensors that are unstacked or by the axis.
        given: by step, values that are not computed, but chosen by the user.
        call: that of the user's function, if the run is recorded.
    """

    frames: Sequence[Sequence[RawTensor]]
    externals: Sequence[RawTensor]
    seed: int
    limit: Size
    frames_size: Size | None
    given: Mapping[int, Mapping[Var, RawTensor]] = field(default_factory=dict)
    call: EnclosingCall | None = None


def execute(
    step: Step | DeferredGradients,
    bindings: Bindings,
    initial: Sequence[RawTensor],
    *,
    record: bool,
    stack: bool = True,
    progress: Callable[[int], None] | None = None,
    start: int = 0,
    measured: MeasuredLoop | None = None,
    pause: PausePoint | None = None,
    recompute: int = 0,
) -> Outcome:
    """Runs all steps from `start` on. An error or an interrupt ends the loop early and is stored in the outcome.

    stack: whether outputs are computed. pause: is called with the outcome so far, after as many steps as it says; may
    hold the loop and edit its states. recompute: of how many steps the values are computed again for gradients.
    """
    schedule, backend, overrides = step.schedule, step.backend, bindings.given
    program = step.program if current_meter() is None else metered(step.program, measured)
    generator = generators(backend, bindings.seed, program.stream_devices)
    effects = not _replaying.get() and current_tape() is None  # none if an outer loop is traced or replayed
    outputs = schedule.outputs if stack else ()
    recompute = recompute if backend.grad_enabled_raw() else 0
    outcome = Outcome(tuple(initial), [[] for _ in outputs], start)
    has_graph = backend.grad_enabled_raw() or program.may_do_anything or {*schedule.states} & {*schedule.new}
    history = outcome.kept = StateHistory(backend, initial, bool(has_graph)) if record else None
    append = [rows.append for rows in outcome.outputs]
    compiled, pace, over, origin = None, Pace(0.05, 0.2), False, start
    repeats = bindings.limit.unknown and not record  # without a batch there are shapes only: those of one step
    try:
        for steps, new in _phases(schedule, bindings.limit, start, overrides):
            values = overrides.get(steps.start, {})
            bound = program.with_given([*values]) if values else program
            inputs = [*bindings.frames, *({steps.start: raw} for raw in values.values())]
            make = partial(bound.compile_loop, new, outputs, schedule.ended, generator, bindings.externals)
            compiled = make(effects=effects, keep=record)
            run = compiled.run
            if recompute:
                quiet = make(effects=False, keep=record) if any(call.effect for call in bound.calls) else compiled
                run = partial(_recomputed, backend, compiled, quiet)
            while steps and not over:
                room = len(steps) if history is None else history.room
                if pause is not None:
                    room = min(room, pause.most_steps() or room)
                room = min(room, recompute or room)
                part = steps[: 1 if repeats else room if progress is None else min(room, pace.steps)]
                outcome.steps, outcome.states, over = run(
                    part, outcome.states, inputs, append, backend.all_true_raw, history and history.keep
                )
                if history is not None:
                    history.take(outcome.steps - origin)
                if progress is not None:
                    progress(outcome.steps)
                    pace.next()
                if pause is not None:
                    pause.after_steps(outcome)
                    if outcome.kept is not history:  # states were edited
                        history, origin = outcome.kept, outcome.steps
                steps = steps[len(part) :]
                if repeats:
                    for rows in outcome.outputs:
                        rows.extend(rows[-1:] * len(steps))
                    outcome.steps, steps = outcome.steps + len(steps), steps[:0]
    except BaseException as error:
        had = {} if compiled is None else compiled.variables(error)
        outcome.steps, outcome.states = had.get("done", outcome.steps), had.get("states", outcome.states)
        outcome.error = error
        outcome.failed_call = None if compiled is None else compiled.failed_call(error)
        for rows in outcome.outputs:
            del rows[outcome.steps - start :]
        if history is not None:
            history.take(outcome.steps - origin)
    return outcome


def _recomputed(
    backend: type[Backend], first: Compiled, again: Compiled, part: range, states: Sequence[RawTensor],
    inputs: Sequence[RawTensor], outputs: Sequence[Callable[[RawTensor], None]], over: object, keep: object,
) -> tuple[object, ...]:  # fmt: skip
    """`first.run(part, …)`, whose values `again` computes again in the backward pass."""
    runs, count = [partial(first.run, keep=keep)], len(outputs)

    def steps(*states: RawTensor) -> tuple[RawTensor, ...]:
        rows: list[list[RawTensor]] = [[] for _ in range(count)]
        run = runs.pop() if runs else partial(again.run, keep=lambda states: None)
        return *run(part, states, inputs, [row.append for row in rows], over), rows

    *results, rows = backend.recomputed_raw(steps, states)
    for append, row in zip(outputs, rows, strict=True):
        for raw in row:
            append(raw)
    return tuple(results)


class PausePoint(Protocol):
    """Decides where a running loop pauses."""

    def most_steps(self) -> int:
        """After how many steps `after_steps` has to be called; 0 sets no limit."""

    def after_steps(self, outcome: Outcome) -> None:
        """May hold the loop. If it edits the states of the outcome, it replaces `outcome.kept`."""


class Pace:
    """Adapts how many steps to run together, so that they take from `shortest` to `longest` seconds."""

    def __init__(self, shortest: float, longest: float) -> None:
        self.steps, self._since = 1, time.monotonic()
        self._shortest, self._longest = shortest, longest

    def next(self) -> None:
        """Adapts `steps` to how long the last ones took."""
        clock = time.monotonic()
        took, self._since = clock - self._since, clock
        longer, fewer = took < self._shortest, took > self._longest
        self.steps = max(1, self.steps * 2 if longer else self.steps // 2 if fewer else self.steps)


def _phases(schedule: Schedule, limit: Size, start: int, given: Iterable[int]) -> list[tuple[range, tuple[Var, ...]]]:
    """The steps before the first sequence ends, and those after; each part with the states that its steps give. Steps
    with given values are parts of their own."""
    free = range(start, schedule.free_steps(limit))
    tail = range(max(start, free.stop), limit.max)
    phases = (free, schedule.new), (tail, schedule.kept)
    return [(part, new) for steps, new in phases for part in _split(steps, given) if part]


def _split(steps: range, at: Iterable[int]) -> list[range]:
    bounds = sorted({steps.start, steps.stop, *(step + i for step in at for i in (0, 1) if step in steps)})
    return [range(*pair) for pair in pairwise(bounds)] if steps else []


def generators(backend: type[Backend], seed: int, devices: Sequence[str]) -> Callable[[int, int], Any]:
    """A function that gives the generator of a random op, seeded by (seed, op, step)."""
    cache: dict[int, Any] = {}

    def generator(stream: int, step: int) -> Any:
        if stream not in cache:
            cache[stream] = backend.new_generator(devices[stream])
        cache[stream].manual_seed(mixed_seed(seed, stream, step))
        return cache[stream]

    return generator


STEP_OF_SEED = 0xD1B54A32D192ED03
"""What a step adds to a seed: from step n on, the numbers are those of a loop with `seed + n * STEP_OF_SEED`."""


def mixed_seed(seed: int, stream: int, step: int) -> int:
    """Mixes three numbers into one seed, by the finalizer of splitmix64 (Steele et al. 2014)."""
    z = (seed + 0x9E3779B97F4A7C15 * (stream + 1) + STEP_OF_SEED * (step + 1)) & (2**64 - 1)
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (z ^ (z >> 31)) & (2**63 - 1)


def compile_step(
    step: Step, bindings: Bindings, targets: Sequence[Var | External], given: Sequence[Var] = ()
) -> Compiled:
    """Compiles a step that gives `targets` and has no effects. given: values that are further inputs of it."""
    program = step.program.with_given(given) if given else step.program
    numbers = OwnNumbers() if program.may_do_anything else nullcontext()
    compiled = program.compile(
        targets, generators(step.backend, bindings.seed, program.stream_devices), bindings.externals, effects=False
    )

    def without_effects(*given: RawTensor) -> tuple[RawTensor, ...]:
        with replaying(), numbers:
            return compiled.run(*given)

    return Compiled(without_effects, compiled.calls_by_line)


MAX_STATES = 20_000
"""Maximum number of steps whose states are kept; longer runs keep every second step, then every fourth, and so on."""
SAMPLED_STATES = 8
"""Number of steps whose states are measured to estimate the memory of all."""


class StateHistory:
    """The states before step 0, every, 2·every, …; detached, by reference. They take half of the budget at most.

    has_graph: whether states may have an autograd graph. keep: takes the states after a step, about `room` times;
    `take` then keeps every `every`-th.
    """

    def __init__(self, backend: type[Backend], initial: Sequence[RawTensor], has_graph: bool = True):
        self.every, self.room = 1, 1
        self.states = [tuple(_initial_state(backend, state) for state in initial)]
        self.bytes, self._steps, self._backend = 0, 0, backend  # bytes: of the states, once some are taken
        self._fresh = fresh = list[tuple[RawTensor, ...]]()
        self.keep = (lambda raws: fresh.append(detached(backend, raws))) if has_graph else fresh.append

    def take(self, steps: int) -> None:
        """Keeps fresh states after `steps` steps. An interrupt leaves the history as it was, or updated."""
        every, fresh = self.every, self._fresh[: steps - self._steps]
        states = self.states + fresh[-(self._steps + 1) % every :: every]
        n_bytes = held_bytes(self._backend, states)
        while len(states) > 1 and (len(states) > MAX_STATES or 2 * n_bytes > options.trace_budget):
            states, every = states[::2], 2 * every
            n_bytes = held_bytes(self._backend, states)
        more = (options.trace_budget / max(1, n_bytes)) ** (1 / 3) - 1  # with these, also states that grow fit in
        room = int(max(1, min(MAX_STATES, more * (len(states) - 1))))
        self.states, self.every, self.room, self.bytes, self._steps = states, every, room, n_bytes, steps
        self._fresh.clear()


def held_bytes(backend: type[Backend], states: Sequence[Sequence[RawTensor]]) -> int:
    """The bytes of all storages that hold the states; an estimate if there are many states."""
    picked = states[:: -max(1, len(states) // SAMPLED_STATES)]  # from the last: of growing states, the large ones
    raws, sizes = _storages(backend, picked)
    if len(picked) < len(states) and len(sizes) < raws:  # some states share a storage
        picked, (raws, sizes) = states, _storages(backend, states)
    return sum(sizes.values()) * len(states) // max(1, len(picked))


def _storages(backend: type[Backend], states: Sequence[Sequence[RawTensor]]) -> tuple[int, dict[object, int]]:
    raws = [raw for row in states for raw in row if not isinstance(raw, int | None)]
    return len(raws), dict(map(backend.storage_raw, raws))


def _initial_state(backend: type[Backend], state: RawTensor) -> object:
    """An initial state as it is now: a reference, or a copy if it is a parameter, which training changes."""
    if isinstance(state, int | None):
        return state
    return backend.snapshot_raw(state) if backend.is_leaf_raw(state) else backend.alias_raw(state)


def detached(backend: type[Backend], states: Sequence[RawTensor]) -> tuple[object, ...]:
    """States or frames, without their autograd graph."""
    needs, alias = backend.needs_gradient_raw, backend.alias_raw
    return tuple([s if s is None or type(s) is int or not needs(s) else alias(s) for s in states])


# -- the inside of a step: a recorded run keeps neither runs of inner loops nor values in the sides of branches


@dataclass
class Inspection:
    """What to collect from inside of a step, and what was found.

    runs: the runs of its inner loops, without loops inside of these; None to skip them.
    wanted: values of the branches; those of sides that the step takes are stored in `values`.
    """

    runs: list[Run] | None = None
    wanted: Collection[Var] = ()
    values: dict[Var, RawTensor] = field(default_factory=dict)


_inspection: ContextVar[Inspection | None] = ContextVar("rfnb_inspection", default=None)


def current_inspection() -> Inspection | None:
    """The Inspection of the step that runs now; None if nothing is to be collected."""
    return _inspection.get()


def inspecting(inspection: Inspection | None) -> AbstractContextManager[None]:
    """Steps that run in this context store what they find in `inspection`."""
    return within(_inspection, inspection)


# -- meters


def _results_of(traced: Sequence[Traced]) -> dict[int, tuple[Node, object, object]]:
    """The ops whose results are Vars, with the dims and lengths of these, by number of the Var."""
    results: dict[int, tuple[Node, Any, Any]] = {}
    for tensor in traced:
        node, var = tensor.value.node, tensor.recorder.tape.find(tensor.plain._raw)
        if node is not None and node.kind == "op" and type(var) is Var:
            results.setdefault(var.number, (node, tensor.plain.sig, tensor.plain.lengths))
    return results


def metered(program: Program, loop: MeasuredLoop | None) -> Program:
    """The program, its calls measured if the current meter measures them. loop: None inside of the steps of another.

    While the loop around it is traced, nothing is measured: that run only makes values for the trace.
    """
    meter = current_meter()
    if meter is None or not (meter.times or (meter.watches and loop is not None)) or current_tape() is not None:
        return program
    if id(program) not in meter.programs:
        meter.pause()
        watched = program.copy()
        results = _results_of(loop.traced()) if meter.watches and loop is not None else {}
        watched.calls = [_measured(call, meter, loop, results) for call in program.calls]
        meter.programs[id(program)] = program, watched
        meter.resume()
    measured: Program = meter.programs[id(program)][1]
    return measured


def _measured(
    call: Call, meter: Meter, loop: MeasuredLoop | None, results: dict[int, tuple[Node, object, object]]
) -> Call:
    if meter.times:
        return call if call.node is None else replace(call, fn=meter.timed(call.fn, call.node))
    places = [(-1, call.result)] if call.result is not None else list(call.parts)
    values = {place: results[var] for place, var in places if var in results}
    return replace(call, fn=meter.watched(call.fn, values, loop)) if values and loop is not None else call


def one_step(calls: Sequence[Call], values: Sequence[RawTensor], externals: Sequence[RawTensor]) -> None:
    """Computes calls on the traced frame."""

    def value(read: Reference) -> RawTensor:
        return read if type(read) is Stream else (values if type(read) is Var else externals)[read.number]

    with untaped():
        for call in calls:
            call.fn(*map_references(value, call.args), **map_references(value, call.kwargs))
