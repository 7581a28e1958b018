"""Pooling: windows that slide over one to three axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.require import axis_of
from rfnb.backend.base.slide import Padding, PerAxis, Window, windows
from rfnb.backend.base.slide_plan import bind, fit, fixed, one_axis, plan_of, serials_of, several_axes
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.dtype import has_fractions
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class PoolOps:
    """Raw part: `pool_raw(raw, mode, windows)`, which slides over the last axes."""

    pool_raw: Callable[..., Any]

    @classmethod
    def pool(
        cls: type[Backend],
        source: Tensor,
        *,
        mode: str,
        pool_size: Sequence[int],
        padding: Padding = "valid",
        dilation_rate: PerAxis = 1,
        strides: Sequence[int],
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """The "max" or the mean ("avg") of the frames in each window. Padding does not count, and gets 0.

        {…, in_spatial_dims…} → {…, out_spatial_dims…}
        """
        if mode == "avg" and not has_fractions(source.dtype):
            raise DtypeError("pool: the mean needs floats", got=source.dtype, expected="a float type")
        options = ("pool", *map(fixed, (pool_size, padding, dilation_rate, strides)))
        key = (options, len(in_spatial_dims), *serials_of([*in_spatial_dims, *(out_spatial_dims or ())]))
        plan: Any = source.sig.plans.get(key)
        out = plan and plan.out()
        if not out:
            slides = windows("pool", len(in_spatial_dims), pool_size, strides, dilation_rate, padding)
            for dim in in_spatial_dims:
                axis_of("pool", source, dim)
            outer = [dim for dim in source.dims if dim not in in_spatial_dims]
            plan, out = plan_of("pool", source, slides, outer, in_spatial_dims, out_spatial_dims)
            source.sig.keep(key, plan)
        lengths = bind("pool", plan, out, source.lengths, in_spatial_dims)
        raw = cls.fill_padding(source, cls.lowest_raw(source._raw) if mode == "max" else 0, tuple(in_spatial_dims))
        raw, shape = one_axis(cls, cls.move_raw(raw, plan.there), max(plan.rest - 1, 0))
        raw = several_axes(cls, cls.pool_raw(raw, mode, plan.slides), shape)
        result = tensor_of(cls.move_raw(raw, plan.back), out, lengths)
        if mode == "avg":
            for dim, window, place in zip(in_spatial_dims, plan.slides, plan.places, strict=True):
                result._raw = _mean_of_frames(cls, result._raw, source, dim, window, place)
        else:  # the maximum over padding alone is -∞
            result._raw = cls.fill_padding(result, 0)
        return fit(cls, plan, result), out_spatial_dims or [out.dims[place] for place in plan.places]


def _mean_of_frames(backend: type[Backend], raw: Any, source: Tensor, dim: Dim, window: Window, place: int) -> Any:
    """The mean over frames, computed from the mean over frames and zeros."""
    if not window.left and not window.right:
        return raw
    positions = backend.get_shape_tuple_raw(raw)[place]

    def frames(lengths: np.ndarray) -> np.ndarray:
        return np.maximum(window.inside(lengths, positions), 1)

    return raw * window.size / backend.per_frame(source, dim, ("pool", window, positions), frames)
