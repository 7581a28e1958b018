"""Sliding windows and their transpose: the length of the result, and how axes move there and back."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np

from rfnb.backend.base.sizes import bound, fitted
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.tensor.arguments import OneOf
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, ParameterError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


PerAxis = int | Sequence[int]
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

    def inside(self, length: np.ndarray, positions: int) -> np.ndarray:
        """The number of entries of the window that are frames, not zeros. [… , 1] → [… , positions]"""
        starts = np.arange(positions) * self.stride - self.left
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


def _none_at_least(count: Any) -> Any:
    if hasattr(count, "__sym_max__"):  # a symbol while torch traces
        return count.__sym_max__(0)
    return max(count, 0) if isinstance(count, int) else np.maximum(count, 0)


def windows(
    op: str, count: int, sizes: Sequence[int], strides: PerAxis | None, dilations: PerAxis | None, padding: Padding
) -> tuple[Window, ...]:
    """A Window for each of `count` axes."""
    slides = []
    if count == 1 and isinstance(padding, tuple | list) and len(padding) == 2:
        padding = [padding]  # type: ignore[list-item]
    paddings = per_axis(op, "padding", "valid" if padding is None else padding, count)
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
    output_padding: Any,
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


def whole(value: Any) -> Any:
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
    """The result, whose dims without a formula may have a capacity."""
    for i in plan.named:
        result = fitted(backend, result, result.dims[plan.places[i]])
    return result


def one_axis(backend: type[Backend], raw: Any, count: int) -> tuple[Any, tuple[int, ...] | None]:
    """The tensor with the first `count` axes merged, and their sizes; None if there was one axis."""
    if count == 1:
        return raw, None
    shape = backend.get_shape_tuple_raw(raw)[:count]
    return backend.merge_axes_raw(raw, 0, count) if count else raw[None], shape


def several_axes(backend: type[Backend], raw: Any, shape: tuple[int, ...] | None) -> Any:
    """The tensor with the first axis split again: the inverse of `one_axis`."""
    if shape is None:
        return raw
    return backend.split_axis_raw(raw, 0, shape) if shape else raw[0]


def _swap(dim: Any, olds: Sequence[Dim], news: Sequence[Dim]) -> Any:
    return news[olds.index(dim)] if dim in olds else dim


def fixed(option: Any) -> Any:
    """The option in a form that can be part of a key."""
    return tuple(map(fixed, option)) if isinstance(option, list) else option


def serials_of(dims: Sequence[Dim]) -> list[int | None]:
    """The serials of `dims` for a key; None for anything else, which raises an error when the plan is made."""
    return [getattr(dim, "serial", None) for dim in dims]
