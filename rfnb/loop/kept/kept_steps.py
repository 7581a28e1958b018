"""The kept steps of one loop: which is right for a call, and a `TracedStep` of it for the tensors of another batch.

A step is used again for tensors of the same dims, dtypes and devices, whose sizes lie between those of two traces that
gave the same step. So whatever grows or falls with a size, such as a limit from which on an op computes something else,
is the same as in those traces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import is_
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.finite import ended_by
from rfnb.backend.base.tape import Call, External, Tape
from rfnb.core.dims.align import Sig
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.ground.scope import random_from
from rfnb.core.tensor.listener import Listener, active_listener, listening
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.loop.ends import EndedGuard, EndedMask, EndedMasks
from rfnb.loop.kept.keep import (
    FromSizes,
    Given,
    KeptOp,
    KeptStep,
    KeptTensor,
    KeptValue,
    NotKept,
    OfParameter,
    OfSizes,
    Part,
    Slot,
    facts_of,
    keep,
)
from rfnb.loop.loop import Loop
from rfnb.loop.program import Program, analysis_of
from rfnb.loop.step import Carried, FrameInput, TracedStep, Unstacked, first_frame, has_steps
from rfnb.trace.record.op_call import OpCall
from rfnb.trace.record.record import Recorder, current_recorder
from rfnb.trace.record.traced import Pending, Traced
from rfnb.trace.run import session

if TYPE_CHECKING:
    from rfnb.backend.base.math import Domain
    from rfnb.loop.loop import Loop


def step_again(kept: KeptStep, loop: Loop, given: Sequence[Tensor], states: Sequence[Tensor]) -> TracedStep:
    """The step for these tensors. Raises NotKept if it would be another one.

    given: as when the step was kept. states: the initial values of the states.
    """
    step = kept.step
    if loop.axis is not step.axis or (step.gives_size and has_steps(step.axis)):
        raise NotKept("another axis")
    limit = _limit(kept, given, loop.max_seq_len)
    if (limit.ragged, limit.dims) != kept.ends or not limit.max:
        raise NotKept("other lengths of the steps")
    frame = NewFrame(kept, given, states, limit)
    frame.trace()
    return _traced_step(kept, frame, _recorder(kept, frame), loop.state._values)


def _limit(kept: KeptStep, given: Sequence[Tensor], longest: Any) -> Size:
    """The number of steps of each sequence."""
    size: Size | None = None
    for place, kind in [(frame.source, frame.kind) for frame in kept.frames if isinstance(frame.kind, Unstacked)]:
        extent = given[place].size_of(kind.axis)
        if size is not None and not size.agrees(extent):
            raise NotKept("tensors of other lengths")
        size = extent
    if size is None and has_steps(kept.step.axis):
        size = kept.step.axis.size
    if size is None and isinstance(longest, int):
        return Size([], longest)
    if size is None or longest is not None:
        raise NotKept("another limit of the steps")
    return size


def _recorder(kept: KeptStep, frame: NewFrame) -> Recorder:
    """A recorder as if it had recorded the body with the tensors of the frame."""
    of, fill = kept.step.recorder, partial(map_leaves, frame.filled)
    recorder = Recorder(of.name, frame.tape, None, of.code)
    recorder.file, recorder.graph, recorder.open = of.file, of.graph, False
    recorder.op_calls = [
        OpCall(op.row, fill(op.args), fill(op.kwargs), [frame.at(slot) for slot in op.given], fill(op.result), node)
        for op, node in zip(kept.ops, kept.nodes, strict=True)
    ]
    return recorder


def _traced_step(kept: KeptStep, frame: NewFrame, recorder: Recorder, originals: dict[str, Any]) -> TracedStep:
    def traced(value: KeptValue) -> Traced:
        return Traced(frame.tensor(value.tensor), recorder, value.value)

    def pending(signature: Sig, name: Any) -> Pending:
        tensor = Pending.__new__(Pending)
        tensor._name, tensor.sig, tensor.lengths = name, signature, EMPTY
        return tensor

    step, limit, backend, initial = kept.step, frame.limit, frame.backend, frame.initial
    frames = tuple(f._replace(source=frame.source(f)) for f in kept.frames)
    carried = tuple(
        replace(c, before=traced(c.before), initial=raw) for c, raw in zip(step.carried, initial, strict=True)
    )
    outputs = tuple((traced(value), pending(*result)) for value, *result in kept.outputs)
    hypotheses = None
    if kept.hypotheses is not None and kept.lengths is not None:
        scores = initial[next(i for i, c in enumerate(carried) if c.kind == "search")]
        by_place: list[Tensor] = [outputs[i][1] for i in kept.by_place]
        hypotheses = kept.hypotheses.for_batch(recorder, frame.lengths(kept.lengths), scores, by_place)
    analysis = analysis_of(
        frame.tape, recorder.op_calls, step.schedule, backend.needs_gradient_raw,
        stackable=[f.is_stackable for f in frames], unstacks=kept.unstacks, runs=True,
    )  # fmt: skip
    inputs = [*step.schedule.states, *step.schedule.frames]
    of_batch = {
        "recorder": recorder, "carried": carried, "search": None if hypotheses is None else hypotheses.plan,
        "program": Program(frame.tape, inputs, backend.needs_gradient_raw, analysis),
    }  # fmt: skip
    return TracedStep(
        **{**vars(step), **of_batch}, size=limit if kept.unstacks else None, limit=limit,
        frames_size=limit if kept.unstacks or has_steps(step.axis) else None, outer=None, unstacked=(), outputs=outputs,
        lasts=(), hypotheses=hypotheses, condition=None, originals=originals, assigned={}, frames=frames,
        seed=backend.draw_seed() if kept.draws else None, warns=False, watchers=(), pauses=(),
        set_states=frozenset(), reads=None, generators=(),
    )  # fmt: skip


class NewFrame:
    """The values of a kept step on the first frame of another batch.

    given, states: the tensors from outside, and the initial values of the states. limit: the number of steps of each
    sequence. initial: the initial values of all that the loop carries, raw tensors. tape: the raw calls, once `trace`
    has made them.
    """

    def __init__(self, kept: KeptStep, given: Sequence[Tensor], states: Sequence[Any], limit: Size):
        self.kept, self.given, self.backend, self.limit = kept, given, kept.step.backend, limit
        self._calls = kept.step.program.calls
        self._sizes = {dim: n for x in given for dim, n in zip(x.dims, x._raw.shape, strict=True)}
        values = iter(states)
        self.initial = [next(values)._raw if c.kind == "state" else self._begin(c) for c in kept.step.carried]
        self.tape: Tape = self.backend.new_tape()
        self.tape.new_stream = self._new_stream
        self._tensors: list[Tensor | None] = [None] * len(kept.tensors)
        self._lengths_made: dict[FromSizes, Lengths] = {}
        self._ended = _EndedInFrame(self)
        self._makes: dict[int, Callable[[], Any]] = {  # the inputs on the first frame, by number
            carry.var.number: partial(self.backend.alias_raw, raw)
            for carry, raw in zip(kept.step.carried, self.initial, strict=True)
        }
        self._makes |= {frame.var.number: partial(self._first, frame) for frame in kept.frames}
        self._before = 0  # how many calls of the kept step come before those of the tape

    def _begin(self, carried: Carried) -> Any:
        """The initial value of what the loop itself carries."""
        raw = carried.initial
        for axis, dim in enumerate(carried.before.tensor.sig.dims):
            if dim.dimension is None:
                raw = self.backend.expand_raw(raw, axis, self._size_of(dim))
        return self.backend.snapshot_raw(raw)

    def _size_of(self, dim: Dim) -> int:
        size = dim.dimension if dim.dimension is not None else self._sizes.get(dim)
        if size is None:
            raise NotKept("a size that no tensor has")
        return size

    # -- raw calls

    def trace(self) -> None:
        """Makes all raw calls. Raises NotKept if they are not those of the kept step."""
        step, calls = self.kept, list(self._calls)
        with self.backend.no_gradients(), ended_by(self._ended):
            for part in step.parts:
                if part.op is None:
                    self._make(part)
                else:
                    op = step.ops[part.op]
                    calls[slice(*op.calls)] = self._run(op)
            self._outside(until=len(step.outside))
            self.declare_inputs(until=step.values)
        if len(self.tape.values) != step.values or len(self.tape.externals) != len(step.outside):
            raise NotKept("another number of values")
        self.tape.calls[:] = calls

    def _make(self, part: Part) -> None:
        """Makes the raw calls of a part, by code that is written once."""
        self._outside(until=part.outside)
        self.declare_inputs(until=part.values)
        values, tape = self.tape.values, self.tape
        if len(values) != part.values:
            raise NotKept("another number of values")
        code = part.code.bind({}, tape.externals, _no_generator)
        for raw in code.run([values[number] for number in part.reads]):
            tape.input(raw)

    def _run(self, op: KeptOp) -> list[Call]:
        """Runs an op on the new frame. Returns its raw calls."""
        tape, before = self.tape, self._calls[slice(*op.calls)]
        for slot in op.given:
            self.at(slot)
        args, kwargs = map_leaves(self.filled, op.args), map_leaves(self.filled, op.kwargs)
        self._outside(until=op.outside[0])
        self.declare_inputs(until=op.values[0])
        start = len(tape.calls)
        self._before = op.calls[0] - start
        tape.ops.append(op.row.name)
        try:
            with self.backend.take(tape), listening(_Runs(tape)):
                output = _Runs(tape).call(op.row, args, kwargs)
        finally:
            tape.ops.pop()
        calls, results, slots = tape.calls[start:], leaves(output), leaves(op.result)
        self.declare_inputs(until=op.values[1])
        for result in results:
            if isinstance(result, Tensor):
                tape.refer(result._raw)
        as_before = (
            len(calls) == len(before)
            and len(tape.values) == op.values[1]
            and len(tape.externals) == op.outside[1]
            and all(map(_alike, calls, before))
            and all(self._is_known(number) for number in range(*op.outside))
        )
        if not as_before or len(results) != len(slots):
            raise NotKept(f"{op.row.name} makes other calls")
        for call, old in zip(calls, before, strict=True):
            call.node = old.node
        for result, slot in zip(results, slots, strict=True):
            if isinstance(slot, Slot):
                self._is_result(result, slot)
        return calls

    @property
    def next_call(self) -> Call:
        """The raw call of the kept step in the place of the one that is made next."""
        return self._calls[self._before + len(self.tape.calls)]

    def _is_result(self, result: Any, slot: Slot) -> None:
        """Takes a result of an op."""
        template = self.kept.tensors[slot.number]
        matches = isinstance(result, Tensor) and result.sig is template.sig
        if not matches or (template.given is None and self.tape.find(result._raw) != template.raw):
            raise NotKept("an op has another result")
        self._tensors[slot.number] = result

    def _is_known(self, number: int) -> bool:
        origin = self.kept.outside[number]
        return origin is None or isinstance(origin, OfSizes) or self.tape.externals[number] is self._origin(origin)

    def _origin(self, origin: Given | OfParameter | OfSizes) -> Any:
        if isinstance(origin, OfSizes):
            sizes = [self._size_of(dim) for dim in origin.dims]
            return self.backend.from_numpy_raw(origin.make(sizes, origin.number), origin.device)
        if isinstance(origin, Given):
            return self.given[origin.number]._raw
        return self.kept.parameters[origin.number]._raw

    # -- inputs and tensors

    def _outside(self, until: int) -> None:
        """Declares tensors from outside, as far as this one."""
        for origin in self.kept.outside[len(self.tape.externals) : until]:
            if origin is None:
                raise NotKept("a tensor from outside that no op has made")
            before = len(self.tape.externals)
            self.tape.refer(self._origin(origin))
            if len(self.tape.externals) == before:
                raise NotKept("two tensors from outside are the same")

    def declare_inputs(self, until: int) -> None:
        """Declares the inputs whose turn it is."""
        values = self.tape.values
        while len(values) < until and (make := self._makes.get(len(values))) is not None:
            self.tape.input(make())

    def _first(self, frames: FrameInput) -> Any:
        """The frame of the first step."""
        kind = frames.kind
        if isinstance(kind, Unstacked):
            return first_frame(self.backend, self.source(frames), *kind)._raw
        raw = self.backend.alias_raw(kind.frames(self.backend, None, self.limit)[0])
        if isinstance(kind, EndedMask):
            self._ended.take(kind, raw)
        return raw

    def source(self, frames: FrameInput) -> Any:
        """The tensor that has the frames, if there is one."""
        return None if frames.source is None else self.given[frames.source]

    def filled(self, leaf: Any) -> Any:
        """A leaf of the arguments of an op for this batch."""
        kind = type(leaf)
        if kind is Slot:
            return self.at(leaf)
        return self.kept.parameters[leaf.number] if kind is OfParameter else leaf

    def at(self, slot: Slot) -> Tensor:
        """The tensor of a slot."""
        tensor = self._tensors[slot.number]
        if tensor is None:
            tensor = self._tensors[slot.number] = self.tensor(self.kept.tensors[slot.number])
        return tensor

    def tensor(self, template: KeptTensor) -> Tensor:
        """A tensor on the traced frame."""
        if template.given is not None:
            return self.given[template.given]
        origin = template.raw
        if isinstance(origin, Given):
            raw = self.given[origin.number]._raw
        elif isinstance(origin, External):
            self._outside(until=origin.number + 1)
            raw = self.tape.externals[origin.number]
        else:
            assert origin is not None
            self.declare_inputs(until=origin.number + 1)
            raw = self.tape.values[origin.number]
        tensor = tensor_of(raw, template.sig, self.lengths(template.lengths))
        if template.emptied is not None:
            tensor._emptied = raw, self.backend.version_raw(raw), template.emptied
        return tensor

    def lengths(self, kept: FromSizes | Lengths) -> Lengths:
        """Lengths of this batch."""
        if isinstance(kept, Lengths):
            return kept
        lengths = self._lengths_made.get(kept)
        if lengths is None:
            base = self.given[kept.sizes[0][1]].lengths
            sizes = {serial: self.given[i].lengths.sizes[key] for serial, i, key in kept.sizes}
            lengths = base if base.sizes == sizes else Lengths(sizes)
            lengths = lengths.made_finite() if kept.finite else lengths.infinite()
            self._lengths_made[kept] = lengths
        return lengths

    def _new_stream(self, device: str) -> Any:
        generator = self.backend.new_generator(device)
        self.tape.stream(generator)
        return generator


class _EndedInFrame(EndedMasks):
    """The masks and guards that the kept step has."""

    def __init__(self, frame: NewFrame):
        super().__init__(frame.tape)
        self._frame = frame

    def size(self) -> Size:
        """The number of steps of each sequence."""
        return self._frame.limit

    def take(self, kind: EndedMask, raw: Any) -> None:
        """Takes the mask of an input."""
        self._masks[repr(kind)] = raw

    def make(self, kind: EndedMask) -> Any:
        """The next input, which has to be this mask."""
        with self._tape.pause():
            self._frame.declare_inputs(until=len(self._tape.values) + 1)
        if repr(kind) not in self._masks:
            raise NotKept("another mask of what has ended")
        return self._masks[repr(kind)]

    def make_guard(self, x: Tensor, domain: Domain, finite: bool) -> tuple[EndedGuard, Sequence[Any]]:
        """The guard of the kept step, and its masks."""
        before = self._frame.next_call
        if not isinstance(before.fn, EndedGuard) or before.fn.signature is not x.sig:
            raise NotKept("another guard for what has ended")
        return before.fn, before.args[1:]


class _Runs(Listener):
    """Runs ops inside of an op as they ran when the step was traced: random ones with a stream of their own."""

    def __init__(self, tape: Tape):
        self.tape = tape

    def call(self, row: OpRow, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Computes an op."""
        if not row.random:
            return row.fn(*args, **kwargs)
        with random_from(self.tape.new_stream):
            return row.fn(*args, **kwargs)


