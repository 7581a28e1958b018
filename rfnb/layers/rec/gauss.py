"""gauss_window_attention: attention to a window of frames around a position."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Positive
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.network.axes import time_of
from rfnb.network.layer import Layer
from rfnb.network.options import REQUIRED, layer, value
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.math import cast, combine_bc, exp, round, square
from rfnb.ops.reduce import reduce_sum
from rfnb.ops.shape import set_feature_dim, set_sparse_dim, squeeze


class GaussWindowAttention(Layer, layer_class="gauss_window_attention"):
    """The frames around a position, each times its density of a normal distribution. {…}, {…, time, F} → {…, F}

    The weights are not normalized. Frames before the first and behind the last one are these.
    """

    base: Any = layer(REQUIRED)
    window_size: int = value(REQUIRED, Positive)
    std: float = value(1.0, float)
    inner_size: int | None = value(None, Positive)
    inner_size_step: float = value(0.5, float)

    def setup(self, x: Tensor, base: Tensor) -> None:  # type: ignore[override]
        """The axes of the window, and of several positions."""
        frames = time_of(base)
        if frames is None:
            raise NetworkError("the base has no frames", got=base.describe_dims(), expected="{batch, time, feature}")
        if x.feature_dim is not None and x.feature_dim.dimension != 1:
            raise NetworkError("the source is more than a position", got=x.describe_dims(), expected="{batch}")
        self.frames, self.window = frames, Dim(self.window_size, name="window")
        self.inner = None if self.inner_size is None else Dim(self.inner_size, name="inner")

    def compute(self, x: Tensor, base: Tensor) -> Tensor:
        """{…}, {…, time, F} → {…, F}"""
        position = x if x.feature_dim is None else squeeze(x, x.feature_dim)
        if self.inner is not None:
            shift = cast(set_sparse_dim(range_over_dim(self.inner), None), x.dtype) * self.inner_size_step
            position = combine_bc(position, "+", shift - self.inner.get_dim_value() / 2)
        start = cast(round(position), "int64") - self.window_size // 2
        at = combine_bc(start, "+", set_sparse_dim(range_over_dim(self.window, dtype="int64"), None))
        weights = exp(square(position - cast(at, x.dtype)) / (-2 * self.std**2)) / (self.std * math.sqrt(2 * math.pi))
        near = gather(base, indices=at, axis=self.frames, clip_to_valid=True)
        return set_feature_dim(reduce_sum(near * weights, axis=self.window), base.feature_dim)

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """That of the base."""
        return out.feature_dim

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The positions stand before the features, which come last."""
        end = [dim for dim in (self.inner, self.spec.feature_dim) if dim is not None]
        return [*(dim for dim in order if dim not in end), *end]
