"""Convolution, pooling and spectra: filters and windows that slide over one to three axes.

The length of the result, and how axes move there and back, is the same for all windows that slide.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of, explain_dtypes, require_owner_dims
from rfnb.backend.base.sizes import bound, fitted, require_no_inner_dims, trimmed
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim, as_dims, check_dims
from rfnb.core.dims.lengths import Lengths, Size, frame_numbers
from rfnb.core.ground.defaults import has_fractions
from rfnb.core.tensor.arguments import OneOf
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, DtypeError, ParameterError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


PerAxis = int | Sequence[int]
PoolMode = Annotated[str, OneOf("max", "avg")]
Padding = Annotated[str, OneOf("valid", "same", any_case=True)] | int | Sequence[str | int | tuple[int, int]]


class Window(NamedTuple):
    """How a window slides over an axis: its size, the steps between positions and entries, the zeros at both ends.

    "same" has ⌈frames / stride⌉ positions. The zeros do not depend on the length, so that the result of a sequence
    does not depend on the batch.
    """

    size: int
    stride: int
    dilation: int
    left: int
    right: int

    @property
    def span(self) -> int:
        """The number of frames that the window spans."""
        return (self.size - 1) * self.dilation + 1

    def count(self, length: Any) -> Any:
        """The number of positions on an axis of this length: ⌈(length + zeros - span + 1) / stride⌉."""
        extra = self.left + self.right + 1 - self.span
        if isinstance(length, Dim):
            return (length + extra).ceildiv_right(self.stride)
        return _none_at_least(-(-(length + extra) // self.stride))

    def inside(self, length: np.ndarray, count: int) -> np.ndarray:
        """The number of entries of the window that are frames, not zeros. [… , 1] → [… , count]"""
        starts = frame_numbers(count) * self.stride - self.left
        entries = starts[:, None] + np.arange(self.size) * self.dilation
        counts: np.ndarray = ((entries >= 0) & (entries < length[..., None])).sum(-1)
        return counts


class Spread(NamedTuple):
    """How a transposed convolution spreads the frames of an axis: the entries of the filter, the steps between frames,
    what is cut off before and after; `extra` frames at the end, None for what `padding` needs.
    """

    size: int
    stride: int
    same: bool
    cut: int
    extra: int | None

    @property
    def around(self) -> int:
        """The number of frames that "same" cuts off at both ends."""
        if not self.same:
            return 0
        return max(self.size - self.stride, 0) if self.extra is None else self.size // 2 * 2

    @property
    def left(self) -> int:
        """The number of frames cut off at the start."""
        return self.around // 2 + self.cut

    @property
    def more(self) -> int:
        """The number of frames in addition to `stride` for each."""
        reached = self.size - self.stride
        return (max(reached, 0) if self.extra is None else reached + self.extra) - self.around - 2 * self.cut

    def count(self, length: Any) -> Any:
        """The number of frames of the result, for this many frames."""
        total = length * self.stride + self.more
        return total if isinstance(length, Dim) else _none_at_least(total)


def _none_at_least(count: Any) -> object:
    if hasattr(count, "__sym_max__"):  # a symbol while torch traces
        return count.__sym_max__(0)
    return max(count, 0) if isinstance(count, int) else np.maximum(count, 0)


def windows(
    op: str, count: int, sizes: Sequence[int], strides: PerAxis | None, dilations: PerAxis | None, padding: Padding
) -> tuple[Window, ...]:
    """A Window for each of `count` axes."""
    slides, of_axes = [], padding or "valid"
    is_pair = count == 1 and isinstance(padding, tuple | list) and len(padding) == 2
    paddings = per_axis(op, "padding", [of_axes] if is_pair else of_axes, count)
    steps = [per_axis(op, name, x, count) for name, x in (("strides", strides), ("dilation_rate", dilations))]
    for size, stride, dilation, how in zip(map(whole, sizes), *steps, paddings, strict=True):
        _check_positive(op, size, stride, dilation)
        how = how.lower() if isinstance(how, str) else how
        span = (size - 1) * dilation
        if how == "same":
            slides.append(Window(size, stride, dilation, span // 2, span - span // 2))
        elif how == "valid":
            slides.append(Window(size, stride, dilation, 0, 0))
        elif isinstance(how, int):
            slides.append(Window(size, stride, dilation, how, how))
        elif isinstance(how, tuple | list) and len(how) == 2 and all(isinstance(zeros, int) for zeros in how):
            slides.append(Window(size, stride, dilation, *map(whole, how)))
        else:
            raise ParameterError(
                f"{op}: unknown `padding`",
                got=how,
                expected='"valid", "same", a number of zeros, or a pair of them',
            )
    return tuple(slides)


def spreads(
    op: str,
    sizes: Sequence[int],
    strides: PerAxis | None,
    padding: Padding,
    remove_padding: PerAxis,
    output_padding: object,
) -> tuple[Spread, ...]:
    """A Spread for each axis of a filter of `sizes`; the strides are by default the size of the filter."""
    count = len(sizes)
    steps = sizes if strides is None else per_axis(op, "strides", strides, count)
    extras = [None] * count if output_padding is None else per_axis(op, "output_padding", output_padding, count)
    paddings = per_axis(op, "padding", padding, count)
    cuts = per_axis(op, "remove_padding", remove_padding, count)
    slides = []
    for size, stride, how, cut, extra in zip(sizes, steps, paddings, cuts, extras, strict=True):
        _check_positive(op, size, stride, 1)
        if not isinstance(how, str) or how.lower() not in ("same", "valid"):
            raise ParameterError(f"{op}: unknown `padding`", got=how, expected='"valid" or "same"')
        slides.append(Spread(size, stride, how.lower() == "same", cut, extra))
    return tuple(slides)


def _check_positive(op: str, size: int, stride: int, dilation: int) -> None:
    if min(size, stride, dilation) < 1:
        raise DimError(
            f"{op}: a size, stride or dilation is not positive",
            got=f"size {size}, stride {stride}, dilation {dilation}",
            expected="1 or more",
        )


def per_axis(op: str, name: str, value: Any, count: int) -> list[Any]:
    """`value` for each of `count` axes; 1 if it is None."""
    if value is None:
        return [1] * count
    if isinstance(value, str | int):
        return [whole(value)] * count
    if len(value) != count:
        raise DimError(
            f"{op}: `{name}` does not match the number of axes", got=list(value), expected=f"a number, or {count}"
        )
    return [whole(entry) for entry in value]


def whole(value: object) -> Any:
    """A number as plans hold it: True is 1, and equal to it as the key of a plan. Raises TypeError for fractions."""
    if isinstance(value, float):
        raise TypeError(f"{value} is not a whole number")
    return int(value) if isinstance(value, bool) else value


class SlidePlan(NamedTuple):
    """The part of a sliding op that depends only on the dims and the options.

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