def _alike(call: Call, before: Call) -> bool:
    """Whether two raw calls differ in sizes only."""
    equal: bool = (
        (call.fn is before.fn or call.fn == before.fn or type(call.fn) is type(before.fn))
        and getattr(call.fn, "__name__", None) == getattr(before.fn, "__name__", None)
        and call.reads == before.reads
        and call.result == before.result
        and call.parts == before.parts
        and call.changes == before.changes
        and call.effect == before.effect
    )
    return equal


def _no_generator(stream: int, step: int) -> Any:
    raise AssertionError("ops with random numbers run again")


MOST = 8
"""Maximum number of steps kept of one loop."""


@dataclass
class _Entry:
    """A kept step. key, facts: what it was traced under. least, most: the sizes between which it holds. extra: what
    the caller wants to know again."""

    key: tuple[Any, ...]
    facts: tuple[Any, ...]
    least: tuple[int, ...]
    most: tuple[int, ...]
    step: KeptStep
    extra: Any

    def is_for(self, key: Sequence[Any], facts: tuple[Any, ...]) -> bool:
        """Whether it was traced under the same conditions."""
        return facts == self.facts and equal(key, self.key)


class KeptSteps:
    """The steps of one loop that were traced before.

    traced, again: how often the body was traced, and how often a kept step was used. refused: why a step was not kept,
    or not used, and how often.
    """

    def __init__(self) -> None:
        self._entries: list[_Entry] = []
        self.traced = self.again = 0
        self.refused: Counter[str] = Counter()

    def __reduce__(self) -> tuple[type[KeptSteps], tuple[()]]:
        """A copy knows no step yet."""
        return KeptSteps, ()

    def find(self, loop: Loop, key: Sequence[Any], given: Sequence[Tensor]) -> tuple[TracedStep, Any] | None:
        """A step for these tensors, and what `kept` got as `extra`; None if the body has to be traced.

        key: values that the lines of the body depend on besides `given`: objects, or numbers, strings and tuples of
        these.
        """
        reason = _in_the_way(loop)
        step = self._find(loop, key, given) if reason is None else None
        if reason is not None:
            self.refused[reason] += 1
        if step is None:
            self.traced += 1
        else:
            self.again += 1
        return step

    def _find(self, loop: Loop, key: Sequence[Any], given: Sequence[Tensor]) -> tuple[TracedStep, Any] | None:
        initial = [leaf for _, leaf in loop.state._leaves()]
        if not all(isinstance(leaf, Tensor) for leaf in initial):
            return None
        facts, sizes = facts_of([*given, *initial])
        for place, entry in enumerate(self._entries):
            if entry.is_for(key, facts) and _between(entry, sizes):
                try:
                    step = step_again(entry.step, loop, [*given, *initial], initial)
                except Exception as why:  # what is wrong with the tensors, the traced body tells with its place
                    self._refuse(why)
                    del self._entries[place]
                    return None
                return step, entry.extra
        return None

    def keeping(
        self,
        loop: Loop,
        key: Sequence[Any],
        given: Sequence[Tensor],
        key_after: Callable[[], Sequence[Any] | None],
        extra: Callable[[], Any],
    ) -> Callable[[TracedStep], None] | None:
        """A function that keeps the step, which is traced now; None if it cannot be kept.

        key_after: gives the key once the step is traced, to see whether its lines change what they depend on. extra:
        gives what `find` returns with the step.
        """
        if _in_the_way(loop) is not None:
            return None
        tensors = [*given, *(leaf for _, leaf in loop.state._leaves() if isinstance(leaf, Tensor))]
        facts, sizes = facts_of(tensors)

        def take(step: TracedStep) -> None:
            try:
                if not equal(key, key_after() or ()):
                    raise NotKept("the body changes what it depends on")
                self._take(tuple(key), facts, sizes, keep(step, tensors), extra())
            except Exception as why:
                self._refuse(why)

        return take

    def _take(
        self, key: tuple[Any, ...], facts: tuple[Any, ...], sizes: tuple[int, ...], step: KeptStep, extra: Any
    ) -> None:
        for entry in self._entries:
            if entry.is_for(key, facts) and entry.step.agrees(step):
                entry.least = tuple(map(min, entry.least, sizes))
                entry.most = tuple(map(max, entry.most, sizes))
                return
        self._entries = [_Entry(key, facts, sizes, sizes, step, extra), *self._entries][:MOST]

    def _refuse(self, why: Exception) -> None:
        self.refused[str(why) if isinstance(why, NotKept) else type(why).__name__] += 1

    def forget(self) -> None:
        """Forgets all steps."""
        self._entries.clear()


def _between(entry: _Entry, sizes: tuple[int, ...]) -> bool:
    return all(low <= n <= high for low, n, high in zip(entry.least, sizes, entry.most, strict=True))


def equal(key: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two keys have the same objects, and equal numbers, strings and tuples."""
    if len(key) != len(other):
        return False
    return all(map(is_, key, other)) or all(map(_same, key, other))


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, int | float | str | tuple) and bool(a == b))


def _in_the_way(loop: Loop) -> str | None:
    """Why a body has to be traced by Python: because somebody looks at it, for example."""
    if current_recorder() is not None:
        return "a loop in a loop"
    if active_listener() is not None:
        return "ops are observed"
    if session.should_record(loop.debug, loop.name) or session.is_drawing():
        return "it is recorded"
    if session.seed_of(loop.name) is not None:
        return "its seed is given"
    return None
