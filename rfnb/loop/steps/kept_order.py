"""Keeps the order of sequences that have ended, where `loop.reorder` moves entries of a state that grows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rfnb.backend.base.tape import Var, untaped
from rfnb.core.advice.similar_dims import broadcast_allowed
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.ops.create import range_over_dim
from rfnb.ops.math import logical_and, logical_not, where
from rfnb.ops.reduce import reduce_any

if TYPE_CHECKING:
    from rfnb.backend.base.tape import Call, Tape


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

    def record(self, tape: Tape, result: Any) -> None:
        """Records the call of this function on the traced frame, whose result is `result`."""
        tape.record(self, (self.indices._raw,), {}, result)
        self._call = tape.calls[-1]

    def complete(self, masks: Sequence[Mask]) -> None:
        """Makes the masks arguments of the recorded call."""
        call, self._call = self._call, None  # no cycle of references
        assert call is not None
        self._masks = masks
        call.give(*[mask.var for mask in masks])

    def __call__(self, raw: Any, *masks: Any) -> Any:
        """The indices of a step; raw tensors in and out."""
        if not masks:
            return backend_of_raw(raw).alias_raw(raw)
        indices = self.indices.like(raw)
        with untaped(), listening(None), broadcast_allowed():
            going = self._going(masks)
            stay = range_over_dim(self.dim, dtype=indices.dtype, device=indices.device)
            return where(going, indices, stay).copy_transpose(indices.dims)._raw

    def _going(self, masks: Sequence[Any]) -> Tensor:
        """The sequences that go on, over dims of the indices."""
        going: Tensor | None = None
        for raw, mask in zip(masks, self._masks, strict=True):
            part = mask.frame.like(raw)
            part = logical_not(part) if mask.of_ended else part
            going = part if going is None else logical_and(going, part)
        assert going is not None
        axes = [dim for dim in going.dims if dim is self.dim or dim not in self.indices.dims_set]
        return reduce_any(going, axis=axes) if axes else going
