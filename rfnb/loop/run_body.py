"""Runs what a body became, and settles its results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rfnb.backend.base.tape import Call, Var, opaque
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.op import OpRow
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import LoopError
from rfnb.loop.body import LAST, LENGTHS, Body, has_steps
from rfnb.loop.deferred_grads import Deferred
from rfnb.loop.draw import tell
from rfnb.loop.end_of_step import Closed
from rfnb.loop.execute import Outcome, execute
from rfnb.loop.explain import Done, Told, tell_step
from rfnb.loop.growing_axes import below
from rfnb.loop.hoist import Hoist
from rfnb.loop.nested_runs import asked, asking
from rfnb.loop.program import Program
from rfnb.loop.recorded_plan import plan_of
from rfnb.loop.replay import Replay, followed, recorded
from rfnb.loop.warnings import Doubt, of_end, warn
from rfnb.loop.zero_steps import reaching
from rfnb.trace.record.traced import Traced
from rfnb.trace.run import session
from rfnb.trace.run.failure import Failure, failure


def finish(body: Body, closed: Closed, doubts: Sequence[Doubt] = ()) -> None:
    """Runs all steps, and gives the results their numbers. Raises what a step raised, with its step and line.

    doubts: of the body, to be told before it runs.
    """
    try:
        for doubt in doubts:
            warn(body, doubt)
        _run(body, closed)
        tell(body)
    except BaseException:
        body.abort()
        raise
    body.recorder.forget()


def _run(body: Body, closed: Closed) -> None:
    with listening(None):
        frames = [make() for _, make, _ in body.frames]
    if body.outer is None:
        states, stacked = _run_outside(body, closed, frames)
    else:
        states, stacked = _run_inside(body, closed, frames)
    _settle(body, states, stacked, closed.limit)


def _run_outside(body: Body, closed: Closed, frames: list[Sequence[Any]]) -> tuple[list[Any], list[Any]]:
    record, program, schedule = session.wants(body.loop.debug), closed.program, closed.schedule
    hoist = None if body.loop.optimize_move_layers_out is False else Hoist(body, closed)
    stacked_frames: dict[Var, Any] = {}
    if hoist is not None:
        constants, stacked_frames = hoist.before(record=record)
        program.give(constants, list(stacked_frames))
        schedule = replace(schedule, outputs=tuple(hoist.step_outputs))
    program.join(body.backend, body.tape.values, [*schedule.new, *schedule.kept, *schedule.outputs])
    deferred = Deferred(program, schedule, body.backend, stacked_frames, body.tape.values)
    if hoist is not None:
        deferred.defer()
    frames += deferred.frames()
    done = [*_loops_inside(closed.program.calls), *(_in_steps(body) if hoist is None else hoist.told())]
    body.loop._told = Told(done, body.recorder.graph, body.state_vars, body.names, body.source)
    progress = session.progress(body.loop.name, schedule.max_steps)
    outcome = execute(
        deferred.program, deferred.schedule, body.backend, body.initial, frames, int(body.seed or 0),
        record=record, progress=progress,
    )  # fmt: skip
    deferred.give(outcome)
    for watcher in body.watchers:
        watcher.finish(failed=outcome.error is not None)
    if progress is not None:
        progress(schedule.max_steps)  # however many were done: there is nothing to wait for
    stacked: list[Any] = []
    try:
        if outcome.error is not None:
            raise _told(body, closed, outcome)
        stacked = _outputs(body, outcome, hoist)
        if not outcome.steps:
            outcome.states, stacked = tuple(reaching(body, outcome.states)), reaching(body, stacked)
    except BaseException as error:
        outcome.failure = outcome.failure or _failure(error, hoist, closed.program, outcome)
        body.failed = body.failed or (hoist.failed[1] if hoist is not None and hoist.failed is not None else None)
        raise
    finally:
        if record:
            given = frames[: len(program.inputs) - len(schedule.states)]
            body.loop.run = session.keep(recorded(body, closed, outcome, given))
    for doubt in of_end(body, outcome, closed.limit):
        warn(body, doubt)
    if record:
        return followed(body.loop.run, outcome.states, stacked)
    return list(outcome.states), stacked


def _outputs(body: Body, outcome: Outcome, hoist: Hoist | None) -> list[Any]:
    if hoist is not None and outcome.steps:
        return hoist.behind([body.backend.stack_raw(taken) for taken in outcome.outputs], outcome.steps)
    taken = outcome.outputs if outcome.steps else [[] for _ in body.outputs]
    return [_stacked(body, out, traced) for out, (traced, _) in zip(taken, body.outputs, strict=True)]


def _in_steps(body: Body) -> list[Done]:
    none, why = frozenset[Any](), "optimize_move_layers_out=False"
    return [Done(c.node, c.row, none, none, "steps", why) for c in body.recorder.op_calls[: body.own_ops]]


def _loops_inside(calls: Sequence[Call]) -> list[Done]:
    row = OpRow("Loop", finish)
    found = [call for call in calls if call.node is not None and call.node.kind == "loop"]
    return [
        Done(
            call.node, row, frozenset(map(Var, call.read_vars())),
            frozenset(Var(number) for number in call.made()), "steps", "a loop of its own",
        )
        for call in found
    ]  # fmt: skip


def _run_inside(body: Body, closed: Closed, frames: list[Sequence[Any]]) -> tuple[list[Any], list[Any]]:
    """Within the body of another loop: one call on its tape."""
    structure = [body.initial, frames, closed.program.externals, [body.seed]]
    plan = plan_of(body, closed) if body.recorder.recorded else None

    def run(*flat: Any) -> list[Any]:
        rest = iter(flat)
        initial, all_frames, externals, [seed] = map_leaves(lambda leaf: next(rest), structure)
        inner = asked()
        runs = None if inner is None or plan is None else inner.runs
        with listening(None), asking(None):
            outcome = execute(
                closed.program,
                closed.schedule,
                body.backend,
                initial,
                all_frames,
                int(seed),
                record=runs is not None,
                externals=externals,
            )
        for watcher in body.watchers:
            watcher.finish(failed=outcome.error is not None)
        error = None if outcome.error is None else _told(body, closed, outcome)
        if runs is not None and plan is not None:
            runs.append(Replay(plan, outcome, all_frames, externals, int(seed)).run())
        if error is not None:
            raise error
        taken = [_stacked(body, out, traced) for out, (traced, _) in zip(outcome.outputs, body.outputs, strict=True)]
        return [*outcome.states, *taken]

    results = opaque(run, *leaves(structure))
    assert body.outer is not None
    body.position = len(body.outer.tape.calls) - 1
    return results[: len(body.names)], results[len(body.names) :]


def _stacked(body: Body, taken: list[Any], traced: Traced) -> Any:
    if taken:
        return body.backend.stack_raw(taken)
    shape = body.backend.get_shape_tuple_raw(traced.plain._raw)
    return body.backend.full_raw([0, *shape], 0, traced.dtype, traced.device)


def _told(body: Body, closed: Closed, outcome: Outcome) -> BaseException:
    """The error of a step, with its step and line."""
    error, position = outcome.error, outcome.failed_call
    assert error is not None
    node = None if position is None else closed.program.calls[position].node
    tell_step(error, outcome.steps, body.loop.name, node)
    outcome.failure, body.failed = failure(error, outcome.steps, node, position), node
    outcome.error = None  # whose traceback holds the outcome
    return error


def _failure(error: BaseException, hoist: Hoist | None, program: Program, outcome: Outcome) -> Failure:
    """Behind the steps."""
    if hoist is None or hoist.failed is None:
        return failure(error, max(outcome.steps - 1, 0), None, None)
    step, node = hoist.failed
    own = set(map(id, below(node)))
    position = next((i for i, call in enumerate(program.calls) if id(call.node) in own), None)
    return failure(error, step, node, position)


def _settle(body: Body, states: list[Any], stacked: list[Any], limit: Size) -> None:
    final = {name: _final(old, raw) for name, old, raw in zip(body.names, body.before, states, strict=True)}
    size = body.taken = _steps_taken(body, final, limit)
    outputs = {}
    for number, (raw, (traced, pending)) in enumerate(zip(stacked, body.outputs, strict=True)):
        lengths = traced.lengths
        if (known := lengths.size(body.axis)) is None or not known.agrees(size):
            lengths = lengths.bind({body.axis: size})
        outputs[f"#{number}"] = tensor_of(raw[: size.max], pending.sig, lengths)
    for key in body.last_keys:
        _refuse_empty(body, key, size)
    names = [name for name, _ in body.loop.state._leaves()]
    final |= dict(zip(names, _with_final_dims(body, [final[name] for name in names], size), strict=True))
    if body.outer is not None:
        tensors = {name: value for name, value in (final | outputs).items() if isinstance(value, Tensor)}
        inside = body.outer.inner_loop(body.recorder, tensors, body.position)
        final |= {name: value for name, value in inside.items() if name in final}
        outputs = {name: inside[name] for name in outputs}
        keys = zip((*outputs, *body.last_keys), (*body.outputs, *body.lasts), strict=True)
        for key, (_, pending) in keys:
            inside[key].value.name = pending.name if key.startswith("#") else key
    for result, (_, pending) in zip(outputs.values(), body.outputs, strict=True):
        pending.settle(result)
    for key, (_, pending) in zip(body.last_keys, body.lasts, strict=True):
        pending.settle(final[key])
    body.loop.state._replace([final[name] for name in names])


def _final(old: Any, raw: Any) -> Any:
    return raw if isinstance(old, Dim) else tensor_of(raw, old.sig, old.lengths)


def _with_final_dims(body: Body, values: list[Any], steps: Size) -> list[Any]:
    """Dims that grew get a Dim of the size that they have in the end."""
    olds = [old for name, old in zip(body.names, body.before, strict=True) if not name.startswith("#")]
    starts = [first for name, first in zip(body.names, body.initial, strict=True) if not name.startswith("#")]
    grown = {
        old: _grown(old, start, size, steps)
        for old, start, size in zip(olds, starts, values, strict=True)
        if isinstance(old, Dim)
    }

    def settle(old: Any, value: Any) -> Any:
        if isinstance(old, Dim):
            return grown[old]
        dims = [grown.get(dim, dim) for dim in old.dims]
        sizes = {dim: dim.size for old_dim, dim in grown.items() if old_dim in old.dims and dim.dimension is None}
        lengths = value.lengths.bind(sizes) if sizes else value.lengths
        return tensor_of(value._raw, align.sig(dims, old.sparse_dim, old.sig.feature_dim), lengths)

    return [settle(old, value) if grown else value for old, value in zip(olds, values, strict=True)]


def _grown(old: Dim, start: int, size: int, steps: Size) -> Dim:
    """The axis as it is in the end: of each sequence as long as it took steps, if it grew by one at each."""
    if steps.ragged and size - start == steps.max:
        dim = Dim(None, name=old.name)
        dim.bind(Size(steps.dims, start + steps.values))
        return dim
    return Dim(size, name=old.name)


def _steps_taken(body: Body, final: dict[str, Any], limit: Size) -> Size:
    """How many steps each sequence took; the axis has that size from now on, if it is no axis of the data."""
    if body.condition is None:
        size = limit
    elif body.outer is not None:
        return limit  # nothing is stacked
    else:
        taken = final[LENGTHS]
        size = Size(taken.dims, body.backend.to_numpy_raw(taken._raw))
    axis = body.axis
    if not (body.follows_axis or has_steps(axis)):
        axis.define(size, by=f"loop {body.loop.name}")
    return size


def _refuse_empty(body: Body, key: str, size: Size) -> None:
    if key.startswith(LAST) and size.values.size and size.values.min() == 0:
        raise LoopError(
            f"{body.loop.name}: last of a value that a sequence without steps does not have",
            got=f"lengths {size}",
            hint="make it a state: its initial value is its last value there",
        )
