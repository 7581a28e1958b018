"""Layers with several sources or several outputs: concat, split, stack, top_k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import add

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Positive
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import without
from rfnb.netdict.layer import Layer
from rfnb.netdict.options import REQUIRED, axis, value
from rfnb.ops.concat import concat, split, stack
from rfnb.ops.index import top_k
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import cast
from rfnb.ops.shape import set_feature_dim, set_sparse_dim
from rfnb.ops.slice import slice as slice_


class Concat(Layer, layer_class="concat", joins=False):
    """The sources, one after the other, along an axis of each. {…, a}, {…, b} → {…, a+b}

    In time, the second source starts after the longest sequence of the first: its padding stays in between.
    """

    concat_axes: Sequence[object] = value(REQUIRED, list)
    allow_broadcast: bool = value(False, bool)

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """The sources without their axes, which are an option."""
        pairs = described.get("from")
        if not isinstance(pairs, list | tuple) or not all(isinstance(p, list | tuple) and len(p) == 2 for p in pairs):
            raise NetworkError("concat needs an axis of each source", got=repr(pairs)[:60], expected='[("data", "T")]')
        return {**described, "from": [name for name, _ in pairs], "concat_axes": [place for _, place in pairs]}

    def setup(self, *sources: Tensor) -> None:
        """The axes, and the new one."""
        self.over = [self.pool.one(place, x) for place, x in zip(self.concat_axes, sources, strict=True)]
        sizes = [dim.dimension for dim in self.over]
        self.is_feature = self.over[0] is sources[0].feature_dim
        if self.out_dim is None and None not in sizes:
            self.out_dim = self.pool.instead(self.over[0], sum(size or 0 for size in sizes), sources[0])

    def compute(self, *sources: Tensor) -> Tensor:
        """{…, a}, {…, b} → {…, a+b}"""
        pairs = list(zip(sources, self.over, strict=True))
        if any(dim.dimension is None for dim in self.over) and not self.spec.batch_independent:
            y, dim = self._with_padding(pairs)
        else:
            y, dim = concat(*pairs, allow_broadcast=self.allow_broadcast, out_dim=self.out_dim)
        return set_feature_dim(y, dim if self.is_feature else sources[0].feature_dim)

    def _with_padding(self, pairs: list[tuple[Tensor, Dim]]) -> tuple[Tensor, Dim]:
        """The whole axes, one after the other, cut to the sum of the lengths; so the padding stays in between."""
        y, joined = concat(*pairs, allow_broadcast=self.allow_broadcast, handle_dynamic_dims=False)
        dim = reduce(add, self.over) if self.out_dim is None else self.out_dim
        sizes = [get_size_tensor(d, device=y.device) if d.is_dynamic() else d.dimension for d in self.over]
        return slice_(y, axis=joined, end=reduce(add, sizes), out_dim=dim)


class Split(Layer, layer_class="split"):
    """Parts of an axis, which are "name/0", "name/1" and so on; the layer itself is its source. {…, axis} → the same"""

    axis: Dim = axis("F")
    num_splits: int | None = value(None, Positive)
    size_splits: Sequence[int] | None = value(None, list, tuple)
    out_dims: Sequence[int | Dim] | None = value(None, list, tuple)

    def setup(self, x: Tensor) -> None:
        """The dims of the parts."""
        self.is_feature = self.axis is x.feature_dim
        sizes = self.out_dims or self.size_splits
        if sizes is None:
            if not self.num_splits or not self.axis.dimension or self.axis.dimension % self.num_splits:
                raise NetworkError("split: the axis does not split into equal parts", got=x.describe_dims())
            sizes = [self.axis.dimension // self.num_splits] * self.num_splits
        self.part_dims = [self.pool.axis(size, without(x, self.axis), feature=self.is_feature) for size in sizes]

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → the same"""
        parts = split(x, axis=self.axis, out_dims=self.part_dims)
        features = self.part_dims if self.is_feature else [x.feature_dim] * len(parts)
        self.last.parts = {
            str(i): set_feature_dim(y, dim) for i, (y, dim) in enumerate(zip(parts, features, strict=True))
        }
        return x


class Stack(Layer, layer_class="stack", joins=False, without_effect="axis"):
    """The sources along a new axis. {…}, {…} → {…, sources}"""

    out_spatial_dim: Dim | None = value(None, Dim)

    def setup(self, *sources: Tensor) -> None:
        """The new axis."""
        self.new_dim = self.out_spatial_dim or self.pool.static(len(sources), sources[0].dims)
        self.result_feature = sources[0].feature_dim

    def compute(self, *sources: Tensor) -> Tensor:
        """{…}, {…} → {…, sources}"""
        return stack(list(sources), out_dim=self.new_dim)[0]


class TopK(Layer, layer_class="top_k"):
    """The largest entries of an axis, and as "name/indices" their positions. {…, axis} → {…, k}"""

    axis: Dim = axis("F")
    k: int | Dim = value(1, Positive, Dim)
    k_dim: Dim | None = value(None, Dim)
    sorted: bool = value(True, bool)

    def setup(self, x: Tensor) -> None:
        """The axis of the largest entries."""
        self.best = self.k_dim or self.pool.static(self.k, x.dims)
        self.result_feature = None if x.feature_dim is self.axis else x.feature_dim

    def compute(self, x: Tensor) -> Tensor:
        """{…, axis} → {…, k}"""
        values, indices, _ = top_k(x, axis=self.axis, k_dim=self.best, sorted=self.sorted)
        assert isinstance(indices, Tensor)
        label = self.axis if self.axis.dimension is not None else None
        self.last.parts = {"indices": set_sparse_dim(cast(indices, "int32"), label)}
        return values
