"""Attention over a whole sequence: generic_attention, dot_attention, concat_attention, gauss_window_attention."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Positive
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of, with_last
from rfnb.netdict.layer import Layer
from rfnb.netdict.layers.initializers import initial_values
from rfnb.netdict.options import REQUIRED, layer, value
from rfnb.netdict.resolve import required
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.math import cast, combine_bc, exp, round, square, tanh
from rfnb.ops.matmul import matmul
from rfnb.ops.reduce import reduce_sum, softmax
from rfnb.ops.shape import replace_dim, set_feature_dim, set_sparse_dim, squeeze


class GenericAttention(Layer, layer_class="generic_attention", sourceless=True):
    """The sum of the frames of `base`, each times its weight. {…, time}, base {…, time, features} → {…, features}"""

    weights: object = layer()
    base: object = layer()
    auto_squeeze: bool = value(True, bool)

    def compute(self, weights: Tensor, base: Tensor) -> Tensor:
        """{…, time}, {…, time, features} → {…, features}"""
        frames = frames_of(base)
        for old, new in self.matching(self.pool, weights, base):
            if new is not base.feature_dim:
                weights = replace_dim(weights, in_dim=old, out_dim=new)[0]
        if frames not in weights.dims:
            fault = "the weights are not of the frames of the base"
            raise NetworkError(fault, got=weights.describe_dims(), expected=f"with {frames}")
        for dim in weights.dims if self.auto_squeeze else ():
            if dim.dimension == 1 and dim not in base.dims and not dim.is_batch_dim():
                weights = squeeze(weights, dim)
        y = matmul(weights, base, reduce=frames, use_mask=False)
        return set_feature_dim(y, base.feature_dim)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The features of the base come last."""
        return with_last(order, self.spec.feature_dim)


class DotAttention(Layer, layer_class="dot_attention"):
    """Attention with the energies ⟨base_ctx, source⟩. {…, n}, {…, time, n}, {…, time, features} → {…, features}

    https://arxiv.org/abs/1508.04025
    """

    base: object = layer()
    base_ctx: object = layer()
    energy_factor: float | None = value(None, float)

    def compute(self, x: Tensor, base: Tensor, base_ctx: Tensor) -> Tensor:
        """{…, n}, {…, time, features}, {…, time, n} → {…, features}"""
        frames = frames_of(base)
        energy = self.energy(_with_features_of(x, base_ctx), base_ctx)
        weights = softmax(energy, axis=frames)
        return set_feature_dim(matmul(weights, base, reduce=frames), base.feature_dim)

    def energy(self, x: Tensor, base_ctx: Tensor) -> Tensor:
        """{…, n}, {…, time, n} → {…, time}"""
        energy = matmul(base_ctx, x, reduce=features_of(base_ctx))
        return energy if self.energy_factor is None else energy * self.energy_factor


class ConcatAttention(DotAttention, layer_class="concat_attention"):
    """Attention with the energies ⟨v, tanh(base_ctx + source)⟩; v is trained. https://arxiv.org/abs/1409.0473"""

    def setup(self, x: Tensor, base: Tensor, base_ctx: Tensor) -> None:
        """v {n}"""
        self.v = self.parameter("v", [features_of(base_ctx)], initial_values("glorot_uniform"))

    def energy(self, x: Tensor, base_ctx: Tensor) -> Tensor:
        """{…, n}, {…, time, n} → {…, time}"""
        return matmul(tanh(base_ctx + x), self.v, reduce=features_of(base_ctx))


def frames_of(base: Tensor) -> Dim:
    """The axis that attention sums over. Raises NetworkError if there is none."""
    return required(time_of(base), "the base has no frames", base.describe_dims(), "{batch, time, features}")


def features_of(x: Tensor) -> Dim:
    """The feature dim. Raises NetworkError if there is none."""
    return required(x.feature_dim, "attention needs features", x.describe_dims())


def _with_features_of(x: Tensor, other: Tensor) -> Tensor:
    """The source with the features of another value, which has as many."""
    if x.feature_dim is other.feature_dim or x.feature_dim is None or other.feature_dim is None:
        return x
    return set_feature_dim(replace_dim(x, in_dim=x.feature_dim, out_dim=other.feature_dim)[0], other.feature_dim)


class GaussWindowAttention(Layer, layer_class="gauss_window_attention"):
    """The frames around a position, each times its density of a normal distribution. {…}, {…, time, F} → {…, F}

    The weights are not normalized. Frames before the first and behind the last one are these.
    """

    base: object = layer(REQUIRED)
    window_size: int = value(REQUIRED, Positive)
    std: float = value(1.0, float)
    inner_size: int | None = value(None, Positive)
    inner_size_step: float = value(0.5, float)

    def setup(self, x: Tensor, base: Tensor) -> None:
        """The axes of the window, and of several positions."""
        self.frames, self.window = frames_of(base), Dim(self.window_size, name="window")
        if x.feature_dim is not None and x.feature_dim.dimension != 1:
            raise NetworkError("the source is more than a position", got=x.describe_dims(), expected="{batch}")
        self.result_feature = base.feature_dim
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

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The positions stand before the features, which come last."""
        return with_last(order, self.inner, self.result_feature)
