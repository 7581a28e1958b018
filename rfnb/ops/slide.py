"""Sliding windows: the number of their positions, and whether padding counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rfnb.backend.base.sizes import bound
from rfnb.backend.base.slide import Padding, PerAxis, Spread, Window, per_axis, spreads, windows
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.ops.dims import use_mask_default
from rfnb.ops.math import maximum

Sizes = int | Dim | Sequence[int | Dim]


@guarded
def make_conv_out_spatial_dims(
    in_spatial_dims: Sequence[Dim],
    *,
    filter_size: Sizes,
    padding: Padding,
    strides: PerAxis = 1,
    dilation_rate: PerAxis = 1,
    description_prefix: str | None = None,
) -> Sequence[Dim]:
    """The dims that `rf.conv` and `rf.pool` give for `in_spatial_dims`.

    >>> rf.make_conv_out_spatial_dims([rf.Dim(8, name="time")], filter_size=3, padding="valid", strides=2)
    [Dim{⌈(time-2)/2⌉:3}]
    """
    name, count = "make_conv_out_spatial_dims", len(in_spatial_dims)
    slides = windows(name, count, _numbers(name, filter_size, count), strides, dilation_rate, padding)
    return _out_dims(slides, in_spatial_dims, description_prefix)


@guarded
def make_transposed_conv_out_spatial_dims(
    in_spatial_dims: Sequence[Dim],
    *,
    filter_size: Sizes,
    padding: Padding,
    output_padding: int | Sequence[int | None] | None = None,
    strides: PerAxis | None = None,
    dilation_rate: PerAxis = 1,
    description_prefix: str | None = None,
) -> Sequence[Dim]:
    """The dims that `rf.transposed_conv` gives for `in_spatial_dims`.

    >>> rf.make_transposed_conv_out_spatial_dims([rf.Dim(4, name="time")], filter_size=3, padding="valid", strides=2)
    [Dim{2*time+1:9}]
    """
    name, count = "make_transposed_conv_out_spatial_dims", len(in_spatial_dims)
    dilations = per_axis(name, "dilation_rate", dilation_rate, count)
    sizes = [(n - 1) * d + 1 for n, d in zip(_numbers(name, filter_size, count), dilations, strict=True)]
    return _out_dims(spreads(name, sizes, strides, padding, 0, output_padding), in_spatial_dims, description_prefix)


@guarded
def calc_conv_out_length(
    in_length: Any,
    *,
    filter_size: int | Dim,
    stride: int,
    padding: Padding,
    dilation_rate: int = 1,
    name: str | None = None,
) -> Any:
    """The number of positions of a window on `in_length` frames. The result is an int, Dim or Tensor, like `in_length`.

    >>> rf.calc_conv_out_length(10, filter_size=3, stride=2, padding="same")
    5
    """
    op_name = "calc_conv_out_length"
    [window] = windows(op_name, 1, _numbers(op_name, filter_size, 1), stride, dilation_rate, padding)
    if isinstance(in_length, Tensor):
        extra = window.left + window.right + 1 - window.span
        return maximum((in_length + (extra + window.stride - 1)) // window.stride, 0)  # type: ignore[operator]
    return _named(window.count(in_length), in_length, name)


@guarded
def calc_transposed_conv_out_length(
    in_length: Any,
    *,
    filter_size: int | Dim,
    padding: Padding,
    output_padding: int | None = None,
    stride: int | None = None,
    dilation_rate: int = 1,
    name: str | None = None,
) -> Any:
    """The number of frames that `rf.transposed_conv` gives. The result is an int, Dim or Tensor, like `in_length`.

    >>> rf.calc_transposed_conv_out_length(10, filter_size=3, stride=2, padding="valid")
    21
    """
    op_name = "calc_transposed_conv_out_length"
    size = (_numbers(op_name, filter_size, 1)[0] - 1) * dilation_rate + 1
    [spread] = spreads(op_name, [size], stride, padding, 0, output_padding)
    if isinstance(in_length, Tensor):
        return maximum(in_length * spread.stride + spread.more, 0)
    return _named(spread.count(in_length), in_length, name)


def _out_dims(slides: Sequence[Window | Spread], dims: Sequence[Dim], prefix: str | None) -> list[Dim]:
    names = [None if prefix is None else f"{prefix}:spatial{i}" for i in range(len(dims))]
    return [_named(slide.count(dim), dim, name) for slide, dim, name in zip(slides, dims, names, strict=True)]


def _named(found: Any, length: Any, name: str | None) -> Any:
    """Names a new Dim `name`, unless it has a name already."""
    if not isinstance(found, Dim):
        return int(found)
    if name is not None and found is not length and found.name == found.formula:
        found.name = name
    return found


def _numbers(name: str, sizes: Sizes, count: int) -> list[int]:
    values = [sizes] * count if isinstance(sizes, Dim) else per_axis(name, "filter_size", sizes, count)
    return [size.get_dim_value() if isinstance(size, Dim) else size for size in values]


Run = Callable[[Tensor, Sequence[Dim] | None], tuple[Tensor, Sequence[Dim]]]


def masked(
    run: Run, source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim] | None, use_mask: bool | None
) -> tuple[Tensor, Sequence[Dim]]:
    """The result of `run(source, out_dims)`. If `use_mask` is False, padding counts as frames."""
    if use_mask_default(default=use_mask):
        return run(source, out_dims)
    return _counting_padding(run, source, in_dims, out_dims)


def _counting_padding(
    run: Run, source: Tensor, in_dims: Sequence[Dim], out_dims: Sequence[Dim] | None
) -> tuple[Tensor, Sequence[Dim]]:
    """The result of `run` as if all sequences had full length, with the true lengths and `out_dims` set afterwards."""
    roots = {root for dim in in_dims for root in dim.roots.values()}
    longest = source.lengths.bind({root: Size((), source.size_of(root).max) for root in roots})
    result, derived = run(tensor_of(source._raw, source.sig, longest), None)
    lengths, new = source.lengths, dict(zip(derived, out_dims or derived, strict=True))
    for dim, out_dim in new.items():
        size = lengths.size(dim)
        if out_dim is not dim and size is not None:
            lengths = bound(lengths, out_dim, size, "use_mask=False")
    sparse, feature = result.sparse_dim, result.feature_dim
    sig = align.sig([new.get(dim, dim) for dim in result.dims], sparse, feature and new.get(feature, feature))
    return tensor_of(result._raw, sig, lengths), out_dims or derived
