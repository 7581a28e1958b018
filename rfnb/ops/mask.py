"""Masks: which entries are frames, and which are padding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core import align, raw as raw_registry
from rfnb.core.dim import Dim, current_lengths
from rfnb.core.op import method_of, op
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError
from rfnb.ops.math import logical_and


@op()
def sequence_mask(dims: Dim | Sequence[Dim], *, device: str | None = None) -> Tensor:
    """Whether a position is a frame, not padding, in each of `dims`. → {dims} bool"""
    dims = (dims,) if isinstance(dims, Dim) else tuple(dims)
    mask = None
    for dim in dims:
        if dim.is_dynamic() and dim.size.dims:
            own = get_mask(dim, device=device)
            mask = own if mask is None else logical_and.__wrapped__(mask, own)
    if mask is None:
        raise DimError("sequence_mask: no dim has lengths", got=align.show_dims(dims))
    order = [dim for dim in dims if dim in mask.dims_set]
    return mask.copy_transpose([*order, *(dim for dim in mask.dims if dim not in order)])


@method_of(Dim)
def get_mask(self: Dim, *, dim_order: Sequence[Dim] | None = None, device: str | None = None) -> Tensor:
    """Whether a position is within its sequence, in the batch bound now. → {… of the lengths, self} bool"""
    mask: Tensor = raw_registry.selected().sequence_mask(self, current_lengths([self]), device)
    return mask if dim_order is None else mask.copy_transpose([dim for dim in dim_order if dim in mask.dims_set])


def lengths_tensor(dim: Dim, device: str | None = None) -> Tensor:
    """The lengths in the batch bound now. → {batch} int64"""
    lengths = current_lengths([dim])
    size = dim.size
    raw = lengths.cached(
        ("size", dim.serial, device), lambda: raw_registry.selected().from_numpy_raw(size.values, device)
    )
    return tensor_of(raw, align.sig(size.dims), lengths)


@method_of(Dim)
def get_size_tensor(self: Dim, *, device: str | None = None) -> Tensor:
    """The lengths as a Tensor. → {batch} int64, or {} if all are of one length"""
    return lengths_tensor(self, device)


def _dyn_size_ext(self: Dim) -> Any:
    """The lengths as a Tensor; None for a static dim, and before there is data."""
    return lengths_tensor(self) if self.is_dynamic() and self.is_defined() else None


Dim.dyn_size_ext = property(_dyn_size_ext)  # type: ignore[attr-defined]
