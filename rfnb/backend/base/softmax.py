"""Softmax over a dim. Padding gets probability 0, and a softmax over nothing is 0.

Over `batch`, frames past the end of a shorter sequence are padding as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.mask import frames_of
from rfnb.backend.base.require import axis_of, require_owner_dims
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor, tensor_of

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class SoftmaxOps:
    """Raw part: `softmax_raw(raw, axis, padding, some_empty)` and `log_softmax_raw`."""

    softmax_raw: Callable[[Any, int, Any, bool], Any]
    log_softmax_raw: Callable[[Any, int, Any, bool], Any]

    @classmethod
    def softmax(cls: type[Backend], tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """exp(x) / Σ exp(x) over `axis`. {…, axis} → the same"""
        if tensor.sig.priority_copies:
            axis = tensor.sig.resolve(axis)
        place = tensor.sig.index.get(axis)
        if place is None:
            place = axis_of("softmax", tensor, axis)
        padding, empty = _padding(cls, tensor, axis, place) if use_mask else (None, False)
        return tensor_of(cls.softmax_raw(tensor._raw, place, padding, empty), tensor.sig, tensor.lengths)

    @classmethod
    def log_softmax(cls: type[Backend], tensor: Tensor, *, axis: Dim, use_mask: bool = True) -> Tensor:
        """log softmax over `axis`; -inf in padding. {…, axis} → the same"""
        if tensor.sig.priority_copies:
            axis = tensor.sig.resolve(axis)
        place = axis_of("log_softmax", tensor, axis)
        padding, empty = _padding(cls, tensor, axis, place) if use_mask else (None, False)
        return tensor_of(cls.log_softmax_raw(tensor._raw, place, padding, empty), tensor.sig, tensor.lengths)


def _padding(backend: type[Backend], tensor: Tensor, axis: Dim, place: int) -> tuple[Any, bool]:
    """The mask of padding, and whether a row consists of padding only."""
    lengths = tensor.lengths
    dims: tuple[Dim, ...] = (axis,)
    if not lengths.sizes:
        return None, False
    if axis in lengths.owners:
        dims += tuple(dim for dim in tensor.sig.frames if dim is not axis)
    elif axis.dimension is not None:
        return None, False
    padding = backend.padding_for(tensor, dims)
    if padding is None:
        require_owner_dims("softmax", tensor, dims)
        return None, False
    key = ("empty", tensor.sig.serial, place)
    empty = lengths.cache.get(key)
    if empty is None:
        frames = frames_of(tensor, dims)
        known = isinstance(frames, np.ndarray)  # not while torch traces
        empty = lengths.keep(key, frames is not None and not (known and frames.any(place).all()))
    return padding, empty
