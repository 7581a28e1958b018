"""Normalization, softmax over an axis, and gating."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of, with_last
from rfnb.netdict.layer import Layer
from rfnb.netdict.layer_call import BATCH_NORM, BatchNormCall
from rfnb.netdict.layers.activations import activation_of
from rfnb.netdict.options import axes, axis, layer, value
from rfnb.netdict.resolve import required
from rfnb.ops.create import range_over_dim
from rfnb.ops.math import cast, gating, rsqrt, where
from rfnb.ops.norm import layer_norm, moments
from rfnb.ops.reduce import log_softmax, softmax


class LayerNormLayer(Layer, layer_class="layer_norm"):
    """(x − mean) / √(variance + ε) over the features, scaled and shifted (Ba et al. 2016). {…, F} → the same"""

    epsilon: float = value(1e-6, float)

    def setup(self, x: Tensor) -> None:
        """scale {F}, bias {F}."""
        self.in_dim = required(x.feature_dim, "layer_norm needs features", x.describe_dims())
        self.parameter("scale", [self.in_dim], 1.0)
        self.parameter("bias", [self.in_dim], 0.0)

    def compute(self, x: Tensor) -> Tensor:
        """{…, F} → the same"""
        params = self.params
        return layer_norm(x, params["scale"], params["bias"], in_dim=self.in_dim, eps=self.epsilon)


class Norm(Layer, layer_class="norm"):
    """(x − mean) / √(variance + ε) over axes; scale and bias for the features. {…, axes…} → the same"""

    axes: tuple[Dim, ...] = axes(None)
    axis: object = value(None)
    param_shape: object = value("F")
    scale: bool = value(True, bool)
    bias: bool = value(True, bool)
    epsilon: float = value(1e-6, float)

    def setup(self, x: Tensor) -> None:
        """scale and bias, with the axes that `param_shape` describes."""
        self.over = self.axes if self.axes is not None else self.pool.find(self.axis, x)
        dims = self.pool.find(self.param_shape, x)
        for name, initial in (("scale", 1.0), ("bias", 0.0)):
            if getattr(self, name):  # the option, which the parameter replaces
                self.parameter(name, dims, initial)

    def compute(self, x: Tensor) -> Tensor:
        """{…, axes…} → the same"""
        mean, variance = moments(x, self.over, use_mask=self.spec.batch_independent)
        y = (x - mean) * rsqrt(variance + self.epsilon)
        params = self.params
        y = y * params["scale"] if "scale" in params else y
        return y + params["bias"] if "bias" in params else y


class BatchNormLayer(Layer, layer_class="batch_norm", further=BATCH_NORM):
    """Batch normalization (Ioffe & Szegedy 2015). {…, F} → the same"""

    axes: tuple[Dim, ...] | None = axes(None)

    def setup(self, x: Tensor) -> None:
        """gamma, beta, mean and variance of the features."""
        if self.axes is not None and {*self.axes} != {*x.dims} - {x.feature_dim}:
            fault, got = "batch_norm over other axes than all but the features is not supported here", self.axes
            raise NetworkError(fault, got=", ".join(dim.name for dim in got), expected="all axes but the features")
        self.norm = BatchNormCall.of(self, x, {name: getattr(self, name) for name in BATCH_NORM})

    def compute(self, x: Tensor) -> Tensor:
        """{…, F} → the same"""
        return self.norm(x)


class Gating(Layer, layer_class="gating"):
    """One half of the features times the gate, which the other half gives. {…, F} → {…, F // 2}"""

    activation: object = value(None)
    gate_activation: object = value("sigmoid")

    def setup(self, x: Tensor) -> None:
        """The halves."""
        if x.feature_dim is None or x.feature_dim.dimension is None or x.feature_dim.dimension % 2:
            raise NetworkError("gating needs an even number of features", got=x.describe_dims())
        self.out_dim = self.pool.instead(x.feature_dim, x.feature_dim.dimension // 2, x)

    def compute(self, x: Tensor) -> Tensor:
        """{…, F} → {…, F // 2}"""
        act, gate = activation_of(self.activation), activation_of(self.gate_activation)
        return gating(x, gate_func=gate, act_func=act, out_dim=self.out_dim)[0]


class SoftmaxOverSpatial(Layer, layer_class="softmax_over_spatial"):
    """softmax of the energies over an axis, by default the time, of each sequence. {…, axis} → the same"""

    axis: Dim = axis(None)
    energy_factor: float | None = value(None, float)
    start: object = layer()
    window_start: object = layer()
    window_size: object = layer()
    use_time_mask: bool | None = value(None, bool)
    log_space: bool = value(False, bool)

    def setup(self, x: Tensor, **inputs: Tensor) -> None:
        """The time axis, if no other is given."""
        fault, got = "softmax_over_spatial: the source has no time axis", x.describe_dims()
        self.over = required(self.axis or time_of(x), fault, got, expected='"axis": …, or frames')
        self.result_feature = x.feature_dim

    def compute(self, x: Tensor, **inputs: Tensor) -> Tensor:
        """{…, axis} → the same"""
        start, window_start, size = self.inputs_of(inputs).values()
        lower = start if window_start is None else window_start
        if self.energy_factor is not None:
            x = x * self.energy_factor
        if lower is not None:
            places = range_over_dim(self.over, device=x.device)
            lower, size = (cast(n, places.dtype) if isinstance(n, Tensor) else n for n in (lower, size))
            keep = places >= lower
            keep = keep if size is None else keep & (places < lower + size)
            x = where(keep, x, -1e30, allow_broadcast_all_sources=True)
        masked = self.use_time_mask is not False or self.spec.batch_independent
        return (log_softmax if self.log_space else softmax)(x, axis=self.over, use_mask=masked)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The axis comes last."""
        return with_last(order, self.over)
