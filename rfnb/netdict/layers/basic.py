"""Linear layers, copies, dropout, activations, scaled gradients."""

from __future__ import annotations

from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.axes import ragged, with_padding
from rfnb.netdict.layer import Layer
from rfnb.netdict.layer_call import input_first, keep_log
from rfnb.netdict.layers.activations import LOGS, activation_of, initial_values
from rfnb.netdict.options import REQUIRED, axis, layer, value
from rfnb.netdict.resolve import required
from rfnb.ops.grad import scaled_gradient_ext
from rfnb.ops.math import cast
from rfnb.ops.matmul import linear
from rfnb.ops.shape import replace_dim, replace_dim_v2, set_feature_dim, set_sparse_dim

N_OUT = '"n_out": …'
"""What to write where the number of outputs is missing."""


class Activated(Layer):
    """What a linear layer and an activation share: an activation, whose logarithm another layer may want."""

    activation: object = value(None)
    opts: dict[str, Any] | None = None

    def setup(self, *sources: Any, **inputs: Any) -> None:
        """The function, and its logarithm if another layer may want it."""
        self.function = activation_of(self.activation, self.opts)
        keeps = self.spec.keeps_log or (self.loop is not None and self.loop.beam is not None)  # for a choice
        self.log = LOGS.get(self.activation) if keeps and isinstance(self.activation, str) else None

    def with_activation(self, x: Tensor) -> Tensor:
        """The activation of `x`. {…} → the same"""
        y = self.activated(self.function, x)
        return y if self.log is None else keep_log(y, self.log, x)


class LinearLayer(Activated, layer_class=("linear", "hidden", "forward"), keeps_features=True):
    """activation(x·W + b). {…, in} → {…, n_out}; labels take a row of W."""

    with_bias: bool = value(True, bool)
    forward_weights_init: object = value("glorot_uniform")
    bias_init: object = value(0.0)
    use_transposed_weights: bool = value(False, bool)
    W: Parameter
    b: Parameter

    def setup(self, x: Tensor) -> None:
        """W {in, out}, b {out}."""
        option = self.spec.described.get("in_dim")  # it may be another axis than the features
        option = self.pool.of(option) if isinstance(option, Dim) else None
        in_dim = x.sparse_dim or (option if option in x.dims else x.feature_dim)
        self.in_dim = required(in_dim, "the source has no features", x.describe_dims())
        dims = [self.in_dim, required(self.out_dim, "the number of outputs is missing", x.describe_dims(), N_OUT)]
        self.parameter(
            "W", dims[::-1] if self.use_transposed_weights else dims, initial_values(self.forward_weights_init)
        )
        if self.with_bias:
            self.parameter("b", [self.out_dim], initial_values(self.bias_init))
        super().setup(x)

    def compute(self, x: Tensor) -> Tensor:
        """{…, in} → {…, out}"""
        weight: Tensor = self.W
        source, target = weight.dims[::-1] if self.use_transposed_weights else weight.dims
        if self.use_transposed_weights and self.in_dim is self.out_dim and source is self.in_dim:
            weight, target = input_first(weight, target, source, self.in_dim), self.out_dim
        if x.sparse_dim is not None:
            x = set_sparse_dim(x, source)
        elif source is not self.in_dim and weight.sig.resolve(self.in_dim) is source:
            source = self.in_dim  # of equal dims, the weight has {in_dim(1), out_dim}, as in `rf.Linear`
        elif source is not self.in_dim:
            x = replace_dim_v2(x, in_dim=self.in_dim, out_dim=source)
        bias = _as(self.b, target) if self.with_bias else None
        y = linear(x, weight, bias, in_dim=source, out_dim=target)
        if target is not self.out_dim:
            y = replace_dim_v2(y, in_dim=target, out_dim=self.out_dim)
        if y.feature_dim is not self.out_dim:
            y = set_feature_dim(y, self.out_dim)
        if self.spec.common.loss is not None:
            self.last.logits = y if self.activation == "softmax" else None
        return self.with_activation(y)


class Softmax(LinearLayer, layer_class="softmax"):
    """softmax(x·W + b). {…, in} → {…, n_out}"""

    activation: object = value("softmax")


class Copy(Layer, layer_class=("copy", "dropout", "identity")):
    """The source, or several joined in their features; dropout is a common option. {…} → the same"""

    def compute(self, x: Tensor) -> Tensor:
        """{…} → the same"""
        return x


class Activation(Activated, layer_class="activation"):
    """A function of each entry, or softmax over the features. {…} → the same"""

    opts: dict[str, Any] | None = value(None, dict)

    def compute(self, x: Tensor) -> Tensor:
        """{…} → the same"""
        return self.with_activation(x)


class Cast(Layer, layer_class="cast"):
    """The entries with another dtype. {…} → the same"""

    dtype: str = value("float32", str)

    def compute(self, x: Tensor) -> Tensor:
        """{…} → the same"""
        return set_sparse_dim(cast(x, self.dtype), None)


def _as(b: Parameter, dim: Dim) -> Tensor:
    return b if b.dims[0] is dim else replace_dim_v2(b, in_dim=b.dims[0], out_dim=dim)


class ScaledGrad(Layer, layer_class="scaled_grad"):
    """The source; its gradient is multiplied by `scale`, and `shift` is added. {…} → the same

    Gradients of frames after the end of a sequence are shifted and counted too.
    """

    scale: object = layer(REQUIRED)
    shift: object = layer(None)
    scale_shift_by_sum_over_axis: Dim | None = axis(None)
    clip_max_axis: Dim | None = axis(None)

    def compute(self, x: Tensor, **inputs: Tensor) -> Tensor:
        """{…} → the same"""
        scale, shift = self.inputs_of(inputs).values()
        axes = {name: getattr(self, name) for name in ("scale_shift_by_sum_over_axis", "clip_max_axis")}
        padded: dict[Dim, Dim] = {}
        if not self.spec.batch_independent and (shift is not None or axes["clip_max_axis"] is not None):
            for dim in ragged(x.dims):
                x, padded[dim] = with_padding(x, dim)
        over = {name: padded.get(dim, dim) for name, dim in axes.items()}
        y = scaled_gradient_ext(x, scale=scale, shift=shift, **over)
        for dim, padded_dim in padded.items():
            y, _ = replace_dim(y, in_dim=padded_dim, out_dim=dim)
        return y
