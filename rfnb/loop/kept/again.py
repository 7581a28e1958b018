"""A kept step for the tensors of another batch: a `TracedStep`, as if the body had been traced with them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.align import Sig
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.ground.nested import map_leaves
from rfnb.core.tensor.tensor import Tensor
from rfnb.loop.kept.kept_step import KeptStep, KeptValue, NotKept
from rfnb.loop.kept.new_frame import NewFrame
from rfnb.loop.program import Program, analysis_of
from rfnb.loop.step import TracedStep, Unstacked, has_steps
from rfnb.trace.record.op_call import OpCall
from rfnb.trace.record.record import Recorder
from rfnb.trace.record.traced import Pending, Traced

if TYPE_CHECKING:
    from rfnb.loop.loop import Loop


def step_again(kept: KeptStep, loop: Loop, given: Sequence[Tensor], states: Sequence[Tensor]) -> TracedStep:
    """The step for these tensors. Raises NotKept if it would be another one.

    given: as when the step was kept. states: the initial values of the states.
    """
    step = kept.step
    if loop.axis is not step.axis or (step.gives_size and has_steps(step.axis)):
        raise NotKept("another axis")
    limit = _limit(kept, given, loop.max_seq_len)
    if limit.ragged != step.limit.ragged or limit.dims != step.limit.dims or not limit.max:
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
    first_end = 0 if step.ends else limit.min
    free_steps = limit.max if step.schedule.new == step.schedule.kept else first_end
    schedule = replace(step.schedule, max_steps=limit.max, free_steps=free_steps)
    hypotheses = None
    if kept.hypotheses is not None and kept.lengths is not None:
        scores = initial[next(i for i, c in enumerate(carried) if c.kind == "search")]
        by_place: list[Tensor] = [outputs[i][1] for i in kept.by_place]
        hypotheses = kept.hypotheses.for_batch(recorder, frame.lengths(kept.lengths), scores, by_place)
    analysis = analysis_of(
        frame.tape, recorder.op_calls, schedule, backend.needs_gradient_raw,
        stackable=[f.is_stackable for f in frames], unstacks=step.size is not None,
    )  # fmt: skip
    inputs = [*schedule.states, *schedule.frames]
    of_batch = {
        "recorder": recorder, "schedule": schedule, "limit": limit, "carried": carried,
        "program": Program(frame.tape, inputs, backend.needs_gradient_raw, analysis),
        "size": step.size and limit, "frames_size": limit if step.size or has_steps(step.axis) else None,
        "search": None if hypotheses is None else hypotheses.plan,
    }  # fmt: skip
    return TracedStep(
        **{**vars(step), **of_batch}, outer=None, unstacked=(), outputs=outputs, lasts=(), hypotheses=hypotheses,
        condition=None, originals=originals, assigned={}, frames=frames,
        seed=backend.draw_seed() if kept.draws else None, warns=False, watchers=(), pauses=(),
        set_states=frozenset(), reads=None, generators=(),
    )  # fmt: skip
