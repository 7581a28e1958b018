"""Layers that change the gradient: scaled_grad."""

from __future__ import annotations

from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.layers.batches import with_padding
from rfnb.network.layer import Layer
from rfnb.network.options import REQUIRED, axis, layer
from rfnb.ops.grad import scaled_gradient_ext
from rfnb.ops.shape import replace_dim


class ScaledGrad(Layer, layer_class="scaled_grad"):
    """The source; its gradient is multiplied by `scale`, and `shift` is added. {…} → the same

    Gradients of frames after the end of a sequence are shifted and counted too.
    """

    scale: Any = layer(REQUIRED)
    shift: Any = layer(None)
    scale_shift_by_sum_over_axis: Dim | None = axis(None)
    clip_max_axis: Dim | None = axis(None)

    def compute(self, x: Tensor, **inputs: Tensor) -> Tensor:
        """{…} → the same"""
        scale, shift = (inputs.get(name, getattr(self, name)) for name in ("scale", "shift"))
        axes = {name: getattr(self, name) for name in ("scale_shift_by_sum_over_axis", "clip_max_axis")}
        padded: dict[Dim, Dim] = {}
        if not self.spec.batch_independent and (shift is not None or axes["clip_max_axis"] is not None):
            for dim in [dim for dim in x.dims if dim.is_dynamic() and not dim.is_batch_dim()]:
                x, padded[dim] = with_padding(x, dim)
        over = {name: padded.get(dim, dim) for name, dim in axes.items()}
        y = scaled_gradient_ext(x, scale=scale, shift=shift, **over)
        for dim, padded_dim in padded.items():
            y, _ = replace_dim(y, in_dim=padded_dim, out_dim=dim)
        return y
