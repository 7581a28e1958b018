"""Softmax over axes that are not the features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.network.axes import time_of
from rfnb.network.layer import Layer
from rfnb.network.options import axis, layer, value
from rfnb.ops.create import range_over_dim
from rfnb.ops.math import cast, where
from rfnb.ops.reduce import log_softmax, softmax


class SoftmaxOverSpatial(Layer, layer_class="softmax_over_spatial"):
    """softmax of the energies over an axis, by default the time, of each sequence. {…, axis} → the same"""

    axis: Dim = axis(None)
    energy_factor: float | None = value(None, float)
    start: Any = layer()
    window_start: Any = layer()
    window_size: Any = layer()
    use_time_mask: bool | None = value(None, bool)
    log_space: bool = value(False, bool)

    def setup(self, x: Tensor, **inputs: Tensor) -> None:  # type: ignore[override]
        """The time axis, if no other is given."""
        over = self.axis or time_of(x)
        if over is None:
            fault = "softmax_over_spatial: the source has no time axis"
            raise NetworkError(fault, got=x.describe_dims(), expected='"axis": …, or frames')
        self.over = over

    def compute(self, x: Tensor, **inputs: Tensor) -> Tensor:
        """{…, axis} → the same"""
        options = {name: inputs.get(name, getattr(self, name)) for name in ("start", "window_start", "window_size")}
        if self.energy_factor is not None:
            x = x * self.energy_factor
        keep = None
        lower = options["start"] if options["window_start"] is None else options["window_start"]
        if lower is not None:
            places = range_over_dim(self.over, device=x.device)
            lower = cast(lower, places.dtype) if isinstance(lower, Tensor) else lower
            keep = places >= lower  # type: ignore[operator]
        if options["window_size"] is not None and lower is not None:
            size = options["window_size"]
            size = cast(size, places.dtype) if isinstance(size, Tensor) else size
            before_end = places < lower + size
            keep = keep & before_end if keep is not None else before_end
        if keep is not None:
            x = where(keep, x, -1e30, allow_broadcast_all_sources=True)
        masked = self.use_time_mask is not False or self.spec.batch_independent
        return (log_softmax if self.log_space else softmax)(x, axis=self.over, use_mask=masked)

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """That of the source."""
        return sources[0].feature_dim

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The axis comes last."""
        return [*(dim for dim in order if dim is not self.over), self.over]
