"""Layers with several sources or several outputs: split, stack, top_k."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.network.layer import Layer
from rfnb.network.options import axis, value
from rfnb.ops.concat import split, stack
from rfnb.ops.math import cast
from rfnb.ops.shape import set_feature_dim, set_sparse_dim
from rfnb.ops.top_k import top_k


class Split(Layer, layer_class="split"):
    """Parts of an axis, which are "name/0", "name/1" and so on; the layer itself is its source. {…, axis} → the same"""

    axis: Dim = axis("F")
    num_splits: int | None = value(None, int)
    size_splits: Any = value(None, list, tuple)
    out_dims: Any = value(None, list, tuple)

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """The dims of the parts."""
        self.is_feature = self.axis is x.feature_dim
        sizes = self.out_dims or self.size_splits
        if sizes is None:
            if not self.num_splits or not self.axis.dimension or self.axis.dimension % self.num_splits:
                raise NetworkError("split: the axis does not split into equal parts", got=x.describe_dims())
            sizes = [self.axis.dimension // self.num_splits] * self.num_splits
        taken = [dim for dim in x.dims if dim is not self.axis]
        make = self.pool.feature if self.is_feature else self.pool.static
        self.part_dims = [make(size, taken) for size in sizes]

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → the same"""
        parts = split(x, axis=self.axis, out_dims=self.part_dims)
        features = self.part_dims if self.is_feature else [x.feature_dim] * len(parts)
        self.parts = {str(i): set_feature_dim(y, dim) for i, (y, dim) in enumerate(zip(parts, features, strict=True))}
        return x


class Stack(Layer, layer_class="stack"):
    """The sources along a new axis. {…}, {…} → {…, sources}"""

    joins = False
    axis: Any = value(None)
    out_spatial_dim: Dim | None = value(None, Dim)

    def setup(self, *sources: Tensor) -> None:  # type: ignore[override]
        """The new axis."""
        self.new_dim = self.out_spatial_dim or self.pool.static(len(sources), sources[0].dims)

    def compute(self, *sources: Tensor) -> Tensor:
        """{…}, {…} → {…, sources}"""
        return stack(list(sources), out_dim=self.new_dim)[0]

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """That of the sources."""
        return sources[0].feature_dim


class TopK(Layer, layer_class="top_k"):
    """The largest entries of an axis, and as "name/indices" their positions. {…, axis} → {…, k}"""

    axis: Dim = axis("F")
    k: int | Dim = value(1, int, Dim)
    k_dim: Dim | None = value(None, Dim)
    sorted: bool = value(True, bool)

    def setup(self, x: Tensor) -> None:  # type: ignore[override]
        """The axis of the largest entries."""
        self.best = self.k_dim or self.pool.static(self.k, x.dims)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, k}"""
        values, indices, _ = top_k(x, axis=self.axis, k_dim=self.best, sorted=self.sorted)
        assert isinstance(indices, Tensor)
        label = self.axis if self.axis.dimension is not None else None
        self.parts = {"indices": set_sparse_dim(cast(indices, "int32"), label)}
        return values

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """That of the source, unless it is the axis."""
        return None if sources[0].feature_dim is self.axis else sources[0].feature_dim
