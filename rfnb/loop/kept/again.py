"""A kept step for the tensors of another batch: a `TracedStep`, as if the body had been traced with them.

The raw calls of most ops have no sizes among their arguments; they are made on the new frame as they are. The other ops
run again themselves, and have to make the same calls but for the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from rfnb.backend.base.finite import ended_by
from rfnb.backend.base.tape import Call, External, Tape, Var, current_tape
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.ground.scope import random_from
from rfnb.core.tensor.listener import Listener, listening
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.loop.body.freezing import masks_of_active, masks_of_ended
from rfnb.loop.body.traced_step import Carried, FrameInput, TracedStep, step_numbers_as_frames, unstacked_frames
from rfnb.loop.kept.kept_step import (
    FromSizes,
    Given,
    KeptOp,
    KeptState,
    KeptStep,
    KeptTensor,
    NotKept,
    OfParameter,
    OfSizes,
    Slot,
)
from rfnb.loop.steps.ended_frames import ended
from rfnb.loop.steps.execute import Schedule
from rfnb.loop.steps.frames import first_frame, has_steps
from rfnb.loop.steps.program import Program
from rfnb.trace.record.record import OpCall, Recorder
from rfnb.trace.record.traced import Pending, Traced


def step_again(
    kept: KeptStep,
    given: Sequence[Tensor],
    originals: dict[str, Any],
    initial: Sequence[Any],
    axis: Dim | None = None,
    longest: Any = None,
) -> TracedStep:
    """The step for these tensors. Raises NotKept if it would be another one.

    given: as when the step was kept. originals: the states before the loop; initial: their leaves. axis, longest: of
    the loop.
    """
    return _Again(kept, given, initial, axis, longest).step(originals)


class _Again:
    def __init__(
        self, kept: KeptStep, given: Sequence[Tensor], initial: Sequence[Any], axis: Dim | None, longest: Any
    ):
        self.kept, self.given, self.backend = kept, given, kept.backend
        if axis is not kept.axis or (kept.gives_size and has_steps(axis)):
            raise NotKept("another axis")
        self.limit = self._limit(longest)
        self.sizes = {dim: n for x in given for dim, n in zip(x.dims, x._raw.shape, strict=True)}
        states = iter(initial)
        self.initial = [next(states)._raw if c.kind == "state" else self._begin(c) for c in kept.carried]
        if self.limit.ragged != kept.ragged or self.limit.dims != kept.owners or not self.limit.max:
            raise NotKept("other lengths of the steps")
        self.tape: Tape = self.backend.new_tape()
        self.tape.new_stream = self._new_stream
        self.tensors: list[Tensor | None] = [None] * len(kept.tensors)
        self.lengths: dict[FromSizes, Lengths] = {}
        self.masks: dict[str, Any] = {}  # by layout and device

    def _begin(self, carried: KeptState) -> Any:
        """The initial value of what the loop itself carries."""
        raw = carried.initial
        for axis, dim in enumerate(carried.tensor.sig.dims):
            if dim.dimension is None:
                raw = self.backend.expand_raw(raw, axis, self._size_of(dim))
        return self.backend.snapshot_raw(raw)

    def _size_of(self, dim: Dim) -> int:
        found = dim.dimension if dim.dimension is not None else self.sizes.get(dim)
        if found is None:
            raise NotKept("a size that no tensor has")
        return found

    def _limit(self, longest: Any) -> Size:
        """The number of steps of each sequence."""
        size: Size | None = None
        for place, axis in self.kept.unstacked:
            own = self.given[place].size_of(axis)
            if size is not None and not size.agrees(own):
                raise NotKept("tensors of other lengths")
            size = own
        axis = self.kept.axis
        if size is None and has_steps(axis):
            size = axis.size
        if size is None and isinstance(longest, int):
            return Size([], longest)
        if size is None or longest is not None:
            raise NotKept("another limit of the steps")
        return size

    # -- the traced frame

    def step(self, originals: dict[str, Any]) -> TracedStep:
        """The step."""
        kept = self.kept
        with self.backend.no_gradients(), ended_by(self._ended):
            calls = self._all_calls()
            self._inputs(until=kept.values)
        if len(self.tape.values) != kept.values or len(self.tape.externals) != len(kept.outside):
            raise NotKept("another number of values")
        self.tape.calls[:] = calls
        recorder = self._recorder()
        frames = tuple(self._frame(number) for number in kept.frames)
        carried = tuple(
            Carried(c.name, c.kind, self._traced(c.tensor, c.value, recorder), c.var, raw, c.starts_empty)
            for c, raw in zip(kept.carried, self.initial, strict=True)
        )
        outputs = tuple(self._output(*each, recorder=recorder) for each in kept.outputs)
        limit = self.limit
        first_end = int(limit.values.min(initial=limit.max)) if kept.condition is None else 0
        schedule = Schedule(
            states=tuple(each.var for each in carried), frames=tuple(each.var for each in frames), new=kept.new,
            kept=kept.kept, outputs=kept.output_vars, ended=kept.ended, max_steps=limit.max,
            free_steps=limit.max if kept.new == kept.kept else first_end,
        )  # fmt: skip
        hypotheses = None
        if kept.hypotheses is not None and kept.lengths is not None:
            scores = self.initial[next(i for i, each in enumerate(carried) if each.kind == "search")]
            by_place: list[Tensor] = [outputs[i][1] for i in kept.by_place]
            hypotheses = kept.hypotheses.for_batch(recorder, self._lengths(kept.lengths), scores, by_place)
        program = Program(self.tape, [*schedule.states, *schedule.frames], self.backend.needs_gradient_raw)
        return TracedStep(
            name=kept.name, source=kept.source, backend=self.backend, outer=None, recorder=recorder,
            size=limit if kept.unstacked else None, carried=carried, unstacked=(), outputs=outputs, hypotheses=hypotheses,
            lasts=(), condition=kept.condition and self._traced(*kept.condition, recorder),
            include_eos=kept.include_eos, originals=originals, assigned={}, own_ops=kept.own_ops,
            program=program, schedule=schedule, limit=limit, axis=kept.axis, gives_size=kept.gives_size, frames=frames,
            last_places=(), unfrozen=kept.unfrozen, seed=self.backend.draw_seed() if kept.draws else None, warns=False,
            call=None, watchers=(), states=kept.states, set_states=frozenset(), reads=None, generators=(),
        )  # fmt: skip

    def _recorder(self) -> Recorder:
        """A recorder that has recorded the step."""
        of = self.kept.recorder
        recorder = Recorder(of.name, self.tape, None, of.code)
        recorder.file, recorder.graph, recorder.open = of.file, self.kept.graph, False
        fill = partial(map_leaves, self._filled)
        recorder.op_calls = [
            OpCall(op.row, fill(op.args), fill(op.kwargs), [self._at(slot) for slot in op.given], fill(op.result), node)
            for op, node in zip(self.kept.ops, self.kept.nodes, strict=True)
        ]
        return recorder

    def _all_calls(self) -> list[Call]:
        """Makes all raw calls on the new frame."""
        kept, done = self.kept, 0
        calls = list(kept.calls)
        for op in kept.ops:
            self._make(calls[done : op.calls[0]])
            if op.runs:
                calls[slice(*op.calls)] = self._run(op)
            else:
                self._make(calls[slice(*op.calls)])
            done = op.calls[1]
        self._make(calls[done:])
        self._outside(until=len(kept.outside))
        return calls

    def _make(self, calls: Sequence[Call]) -> None:
        values, tape = self.tape.values, self.tape
        for call in calls:
            for read in call.reads():
                if type(read) is External:
                    self._outside(until=read.number + 1)
            args = [self._argument(arg) for arg in call.args]
            found = call.fn(*args, **{key: self._argument(arg) for key, arg in call.kwargs.items()})
            made = [(call.result, found)] if call.result is not None else [(var, found[i]) for i, var in call.parts]
            for var, raw in made:
                self._inputs(until=var)
                if len(values) != var:
                    raise NotKept("another number of values")
                tape.input(raw)

    def _argument(self, argument: Any) -> Any:
        kind = type(argument)
        if kind is Var:
            self._inputs(until=argument.number + 1)
            return self.tape.values[argument.number]
        if kind is External:
            return self.tape.externals[argument.number]
        if kind is tuple or kind is list:
            return kind([self._argument(part) for part in argument])
        if kind is dict:
            return {key: self._argument(part) for key, part in argument.items()}
        return argument

    def _run(self, op: KeptOp) -> list[Call]:
        """Runs an op on the new frame. Returns its raw calls."""
        tape, kept = self.tape, self.kept
        for slot in op.given:
            self._at(slot)
        args, kwargs = map_leaves(self._filled, op.args), map_leaves(self._filled, op.kwargs)
        self._outside(until=op.outside[0])
        self._inputs(until=op.values[0])
        first = len(tape.calls)
        tape.ops.append(op.row.name)
        try:
            with self.backend.take(tape), listening(_Runs(tape)):
                found = _Runs(tape).call(op.row, args, kwargs)
        finally:
            tape.ops.pop()
        calls, results, slots = tape.calls[first:], leaves(found), leaves(op.result)
        self._inputs(until=op.values[1])
        for result in results:
            if isinstance(result, Tensor):
                tape.refer(result._raw)
        as_before = (
            len(calls) == op.calls[1] - op.calls[0]
            and len(tape.values) == op.values[1]
            and len(tape.externals) == op.outside[1]
            and all(map(_alike, calls, kept.calls[slice(*op.calls)]))
            and all(self._is_known(number) for number in range(*op.outside))
        )
        if not as_before or len(results) != len(slots):
            raise NotKept(f"{op.row.name} makes other calls")
        for call, old in zip(calls, kept.calls[slice(*op.calls)], strict=True):
            call.node = old.node
        for result, slot in zip(results, slots, strict=True):
            if isinstance(slot, Slot):
                self._is_result(result, slot)
        return calls

    def _is_result(self, result: Any, slot: Slot) -> None:
        """Takes a result of an op."""
        template = self.kept.tensors[slot.number]
        same = isinstance(result, Tensor) and result.sig is template.sig
        if not same or (template.given is None and self.tape.find(result._raw) != template.raw):
            raise NotKept("an op has another result")
        self.tensors[slot.number] = result

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

    def _inputs(self, until: int) -> None:
        """Declares the inputs whose turn it is."""
        values, inputs = self.tape.values, self.kept.inputs
        while len(values) < until and (spec := inputs.get(len(values))) is not None:
            detail: Any = spec.detail
            if spec.kind == "state":
                raw = self.backend.alias_raw(self.initial[detail[0]])
            elif spec.kind == "frame":
                raw = first_frame(self.backend, self.given[detail[0]], detail[1], False)._raw
            elif spec.kind == "number":
                raw = self.backend.full_raw([], 0, "int64", None)
            elif spec.kind == "active":
                raw = self.backend.alias_raw(masks_of_active(self.backend, self.limit, *detail)[0])
            else:
                raw = self.masks[repr(detail)] = self._mask(*detail)
            self.tape.input(raw)

    def _mask(self, how: align.Move, device: Any) -> Any:
        return self.backend.from_numpy_raw(ended(self.limit, how, 1)[0], device)

    def _ended(self, backend: Any, signature: Sig, device: Any) -> Any:
        """The mask of the sequences that have ended, while an op runs; see `EndedMasks`."""
        size = self.limit
        if current_tape() is not self.tape or self.tape.paused or not size.ragged or not size.dims:
            return None
        if not set(size.dims) <= signature.index.keys():
            return None
        detail = align.move(size.dims, signature.dims, trailing=False), device
        found = self.masks.get(repr(detail))
        if found is None:
            spec = self.kept.inputs.get(len(self.tape.values))
            if spec is None or spec.detail != detail:
                raise NotKept("another mask of what has ended")
            with self.tape.pause():
                self._inputs(until=len(self.tape.values) + 1)
            found = self.masks[repr(detail)]
        return found

    def _frame(self, number: int) -> FrameInput:
        spec, var = self.kept.inputs[number], Var(number)
        detail: Any = spec.detail
        if spec.kind == "frame":
            return unstacked_frames(var, self.backend, self.given[detail[0]], detail[1], False)
        if spec.kind == "number":
            return step_numbers_as_frames(var, self.backend)
        if spec.kind == "active":
            return FrameInput(var, partial(masks_of_active, self.backend, self.limit, *detail), None, ("active", *detail))
        return FrameInput(var, partial(masks_of_ended, self.backend, self.limit, *detail), None, ("ended", *detail))

    def _filled(self, leaf: Any) -> Any:
        """A leaf of the arguments of an op for this batch."""
        kind = type(leaf)
        if kind is Slot:
            return self._at(leaf)
        return self.kept.parameters[leaf.number] if kind is OfParameter else leaf

    def _at(self, slot: Slot) -> Tensor:
        found = self.tensors[slot.number]
        if found is None:
            found = self.tensors[slot.number] = self._tensor(self.kept.tensors[slot.number])
        return found

    def _tensor(self, template: KeptTensor) -> Tensor:
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
            self._inputs(until=origin.number + 1)
            raw = self.tape.values[origin.number]
        made = tensor_of(raw, template.sig, self._lengths(template.lengths))
        if template.emptied is not None:
            made._emptied = raw, self.backend.version_raw(raw), template.emptied
        return made

    def _lengths(self, kept: FromSizes | Lengths) -> Lengths:
        if isinstance(kept, Lengths):
            return kept
        found = self.lengths.get(kept)
        if found is None:
            first = self.given[kept.sizes[0][1]].lengths
            sizes = {serial: self.given[i].lengths.sizes[there] for serial, i, there in kept.sizes}
            found = first if first.sizes == sizes else Lengths(sizes)
            found = found.made_finite() if kept.finite else found.infinite()
            self.lengths[kept] = found
        return found

    def _traced(self, template: KeptTensor, value: Any, recorder: Recorder) -> Traced:
        return Traced(self._tensor(template), recorder, value)

    def _output(
        self, template: KeptTensor, value: Any, sig: Sig, name: Any, *, recorder: Recorder
    ) -> tuple[Traced, Pending]:
        pending = Pending.__new__(Pending)
        pending._name, pending.sig, pending.lengths = name, sig, EMPTY
        return self._traced(template, value, recorder), pending

    def _new_stream(self, device: str) -> Any:
        generator = self.backend.new_generator(device)
        self.tape.stream(generator)
        return generator


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
    same: bool = (
        (call.fn is before.fn or call.fn == before.fn or type(call.fn) is type(before.fn))
        and getattr(call.fn, "__name__", None) == getattr(before.fn, "__name__", None)
        and call.reads() == before.reads()
        and call.result == before.result
        and call.parts == before.parts
        and call.changes == before.changes
        and call.effect == before.effect
    )
    return same