def plan_of(
    op: str,
    source: Tensor,
    slides: tuple[Window | Spread, ...],
    rest: Sequence[Dim],
    spatial: Sequence[Dim],
    given: Sequence[Dim] | None,
    each: Sequence[Dim] = (),
    features: tuple[Dim, Dim] | None = None,
) -> tuple[SlidePlan, align.Sig]:
    """The plan for a result with the axes in the place of those of the source, and its signature.

    each: axes of a filter that are groups. features: input and output dim of a filter."""
    formulas: list[Dim] = [slide.count(dim) for slide, dim in zip(slides, spatial, strict=True)]
    out_spatial = formulas if given is None else list(given)
    if len(out_spatial) != len(formulas):
        raise DimError(
            f"{op}: the number of output dims differs",
            got=align.show_dims(out_spatial),
            expected=align.show_dims(formulas),
        )
    olds, news = list(spatial), list(out_spatial)
    sparse_dim, feature_dim = source.sparse_dim, _swap(source.feature_dim, olds, news)
    if features is not None:
        olds, news = [features[0], *olds], [features[1], *news]
        sparse_dim, feature_dim = None, features[1]
    new = [dim for dim in each if dim not in source.sig.index]
    out = align.sig([*new, *(_swap(dim, olds, news) for dim in source.dims)], sparse_dim, feature_dim)
    plan = SlidePlan(
        slides,
        there=align.move(source.dims, [*rest, *each, *olds], trailing=False),
        rest=len(rest),
        back=align.move([*rest, *each, *news], out.dims),
        out=weakref.ref(out),
        places=tuple(out.index[dim] for dim in out_spatial),
        named=tuple(i for i, dim in enumerate(out_spatial) if dim is not formulas[i]),
    )
    return plan, out


