"""Convolution and pooling: filters and windows that slide over one to three axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of, explain_dtypes
from rfnb.backend.base.slide import (
    Padding,
    PerAxis,
    SlidePlan,
    Spread,
    Window,
    bind,
    fit,
    fixed,
    one_axis,
    plan_of,
    serials_of,
    several_axes,
    spreads,
    windows,
)
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.ground.default import has_fractions
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError, DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class ConvOps:
    """Raw part: `conv_raw(raw, filter, bias, windows, groups)`, `transposed_conv_raw(raw, filter, bias, spreads,
    groups)`. They slide over the last axes.
    """

    conv_raw: Callable[..., Any]
    transposed_conv_raw: Callable[..., Any]

    @classmethod
    def conv(
        cls: type[Backend],
        source: Tensor,
        *,
        in_dim: Dim,
        out_dim: Dim,
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
        filter: Tensor,
        filter_size: Sequence[Dim],
        padding: Padding,
        strides: PerAxis | None = None,
        dilation_rate: PerAxis | None = None,
        groups: int | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """Σ over filter_size and in_dim of frames · filter. Padding counts as 0, and gets 0.

        {…, in_dim, in_spatial_dims…}, {filter_size…, in_dim/groups, out_dim} → {…, out_dim, out_spatial_dims…}
        """

        def slides(sizes: list[int]) -> tuple[Window, ...]:
            return windows("conv", len(sizes), sizes, strides, dilation_rate, padding)

        dims = Dims(in_dim, out_dim, in_spatial_dims, out_spatial_dims, filter_size)
        options = ("conv", groups or 1, fixed(padding), fixed(strides), fixed(dilation_rate))
        return _convolved(cls, cls.conv_raw, source, filter, bias, dims, options, slides)

    @classmethod
    def transposed_conv(
        cls: type[Backend],
        source: Tensor,
        *,
        in_dim: Dim,
        out_dim: Dim,
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
        filter: Tensor,
        filter_size: Sequence[Dim],
        padding: Padding,
        remove_padding: PerAxis = 0,
        output_padding: int | Sequence[int | None] | None = None,
        strides: Sequence[int] | None = None,
        bias: Tensor | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """Each frame times the filter, placed `strides` apart and summed where they overlap. Padding gets 0.

        {…, in_dim, in_spatial_dims…}, {filter_size…, in_dim, out_dim} → {…, out_dim, out_spatial_dims…}
        """

        def slides(sizes: list[int]) -> tuple[Spread, ...]:
            return spreads("transposed_conv", sizes, strides, padding, remove_padding, output_padding)

        dims = Dims(in_dim, out_dim, in_spatial_dims, out_spatial_dims, filter_size)
        options = ("transposed_conv", 1, *map(fixed, (padding, strides, remove_padding, output_padding)))
        return _convolved(cls, cls.transposed_conv_raw, source, filter, bias, dims, options, slides)


class Dims(NamedTuple):
    """The dims of a convolution."""

    inner: Dim
    outer: Dim
    spatial: Sequence[Dim]
    out_spatial: Sequence[Dim] | None
    filter_size: Sequence[Dim]


def _convolved(
    backend: type[Backend],
    function: Callable[..., Any],
    source: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    dims: Dims,
    options: tuple[Any, ...],
    slides: Callable[[list[int]], tuple[Any, ...]],
) -> tuple[Tensor, Sequence[Dim]]:
    """The common part of both directions. `options`: the op, the groups, and the options of `slides`."""
    inner, outer, spatial, out_spatial, filter_size = dims
    op, groups = options[:2]
    for group in (spatial, filter_size):
        check_dims(group, op)
    if not has_fractions(source.dtype):
        raise DtypeError(f"{op}: `source` does not hold numbers", got=source.dtype, expected="a float type")
    serials = serials_of([inner, outer, *spatial, *filter_size, *(out_spatial or ())])
    key = (options, len(spatial), filter.sig.serial, bias is not None and bias.sig.serial, *serials)
    plan: Any = source.sig.plans.get(key)
    out = plan and plan.out()
    if not out:
        sizes = _sizes(op, filter_size, spatial)
        plan, out = _plan_filter(op, source, filter, bias, dims, slides(sizes), groups)
        if all(dim.dimension is not None for dim in filter_size):
            source.sig.keep(key, plan)
    source = backend.finite_operand(source)
    lengths = join(source, filter) if bias is None else join(source, filter, bias)
    lengths = bind(op, plan, out, lengths, spatial)
    raw = backend.move_raw(backend.fill_padding(source, 0), plan.there)
    weights = backend.move_raw(backend.fill_padding(filter, 0), plan.filter)
    if plan.each:
        counts = [backend.get_shape_tuple_raw(filter._raw)[axis] for axis in plan.each]
        axes = backend.get_shape_tuple_raw(raw)
        raw = backend.broadcast_raw(raw, [*axes[: plan.rest], *counts, *axes[plan.rest + len(counts) :]])
        raw = backend.merge_axes_raw(raw, plan.rest, len(counts) + 1)
        weights = backend.merge_axes_raw(weights, 0, len(counts) + 1)
        groups *= math.prod(counts)
    raw, shape = one_axis(backend, raw, plan.rest)
    raw_bias = bias._raw if bias is not None and plan.bias_inside else None
    try:
        raw = function(raw, weights, raw_bias, plan.slides, groups)
    except RuntimeError as error:
        raise explain_dtypes(backend, op, error, source=source, filter=filter) from None
    if plan.each:
        raw = backend.split_axis_raw(raw, 1, [*counts, outer.dimension or 0])
    result = tensor_of(backend.move_raw(several_axes(backend, raw, shape), plan.back), out, lengths)
    result = fit(backend, plan, result)
    if bias is not None and not plan.bias_inside:
        result = backend.combine(result, "add", bias, allow_broadcast_all_sources=True)
    return result, out_spatial or [out.dims[place] for place in plan.places]


def _plan_filter(
    op: str, source: Tensor, filter: Tensor, bias: Tensor | None, dims: Dims, slides: tuple[Any, ...], groups: int
) -> tuple[SlidePlan, align.Sig]:
    in_dim = source.sig.resolve(dims.inner)
    for dim in (in_dim, *dims.spatial):
        axis_of(op, source, dim)
    for dim in dims.filter_size:
        axis_of(op, filter, dim, "filter")
    free = [dim for dim in filter.dims if dim not in dims.filter_size]
    inner, outer = _in_and_out(op, filter, free, dims.inner, dims.outer, groups)
    shared = [dim for dim in free if dim is not inner and dim is not outer]
    rest = [dim for dim in source.dims if dim is not in_dim and dim not in dims.spatial and dim not in shared]
    plan, out = plan_of(op, source, slides, rest, dims.spatial, dims.out_spatial, shared, (in_dim, dims.outer))
    order = [*shared, *((outer, inner) if op == "conv" else (inner, outer)), *dims.filter_size]
    return plan._replace(
        filter=align.move(filter.dims, order),
        each=tuple(filter.dims.index(dim) for dim in shared),
        bias_inside=bias is not None and bias.dims == (dims.outer,),
    ), out


def _in_and_out(
    op: str, filter: Tensor, dims: Sequence[Dim], in_dim: Dim, out_dim: Dim, groups: int
) -> tuple[Dim, Dim]:
    """The two dims of a filter that stand for `in_dim` (or its part in a group) and `out_dim`.

    If both are the same dim, `in_dim` is the axis with the higher priority.
    """
    part = in_dim // groups
    inner = max((dim for dim in dims if dim.base is part.base), key=lambda dim: dim.match_priority, default=None)
    outer = next((dim for dim in dims if dim.base is out_dim.base and dim is not inner), None)
    if inner is None:  # a separate dim of the right size
        inner = next((dim for dim in dims if dim is not outer and dim.dimension == part.dimension), None)
    if inner is None or outer is None:
        raise DimError(
            f"{op}: `filter` has different dims",
            got=filter.describe_dims(),
            expected=f"{part.describe()} and {out_dim.describe()} besides `filter_size`",
            hint=None if in_dim is not out_dim else f"{in_dim.name}.copy(match_priority=1) is its input",
        )
    return inner, outer


def _sizes(op: str, filter_size: Sequence[Dim], spatial: Sequence[Dim]) -> list[int]:
    if len(filter_size) != len(spatial) or not 1 <= len(spatial) <= 3:
        raise DimError(
            f"{op}: `filter_size` does not match the spatial dims",
            got=f"`filter_size` {align.show_dims(filter_size)} for {align.show_dims(spatial)}",
            expected="one filter dim for each of the one to three `in_spatial_dims`",
        )
    return [dim.get_dim_value() for dim in filter_size]


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
