"""Freezing: the states of sequences that have ended stay as they are.

The masks of these sequences are inputs of the step, each in the shape in which a value needs it. They are prepared for
all steps together, from the lengths, which are known on the CPU.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import Call, Var, current_tape
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.loop.body.traced_step import place_of
from rfnb.loop.steps.bounded_states import unfrozen
from rfnb.loop.steps.ended_frames import ended
from rfnb.loop.steps.ended_guard import EndedGuard
from rfnb.loop.steps.frames import EndedMask, FrameInput, has_steps
from rfnb.ops.index import gather
from rfnb.ops.math import where
from rfnb.ops.reduce import reduce_any
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.backend.base.math import Domain
    from rfnb.loop.body.body import Body


class EndedMasks:
    """The masks of a body for sequences that end by their length, and the guards for those that `loop.end` ends.

    limit: the largest number of steps of each sequence, known when the body is closed.
    """

    def __init__(self, body: Body):
        self._body_ref = weakref.ref(body)  # the body holds this, and a cycle would keep tensors alive
        self.limit: Size | None = None
        self._longest: Size | None = None
        self._made: dict[Any, Tensor] = {}
        self._guards: list[tuple[EndedGuard, Call, bool]] = []  # and whether `loop.end` came before it

    @property
    def _body(self) -> Body:
        body = self._body_ref()
        assert body is not None
        return body

    def __call__(self, backend: type[Backend], signature: Sig, device: Any) -> Any:
        """The raw mask for tensors with this signature on the traced frame; None if no such sequence can have ended."""
        tape = current_tape()
        size = self._size()
        if tape is not self._body.tape or tape.paused or size is None or not size.ragged:
            return None
        if not size.dims or not set(size.dims) <= signature.index.keys():
            return None
        key = (*[size.dims.index(dim) if dim in size.dims else None for dim in signature.dims], device)
        mask = self._made.get(key)
        if mask is None:
            how = align.move(size.dims, signature.dims, trailing=False)
            mask = self._made[key] = self._input(backend, size, how, device)
        return mask._raw

    def guard(self, backend: type[Backend], x: Tensor, raw: Any, domain: Domain, *, finite: bool) -> Any:
        """The argument of an op, which `complete` makes harmless in sequences that `loop.end` has ended."""
        body, tape = self._body, current_tape()
        if tape is not body.tape or tape.paused or not x.sig.dims or not isinstance(tape.find(raw), Var):
            return raw
        guard = EndedGuard(x.sig, x.dtype, domain, finite=finite)
        with tape.pause():
            alias = backend.alias_raw(raw)
        self._guards.append((guard, guard.record(tape, raw, alias), body.condition is not None))
        return alias

    def complete(self) -> None:
        """Passes the masks of what `loop.end` has ended to the guards. Below `loop.end`, the step in which a sequence
        ends counts as ended too, if it is left out of the results."""
        body = self._body
        place = None if body.condition is None else place_of(body.carried, "ended")
        if place is None or body.condition is None:
            return
        before, condition = body.carried[place].before.plain, body.condition.plain
        moved = [dim for _, dim in body.reorders] + ([] if body.hypotheses is None else [body.hypotheses.beam])
        conditions = [] if body.include_eos or condition.dims != before.dims else [body.var(condition)]
        for guard, call, by_condition in self._guards:
            guard.complete(call, [body.var(before), *(conditions if by_condition else [])], before.dims, moved)

    def _size(self) -> Size | None:
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

    def _input(self, backend: type[Backend], size: Size, how: align.Move, device: Any) -> Tensor:
        body = self._body
        with body.untraced():
            frame = tensor_of(backend.from_numpy_raw(ended(size, how, 1)[0], device), align.sig(()), EMPTY)
        body.input("", frame)
        body.frames.append(FrameInput(body.var(frame), EndedMask(False, how, device)))
        return frame


def unfrozen_states(body: Body, limit: Size, new: Sequence[Any]) -> set[int]:
    """The positions of states that go on after the end of their sequences, where they are not recorded."""
    looked_at = body.recorder.recorded or body.watchers or body.outer is not None or body.hypotheses is not None
    if looked_at or body.condition is not None or not limit.ragged or len(limit.dims) != 1:
        return set()
    free = unfrozen(body.carried, new, limit.dims[0], body.tape, body.recorder.op_calls)
    if body.modes["gradients"]:  # those around the loop; the body itself is traced without
        return free
    stacked = {id(traced.plain) for traced, _ in body.outputs}  # nothing else keeps the states of all steps
    return {place for place in free if id(new[place].plain) in stacked}


def reordered(body: Body, value: Any, going: Traced | None) -> Any:
    """A value from the previous step, in the order given by `loop.reorder`; sequences that have ended keep theirs.

    going: which hypotheses, or else sequences, go on before this step. Where `loop.reorder` moves whole sequences that
    have ended, or no sequence ends, the result is only read for those that keep their order.
    """
    if going is None or not isinstance(value, Tensor):
        return value
    for indices, dim in body.reorders:
        if dim in value.dims_set and dim in going.dims_set:
            value = where(reduce_any(going, axis=dim), gather(value, indices=indices, axis=dim), value)
    return value


def frozen(body: Body, active: Traced | None, new: Any, before: Any, going: Traced | None) -> Any:
    """The new value, but the old one for sequences that have ended: those whose hypotheses have all ended, for a state
    that all of them share."""
    if not isinstance(new, Tensor) or new is before or new.dims != before.dims:
        return new
    if active is None or (body.condition is None and not body.reorders):
        return frozen_by_length(body, new, before)
    old = reordered(body, before, going)
    shared = active.dims_set & new.dims_set
    if not shared and active.dims:
        return new
    hypotheses = [dim for dim in active.dims if dim not in shared]
    active = reduce_any(active, axis=hypotheses) if hypotheses else active
    return where(active, new, old).copy_transpose(old.dims)


def frozen_by_length(body: Body, new: Any, old: Any) -> Any:
    """The new value, but the old one for sequences that are shorter than this step."""
    ended = body.ended_masks(body.backend, old.sig, body.backend.device_key_raw(old.plain._raw))
    if ended is None:
        return new
    raw = body.backend.where_raw(ended, old.plain._raw, new.plain._raw)
    return body.recorder._wrap(old.plain.like(raw))
