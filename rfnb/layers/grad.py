"""Layers that change the gradient: scaled_grad."""

from __future__ import annotations

from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.network.layer import Layer
from rfnb.network.options import REQUIRED, axis, layer, value
from rfnb.ops.grad import scaled_gradient_ext


class ScaledGrad(Layer, layer_class="scaled_grad"):
    """The source; its gradient is multiplied by `scale`, and `shift` is added. {…} → the same"""

    scale: Any = layer(REQUIRED)
    shift: Any = layer(None)
    scale_shift_by_sum_over_axis: Dim | None = axis(None)
    clip_max_axis: Any = value(None)

    def compute(self, x: Tensor, **inputs: Tensor) -> Tensor:
        """{…} → the same"""
        if self.clip_max_axis is not None:
            raise NetworkError("scaled_grad: clip_max_axis is not supported here")
        scale, shift = (inputs.get(name, getattr(self, name)) for name in ("scale", "shift"))
        over = self.scale_shift_by_sum_over_axis
        return scaled_gradient_ext(x, scale=scale, shift=shift, scale_shift_by_sum_over_axis=over)
