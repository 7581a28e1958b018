"""Parts of a source: slice, slice_nd, gather, gather_nd, scatter_nd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of, with_padding, without
from rfnb.netdict.layer import Layer
from rfnb.netdict.layers.create import cast_number
from rfnb.netdict.options import axis, layer, value
from rfnb.netdict.resolve import required
from rfnb.ops.create import full, range_over_dim
from rfnb.ops.index import gather, scatter
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import cast, compare_bc, where
from rfnb.ops.shape import replace_dim, set_sparse_dim
from rfnb.ops.slice import slice as slice_
from rfnb.trace.record.traced import Traced


class Slice(Layer, layer_class="slice"):
    """The frames from `slice_start` to `slice_end`, every `slice_step`-th. {…, axis} → {…, axis'}

    In reverse order, without a start or an end, the padding of a shorter sequence comes first.
    """

    axis: Dim = axis()
    slice_start: int | None = value(None, int)
    slice_end: int | None = value(None, int)
    slice_step: int | None = value(None, int)

    def setup(self, x: Tensor) -> None:
        """The new dim, if its size is fixed."""
        self.sliced: Dim | None = None
        self.is_feature = self.axis is x.feature_dim
        if isinstance(self.out_dim, Dim) and self.spec.common.n_out is None:
            self.sliced = self.out_dim
        elif self.axis.dimension is not None:
            size = len(range(self.axis.dimension)[slice(self.slice_start, self.slice_end, self.slice_step)])
            self.sliced = self.pool.instead(self.axis, size, x)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, axis'}"""
        step = self.slice_step or 1
        if step < 0 and self.slice_start is self.slice_end is self.sliced is None and not self.spec.batch_independent:
            y, padded = with_padding(x, self.axis)  # which then comes first
            y, turned = slice_(y, axis=padded, step=step)
            return replace_dim(y, in_dim=turned, out_dim=self.axis.ceildiv_right(-step))[0]
        y, self.sliced = slice_(
            x, axis=self.axis, start=self.slice_start, end=self.slice_end, step=self.slice_step, out_dim=self.sliced
        )
        return y

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The new dim if it was cut from the features."""
        return self.sliced if self.is_feature else sources[0].feature_dim


class Gather(Layer, layer_class="gather"):
    """The entries at positions along an axis. {…, axis}, {…} → {… of both}"""

    axis: Dim = axis()
    position: Any = layer()
    clip_to_valid: bool = value(False, bool)

    def compute(self, x: Tensor, position: Tensor | None = None) -> Tensor:
        """{…, axis}, {…} → {… of both}"""
        indices = self.position if position is None else set_sparse_dim(position, None)
        if position is None and x.device == "meta" and self.axis.dimension is None:
            indices = 0  # whether the batch has the position is seen then
        return gather(x, indices=indices, axis=self.axis, clip_to_valid=self.clip_to_valid)


class GatherNd(Layer, layer_class="gather_nd"):
    """The frames at positions along the time axis. {…, time}, {…} → {… of both}"""

    position: object = layer()
    filter_invalid_indices: bool = value(False, bool)

    def setup(self, x: Tensor, position: Tensor | None = None) -> None:
        """The time axis."""
        frames = time_of(x) or next((dim for dim in without(x, x.feature_dim) if not dim.is_batch_dim()), None)
        frames = None if position is None else frames
        self.frames = required(frames, "gather_nd needs a source with a time axis, and positions", x.describe_dims())

    def compute(self, x: Tensor, position: Tensor) -> Tensor:
        """{…, time}, {…} → {… of both}"""
        return gather(x, indices=set_sparse_dim(position, None), axis=self.frames)


class SliceNd(Layer, layer_class="slice_nd"):
    """`size` frames of each sequence, from `start` on, or all that are left. {…, axis}, {…} → {…, size}

    A size that is a layer, or None, gives an axis with lengths of its own.
    """

    axis: Dim = axis("T")
    start: object = layer(0)
    size: object = layer(None)
    min_size: int | None = value(None, int)
    out_spatial_dim: Dim | None = value(None, Dim)

    def setup(self, x: Tensor, start: Tensor | None = None, size: Tensor | None = None) -> None:
        """The new dim."""
        if not isinstance(self.size, int | Dim | str | None):
            fault = "slice_nd: size is a number, a Dim, a layer or None"
            raise NetworkError(fault, got=f"{x.describe_dims()}, {self.size!r:.40}")
        fixed = self.size.dimension if isinstance(self.size, Dim) else self.size
        self.counts = isinstance(fixed, int)
        new = self.out_spatial_dim or (self.size if isinstance(self.size, Dim) else None)
        if new is None and isinstance(fixed, int):
            new = self.pool.static(fixed, x.dims)
        self.sliced = self.out_spatial_dim = new or Dim(None, name=f"sliced-time:{self.name}")
        if not self.counts:
            self.sliced.kind = "spatial"
            if self.min_size is not None:
                raise NetworkError("slice_nd: min_size needs a number for size", got=repr(self.size)[:40])

    def compute(self, x: Tensor, start: Tensor | None = None, size: Tensor | None = None) -> Tensor:
        """{…, axis}, {…} → {…, size}"""
        frames = self.axis
        if not self.counts:
            if isinstance(start, Traced) or isinstance(size, Traced):
                fault, got = "slice_nd: the number of frames differs at each step", f'"size": {self.size!r:.40}'
                raise NetworkError(fault, got=got, expected='"size": a number (0 after the end)')
            begin = cast(full(dims=[], fill_value=self.start, dtype="int64") if start is None else start, "int64")
            end = None if size is None else begin + cast(size, "int64")
            return slice_(x, axis=frames, start=begin, end=end, out_dim=self.sliced)[0]
        if start is None:
            offset = full(dims=[], fill_value=self.start, dtype="int64", device=x.device)
            if not self.spec.batch_independent:
                x, frames = with_padding(x, frames)
        else:
            offset = cast(start, "int64")
        y = slice_(x, axis=frames, start=offset, size=self.sliced)[0]
        places = range_over_dim(self.sliced, dtype="int64", device=x.device) + offset
        valid = compare_bc(places, "less", get_size_tensor(frames, device=x.device))
        return where(valid, y, cast_number(0, x))  # 0 after the end of a sequence

    def names_of_dims(self) -> dict[Dim, str]:
        """sliced-time:name."""
        return {self.sliced: f"sliced-time:{self.name}"}


class ScatterNd(Layer, layer_class="scatter_nd"):
    """The frames at positions along the time axis of another layer, summed where they meet. {…, axis} → {…, time}"""

    position: object = layer()
    position_axis: object = value("T")
    output_dim_via_time_from: object = layer()
    filter_invalid_indices: bool = value(False, bool)

    def setup(self, x: Tensor, position: Tensor, output_dim_via_time_from: Tensor) -> None:
        """The axis that the positions replace, and the new one."""
        self.old = self.pool.one(self.position_axis, position)
        fault, base = "output_dim_via_time_from has no time axis", output_dim_via_time_from
        self.frames = required(time_of(base), fault, base.describe_dims())

    def compute(self, x: Tensor, position: Tensor, output_dim_via_time_from: Tensor) -> Tensor:
        """{…, axis} → {…, time}"""
        indices = set_sparse_dim(position, self.frames)
        return scatter(x, indices=indices, indices_dim=self.old, out_dim=self.frames)
