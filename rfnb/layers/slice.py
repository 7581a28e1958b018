"""Parts of a source: slice, gather, gather_nd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.network.axes import time_of
from rfnb.network.layer import Layer
from rfnb.network.options import axis, layer, value
from rfnb.ops.index import gather
from rfnb.ops.shape import set_sparse_dim
from rfnb.ops.slice import slice as slice_


class Slice(Layer, layer_class="slice"):
    """The frames from `slice_start` to `slice_end`, every `slice_step`-th. {…, axis} → {…, axis'}"""

    axis: Dim = axis()
    slice_start: int | None = value(None, int)
    slice_end: int | None = value(None, int)
    slice_step: int | None = value(None, int)

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """The new dim, if its size is fixed."""
        self.sliced: Dim | None = None
        self.is_feature = self.axis is x.feature_dim
        if isinstance(self.out_dim, Dim) and self.n_out is None:
            self.sliced = self.out_dim
        elif self.axis.dimension is not None:
            size = len(range(self.axis.dimension)[slice(self.slice_start, self.slice_end, self.slice_step)])
            taken = [dim for dim in x.dims if dim is not self.axis]
            self.sliced = (self.pool.feature if self.is_feature else self.pool.static)(size, taken)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, axis'}"""
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
        return gather(x, indices=indices, axis=self.axis, clip_to_valid=self.clip_to_valid)


class GatherNd(Layer, layer_class="gather_nd"):
    """The frames at positions along the time axis. {…, time}, {…} → {… of both}"""

    position: Any = layer()
    filter_invalid_indices: bool = value(False, bool)

    def setup(self, x: Tensor, position: Tensor | None = None) -> None:  # type: ignore[override]
        """The time axis."""
        frames = time_of(x) or next(
            (dim for dim in x.dims if not dim.is_batch_dim() and dim is not x.feature_dim), None
        )
        if frames is None or position is None:
            raise NetworkError("gather_nd needs a source with a time axis, and positions", got=x.describe_dims())
        self.frames = frames

    def compute(self, x: Tensor, position: Tensor) -> Tensor:
        """{…, time}, {…} → {… of both}"""
        return gather(x, indices=set_sparse_dim(position, None), axis=self.frames)
