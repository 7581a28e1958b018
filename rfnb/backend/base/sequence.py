"""Ops along sequences that need their true lengths."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import constant, ragged, size_in, taken
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor, tensor_of

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class SequenceOps:
    """Raw part: `flip_raw`, `cumsum_raw`."""

    flip_raw: Callable[..., Any]
    cumsum_raw: Callable[..., Any]

    @classmethod
    def reverse_sequence(cls: type[Backend], tensor: Tensor, *, axis: Dim, handle_dynamic_dims: bool = True) -> Tensor:
        """Each sequence in reverse order; padding stays at the end. {…, axis} → the same"""
        axis = tensor.sig.resolve(axis)
        place = axis_of("reverse_sequence", tensor, axis, "tensor")
        if handle_dynamic_dims and ragged(tensor, axis):
            size = size_in(tensor, axis)
            make, key = partial(_reversed, size.values, size.max), ("reverse", axis.serial)
            positions = constant(cls, tensor, [*size.dims, axis], key, make)
            return tensor.like(cls.gather_raw(tensor._raw, positions, place, 1))
        lengths = taken(tensor.lengths, axis, axis, "reverse", np.flip)
        return tensor_of(cls.flip_raw(tensor._raw, [place]), tensor.sig, lengths)

    @classmethod
    def cumsum(cls: type[Backend], source: Tensor, *, spatial_dim: Dim) -> Tensor:
        """The cumulative sum over the frames; small integers as int64. {…, spatial_dim} → the same"""
        spatial_dim = source.sig.resolve(spatial_dim)
        place = axis_of("cumsum", source, spatial_dim)
        if spatial_dim in source.lengths.owners:  # shorter sequences have padding before frames of longer ones
            source = source.like(cls.fill_padding(source, 0))
        dtype = "int64" if source.dtype in _SMALL else source.dtype
        summed = source.like(cls.cast_raw(cls.cumsum_raw(source._raw, place), dtype))
        return summed.like(cls.fill_padding(summed, 0, (spatial_dim,)))


_SMALL = frozenset({"bool", "int8", "uint8", "int16", "uint16"})
"""Types whose sums soon exceed their range."""


def _reversed(n: np.ndarray, longest: int) -> np.ndarray:
    frames, end = np.arange(longest), n[..., None] - 1
    return np.where(frames <= end, end - frames, frames)