def bind(op: str, plan: SlidePlan, out: align.Sig, lengths: Lengths, spatial: Sequence[Dim]) -> Lengths:
    """The lengths of the result, with the sizes of dims that have no formula."""
    for i in plan.named:
        size = lengths[spatial[i]]
        lengths = bound(lengths, out.dims[plan.places[i]], Size(size.dims, plan.slides[i].count(size.values)), op)
    return lengths


def fit(backend: type[Backend], plan: SlidePlan, result: Tensor) -> Tensor:
    """The result, whose dims without a formula may have a capacity. Those of an empty batch have no frames."""
    if 0 in backend.get_shape_tuple_raw(result._raw):
        return trimmed(backend, result)
    for i in plan.named:
        result = fitted(backend, result, result.dims[plan.places[i]])
    return result


def one_axis(backend: type[Backend], raw: RawTensor, count: int) -> tuple[RawTensor, tuple[int, ...] | None]:
    """The tensor with the first `count` axes merged, and their sizes; None if there was one axis."""
    if count == 1:
        return raw, None
    shape = backend.get_shape_tuple_raw(raw)[:count]
    return backend.merge_axes_raw(raw, 0, count) if count else raw[None], shape


def several_axes(backend: type[Backend], raw: RawTensor, shape: tuple[int, ...] | None) -> RawTensor:
    """The tensor with the first axis split again: the inverse of `one_axis`."""
    if shape is None:
        return raw
    return backend.split_axis_raw(raw, 0, shape) if shape else raw[0]


def _swap(dim: object, olds: Sequence[Dim], news: Sequence[Dim]) -> RawTensor:
    return news[olds.index(dim)] if dim in olds else dim


def fixed(option: object) -> Any:
    """The option in a form that can be part of a key."""
    return tuple(map(fixed, option)) if isinstance(option, list) else option


def serials_of(dims: Sequence[Dim]) -> list[int | None]:
    """The serials of `dims` for a key; None for anything else, which raises an error when the plan is made."""
    return [getattr(dim, "serial", None) for dim in dims]


Run = Callable[[Tensor, Sequence[Dim] | None], tuple[Tensor, Sequence[Dim]]]


def masked(
    run: Run, source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim] | None, use_mask: bool | None
) -> tuple[Tensor, Sequence[Dim]]:
    """The result of `run(source, out_dims)`. If `use_mask` is False, padding counts as frames."""
    if use_mask is not False:
        return run(source, out_dims)
    return _counting_padding(run, source, in_dims, out_dims)


def _counting_padding(
    run: Run, source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim] | None
) -> tuple[Tensor, Sequence[Dim]]:
    """The result of `run` as if all sequences had full length, with the true lengths and `out_dims` set afterwards."""

    def make() -> Lengths:
        roots = {root for dim in in_dims for root in dim.roots.values()}
        return source.lengths.bind({root: Size((), source.size_of(root).max) for root in roots})

    longest = source.lengths.cached(("longest", *map(align.serial_of, in_dims)), make)
    result, derived = run(tensor_of(source._raw, source.sig, longest), None)
    if out_dims is None or [*derived] == [*out_dims]:
        return tensor_of(result._raw, result.sig, source.lengths), derived
    lengths, new = source.lengths, dict(zip(derived, out_dims, strict=True))
    for dim, out_dim in new.items():
        size = lengths.size(dim)
        if out_dim is not dim and size is not None:
            lengths = bound(lengths, out_dim, size, "use_mask=False")
    sparse, feature = result.sparse_dim, result.feature_dim
    sig = align.sig([new.get(dim, dim) for dim in result.dims], sparse, feature and new.get(feature, feature))
    return tensor_of(result._raw, sig, lengths), out_dims


