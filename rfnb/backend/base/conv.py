"""Convolution and pooling: windows that slide over one to three axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound, ragged
from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.lengths import Lengths, Size
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError, DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend

PerAxis = int | Sequence[int]
Padding = str | int | Sequence[str | int]


class Window(NamedTuple):
    """How a window slides over an axis: its entries, the steps between positions and entries, the zeros at both ends.

    "same" has as many positions as there are frames, divided by the stride. The zeros do not depend on the length, so
    that a sequence gives the same in any batch.
    """

    size: int
    stride: int
    dilation: int
    left: int
    right: int

    @property
    def span(self) -> int:
        """How many frames it reaches over."""
        return (self.size - 1) * self.dilation + 1

    def count(self, length: Any) -> Any:
        """The number of positions on an axis of this length: ⌈(length + zeros - span + 1) / stride⌉."""
        extra = self.left + self.right + 1 - self.span
        if isinstance(length, Dim):
            return (length + extra).ceildiv_right(self.stride)
        return np.maximum(-(-(length + extra) // self.stride), 0)

    def inside(self, length: np.ndarray, positions: int) -> np.ndarray:
        """How many of its entries are frames, not zeros. [… , 1] → [… , positions]"""
        first = np.arange(positions) * self.stride - self.left
        entries = first[:, None] + np.arange(self.size) * self.dilation
        found: np.ndarray = ((entries >= 0) & (entries < length[..., None])).sum(-1)
        return found


class Spread(NamedTuple):
    """How a transposed convolution spreads the frames of an axis: the entries of the filter, the steps between frames,
    what is cut off before and behind; `extra` frames at the end, None for what `padding` needs.
    """

    size: int
    stride: int
    same: bool
    cut: int
    extra: int | None

    @property
    def around(self) -> int:
        """How many of the frames that the filter reaches are left out at both ends, for "same"."""
        if not self.same:
            return 0
        return max(self.size - self.stride, 0) if self.extra is None else self.size // 2 * 2

    @property
    def left(self) -> int:
        """How many of the frames that the filter reaches are cut off before."""
        return self.around // 2 + self.cut

    @property
    def more(self) -> int:
        """How many frames there are besides `stride` for each."""
        reached = self.size - self.stride
        return (max(reached, 0) if self.extra is None else reached + self.extra) - self.around - 2 * self.cut

    def count(self, length: Any) -> Any:
        """The number of frames from this many."""
        found = length * self.stride + self.more
        return found if isinstance(length, Dim) else np.maximum(found, 0)


def windows(
    op: str, count: int, sizes: Sequence[int], strides: PerAxis | None, dilations: PerAxis | None, padding: Padding
) -> list[Window]:
    """One for each of `count` axes."""
    found = []
    paddings = per_axis(op, "padding", "valid" if padding is None else padding, count)
    steps = [per_axis(op, name, x, count) for name, x in (("strides", strides), ("dilation_rate", dilations))]
    for size, stride, dilation, how in zip(sizes, *steps, paddings, strict=True):
        how = how.lower() if isinstance(how, str) else how
        around = (size - 1) * dilation
        if how == "same":
            found.append(Window(size, stride, dilation, around // 2, around - around // 2))
        elif how == "valid":
            found.append(Window(size, stride, dilation, 0, 0))
        elif isinstance(how, int):
            found.append(Window(size, stride, dilation, how, how))
        else:
            raise DimError(f"{op}: no such padding", got=how, expected='"valid", "same", or how many zeros')
    return found


def spreads(
    op: str,
    sizes: Sequence[int],
    strides: PerAxis | None,
    padding: Padding,
    remove_padding: PerAxis,
    output_padding: Any,
) -> list[Spread]:
    """One for each axis of a filter of `sizes`; strides are as long as the filter if they are not given."""
    count = len(sizes)
    steps = sizes if strides is None else per_axis(op, "strides", strides, count)
    extras = [None] * count if output_padding is None else per_axis(op, "output_padding", output_padding, count)
    paddings = per_axis(op, "padding", padding, count)
    cuts = per_axis(op, "remove_padding", remove_padding, count)
    found = []
    for size, stride, how, cut, extra in zip(sizes, steps, paddings, cuts, extras, strict=True):
        if not isinstance(how, str) or how.lower() not in ("same", "valid"):
            raise DimError(f"{op}: no such padding", got=how, expected='"valid" or "same"')
        found.append(Spread(size, stride, how.lower() == "same", cut, extra))
    return found


def per_axis(op: str, name: str, value: Any, count: int) -> list[Any]:
    """`value` for each of `count` axes; 1 if it is None."""
    if value is None:
        return [1] * count
    if isinstance(value, str | int):
        return [value] * count
    if len(value) != count:
        raise DimError(f"{op}: `{name}` is not for these axes", got=list(value), expected=f"a number, or {count}")
    return list(value)


class ConvOps:
    """Raw part: `conv_raw(raw, filter, bias, strides, dilations, groups, left, counts)`,
    `transposed_conv_raw(raw, filter, bias, strides, left, counts)`,
    `pool_raw(raw, mode, sizes, strides, dilations, left, counts)`.

    They slide over the last axes; `left` zeros stand before them, and as many behind as `counts` positions need.
    """

    conv_raw: Callable[..., Any]
    transposed_conv_raw: Callable[..., Any]
    pool_raw: Callable[..., Any]
    lowest_raw: Callable[[Any], Any]

    @classmethod
    def conv(  # type: ignore[misc]
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
        op, groups = "conv", groups or 1
        sizes = _sizes(op, filter_size, in_spatial_dims)
        slides = windows(op, len(sizes), sizes, strides, dilation_rate, padding)
        parts = _Parts(op, source, filter, in_dim, out_dim, in_spatial_dims, filter_size, groups)
        out_spatial_dims, lengths, counts = _bound(
            op, [source, filter, bias], slides, in_spatial_dims, out_spatial_dims
        )
        raw = cls.conv_raw(
            parts.source_raw(cls),
            parts.filter_raw(cls, (parts.outer, parts.inner)),
            None if bias is None or bias.dims != (out_dim,) else bias._raw,
            [w.stride for w in slides],
            [w.dilation for w in slides],
            groups * parts.copies,
            [w.left for w in slides],
            counts,
        )
        return parts.result(cls, raw, out_spatial_dims, lengths, bias), out_spatial_dims

    @classmethod
    def transposed_conv(  # type: ignore[misc]
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
        op = "transposed_conv"
        sizes = _sizes(op, filter_size, in_spatial_dims)
        slides = spreads(op, sizes, strides, padding, remove_padding, output_padding)
        parts = _Parts(op, source, filter, in_dim, out_dim, in_spatial_dims, filter_size, 1)
        out_spatial_dims, lengths, counts = _bound(
            op, [source, filter, bias], slides, in_spatial_dims, out_spatial_dims
        )
        raw = cls.transposed_conv_raw(
            parts.source_raw(cls),
            parts.filter_raw(cls, (parts.inner, parts.outer)),
            None if bias is None or bias.dims != (out_dim,) else bias._raw,
            [w.stride for w in slides],
            parts.copies,
            [w.left for w in slides],
            counts,
        )
        return parts.result(cls, raw, out_spatial_dims, lengths, bias), out_spatial_dims

    @classmethod
    def pool(  # type: ignore[misc]
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
        slides = windows("pool", len(in_spatial_dims), pool_size, strides, dilation_rate, padding)
        for dim in in_spatial_dims:
            axis_of("pool", source, dim)
        out_spatial_dims, lengths, counts = _bound("pool", [source], slides, in_spatial_dims, out_spatial_dims)
        fill = cls.lowest_raw(source._raw) if mode == "max" else 0
        rest = [dim for dim in source.dims if dim not in in_spatial_dims]
        raw = align.apply(
            align.move(source.dims, [*rest, *in_spatial_dims]), cls.fill_padding(source, fill, tuple(in_spatial_dims))
        )
        shape = cls.get_shape_tuple_raw(raw)[: len(rest)]
        raw = cls.pool_raw(
            cls.merge_axes_raw(raw, 0, len(rest)) if rest else raw[None],
            mode,
            [w.size for w in slides],
            [w.stride for w in slides],
            [w.dilation for w in slides],
            [w.left for w in slides],
            counts,
        )
        raw = cls.split_axis_raw(raw, 0, shape) if rest else raw[0]
        out = [_swap(dim, in_spatial_dims, out_spatial_dims) for dim in source.dims]
        raw = align.apply(align.move([*rest, *out_spatial_dims], out), raw)
        if mode == "avg":
            for dim, window, count in zip(in_spatial_dims, slides, counts, strict=True):
                raw = _mean_of_frames(cls, raw, source, dim, window, count)
        feature = _swap(source.feature_dim, in_spatial_dims, out_spatial_dims)
        result = tensor_of(raw, align.sig(out, source.sparse_dim, feature), lengths)
        return _without_padding(cls, result), out_spatial_dims


def _mean_of_frames(backend: Any, raw: Any, source: Tensor, dim: Dim, window: Window, positions: int) -> Any:
    """The mean over frames, from the mean over frames and zeros."""
    if not window.left and not window.right:
        return raw

    def frames(lengths: np.ndarray) -> np.ndarray:
        return np.maximum(window.inside(lengths, positions), 1)

    return raw * window.size / backend.per_frame(source, dim, ("pool", window, positions), frames)


class _Parts:
    """The dims of a source and of a filter, by what they are for.

    The filter may have further dims, each entry of which is a filter of its own: they become groups.
    """

    def __init__(
        self,
        op: str,
        source: Tensor,
        filter: Tensor,
        in_dim: Dim,
        out_dim: Dim,
        spatial: Sequence[Dim],
        filter_size: Sequence[Dim],
        groups: int,
    ):
        self.source, self.filter, self.out_dim = source, filter, out_dim
        self.spatial, self.filter_size = list(spatial), list(filter_size)
        self.in_dim = source.sig.meant(in_dim)
        for dim in (self.in_dim, *spatial):
            axis_of(op, source, dim)
        for dim in filter_size:
            axis_of(op, filter, dim, "filter")
        if not _is_float(source):
            raise DtypeError(f"{op}: `source` holds no numbers to sum", got=source.dtype, expected="a float type")
        others = [dim for dim in filter.dims if dim not in filter_size]
        self.inner, self.outer = _in_and_out(op, filter, others, in_dim, out_dim, groups)
        self.each = [dim for dim in others if dim is not self.inner and dim is not self.outer]
        self.rest = [d for d in source.dims if d is not self.in_dim and d not in spatial and d not in self.each]
        self.copies = math.prod(filter.size_of(dim).max for dim in self.each)

    def source_raw(self, backend: Any) -> Any:
        """One batch axis, one for the groups and `in_dim`, and the spatial axes; 0 in padding."""
        order = [*self.rest, *self.each, self.in_dim, *self.spatial]
        raw = backend.fill_padding(self.source, 0)
        raw = align.apply(align.move(self.source.dims, order, trailing=False), raw)
        if self.each:
            shape = list(backend.get_shape_tuple_raw(raw))
            shape[len(self.rest) : -len(self.spatial) - 1] = [self.filter.size_of(dim).max for dim in self.each]
            raw = backend.merge_axes_raw(backend.broadcast_raw(raw, shape), len(self.rest), len(self.each) + 1)
        self.shape = backend.get_shape_tuple_raw(raw)[: len(self.rest)]
        if len(self.rest) == 1:
            return raw
        return backend.merge_axes_raw(raw, 0, len(self.rest)) if self.rest else raw[None]

    def filter_raw(self, backend: Any, order: Sequence[Dim]) -> Any:
        """One axis for the groups and the first of `order`, then the second one and the axes of the filter."""
        raw = backend.fill_padding(self.filter, 0)
        raw = align.apply(align.move(self.filter.dims, [*self.each, *order, *self.filter_size]), raw)
        return backend.merge_axes_raw(raw, 0, len(self.each) + 1) if self.each else raw

    def result(
        self, backend: Any, raw: Any, out_spatial: Sequence[Dim], lengths: Lengths, bias: Tensor | None
    ) -> Tensor:
        """With the axes where those of the source were."""
        if self.each:
            sizes = [self.filter.size_of(dim).max for dim in self.each]
            raw = backend.split_axis_raw(raw, 1, [*sizes, self.out_dim.dimension])
        if len(self.rest) != 1:
            raw = backend.split_axis_raw(raw, 0, self.shape) if self.rest else raw[0]
        here = [*self.rest, *self.each, self.out_dim, *out_spatial]
        new = [dim for dim in self.each if dim not in self.source.sig.index]
        olds, news = [self.in_dim, *self.spatial], [self.out_dim, *out_spatial]
        out = [*new, *(_swap(dim, olds, news) for dim in self.source.dims)]
        result = tensor_of(align.apply(align.move(here, out), raw), align.sig(out, None, self.out_dim), lengths)
        if bias is not None and bias.dims != (self.out_dim,):
            result = backend.combine(result, "add", bias, allow_broadcast_all_sources=True)
        return _without_padding(backend, result)


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


def _bound(
    op: str,
    operands: Sequence[Tensor | None],
    slides: Sequence[Window | Spread],
    spatial: Sequence[Dim],
    given: Sequence[Dim] | None,
) -> tuple[Sequence[Dim], Lengths, list[int]]:
    """The spatial dims of the result, its lengths, and how many positions there are along each axis."""
    lengths = join(*(x for x in operands if x is not None))
    derived: list[Dim] = [slide.count(dim) for slide, dim in zip(slides, spatial, strict=True)]
    out_spatial = derived if given is None else given
    counts = []
    for slide, dim, expected, out_dim in zip(slides, spatial, derived, out_spatial, strict=True):
        if out_dim is not expected:
            size = lengths.size(dim)
            assert size is not None
            lengths = bound(lengths, out_dim, Size(size.dims, slide.count(size.values)), op)
        found = lengths.size(out_dim)
        assert found is not None
        counts.append(found.max)
    return out_spatial, lengths, counts


def _without_padding(backend: Any, result: Tensor) -> Tensor:
    """0 in padding, whose windows reach over frames: what comes back for it must not get into their gradient."""
    if any(ragged(result, dim) for dim in result.sig.frames):
        result._raw = backend.fill_padding(result, 0)
    return result


def _is_float(x: Tensor) -> bool:
    return x.dtype.startswith(("float", "bfloat", "complex"))


def _swap(dim: Any, olds: Sequence[Dim], news: Sequence[Dim]) -> Any:
    return news[olds.index(dim)] if dim in olds else dim
