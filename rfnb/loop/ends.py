"""The ends of sequences: masks of those that have ended, states that they keep, and when and why each ended."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.backend.base.tape import Call, Tape, Var, current_tape, untaped
from rfnb.core.advice.similar_dims import broadcast_allowed
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Size, frame_numbers
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.defaults import has_fractions
from rfnb.core.ground.text import cut
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.loop.step import has_steps, place_of
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.math import logical_and, logical_not, where
from rfnb.ops.reduce import reduce_all, reduce_any
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.backend.base.math import Domain
    from rfnb.loop.body.body import Body
    from rfnb.loop.replay.replay import Replay
    from rfnb.loop.step import Carried, Step
    from rfnb.trace.record.record import OpCall


# -- which have ended


def ended(size: Size, how: align.Move, steps: int) -> np.ndarray:
    """Whether each sequence has ended before each step, with the axes of the lengths moved. [steps, …]"""
    lengths: np.ndarray = align.apply(how, size.values)
    masks: np.ndarray = frame_numbers(steps)[:, *[None] * lengths.ndim] >= lengths
    return masks


class EndedMask(NamedTuple):
    """Which sequences have ended before each step; or, if `active`, which of them take it. how: moves the axes of the
    lengths."""

    active: bool
    how: align.Move | None
    device: Any

    def frames(self, backend: type[Backend], source: None, limit: Size) -> Sequence[RawTensor]:
        """All masks as raw tensors."""
        return backend.unstack_raw(self.all_frames(backend, source, limit, max(limit.max, 1)), 0)

    def all_frames(self, backend: type[Backend], source: None, limit: Size, steps: int) -> RawTensor:
        """All masks as one raw tensor. [steps, …]"""
        return backend.from_numpy_raw(ended(limit, self.how, steps) ^ self.active, self.device)


class EndedFrames:
    """The masks for values of all steps, over the dim `frames`. {frames, …}"""

    def __init__(self, limit: Size, frames: Dim):
        self._limit, self._frames = limit, frames
        self._made: dict[Hashable, RawTensor] = {}

    def __call__(self, backend: type[Backend], signature: Sig, device: Any) -> RawTensor:
        """The raw mask for tensors with this signature; None if they lack the steps or the sequences."""
        limit, frames = self._limit, self._frames
        if not limit.ragged or not {frames, *limit.dims} <= signature.index.keys():
            return None
        mask = self._made.get((signature.serial, device))
        if mask is None:
            masks = ended(limit, None, frames.dimension or 0)
            aligned = align.apply(align.move((frames, *limit.dims), signature.dims, trailing=False), masks)
            mask = self._made[signature.serial, device] = backend.from_numpy_raw(aligned, device)
        return mask

    def guard(self, backend: type[Backend], x: Tensor, raw: object, domain: Domain, *, finite: bool) -> object:
        """The argument itself: after the steps, all lengths are known."""
        return raw


class EndedInBody:
    """The masks of ended sequences on the traced frame of a step, which ops ask for inside of `ended_by`.

    For sequences that end by their length, the masks are inputs of the step; what `loop.end` ends has guards.

    limit: the largest number of steps of each sequence, known when the body is closed.
    """

    def __init__(self, body: Body):
        self._tape = body.tape
        self._masks: dict[str, RawTensor] = {}  # by the text of an EndedMask, as slices have no hash
        self._body_ref = weakref.ref(body)  # the body holds this, and a cycle would keep tensors alive
        self.limit: Size | None = None
        self._longest: Size | None = None

    def __call__(self, backend: type[Backend], signature: Sig, device: Any) -> RawTensor:
        """The raw mask for tensors with this signature on the traced frame; None if no such sequence can have ended."""
        size = self.size()
        if current_tape() is not self._tape or self._tape.paused or size is None or not size.ragged:
            return None
        if not size.dims or not set(size.dims) <= signature.index.keys():
            return None
        kind = EndedMask(False, align.move(size.dims, signature.dims, trailing=False), device)
        mask = self._masks.get(repr(kind))
        return self._make(kind) if mask is None else mask

    def guard(self, backend: type[Backend], x: Tensor, raw: object, domain: Domain, *, finite: bool) -> object:
        """The argument of an op, which its guard makes harmless in sequences that `loop.end` has ended."""
        tape = self._tape
        if current_tape() is not tape or tape.paused or not x.sig.dims or not isinstance(tape.find(raw), Var):
            return raw
        below_end = self._body.condition is not None
        with tape.pause():
            alias = backend.alias_raw(raw)
        tape.record(EndedGuard(x.sig, x.dtype, domain, finite=finite, below_end=below_end), (raw,), {}, alias)
        return alias

    @property
    def _body(self) -> Body:
        body = self._body_ref()
        assert body is not None
        return body

    def size(self) -> Size | None:
        """The lengths of the sequences, as far as the body knows them yet."""
        axis = self._body.loop.axis
        if self.limit is not None:
            return self.limit
        return self._body.size or (axis.size if axis is not None and has_steps(axis) else self._given())

    def _given(self) -> Size | None:
        """The lengths in the argument `max_seq_len` of the loop."""
        limit = self._body.loop.max_seq_len
        if not isinstance(limit, Tensor) or isinstance(limit, Traced):
            return None
        if self._longest is None:
            with self._body.untraced():
                self._longest = Size(limit.dims, self._body.backend.to_numpy_raw(limit._raw))
        return self._longest

    def _make(self, kind: EndedMask) -> RawTensor:
        """A new mask on the traced frame, a further input of the step."""
        size = self.size()
        assert size is not None
        mask = self._masks[repr(kind)] = self._body.frame_of(kind, size).plain._raw
        return mask

    def complete(self) -> None:
        """Passes the masks of what `loop.end` has ended to the guards. Below `loop.end`, the step in which a sequence
        ends counts as ended too, if it is left out of the results."""
        body = self._body
        place = None if body.condition is None else place_of(body.carried, "ended")
        if place is None or body.condition is None:
            return
        before, condition = body.carried[place].before.plain, body.condition.plain
        moved = [order.dim for order in body.reorders] + ([] if body.hypotheses is None else [body.hypotheses.beam])
        conditions = [] if body.include_eos or condition.dims != before.dims else [body.var(condition)]
        guards = [(call, call.fn) for call in body.tape.calls if isinstance(call.fn, EndedGuard)]
        for call, guard in guards:
            guard.complete(call, [body.var(before), *(conditions if guard.below_end else [])], before.dims, moved)


class EndedGuard:
    """f(raw) → raw; f(raw, *masks) → raw with harmless numbers in sequences for which one of the masks is true.

    A body knows only when it ends whether there are masks: until then, and if there are none, this returns `raw`.

    signature: of the argument. finite: whether all its numbers are finite. below_end: whether `loop.end` came before.
    """

    def __init__(self, signature: Sig, dtype: str, domain: Domain, *, finite: bool, below_end: bool):
        self.signature, self._dtype, self._domain, self._finite = signature, dtype, domain, finite
        self.below_end = below_end
        self._dims: Sequence[Dim] = ()  # of the masks
        self._moved: frozenset[Dim] = frozenset()

    def complete(self, call: Call, masks: Sequence[Var], dims: Sequence[Dim], moved: Sequence[Dim]) -> None:
        """Makes the masks arguments of the recorded call, unless the argument lacks their sequences.

        dims: of the masks. moved: those of them whose entries change their places during the step.
        """
        if any(dim in self.signature.index and dim not in moved for dim in dims):
            self._dims, self._moved = tuple(dims), frozenset(moved)
            call.give(*masks)

    def __call__(self, raw: object, *masks: object) -> RawTensor:
        """The argument in a step; raw tensors in and out."""
        if not masks:
            return raw
        backend = backend_of_raw(raw)
        ended = masks[0]
        for mask in masks[1:]:
            ended = backend.combine_raw(ended, "logical_or", mask)
        axes = [dim for dim in self._dims if dim not in self.signature.index or dim in self._moved]
        stay = [dim for dim in self._dims if dim not in axes]
        if axes:
            with untaped(), listening(None):
                of_all = reduce_all(tensor_of(ended, align.sig(self._dims), EMPTY), axis=axes)
                ended = of_all.copy_transpose(stay)._raw
        ended = align.apply(align.move(stay, self.signature.dims, trailing=False), ended)
        return backend.harmless_raw(raw, ended, self._domain, self._dtype, finite=self._finite)


# -- states of ended sequences


def unfrozen_states(body: Body, limit: Size, new: Sequence[Any]) -> set[int]:
    """The positions of states that go on after the end of their sequences, where they are not recorded."""
    looked_at = body.recorder.recorded or body.watchers or body.outer is not None or body.hypotheses is not None
    if looked_at or body.condition is not None or not limit.ragged or len(limit.dims) != 1 or limit.traced:
        return set()
    free = unfrozen(body.carried, new, limit.dims[0], body.tape, body.recorder.op_calls)
    if body.modes["gradients"]:  # those around the loop; the body itself is traced without
        return free
    stacked = {id(traced.plain) for traced, _ in body.outputs}  # nothing else keeps the states of all steps
    return {place for place in free if id(new[place].plain) in stacked}


def reordered(body: Body, value: Tensor, active_before: Tensor | None) -> Tensor:
    """A value from the previous step, in the order given by `loop.reorder`; sequences that have ended keep theirs.

    active_before: which hypotheses, or else sequences, had not ended before this step. Where `loop.reorder` moves whole
    sequences that have ended, or no sequence ends, the result is only read for those that keep their order.
    """
    if active_before is None or not isinstance(value, Tensor):
        return value
    for indices, dim, _ in body.reorders:
        if dim in value.dims_set and dim in active_before.dims_set:
            value = where(reduce_any(active_before, axis=dim), gather(value, indices=indices, axis=dim), value)
    return value


def frozen(body: Body, active: Tensor | None, new: Any, before: Any, active_before: Tensor | None) -> Any:
    """The new value, but the old one for sequences that have ended: those whose hypotheses have all ended, for a state
    that all of them share."""
    if not isinstance(new, Tensor) or new is before or new.dims != before.dims:
        return new
    if active is None or (body.condition is None and not body.reorders):
        return frozen_by_length(body, new, before)
    old = reordered(body, before, active_before)
    shared = active.dims_set & new.dims_set
    if not shared and active.dims:
        return new
    hypotheses = [dim for dim in active.dims if dim not in shared]
    any_active = reduce_any(active, axis=hypotheses) if hypotheses else active
    return where(any_active, new, old).copy_transpose(old.dims)


def frozen_by_length(body: Body, new: Any, old: Any) -> object:
    """The new value, but the old one for sequences that are shorter than this step."""
    ended = body.ended_masks(body.backend, old.sig, body.backend.device_key_raw(old.plain._raw))
    if ended is None:
        return new
    raw = body.backend.where_raw(ended, old.plain._raw, new.plain._raw)
    return body.recorder._wrap(old.plain.like(raw))


class StateGrowth(IntEnum):
    """How the size of a value depends on the number of steps after the end: in [-1, 1], bounded, linear, unknown."""

    UNIT, BOUNDED, LINEAR, UNKNOWN = range(4)


UNIT, BOUNDED, LINEAR, UNKNOWN = StateGrowth
SQUASHING = {"tanh", "sigmoid", "softmax", "sin", "cos", "sign"}
NORMALIZING = {"layer_norm", "rms_norm"}
NOT_LARGER = {
    "relu", "neg", "abs", "where", "cast", "unstack", "split", "split_dims", "merge_dims", "replace_dim_v2",
    "copy_transpose", "expand_dim", "squeeze", "gather", "identity", "stop_gradient", "set_feature_dim", "reduce_mean",
    "reduce_max", "reduce_min", "maximum", "minimum",
}  # fmt: skip
"""Ops whose results are not larger than their arguments."""
BOUNDED_BY_ARGUMENTS = {
    "linear", "matmul", "add", "sub", "mul", "reduce_sum", "dropout", "concat", "gelu", "silu", "elu",
}  # fmt: skip
"""Ops that give bounded results for bounded arguments."""


def unfrozen(
    carried: Sequence[Carried], new: Sequence[Any], owner: Dim, tape: Tape, calls: Sequence[OpCall]
) -> set[int]:
    """The positions of carried states that need no freezing.

    new: their values after a step. owner: the dim of the sequences. calls: the ops of the step.
    """
    free = {
        place
        for place, (carry, value) in enumerate(zip(carried, new, strict=True))
        if carry.kind == "state" and value is not carry.before and _is_of_sequences(carry.before, value, owner)
    }
    while free:
        growth = _growth([carry.var for place, carry in enumerate(carried) if place in free], calls)
        stay = {place for place in free if growth.get(tape.find(new[place].plain._raw), UNKNOWN) != UNKNOWN}
        if stay == free:
            break
        free = stay
    return free


def _is_of_sequences(before: Traced, after: Traced, owner: Dim) -> bool:
    """Whether a state has numbers for each sequence. Integers may be indices, which must not leave their range."""
    if not isinstance(before, Tensor) or not has_fractions(before.dtype) or owner not in before.sig.index:
        return False
    return after.dims == before.dims


def _growth(free: Sequence[Var], calls: Sequence[OpCall]) -> dict[object, StateGrowth]:
    """The growth of all values that depend on these states, if these grow at most linearly and others are frozen."""
    growths: dict[object, StateGrowth] = dict.fromkeys(free, LINEAR)
    for call in calls:
        name = call.row.name
        operands = [growths.get(reference) for reference in call.reads]
        if name not in SQUASHING and not any(growth is not None for growth in operands):
            continue  # its results are bounded, since they depend on no free state
        growth = _of_call(name, operands, call.args)
        if growth is LINEAR and any(x.dtype.startswith(("int", "uint")) for x in call.results):
            return {}  # an index could leave its range
        for reference in call.makes:
            growths.setdefault(reference, growth)
    return growths


def _of_call(name: str, operands: Sequence[StateGrowth | None], args: Sequence[object]) -> StateGrowth:
    """The growth of the results of an op, of which an argument depends on a free state, or which squashes.

    operands: the growth of the tensors among its arguments; None for those that depend on no free state.
    """
    if name in SQUASHING:
        return UNIT
    if name in NORMALIZING:
        return BOUNDED
    all_of = [BOUNDED if growth is None else growth for growth in operands]
    largest = max(all_of)
    if name in NOT_LARGER:
        return max(largest, BOUNDED)
    all_of += [UNIT if abs(number) <= 1 else BOUNDED for number in args if isinstance(number, int | float)]
    if name == "mul" and UNIT in all_of:
        return max(all_of)
    if name in ("add", "sub") and largest is LINEAR and sorted(all_of)[:-1] <= [BOUNDED]:
        return LINEAR
    return BOUNDED if name in BOUNDED_BY_ARGUMENTS and largest <= BOUNDED else UNKNOWN


def at_the_end(backend: type[Backend], carried: Carried, limit: Size, states: Sequence[object]) -> RawTensor:
    """The state of each sequence after its last step, from the states after each step."""
    place = carried.before.axis(limit.dims[0])
    rows = [
        backend.select_raw(states[length - 1] if length else carried.initial, place, index)
        for index, length in enumerate(limit.values.tolist())
    ]
    order = [place, *(axis for axis in range(len(carried.before.dims)) if axis != place)]
    back = tuple(order.index(axis) for axis in range(len(order)))
    return align.permute(backend.stack_raw(rows), back)


class Mask(NamedTuple):
    """A mask of sequences in each step: its variable, its value on the traced frame, whether it is true once they have
    ended."""

    var: Var
    frame: Tensor
    of_ended: bool


class KeptOrder:
    """f(indices, *masks) → the indices along `dim`, but 0, 1, … for sequences all of whose entries have ended.

    Other states are frozen when their sequences end; one that grows is computed on, so it must keep its order instead.
    A body knows the masks only when it ends: until then, this returns the indices.
    """

    def __init__(self, indices: Tensor, dim: Dim):
        self.indices, self.dim = tensor_of(indices._raw, align.sig(indices.dims), indices.lengths), dim
        self._call: Call | None = None
        self._masks: Sequence[Mask] = ()

    def record(self, tape: Tape, result: object) -> None:
        """Records the call of this function on the traced frame, whose result is `result`."""
        tape.record(self, (self.indices._raw,), {}, result)
        self._call = tape.calls[-1]

    def complete(self, masks: Sequence[Mask]) -> None:
        """Makes the masks arguments of the recorded call."""
        call, self._call = self._call, None  # no cycle of references
        assert call is not None
        self._masks = masks
        call.give(*[mask.var for mask in masks])

    def __call__(self, raw: object, *masks: object) -> RawTensor:
        """The indices of a step; raw tensors in and out."""
        if not masks:
            return backend_of_raw(raw).alias_raw(raw)
        indices = self.indices.like(raw)
        with untaped(), listening(None), broadcast_allowed():
            active = self._active(masks)
            stay = range_over_dim(self.dim, dtype=indices.dtype, device=indices.device)
            return where(active, indices, stay).copy_transpose(indices.dims)._raw

    def _active(self, masks: Sequence[object]) -> Tensor:
        """The sequences that have not ended, over dims of the indices."""
        active: Tensor | None = None
        for raw, mask in zip(masks, self._masks, strict=True):
            part = mask.frame.like(raw)
            part = logical_not(part) if mask.of_ended else part
            active = part if active is None else logical_and(active, part)
        assert active is not None
        axes = [dim for dim in active.dims if dim is self.dim or dim not in self.indices.dims_set]
        return reduce_any(active, axis=axes) if axes else active


# -- how many steps each sequence took, and why it ended


def steps_taken(step: Step, limit: Size, final: Sequence[object], ran: int | None = None) -> Size:
    """The number of steps of each sequence, or hypothesis.

    limit: the largest number. final: the carried values after the last step, raw. ran: how many steps
    have run, if not all of them.
    """
    place, scores = place_of(step.carried, "lengths"), place_of(step.carried, "search")
    if place is None:
        if ran is None or ran == limit.max:
            return limit
        return Size(limit.dims, np.minimum(limit.values, ran), tags=limit.tags)
    values = step.backend.to_numpy_raw(final[place])
    if scores is not None:  # places of the beam that have no hypothesis
        values = np.where(np.isneginf(step.backend.to_numpy_raw(final[scores])), 0, values)
    return Size(step.carried[place].before.dims, values)


def steps_begun(replay: Replay) -> Size:
    """Number of steps that each sequence started: the largest among its hypotheses, as these change places.

    This includes the step at which `end` was true, even if it does not count (`include_eos=False`), and a step that
    failed.
    """
    size, step = replay.size, replay.step
    values = size.values
    if step.ends and not step.include_eos and values.shape == _ended(replay).shape:
        values = np.minimum(values + (_ended(replay) & (values < _limits(replay))), replay.steps)
    if replay.failed is not None and replay.failed.step == replay.steps:
        values = values + ((values == replay.steps) & (values < _limits(replay)))
    owner, _ = replay.sequences
    axes = tuple(i for i, dim in enumerate(size.dims) if dim is not owner)
    return Size([dim for dim in size.dims if dim is owner], values.max(axis=axes, initial=0))


def reasons_of_ends(replay: Replay) -> list[str]:
    """Why each sequence ended, in words; a single reason if all end together."""
    counts = _of_sequences(replay, replay.size.values, np.max)
    return [_reason(replay, i, int(n)) for i, n in enumerate(counts.reshape(-1))]


def _of_sequences(replay: Replay, values: np.ndarray, over: Callable[..., object]) -> np.ndarray:
    """Values that hypotheses have, such as how many steps each took, as values of their sequences."""
    owner, _ = replay.sequences
    axes = tuple(i for i, dim in enumerate(replay.size.dims) if dim is not owner)
    return np.asarray(over(values, axis=axes))


def _reason(replay: Replay, i: int, taken: int) -> str:
    step, frames, limit = replay.step, replay.bindings.frames_size, int(_of(replay, _limits(replay), i))
    if step.ends and _ended_by_end(replay, i, taken, limit):
        return f"ended at {taken - step.include_eos}: end was true"
    if taken < limit:
        return f"failed at {taken}" if replay.failed is not None else f"stopped after {taken} steps"
    by_frames = frames is not None and int(_of(replay, _over(replay, frames), i)) <= limit
    return f"length {taken} reached" if by_frames else f"max steps ({taken})"


def _ended_by_end(replay: Replay, i: int, taken: int, limit: int) -> bool:
    """Whether `end` was true for sequence `i` at its last step. After its frames it may be true by chance."""
    if taken < limit:
        return bool(_of(replay, _ended(replay), i, np.all))
    if not (replay.step.include_eos and taken and replay.keeps(taken)):
        return False
    return bool(_of(replay, _ended(replay, replay.states_before(taken)), i, np.all))


def _of(replay: Replay, values: np.ndarray, i: int, over: Callable[..., object] = np.max) -> Any:
    return _of_sequences(replay, values, over).reshape(-1)[i]


def _ended(replay: Replay, carried: Sequence[object] | None = None) -> np.ndarray:
    """Which sequences, or hypotheses, had ended, according to these carried values; by default the final ones."""
    place = place_of(replay.step.carried, "ended")
    assert place is not None
    mask: np.ndarray = replay.backend.to_numpy_raw((replay.final if carried is None else carried)[place])
    return mask


def _limits(replay: Replay) -> np.ndarray:
    """The largest number of steps that each sequence could take."""
    return _over(replay, replay.bindings.limit)


def _over(replay: Replay, size: Size) -> np.ndarray:
    """A size broadcast to the dims of `replay.size`."""
    mask: np.ndarray = np.broadcast_to(size.over(replay.size.dims), replay.size.values.shape)
    return mask


def not_ended(ended: np.ndarray, condition: Tensor) -> str | None:
    """Says which sequences never ended: "never ended" for all, "never ended: sequences 1, 3 of 5" for some, or None."""
    if ended.all():
        return None
    if not ended.any() or ended.ndim != 1:
        return "never ended" if not ended.any() else f"never ended: {int((~ended).sum())} of {ended.size}"
    numbers, tags = np.flatnonzero(~ended), getattr(condition.lengths.size(condition.dims[0]), "tags", None)
    named = [f"{n} {cut(tags[n], 24)!r}" if tags is not None else str(n) for n in numbers[:4]]
    sequences = f"sequence{'s' * (len(numbers) > 1)} {', '.join(named)}{', …' * (len(numbers) > 4)}"
    return f"never ended: {sequences} of {ended.size}"
