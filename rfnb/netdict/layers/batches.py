"""Frames of all sequences as one batch, and back: flatten_batch, unflatten_batch, split_batch_time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of
from rfnb.netdict.layer import Layer
from rfnb.netdict.options import REQUIRED, axis, layer, value
from rfnb.ops.concat import concat
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.index import gather
from rfnb.ops.mask import pack_padded, pad_packed
from rfnb.ops.math import combine_bc
from rfnb.ops.shape import merge_dims, replace_dim
from rfnb.ops.slice import slice as slice_


class FlattenBatch(Layer, layer_class="flatten_batch"):
    """The frames of all sequences, one behind the other, without padding. {batch, axis, …} → {frames, …}"""

    axis: Dim = axis("T")
    batch_major: bool = value(True, bool)

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """The dim of all frames, which is a batch."""
        batch = batch_of(x)
        self.merged = (batch, self.axis) if self.batch_major else (self.axis, batch)
        self.frames = Dim(None, name="frames", kind="batch")
        self.pool.made_of[self.frames] = self.merged

    def compute(self, x: Tensor) -> Tensor:
        """{batch, axis, …} → {frames, …}"""
        return pack_padded(x, dims=self.merged, out_dim=self.frames)[0]


class UnflattenBatch(Layer, layer_class="unflatten_batch"):
    """The sequences of which `flatten_batch` made one batch. {frames, …} → {batch, axis, …}"""

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """The dims of the sequences."""
        self.frames = batch_of(x)
        self.dims = self.pool.made_of.get(self.frames)
        if self.dims is None:
            fault = "unflatten_batch: no layer flatten_batch made this batch"
            raise NetworkError(fault, got=x.describe_dims(), hint='"from": a layer that comes of flatten_batch')

    def compute(self, x: Tensor) -> Tensor:
        """{frames, …} → {batch, axis, …}"""
        assert self.dims is not None
        return pad_packed(x, in_dim=self.frames, dims=self.dims)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The axes of the sequences in the place of the frames."""
        assert self.dims is not None
        return [new for dim in sources[0].dims for new in (self.dims if dim is self.frames else (dim,))]


class SplitBatchTime(Layer, layer_class="split_batch_time"):
    """Back to the batch and the frames of `base`, which `merge_dims` merged. {product, …} → {batch, time, …}"""

    base: Any = layer(REQUIRED)

    def setup(self, x: Tensor, base: Tensor) -> None:  # type: ignore[override]
        """The dims of the base."""
        self.product, self.batch, frames = batch_of(x), batch_of(base), time_of(base)
        if frames is None:
            raise NetworkError("split_batch_time: the base has no time axis", got=base.describe_dims())
        self.frames = frames

    def compute(self, x: Tensor, base: Tensor) -> Tensor:
        """{product, …} → {batch, time, …}"""
        starts = range_over_dim(self.batch, device=x.device) * base.size_of(self.frames).max
        places = combine_bc(starts, "add", range_over_dim(self.frames, device=x.device))
        return gather(x, indices=places, axis=self.product)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The batch and the frames in the place of both."""
        return [new for d in sources[0].dims for new in ((self.batch, self.frames) if d is self.product else (d,))]


def batch_of(x: Tensor) -> Dim:
    """The batch dim. Raises NetworkError if there is none."""
    batch = next((dim for dim in x.dims if dim.is_batch_dim()), None)
    if batch is None:
        raise NetworkError("the layer needs a batch", got=x.describe_dims())
    return batch


def merged_with_padding(x: Tensor, dims: Sequence[Dim], out_dim: Dim) -> Tensor:
    """The dims as one, in which padding counts as frames. {…, dims…} → {…, out_dim}"""
    padded = list(dims)
    for i, dim in enumerate(dims):
        if dim.is_dynamic() and not dim.is_batch_dim():
            x, padded[i] = with_padding(x, dim)
    return merge_dims(x, dims=padded, out_dim=out_dim)[0]


def with_padding(x: Tensor, dim: Dim) -> tuple[Tensor, Dim]:
    """The tensor with an axis in which padding counts as frames, and that axis. {…, dim} → {…, new}"""
    none = Dim(0, name="none")
    empty = zeros([none], dtype=x.dtype, device=x.device, sparse_dim=x.sparse_dim)
    return concat((x, dim), (empty, none), allow_broadcast=True, handle_dynamic_dims=False)


def with_lengths(x: Tensor, whole: Dim, lengths: Tensor, out_dim: Dim) -> Tensor:
    """The first frames of an axis that has padding as frames; what follows a length stays. {…, whole} → {…, out_dim}

    lengths: {batch}, or {}.
    """
    _, out_dim = slice_(range_over_dim(whole, device=x.device), axis=whole, end=lengths, out_dim=out_dim)
    x, cut = slice_(x, axis=whole, end=out_dim.size.max)
    return replace_dim(x, in_dim=cut, out_dim=out_dim)[0]
