"""Closes a body: finds new and frozen states and ended sequences, and builds the traced step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from rfnb.backend.base.tape import Call, Reference, Var
from rfnb.core.advice.torch_equivalents import called
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size, rebound
from rfnb.core.ground.defaults import has_fractions
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, DtypeError, LoopError, ParameterError, TraceError
from rfnb.loop.body.body import Body, abort, judged, new_axis
from rfnb.loop.body.print_value import leave_out_ended
from rfnb.loop.ends import EndedMask, KeptOrder, Mask, frozen, reordered, unfrozen_states
from rfnb.loop.program import Analysis, Program, Schedule, analysis_of
from rfnb.loop.step import Carried, Kind, TracedStep, Unstacked, has_steps, place_of
from rfnb.loop.steps.growing_axes import SizeOf, grows, replace_grown
from rfnb.ops.math import cast, logical_and, logical_not, logical_or
from rfnb.trace.record.record import unwrap
from rfnb.trace.record.traced import Traced


def close(body: Body) -> TracedStep:
    """Ends the tracing of a step. Raises LoopError, DimError or DtypeError for invalid states and outputs."""
    try:
        body.end_of_lines()
        body.loop.state._check_nested(body.originals)
        _take_names(body)
        body.recorder.graph.body_values = len(body.recorder.graph.values)
        reads, generators, renewed = _reads(body), _generators(body), tuple(_renewed(body))
        limit = body.ended_masks.limit = _limit(body)
        body.ended_masks.complete()
        ends = _close_step(body, limit)
        grown = [(carry.before, carry.var) for carry in body.carried if isinstance(carry.before, Dim)]
        new_vars, kept_vars = _state_vars(body, ends.new, grown), _state_vars(body, ends.kept, grown)
        _check_sequences(body, limit)
        output_vars = [body.var(traced.plain) for traced, _ in body.outputs]
        if body.hypotheses is not None:
            body.hypotheses.keep()
        ended_var = None if ends.ended is None else body.var(ends.ended.plain)
        _refuse_grown_outputs(body, grown)
    except BaseException:
        abort(body)
        raise
    body.leave()
    if grown:
        replace_grown(body.recorder, grown)
    schedule = Schedule(
        states=tuple(carry.var for carry in body.carried),
        frames=tuple(frame.var for frame in body.frames),
        new=new_vars,
        kept=kept_vars,
        outputs=tuple(output_vars),
        ended=ended_var,
    )
    needs_gradient = body.backend.needs_gradient_raw if body.outer is None else lambda raw: True
    axis = body.loop.axis or new_axis(body)
    inputs = [*schedule.states, *schedule.frames]
    return TracedStep(
        name=body.loop.name,
        source=body.source,
        backend=body.backend,
        outer=body.outer,
        recorder=body.recorder,
        program=Program(body.tape, inputs, needs_gradient, _analysis(body, schedule, limit)),
        schedule=schedule,
        carried=tuple(body.carried),
        size=body.size,
        frames_size=body.size or (axis.size if has_steps(axis) else None),
        limit=limit,
        axis=axis,
        gives_size=not (_follows_axis(body) or has_steps(axis)),
        ends=body.condition is not None,
        include_eos=body.include_eos,
        search=None if body.hypotheses is None else body.hypotheses.plan,
        reordered=bool(body.reorders),
        last_places=ends.last_places,
        unfrozen=ends.unfrozen,
        own_ops=body.own_ops,
        states=tuple(body.loop.state),
        unstacked=tuple(body.unstacked),
        outputs=tuple(body.outputs),
        lasts=tuple(body.lasts),
        hypotheses=body.hypotheses,
        condition=body.condition,
        originals=body.originals,
        assigned=body.assigned,
        frames=tuple(body.frames),
        seed=body.seed,
        warns=body.loop.warns,
        watchers=tuple(body.watchers),
        pauses=tuple(body.pauses),
        set_states=frozenset(body.loop.state._assigned),
        reads=reads,
        generators=generators,
        renewed=renewed,
    )


def _analysis(body: Body, schedule: Schedule, limit: Size) -> Analysis | None:
    """What is known of steps like this one, unless the loop is nested."""
    if body.outer is not None:
        return None
    return analysis_of(
        body.tape, body.recorder.op_calls, schedule, body.backend.needs_gradient_raw,
        stackable=[frame.is_stackable for frame in body.frames], unstacks=body.size is not None, runs=limit.max > 0,
    )  # fmt: skip


class _Ends(NamedTuple):
    """Results of a step.

    new: the carried values. kept: the same, but unchanged for ended sequences. ended: which sequences have ended.
    last_places: positions of the values carried for `loop.last`. unfrozen: those of states that are not kept unchanged.
    """

    new: list[Any]
    kept: list[Any]
    ended: Tensor | None
    last_places: tuple[int, ...]
    unfrozen: tuple[int, ...]


def _reads(body: Body) -> frozenset[int] | None:
    """The numbers of all values that the body reads; None if this body was judged before."""
    if tuple(body.loop.state) in judged(body.source):
        return None
    graph, tape = body.recorder.graph, body.tape
    numbers = {number for node in graph.all_nodes() for number in node.inputs}
    called = {ref for call in tape.calls for ref in call.reads}
    numbers |= {x.value.number for x in body.recorder.traced() if tape.find(x.plain._raw) in called}
    numbers |= {x.value.number for x, _ in [*body.outputs, *body.lasts]}
    if body.condition is not None:
        numbers.add(body.condition.value.number)
    return frozenset(numbers | {x.value.number for _, x in body.loop.state._leaves() if isinstance(x, Traced)})


def _renewed(body: Body) -> Iterator[tuple[str, Reference, Var]]:
    """Variables from before the loop to which the lines have given another value of the same kind."""
    for name, new in body.variables().items():
        old = body.outside.get(name)
        if type(old) is Tensor and isinstance(new, Traced) and new.dtype == old.dtype and new.dims_set == old.dims_set:
            read, var = body.tape.find(old._raw), body.tape.find(new.plain._raw)
            if read is not None and type(var) is Var:
                yield name, read, var


def _generators(body: Body) -> tuple[str, ...]:
    """Names of the global random generators that the body has used."""
    if not body.generators.look:
        return ()
    with body.untraced():
        return tuple(body.generators.used())


def _limit(body: Body) -> Size:
    """The largest number of steps of each sequence."""
    loop, size, axis = body.loop, body.size, body.loop.axis
    if size is None and axis is not None and has_steps(axis):
        size = axis.size
    longest = None if loop.max_seq_len is None else _size_of(body, loop.max_seq_len)
    if size is None and longest is None:
        raise LoopError(
            f"{loop.name}: the number of steps is not given",
            expected="an axis with lengths, or max_seq_len",
            hint="rf.Loop(axis=time) with loop.unstack(x); or rf.Loop(max_seq_len=…) with loop.end(…)",
        )
    limit = _shorter(size, longest) if size and longest else size or longest
    assert limit is not None
    if axis is not None and axis.dimension is not None and (body.condition or limit.max != axis.dimension):
        raise LoopError(
            f"{loop.name}: {axis.name} always has {axis.dimension} frames, but the loop may take fewer steps",
            hint='use Dim(None, name="…") as the axis',
        )
    if body.outer is not None and body.condition is not None and body.outputs:
        raise LoopError(
            f"{loop.name}: stack in a nested loop with `end`: its length differs at each step of the loop around it",
            hint="carry what you need as a state",
        )
    return limit


def _check_sequences(body: Body, limit: Size) -> None:
    """Refuses to stack tensors of a batch that differs from that of the lengths."""
    for traced, _ in body.outputs:
        for position, dim in enumerate(limit.dims):
            size = traced.lengths.size(dim) if dim in traced.dims else None
            if size is not None and size.max != limit.values.shape[position]:
                raise rebound(dim, size, Size([], limit.values.shape[position]))


def _size_of(body: Body, length: Tensor | int) -> Size:
    if not isinstance(length, Tensor):
        return Size([], length)
    if isinstance(length, Traced):
        raise TraceError(
            f"{body.loop.name}: max_seq_len is a value of the loop around this one, which differs at every step",
            got=length.name,
            hint="give the largest number, and end each sequence with loop.end",
        )
    with body.tape.pause():
        size = Size(length.dims, body.backend.to_numpy_raw(unwrap(length)._raw))
    if size.min < 0:
        raise ParameterError(f"{body.loop.name}: max_seq_len is negative", got=size, expected="0 or more")
    return size


def _close_step(body: Body, limit: Size) -> _Ends:
    mask = _active(body, limit) if body.watchers or _kept_orders(body) or body.condition is not None else None
    if body.watchers or _kept_orders(body):
        _give_masks(body, mask)
    active: Tensor | None = mask
    last_places, lasts = _carry_lasts(body)
    ended_now: Tensor | None = None
    if body.hypotheses is not None and body.hypotheses.at_close is not None:
        body.hypotheses.at_close(body.hypotheses, body.condition is not None, limit.min == 0)
    loop_own: dict[int, Tensor] = {**lasts}  # values that the loop itself carries, by position
    hypotheses, active_before = body.hypotheses, active
    if body.condition is not None:
        ended_place, lengths_place = _place(body, "ended"), _place(body, "lengths")
        before = [body.carried[place].before for place in (ended_place, lengths_place)]
        if body.reorders:
            active_before = logical_not(before[0])
            active_before = active_before if active is None else logical_and(active_before, active)
        if hypotheses is None:
            condition, (ended, lengths) = body.condition, (reordered(body, x, active_before) for x in before)
            ended_now = logical_or(ended, condition).copy_transpose(condition.dims)
            not_ended = logical_not(ended if body.include_eos else ended_now)
            active = not_ended if active is None else logical_and(not_ended, active)
            lengths = (lengths + cast(active, "int64")).copy_transpose(condition.dims)
        else:  # which may change what the search carries
            ended_now, lengths, active = hypotheses.end(body.condition, before, mask, body.include_eos)
        loop_own |= {ended_place: ended_now, lengths_place: lengths}
    if hypotheses is not None:
        carries = {place: x for place, x in hypotheses.carried.items() if place not in loop_own}
        loop_own |= {place: hypotheses.at_the_end(x) for place, x in carries.items()}
    states = dict(body.loop.state._leaves())
    if hypotheses is not None:
        states = {name: hypotheses.at_the_end(value) for name, value in states.items()}
    values = [states[c.name] if c.kind == "state" else loop_own[place] for place, c in enumerate(body.carried)]
    new = [_like_before(body, c.name, c.before, value) for c, value in zip(body.carried, values, strict=True)]
    free = unfrozen_states(body, limit, new)
    carried = [
        value if place in free else _kept(body, c, value, active, active_before)
        for place, (c, value) in enumerate(zip(body.carried, new, strict=True))
    ]
    return _Ends(carried if body.condition is not None else new, carried, ended_now, last_places, tuple(sorted(free)))


def _kept(body: Body, carry: Carried, value: Any, active: Tensor | None, active_before: Tensor | None) -> object:
    """A carried value, unchanged for sequences that have ended. The states of hypotheses go on."""
    if carry.kind in ("ended", "lengths"):
        return value
    if body.hypotheses is None or not body.hypotheses.has(value):
        return frozen(body, active, value, carry.before, active_before)
    return value if carry.kind != "last" else body.hypotheses.frozen(value, carry.before, active)


def _place(body: Body, kind: Kind) -> int:
    place = place_of(body.carried, kind)
    assert place is not None
    return place


def _masks(body: Body, active: Traced | None) -> list[Mask]:
    """Masks of the sequences that have a frame at this step, and of those that had ended before it."""
    masks = [] if active is None else [Mask(body.var(active.plain), active.plain, of_ended=False)]
    ended = place_of(body.carried, "ended")
    if ended is not None:
        before = body.carried[ended].before.plain
        masks.append(Mask(body.var(before), before, of_ended=True))
    return masks


def _kept_orders(body: Body) -> list[KeptOrder]:
    return [order.kept for order in body.reorders if order.kept is not None]


def _follows_axis(body: Body) -> bool:
    """Whether a tensor is unstacked along the axis of the loop."""
    return any(isinstance(frame.kind, Unstacked) and frame.kind.axis is body.loop.axis for frame in body.frames)


def _give_masks(body: Body, active: Traced | None) -> None:
    """Passes the masks to what the body has recorded without them: values that `rf.watch` shows, and kept orders."""
    masks = _masks(body, active)
    facts = [(mask.var, mask.frame.dims, mask.of_ended) for mask in masks]
    choices = [] if body.hypotheses is None else body.hypotheses.choices
    parents = [(choice.after, body.var(choice.parents.plain)) for choice in choices]
    leave_out_ended(body.watchers, body.tape, facts, [order.dim for order in body.reorders], parents, body.hypotheses)
    for order in _kept_orders(body):
        order.complete(masks)


def _take_names(body: Body) -> None:
    """Takes final names for the values of the body; results that no line names get the name of their value."""
    unnamed = [(traced, out) for traced, out in (*body.outputs, *body.lasts) if out.name == traced.name]
    body.recorder.take_names()
    for traced, out in unnamed:
        out._name = traced.name


def _carry_lasts(body: Body) -> tuple[tuple[int, ...], dict[int, Traced]]:
    """Position of the carried value for each `last`, and new carried values for those that are not states."""
    leaves, places, new = body.assigned, list[int](), dict[int, Traced]()
    for output, _ in body.lasts:
        traced = output if body.hypotheses is None else body.hypotheses.at_the_end(output)
        values = [leaves[c.name] if c.kind == "state" else new.get(n) for n, c in enumerate(body.carried)]
        same = (n for n, value in enumerate(values) if value is traced)
        place = next((n for n in same if body.carried[n].before.dtype == traced.dtype), None)
        if place is None:
            carry = next((c for c in body.carried if c.before is traced), None)
            place = body.carry("last", traced.plain, traced.dtype, None if carry is None else carry.initial)
            new[place] = traced
        places.append(place)
    return tuple(places), new


def _active(body: Body, limit: Size) -> Traced | None:
    """A mask of the sequences that take this step; None if all have the same length."""
    if not limit.ragged:
        return None
    return body.frame_of(EndedMask(True, None, _device(body)), limit, limit.dims)


def _device(body: Body) -> str | None:
    """The device of the states, if there are any."""
    return next((carry.before.device for carry in body.carried if isinstance(carry.before, Tensor)), None)


def _like_before(body: Body, name: str, old: Any, new: object) -> Any:
    """Checks a new state: it needs the dims of its initial value, in any order, and a dtype that fits."""
    kind = Dim if isinstance(old, Dim) else Tensor
    if not isinstance(new, kind):
        raise LoopError(
            f"{body.loop.name}: the new value of the state {name!r} is not a {kind.__name__}",
            got=type(new).__name__,
            hint="rf.convert_to_tensor(value)" if kind is Tensor else None,
        )
    if not isinstance(new, Tensor):
        return new
    traced = body.of_body(new, f"the state {name!r}")
    grown = _new_dims(body) if body.recorder.grown else {}
    expected = [grown.get(dim, dim) for dim in old.dims]
    if set(traced.dims) != set(expected):
        raise DimError(
            f"{body.loop.name}: the state {name!r} changes its dims",
            got=traced.describe_dims(),
            expected=old.describe_dims(),
            hint=_dims_hint(body, name, old, traced, expected),
            dims=set(traced.dims) ^ set(expected),
            at=None if traced.value.node is None else traced.value.node.source,
        )
    if traced is old:
        return old
    in_order = traced if list(traced.dims) == expected else traced.copy_transpose(expected)
    dtype, before = traced.dtype, old.dtype
    if dtype == before:
        return in_order
    if has_fractions(dtype) and before.startswith(("int", "uint", "bool")):
        raise DtypeError(
            f"{body.loop.name}: the state {name!r} is {before}, which would drop the fractional part of its new value",
            got=dtype,
            expected=before,
            hint=f'start with a float: dtype="{dtype}"; or rf.cast(value, "{before}") if that is intended',
        )
    return cast(in_order, before)


def _dims_hint(body: Body, name: str, old: Any, new: Traced, expected: list[Dim]) -> str:
    if body.loop.axis in new.dims:
        return f"{body.loop.axis.name} is the axis of the loop: take its frame, loop.unstack(…)"
    missing = [dim for dim in new.dims if dim not in expected]
    for dim in old.dims:
        if any(longer.expr is not None and dim in longer.expr.dims for longer in missing):
            return f"a growing axis is a state too: loop.state.{dim.name} = {dim.name} first, the new dim in the body"
    if missing:
        names = ", ".join(map(called, [*old.dims, *missing]))
        return f"its initial value needs all dims: loop.state.{name} = rf.zeros([{names}])"
    return f"the new value needs all dims of the initial value of {name!r}"


def _new_dims(body: Body) -> dict[Dim, Dim]:
    values = dict(body.loop.state._leaves())
    return {carry.before: values[carry.name] for carry in body.carried if isinstance(carry.before, Dim)}


def _state_vars(body: Body, values: list[Any], grown: list[tuple[Dim, Var]]) -> tuple[Var, ...]:
    return tuple(_size_var(body, value, grown) if isinstance(value, Dim) else body.var(value.plain) for value in values)


def _size_var(body: Body, dim: Dim, grown: list[tuple[Dim, Var]]) -> Var:
    var_of_dim = next((var for root, var in grown if root is dim), None)
    if var_of_dim is not None:
        return var_of_dim
    size = SizeOf(dim, [root for root, _ in grown])
    var = body.tape.number_input(0)
    body.tape.calls.append(Call(size, tuple(v for _, v in grown), {}, var.number))
    return var


def _refuse_grown_outputs(body: Body, grown: list[tuple[Dim, Var]]) -> None:
    roots = {dim.serial for dim, _ in grown}
    for traced, _ in body.outputs:
        if roots and grows(traced, roots):
            raise LoopError(
                f"{body.loop.name}: stack of `{traced.name}`, whose size differs from step to step",
                got=traced.describe_dims(),
                hint="carry it as a state and take it after the loop, or reduce over the axis that grows",
            )


def _shorter(a: Size, b: Size) -> Size:
    if not b.dims:
        return Size(a.dims, np.minimum(a.values, b.values))
    if not a.dims or a.dims == b.dims:
        return Size(b.dims, np.minimum(a.values, b.values))
    raise LoopError("the lengths of the axis and max_seq_len have different dims", got=f"{a} and {b}")