class ConvOps:
    """Raw part: `conv_raw(raw, filter, bias, windows, groups)`, `transposed_conv_raw(raw, filter, bias, spreads,
    groups)`. They slide over the last axes.
    """

    conv_raw: Callable[..., RawTensor]
    transposed_conv_raw: Callable[..., RawTensor]

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
        use_mask: bool | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """Convolution: at each position the sum of the neighbouring frames times `filter`; and the new dims.

        {…, in_dim, in_spatial_dims…}, {filter_size…, in_dim/groups, out_dim}, {out_dim}
        → {…, out_dim, out_spatial_dims…}

        >>> sizes = {"time": 5, "feat": 1, "out": 1, "width": 3}
        >>> time, feat, out, width = (rf.Dim(size, name=name) for name, size in sizes.items())
        >>> x, ones = rf.expand_dim(rf.range_over_dim(time, dtype="float32"), feat), rf.ones([width, feat, out])
        >>> options = dict(in_dim=feat, out_dim=out, in_spatial_dims=[time], filter=ones, filter_size=[width])
        >>> y, [positions] = rf.conv(x, **options, padding="valid")
        >>> rf.squeeze(y, axis=out).raw_tensor.tolist(), positions is time - 2
        ([3.0, 6.0, 9.0], True)

        One to three spatial dims. The result of a sequence does not depend on its padding.

        Args:
            padding: "valid": only where the filter fits; "same": as many positions as frames (divided by the stride),
                with zeros at both ends; a number: that many zeros at each end. One for all dims, or a list, which may
                have pairs (zeros before, zeros after).
            groups: number of independent parts of `in_dim` and `out_dim`; the size of `in_dim` means depthwise.
            filter: if `in_dim` is `out_dim`, its input dim is `in_dim.copy(match_priority=1)`.
            use_mask: if False, padding counts as frames.
        """

        def slides(sizes: list[int]) -> tuple[Window, ...]:
            return windows("conv", len(sizes), sizes, strides, dilation_rate, padding)

        def run(source: Tensor, out_spatial_dims: Sequence[Dim] | None) -> tuple[Tensor, Sequence[Dim]]:
            dims = Dims(in_dim, out_dim, in_spatial_dims, out_spatial_dims, filter_size)
            return _convolved(cls, cls.conv_raw, source, filter, bias, dims, options, slides)

        options = ("conv", groups or 1, fixed(padding), fixed(strides), fixed(dilation_rate))
        return masked(run, source, in_spatial_dims, out_spatial_dims, use_mask)

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
        strides: PerAxis | None = None,
        bias: Tensor | None = None,
        use_mask: bool | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """Each frame times `filter`, laid `strides` apart and summed where they overlap; and the new dims.

        {…, in_dim, in_spatial_dims…}, {filter_size…, in_dim, out_dim}, {out_dim} → {…, out_dim, out_spatial_dims…}

        >>> sizes = {"time": 2, "feat": 1, "out": 1, "width": 2}
        >>> time, feat, out, width = (rf.Dim(size, name=name) for name, size in sizes.items())
        >>> x, ones = rf.ones([time, feat]), rf.ones([width, feat, out])
        >>> options = dict(in_dim=feat, out_dim=out, in_spatial_dims=[time], filter=ones, filter_size=[width])
        >>> y, [frames] = rf.transposed_conv(x, **options, padding="valid", strides=1)
        >>> rf.squeeze(y, axis=out).raw_tensor.tolist(), frames is time + 1
        ([1.0, 2.0, 1.0], True)

        Args:
            padding: "valid": all frames that the filter reaches, `strides` for each at least; "same": `strides` for
                each.
            remove_padding: number of frames cut off at both ends.
            output_padding: how many more frames the end has than the last frame reaches ("valid"), or reaches without
                half of the filter ("same").
            strides: by default the size of the filter.
        """

        def slides(sizes: list[int]) -> tuple[Spread, ...]:
            return spreads("transposed_conv", sizes, strides, padding, remove_padding, output_padding)

        def run(source: Tensor, out_spatial_dims: Sequence[Dim] | None) -> tuple[Tensor, Sequence[Dim]]:
            dims = Dims(in_dim, out_dim, in_spatial_dims, out_spatial_dims, filter_size)
            return _convolved(cls, cls.transposed_conv_raw, source, filter, bias, dims, options, slides)

        options = ("transposed_conv", 1, *map(fixed, (padding, strides, remove_padding, output_padding)))
        return masked(run, source, in_spatial_dims, out_spatial_dims, use_mask)


