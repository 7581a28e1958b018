"""Convolution and pooling: windows that slide over one to three axes."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of, of_types
from rfnb.backend.base.sizes import bound
from rfnb.backend.base.slide import Padding, PerAxis, Spread, Window, spreads, windows
from rfnb.core import align
from rfnb.core.dim import Dim, check_dims
from rfnb.core.lengths import Lengths, Size
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError, DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class Plan(NamedTuple):
    """What follows from the dims and the options alone.

    slides: over each of the spatial dims. there: from the dims of the source to [rest…, each…, in, spatial…], of which
    the first ones are `rest`. back: from those of the result to `out`, which has the spatial dims at `places`.
    named: which of these have a dim that the user gave, and no formula. filter: to [each…, out, in, spatial…], or
    [each…, in, out, spatial…]; `each` are the axes of a filter each entry of which is a filter of its own: they become
    groups. bias_inside: the kernel can take it.
    """

    slides: tuple[Any, ...]
    there: align.Move
    rest: int
    back: align.Move
    out: weakref.ref[align.Sig]
    places: tuple[int, ...]
    named: tuple[int, ...]
    filter: align.Move = None
    each: tuple[int, ...] = ()
    bias_inside: bool = False


class ConvOps:
    """Raw part: `conv_raw(raw, filter, bias, windows, groups)`, `pool_raw(raw, mode, windows)`,
    `transposed_conv_raw(raw, filter, bias, spreads, groups)`. They slide over the last axes.
    """

    conv_raw: Callable[..., Any]
    transposed_conv_raw: Callable[..., Any]
    pool_raw: Callable[..., Any]

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
        options = ("conv", groups or 1, _fixed(padding), _fixed(strides), _fixed(dilation_rate))
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
        """Each frame times the filter, `strides` apart, and summed where they overlap. Padding gets 0.

        {…, in_dim, in_spatial_dims…}, {filter_size…, in_dim, out_dim} → {…, out_dim, out_spatial_dims…}
        """

        def slides(sizes: list[int]) -> tuple[Spread, ...]:
            return spreads("transposed_conv", sizes, strides, padding, remove_padding, output_padding)

        dims = Dims(in_dim, out_dim, in_spatial_dims, out_spatial_dims, filter_size)
        options = ("transposed_conv", 1, *map(_fixed, (padding, strides, remove_padding, output_padding)))
        return _convolved(cls, cls.transposed_conv_raw, source, filter, bias, dims, options, slides)

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
        if mode not in ("max", "avg"):
            raise DimError("pool: no such mode", got=mode, expected='"max" or "avg"')
        if mode == "avg" and not _is_float(source):
            raise DtypeError("pool: the mean of what is no float", got=source.dtype, expected="a float type")
        options = ("pool", *map(_fixed, (pool_size, padding, dilation_rate, strides)))
        key = (options, len(in_spatial_dims), *_serials([*in_spatial_dims, *(out_spatial_dims or ())]))
        plan: Any = source.sig.plans.get(key)
        out = plan and plan.out()
        if not out:
            slides = windows("pool", len(in_spatial_dims), pool_size, strides, dilation_rate, padding)
            for dim in in_spatial_dims:
                axis_of("pool", source, dim)
            rest = [dim for dim in source.dims if dim not in in_spatial_dims]
            plan, out = _plan("pool", source, slides, rest, in_spatial_dims, out_spatial_dims)
            source.sig.keep(key, plan)
        lengths = _bound("pool", plan, out, source.lengths, in_spatial_dims)
        raw = cls.fill_padding(source, cls.lowest_raw(source._raw) if mode == "max" else 0, tuple(in_spatial_dims))
        raw, shape = one_axis(cls, cls.move_raw(raw, plan.there), max(plan.rest - 1, 0))
        raw = several_axes(cls, cls.pool_raw(raw, mode, plan.slides), shape)
        result = tensor_of(cls.move_raw(raw, plan.back), out, lengths)
        if mode == "avg":
            for dim, window, place in zip(in_spatial_dims, plan.slides, plan.places, strict=True):
                result._raw = _mean_of_frames(cls, result._raw, source, dim, window, place)
        result._raw = cls.fill_padding(result, 0)  # so that nothing which comes back for it gets into a gradient
        return result, out_spatial_dims or [out.dims[place] for place in plan.places]


def _mean_of_frames(backend: Any, raw: Any, source: Tensor, dim: Dim, window: Window, place: int) -> Any:
    """The mean over frames, from the mean over frames and zeros."""
    if not window.left and not window.right:
        return raw
    positions = backend.get_shape_tuple_raw(raw)[place]

    def frames(lengths: np.ndarray) -> np.ndarray:
        return np.maximum(window.inside(lengths, positions), 1)

    return raw * window.size / backend.per_frame(source, dim, ("pool", window, positions), frames)


class Dims(NamedTuple):
    """The dims of a convolution."""

    inner: Dim
    outer: Dim
    spatial: Sequence[Dim]
    out_spatial: Sequence[Dim] | None
    filter_size: Sequence[Dim]


def _convolved(
    backend: Any,
    function: Callable[..., Any],
    source: Tensor,
    filter: Tensor,
    bias: Tensor | None,
    dims: Dims,
    options: tuple[Any, ...],
    slides: Callable[[list[int]], tuple[Any, ...]],
) -> tuple[Tensor, Sequence[Dim]]:
    """What both directions have in common. `options`: the op, the groups, and what else `slides` knows."""
    inner, outer, spatial, out_spatial, filter_size = dims
    op, groups = options[:2]
    for several in (spatial, filter_size):
        check_dims(several, op)
    if not _is_float(source):
        raise DtypeError(f"{op}: `source` holds no numbers to sum", got=source.dtype, expected="a float type")
    serials = _serials([inner, outer, *spatial, *filter_size, *(out_spatial or ())])
    key = (options, len(spatial), filter.sig.serial, bias is not None and bias.sig.serial, *serials)
    plan: Any = source.sig.plans.get(key)
    out = plan and plan.out()
    if not out:
        sizes = _sizes(op, filter_size, spatial)
        plan, out = _plan_filter(op, source, filter, bias, dims, slides(sizes), groups)
        if all(dim.dimension is not None for dim in filter_size):
            source.sig.keep(key, plan)
    lengths = join(source, filter) if bias is None else join(source, filter, bias)
    lengths = _bound(op, plan, out, lengths, spatial)
    raw = backend.move_raw(backend.fill_padding(source, 0), plan.there)
    weights = backend.move_raw(backend.fill_padding(filter, 0), plan.filter)
    if plan.each:
        each = [backend.get_shape_tuple_raw(filter._raw)[axis] for axis in plan.each]
        shape = backend.get_shape_tuple_raw(raw)
        raw = backend.broadcast_raw(raw, [*shape[: plan.rest], *each, *shape[plan.rest + len(each) :]])
        raw = backend.merge_axes_raw(raw, plan.rest, len(each) + 1)
        weights = backend.merge_axes_raw(weights, 0, len(each) + 1)
        groups *= math.prod(each)
    raw, shape = one_axis(backend, raw, plan.rest)
    raw_bias = bias._raw if bias is not None and plan.bias_inside else None
    try:
        raw = function(raw, weights, raw_bias, plan.slides, groups)
    except RuntimeError as error:
        raise of_types(op, error, source=source, filter=filter) from None
    if plan.each:
        raw = backend.split_axis_raw(raw, 1, [*each, outer.dimension])
    result = tensor_of(backend.move_raw(several_axes(backend, raw, shape), plan.back), out, lengths)
    if bias is not None and not plan.bias_inside:
        result = backend.combine(result, "add", bias, allow_broadcast_all_sources=True)
    result._raw = backend.fill_padding(result, 0)  # so that nothing which comes back for it gets into a gradient
    return result, out_spatial or [out.dims[place] for place in plan.places]


def _plan_filter(
    op: str, source: Tensor, filter: Tensor, bias: Tensor | None, dims: Dims, slides: tuple[Any, ...], groups: int
) -> tuple[Plan, align.Sig]:
    in_dim = source.sig.meant(dims.inner)
    for dim in (in_dim, *dims.spatial):
        axis_of(op, source, dim)
    for dim in dims.filter_size:
        axis_of(op, filter, dim, "filter")
    others = [dim for dim in filter.dims if dim not in dims.filter_size]
    inner, outer = _in_and_out(op, filter, others, dims.inner, dims.outer, groups)
    each = [dim for dim in others if dim is not inner and dim is not outer]
    rest = [dim for dim in source.dims if dim is not in_dim and dim not in dims.spatial and dim not in each]
    plan, out = _plan(op, source, slides, rest, dims.spatial, dims.out_spatial, each, (in_dim, dims.outer))
    order = [*each, *((outer, inner) if op == "conv" else (inner, outer)), *dims.filter_size]
    return plan._replace(
        filter=align.move(filter.dims, order),
        each=tuple(filter.dims.index(dim) for dim in each),
        bias_inside=bias is not None and bias.dims == (dims.outer,),
    ), out


def _plan(
    op: str,
    source: Tensor,
    slides: tuple[Window | Spread, ...],
    rest: Sequence[Dim],
    spatial: Sequence[Dim],
    given: Sequence[Dim] | None,
    each: Sequence[Dim] = (),
    features: tuple[Dim, Dim] | None = None,
) -> tuple[Plan, align.Sig]:
    """For a result with the axes where those of the source were. A filter has `each`, and changes `features`."""
    formulas: list[Dim] = [slide.count(dim) for slide, dim in zip(slides, spatial, strict=True)]
    out_spatial = formulas if given is None else list(given)
    if len(out_spatial) != len(formulas):
        raise DimError(
            f"{op}: another number of output dims", got=align.show_dims(out_spatial), expected=align.show_dims(formulas)
        )
    olds, news = list(spatial), list(out_spatial)
    sparse_dim, feature_dim = source.sparse_dim, _swap(source.feature_dim, olds, news)
    if features is not None:
        olds, news = [features[0], *olds], [features[1], *news]
        sparse_dim, feature_dim = None, features[1]
    new = [dim for dim in each if dim not in source.sig.index]
    out = align.sig([*new, *(_swap(dim, olds, news) for dim in source.dims)], sparse_dim, feature_dim)
    plan = Plan(
        slides,
        there=align.move(source.dims, [*rest, *each, *olds], trailing=False),
        rest=len(rest),
        back=align.move([*rest, *each, *news], out.dims),
        out=weakref.ref(out),
        places=tuple(out.index[dim] for dim in out_spatial),
        named=tuple(i for i, dim in enumerate(out_spatial) if dim is not formulas[i]),
    )
    return plan, out


def _in_and_out(
    op: str, filter: Tensor, dims: Sequence[Dim], in_dim: Dim, out_dim: Dim, groups: int
) -> tuple[Dim, Dim]:
    """The two dims of a filter that stand for `in_dim` (or its part in a group) and `out_dim`.

    Of two axes of one dim, `in_dim` is the one with the higher priority.
    """
    part = in_dim // groups
    inner = max((dim for dim in dims if dim.base is part.base), key=lambda dim: dim.match_priority, default=None)
    outer = next((dim for dim in dims if dim.base is out_dim.base and dim is not inner), None)
    if inner is None:  # a dim of its own, of the right size
        inner = next((dim for dim in dims if dim is not outer and dim.dimension == part.dimension), None)
    if inner is None or outer is None:
        raise DimError(
            f"{op}: `filter` has other dims",
            got=filter.describe_dims(),
            expected=f"{part.describe()} and {out_dim.describe()} besides `filter_size`",
            hint=None if in_dim is not out_dim else f"{in_dim.name}.copy(match_priority=1) is its input",
        )
    return inner, outer


def _sizes(op: str, filter_size: Sequence[Dim], spatial: Sequence[Dim]) -> list[int]:
    if len(filter_size) != len(spatial) or not 1 <= len(spatial) <= 3:
        raise DimError(
            f"{op}: the filter is for other axes",
            got=f"`filter_size` {align.show_dims(filter_size)} for {align.show_dims(spatial)}",
            expected="a dim of the filter for each of one to three `in_spatial_dims`",
        )
    return [dim.get_dim_value() for dim in filter_size]


def _bound(op: str, plan: Plan, out: align.Sig, lengths: Lengths, spatial: Sequence[Dim]) -> Lengths:
    """The lengths of the result; gives the dims that have no formula their sizes."""
    for i in plan.named:
        size = lengths[spatial[i]]
        lengths = bound(lengths, out.dims[plan.places[i]], Size(size.dims, plan.slides[i].count(size.values)), op)
    return lengths


def one_axis(backend: Any, raw: Any, count: int) -> tuple[Any, tuple[int, ...] | None]:
    """The first `count` axes as one, and what they were; None if it was one."""
    if count == 1:
        return raw, None
    shape = backend.get_shape_tuple_raw(raw)[:count]
    return backend.merge_axes_raw(raw, 0, count) if count else raw[None], shape


def several_axes(backend: Any, raw: Any, shape: tuple[int, ...] | None) -> Any:
    """The first axis as those it was made of."""
    if shape is None:
        return raw
    return backend.split_axis_raw(raw, 0, shape) if shape else raw[0]


def _is_float(x: Tensor) -> bool:
    return x.dtype.startswith(("float", "bfloat", "complex"))


def _swap(dim: Any, olds: Sequence[Dim], news: Sequence[Dim]) -> Any:
    return news[olds.index(dim)] if dim in olds else dim


def _fixed(option: Any) -> Any:
    """As part of a key."""
    return tuple(option) if isinstance(option, list) else option


def _serials(dims: Sequence[Dim]) -> list[int | None]:
    """As part of a key; what is no Dim has none, and is refused when the plan is made."""
    return [getattr(dim, "serial", None) for dim in dims]
