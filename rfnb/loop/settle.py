"""Gives the states and outputs of a loop their final values, from the results of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import LoopError
from rfnb.loop.replay.first_nan import first_nan
from rfnb.loop.replay.replay import Replay
from rfnb.loop.step import Carried, TracedStep, place_of
from rfnb.loop.steps.beams import without_dead
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.loop.body.hypotheses import Hypotheses
    from rfnb.loop.loop import Loop
    from rfnb.trace.run.run import Run


class Results(NamedTuple):
    """The results of all steps, as raw tensors.

    final: the carried values after the last step. stacked: the outputs, [steps, …]. position: for a nested loop, the
    position of its call on the tape of the loop around it. run: the recorded run, if there is one.
    """

    final: Sequence[Any]
    stacked: Sequence[Any]
    position: int = 0
    run: Run | None = None


def settle(loop: Loop, step: TracedStep, results: Results) -> Size:
    """Gives states and outputs their final values, and returns the number of steps of each sequence."""
    final = [_final(carry, raw) for carry, raw in zip(step.carried, results.final, strict=True)]
    size = _steps_taken(loop, step, final)
    outputs = [
        _output(step, pair, _in_final_order(step, pair, raw)[: size.max], size)
        for pair, raw in zip(step.outputs, results.stacked, strict=True)
    ]
    for place in step.last_places:
        _refuse_empty(step, step.carried[place], size)
    loop.found = None if step.hypotheses is None else _found(step, step.hypotheses, final, size, results.run)
    final = _with_final_dims(step, final, size)
    if step.outer is not None:
        final, outputs = _in_outer_body(step, step.outer, final, outputs, results.position)
    for result, (_, pending) in zip(outputs, step.outputs, strict=True):
        pending.settle(result)
    for place, (_, pending) in zip(step.last_places, step.lasts, strict=True):
        pending.settle(final[place])
    by_name = {carry.name: value for carry, value in zip(step.carried, final, strict=True) if carry.kind == "state"}
    loop.state._replace([by_name[name] for name, _ in loop.state._leaves()])
    return size


def _final(carried: Carried, raw: Any) -> Any:
    old = carried.before
    return raw if isinstance(old, Dim) else tensor_of(raw, old.sig, old.lengths)


def _output(step: TracedStep, pair: tuple[Traced, Tensor], raw: Any, size: Size) -> Tensor:
    traced, pending = pair
    lengths = traced.lengths
    if (extent := lengths.size(step.axis)) is None or not extent.agrees(size):
        lengths = lengths.bind({step.axis: size})
    return tensor_of(raw, pending.sig, lengths)


def _found(step: TracedStep, hypotheses: Hypotheses, final: Sequence[Any], size: Size, run: Run | None) -> Any:
    """The result of a search."""
    place = place_of(step.carried, "ended")
    ended, nan_finder = None if place is None else final[place]._raw, None
    if step.recorder.recorded and run is not None and isinstance(run.replay, Replay):
        nan_finder = partial(first_nan, run.replay)
    return hypotheses.searched(ended, size, step.include_eos, step.limit, nan_finder, run)


def _in_final_order(step: TracedStep, pair: tuple[Traced, Tensor], raw: Any) -> Any:
    """A stacked output; that of a search by its final hypotheses."""
    return raw if step.hypotheses is None else step.hypotheses.resolved(raw, *pair)


def _in_outer_body(
    step: TracedStep, outer: Any, final: list[Any], outputs: list[Tensor], position: int
) -> tuple[list[Any], list[Tensor]]:
    """Final values and outputs as values of the outer body, except those that the loop itself carries."""
    names = {place: carry.name for place, carry in enumerate(step.carried) if carry.kind == "state"}
    for place, (_, pending) in zip(step.last_places, step.lasts, strict=True):
        names[place] = names[place] if step.carried[place].kind == "state" else pending.name
    places = [place for place in names if isinstance(final[place], Tensor)]
    named = [(names[place], final[place]) for place in places]
    named += [(pending.name, output) for output, (_, pending) in zip(outputs, step.outputs, strict=True)]
    results = outer.inner_loop(step.recorder, named, position)
    values = dict(zip(places, results, strict=False))
    return [values.get(place, value) for place, value in enumerate(final)], results[len(places) :]


def _with_final_dims(step: TracedStep, values: list[Any], steps: Size) -> list[Any]:
    """The final values, with each grown dim replaced by a Dim of its final size."""
    grown = {
        carry.before: _grown(carry.before, carry.initial, size, steps)
        for carry, size in zip(step.carried, values, strict=True)
        if isinstance(carry.before, Dim)
    }

    def with_dims(old: Any, value: Any) -> Any:
        if isinstance(old, Dim):
            return grown[old]
        dims = [grown.get(dim, dim) for dim in old.dims]
        sizes = {dim: dim.size for old_dim, dim in grown.items() if old_dim in old.dims and dim.dimension is None}
        lengths = value.lengths.bind(sizes) if sizes else value.lengths
        return tensor_of(value._raw, align.sig(dims, old.sparse_dim, old.sig.feature_dim), lengths)

    return [
        with_dims(carry.before, value) if grown and carry.kind == "state" else value
        for carry, value in zip(step.carried, values, strict=True)
    ]


def _grown(old: Dim, start: int, size: int, steps: Size) -> Dim:
    """The grown axis after the loop. If it grew by one at each step, each sequence has as many entries as steps."""
    if steps.ragged and size - start == steps.max:
        dim = Dim(None, name=old.name)
        dim.bind(Size(steps.dims, start + steps.values))
        return dim
    return Dim(size, name=old.name)


def _steps_taken(loop: Loop, step: TracedStep, final: list[Any]) -> Size:
    """The number of steps of each sequence. Also sets the size of the axis, unless it is an axis of the data."""
    if step.ends and step.outer is not None:
        return step.limit  # nothing is stacked
    size = steps_of(step, [value._raw if isinstance(value, Tensor) else value for value in final])
    loop.axis = step.axis
    if step.gives_size:
        step.axis.define(size, by=f"loop {step.name}", by_loop=True)
    return size


def steps_of(step: TracedStep, final: Sequence[Any]) -> Size:
    """The number of steps of each sequence, or hypothesis. final: the carried values after the last step, raw."""
    if not step.ends:
        return step.limit
    place, scores = place_of(step.carried, "lengths"), place_of(step.carried, "search")
    assert place is not None
    values = step.backend.to_numpy_raw(final[place])
    dims = step.carried[place].before.dims
    return Size(dims, values if scores is None else without_dead(step.backend, values, final[scores]))


def _refuse_empty(step: TracedStep, carried: Carried, size: Size) -> None:
    in_search = step.hypotheses is not None and step.hypotheses.has(carried.before)
    if carried.starts_empty and not in_search and size.values.size and size.values.min() == 0:
        raise LoopError(
            f"{step.name}: last: a sequence without steps has no last value",
            got=f"lengths {size}",
            hint="make it a state: a sequence without steps then gives its initial value",
        )
