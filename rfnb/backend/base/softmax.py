"""Softmax over a dim. Padding gets probability 0, and a softmax over nothing is 0.

Over `batch`, frames past the end of a shorter sequence are padding as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.require import axis_of, require_owner_dims
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor, tensor_of

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class SoftmaxOps:
    """Raw part: `softmax_raw(raw, axis, padding, some_empty)`, `log_softmax_raw` and `log_probs_raw(raw, axis)`."""

    softmax_raw: Callable[[Any, int, Any, bool], Any]
    log_softmax_raw: Callable[[Any, int, Any, bool], Any]
    log_probs_raw: Callable[[Any, int], Any]

    @classmethod
    def softmax(cls: type[Backend], tensor: Tensor, axis: Dim, use_mask: bool = True) -> Tensor:
        """exp(x) / Σ exp(x) over `axis`. {…, axis} → the same"""
        signature, lengths = tensor.sig, tensor.lengths
        if signature.priority_copies:
            axis = signature.resolve(axis)
        place = signature.index.get(axis)
        if place is None:
            place = axis_of("softmax", tensor, axis)
        padding, empty, dims = _padding(cls, tensor, axis, place) if use_mask and lengths.ragged else NOTHING
        if padding is None:
            return tensor_of(cls.softmax_raw(tensor._raw, place, None, False), signature, lengths)
        result = tensor_of(cls.softmax_raw(tensor._raw, place, padding, empty), signature, lengths)
        return cls.note_empty_padding(result, dims)

    @classmethod
    def log_softmax(cls: type[Backend], tensor: Tensor, axis: Dim, use_mask: bool = True) -> Tensor:
        """log softmax over `axis`; -inf in padding. {…, axis} → the same"""
        if tensor.sig.priority_copies:
            axis = tensor.sig.resolve(axis)
        place = axis_of("log_softmax", tensor, axis)
        padding, empty, _ = _padding(cls, tensor, axis, place) if use_mask and tensor.lengths.ragged else NOTHING
        lengths = tensor.lengths if padding is None else tensor.lengths.infinite()
        return tensor_of(cls.log_softmax_raw(tensor._raw, place, padding, empty), tensor.sig, lengths)

    @classmethod
    def log_probs(cls: type[Backend], tensor: Tensor, *, axis: Dim) -> Tensor:
        """log softmax over `axis` of fixed size, but -∞ for all entries where all are -∞. {…, axis} → the same"""
        return tensor_of(cls.log_probs_raw(tensor._raw, axis_of("choice", tensor, axis)), tensor.sig, tensor.lengths)


Padding = tuple[Any, bool, tuple[Dim, ...]]
NOTHING: Padding = (None, False, ())


def _padding(backend: type[Backend], tensor: Tensor, axis: Dim, place: int) -> Padding:
    """The mask of padding, whether a row consists of padding only, and the dims of the padding."""
    lengths = tensor.lengths
    dims: tuple[Dim, ...] = (axis,)
    if axis in lengths.owners:
        dims += tuple(dim for dim in tensor.sig.frames if dim is not axis)
    elif axis.dimension is not None:
        return NOTHING
    padding = backend.padding_for(tensor, dims)
    if padding is None:
        require_owner_dims("softmax", tensor, dims)
        return NOTHING
    return padding, backend.has_empty_rows(tensor, dims, place), dims