class Dims(NamedTuple):
    """The dims of a convolution."""

    inner: Dim
    outer: Dim
    spatial: Sequence[Dim]
    out_spatial: Sequence[Dim] | None
    filter_size: Sequence[Dim]


def _convolved(
    backend: type[Backend],
    function: Callable[..., RawTensor],
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
    require_owner_dims(op, source, tuple(spatial))
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

    pool_raw: Callable[..., RawTensor]

    @classmethod
    def pool(
        cls: type[Backend],
        source: Tensor,
        *,
        nd: int | None = None,
        mode: PoolMode,
        pool_size: PerAxis,
        padding: Padding = "valid",
        dilation_rate: PerAxis = 1,
        strides: PerAxis | None = None,
        in_spatial_dims: Sequence[Dim] | Dim,
        out_spatial_dims: Sequence[Dim] | Dim | None = None,
        use_mask: bool | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        """The "max" or the mean ("avg") over windows, and the new dims. {…, in_spatial_dims…} → {…, out_spatial_dims…}

        >>> time = rf.Dim(5, name="time")
        >>> x = rf.range_over_dim(time, dtype="float32")
        >>> rf.pool(x, mode="avg", pool_size=2, in_spatial_dims=[time])[0].numpy()
        array([0.5, 2.5], dtype=float32)

        Neither the zeros at the ends nor the padding of a sequence count.

        Args:
            nd: the number of `in_spatial_dims`, which is checked.
            strides: by default `pool_size`.
        """
        spatial, out_spatial = as_dims(in_spatial_dims), None if out_spatial_dims is None else as_dims(out_spatial_dims)
        if nd not in (None, len(spatial)) or not 1 <= len(spatial) <= 3:
            raise DimError(
                "pool: the window does not match the spatial dims",
                got=align.show_dims(spatial),
                expected=f"{nd or 'one to three'} dims",
            )
        sizes = per_axis("pool", "pool_size", pool_size, len(spatial))
        options = (sizes, sizes if strides is None else strides, dilation_rate, padding)

        def run(source: Tensor, out_spatial: Sequence[Dim] | None) -> tuple[Tensor, Sequence[Dim]]:
            return _pooled(cls, source, mode, options, spatial, out_spatial)

        return masked(run, source, spatial, out_spatial, use_mask)


def _pooled(
    backend: type[Backend],
    source: Tensor,
    mode: str,
    options: tuple[list[int], PerAxis, PerAxis, Padding],
    spatial: Sequence[Dim],
    out_spatial: Sequence[Dim] | None,
) -> tuple[Tensor, Sequence[Dim]]:
    if mode == "avg" and not has_fractions(source.dtype):
        raise DtypeError("pool: the mean needs floats", got=source.dtype, expected="a float type")
    key = ("pool", *map(fixed, options), len(spatial), *serials_of([*spatial, *(out_spatial or ())]))
    plan: Any = source.sig.plans.get(key)
    out = plan and plan.out()
    if not out:
        slides = windows("pool", len(spatial), *options)
        for dim in spatial:
            axis_of("pool", source, dim)
        outer = [dim for dim in source.dims if dim not in spatial]
        plan, out = plan_of("pool", source, slides, outer, spatial, out_spatial)
        source.sig.keep(key, plan)
    require_no_inner_dims("pool", source, spatial)
    require_owner_dims("pool", source, tuple(spatial))
    lengths = bind("pool", plan, out, source.lengths, spatial)
    raw = backend.fill_padding(source, backend.lowest_raw(source._raw) if mode == "max" else 0, tuple(spatial))
    raw, shape = one_axis(backend, backend.move_raw(raw, plan.there), max(plan.rest - 1, 0))
    raw = several_axes(backend, backend.pool_raw(raw, mode, plan.slides), shape)
    result = tensor_of(backend.move_raw(raw, plan.back), out, lengths)
    if mode == "avg":
        for dim, window, place in zip(spatial, plan.slides, plan.places, strict=True):
            result._raw = _mean_of_frames(backend, result._raw, source, dim, window, place)
    else:  # the maximum over padding alone is -∞
        result._raw = backend.fill_padding(result, 0)
    return fit(backend, plan, result), out_spatial or [out.dims[place] for place in plan.places]


def _mean_of_frames(
    backend: type[Backend], raw: RawTensor, source: Tensor, dim: Dim, window: Window, place: int
) -> object:
    """The mean over frames, computed from the mean over frames and zeros."""
    if not window.left and not window.right:
        return raw
    count = backend.get_shape_tuple_raw(raw)[place]

    def frames(lengths: np.ndarray) -> np.ndarray:
        return np.maximum(window.inside(lengths, count), 1)

    return raw * window.size / backend.per_frame(source, dim, ("pool", window), frames)


class SignalOps:
    """Raw part: `stft_raw(raw, window, left, step, fft_length, count)`, over the last axis; numbers of samples."""

    stft_raw: Callable[..., RawTensor]

    @classmethod
    def stft(
        cls: type[Backend],
        x: Tensor,
        *,
        in_spatial_dim: Dim,
        frame_step: int,
        frame_length: int,
        fft_length: int,
        window_use_frame_length: bool = True,
        align_window_left: bool = True,
        window_enforce_even: bool = True,
        out_spatial_dim: Dim,
        out_dim: Dim,
    ) -> Tensor:
        """The spectrum of each frame; padding counts as 0, and gets 0.

        {…, in_spatial_dim} → {…, out_spatial_dim, out_dim} complex
        """
        place = axis_of("stft", x, in_spatial_dim, "x")
        if fft_length < frame_length:
            raise DimError(
                "stft: the frames are longer than the transform",
                got=f"frame_length {frame_length}, fft_length {fft_length}",
                expected=f"fft_length {frame_length} or more",
            )
        window = frame_length - (frame_length % 2 if window_enforce_even else 0)
        frames = Window(frame_length if window_use_frame_length else fft_length, frame_step, 1, 0, 0)
        lengths, size = x.lengths, x.size_of(in_spatial_dim)
        if out_spatial_dim is not frames.count(in_spatial_dim):
            lengths = bound(lengths, out_spatial_dim, Size(size.dims, frames.count(size.values)), "stft")
        lengths = bound(lengths, out_dim, Size((), fft_length // 2 + 1), "stft")
        batch = [dim for dim in x.dims if dim is not in_spatial_dim]
        raw = align.apply(align.move(x.dims, [*batch, in_spatial_dim]), cls.fill_padding(x, 0))
        raw, shape = one_axis(cls, raw, len(batch))
        margin = 0 if align_window_left else (fft_length - window) // 2
        raw = cls.stft_raw(raw, window, margin, frame_step, fft_length, lengths[out_spatial_dim].max)
        raw = several_axes(cls, raw, shape)
        out = [*batch[:place], out_spatial_dim, *batch[place:], out_dim]
        raw = align.apply(align.move([*batch, out_spatial_dim, out_dim], out), raw)
        result = tensor_of(raw, align.sig(out, None, out_dim), lengths)
        result._raw = cls.fill_padding(result, 0)
        return result


class WindowOps:
    """Raw part: `unfold_raw(raw, axis, width, stride)`; the window is the last axis."""

    unfold_raw: Callable[[RawTensor, int, int, int], RawTensor]
