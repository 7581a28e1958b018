"""Filters and windows that slide over dims: convolution, pooling, spectra; and the number of their positions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

import numpy as np

from rfnb.backend.base.backend import Backend
from rfnb.backend.base.conv import Padding, PerAxis, PoolMode, Spread, Window, masked, per_axis, spreads, windows
from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound, derived, fitted, require_no_inner_dims, size_in
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.arguments import OneOf
from rfnb.core.tensor.op import guarded, op, op_of_backend
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError
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
    in_length: object,
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
        frames: Any = in_length
        return maximum((frames + (extra + window.stride - 1)) // window.stride, 0)
    return _named(window.count(in_length), in_length, name)


@guarded
def calc_transposed_conv_out_length(
    in_length: object,
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


def _named(found: Any, length: object, name: str | None) -> Any:
    """Names a new Dim `name`, unless it has a name already."""
    if not isinstance(found, Dim):
        return int(found)
    if name is not None and found is not length and found.name == found.formula:
        found.name = name
    return found


def _numbers(name: str, sizes: Sizes, count: int) -> list[int]:
    values = [sizes] * count if isinstance(sizes, Dim) else per_axis(name, "filter_size", sizes, count)
    return [size.get_dim_value() if isinstance(size, Dim) else size for size in values]


conv = op_of_backend(Backend.conv, __name__, frames="any")


transposed_conv = op_of_backend(Backend.transposed_conv, __name__, frames="any")
pool = op_of_backend(Backend.pool, __name__, frames="any")


@guarded
def max_pool(
    source: Tensor,
    *,
    pool_size: PerAxis,
    padding: Padding = "valid",
    dilation_rate: PerAxis = 1,
    strides: PerAxis | None = None,
    in_spatial_dims: Sequence[Dim] | Dim,
    out_spatial_dims: Sequence[Dim] | Dim | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """The maximum of each window, and the new dims. {…, in_spatial_dims…} → {…, out_spatial_dims…}

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1.0, 5.0, 2.0, 0.0], [-3.0, -1.0]], dims=[rf.batch_dim, time])
    >>> y, [frames] = rf.max_pool(x, pool_size=2, in_spatial_dims=[time])
    >>> y.raw_tensor.tolist(), y.size_of(frames)
    ([[5.0, 2.0], [-1.0, 0.0]], [2, 1])
    """
    return pool(mode="max", **locals())


@guarded
def max_pool1d(
    source: Tensor,
    *,
    pool_size: int,
    padding: Padding = "valid",
    dilation_rate: int = 1,
    strides: int | None = None,
    in_spatial_dim: Dim,
    out_spatial_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """The maximum of each window, and the new dim. {…, in_spatial_dim} → {…, out_spatial_dim}

    >>> time = rf.Dim(5, name="time")
    >>> rf.max_pool1d(rf.range_over_dim(time, dtype="float32"), pool_size=2, in_spatial_dim=time)[0].raw_tensor.tolist()
    [1.0, 3.0]
    """
    return pool1d(mode="max", **locals())


@guarded
def pool1d(
    source: Tensor,
    *,
    mode: PoolMode,
    pool_size: int,
    padding: Padding = "valid",
    dilation_rate: PerAxis = 1,
    strides: PerAxis | None = None,
    in_spatial_dim: Dim,
    out_spatial_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """`rf.pool` over one dim. {…, in_spatial_dim} → {…, out_spatial_dim}

    >>> time = rf.Dim(5, name="time")
    >>> x = rf.range_over_dim(time, dtype="float32")
    >>> rf.pool1d(x, mode="avg", pool_size=2, in_spatial_dim=time)[0].raw_tensor.tolist()
    [0.5, 2.5]
    """
    result, [out_spatial_dim] = pool(
        source,
        nd=1,
        mode=mode,
        pool_size=pool_size,
        padding=padding,
        dilation_rate=dilation_rate,
        strides=strides,
        in_spatial_dims=[in_spatial_dim],
        out_spatial_dims=None if out_spatial_dim is None else [out_spatial_dim],
    )
    return result, out_spatial_dim


def _pool(nd: int, example: str) -> Callable[..., tuple[Tensor, Sequence[Dim]]]:
    def pool_nd(
        source: Tensor,
        *,
        mode: PoolMode,
        pool_size: PerAxis,
        padding: Padding = "valid",
        dilation_rate: PerAxis = 1,
        strides: PerAxis | None = None,
        in_spatial_dims: Sequence[Dim],
        out_spatial_dims: Sequence[Dim] | None = None,
    ) -> tuple[Tensor, Sequence[Dim]]:
        return pool(
            source,
            nd=nd,
            mode=mode,
            pool_size=pool_size,
            padding=padding,
            dilation_rate=dilation_rate,
            strides=strides,
            in_spatial_dims=in_spatial_dims,
            out_spatial_dims=out_spatial_dims,
        )

    pool_nd.__name__ = pool_nd.__qualname__ = f"pool{nd}d"
    pool_nd.__doc__ = f"""`rf.pool` over {nd} dims. {{…, in_spatial_dims…}} → {{…, out_spatial_dims…}}

{example}"""
    return pool_nd


pool2d = _pool(2, """\
>>> height, width = rf.Dim(2, name="height"), rf.Dim(4, name="width")
>>> x = rf.convert_to_tensor([[0.0, 1.0, 2.0, 3.0], [4.0, 5.0, 6.0, 7.0]], dims=[height, width])
>>> y, [rows, columns] = rf.pool2d(x, mode="avg", pool_size=2, in_spatial_dims=[height, width])
>>> y.raw_tensor.tolist()
[[2.5, 4.5]]
""")  # fmt: skip
pool3d = _pool(3, """\
>>> time, height, width = rf.Dim(4, name="time"), rf.Dim(2, name="height"), rf.Dim(2, name="width")
>>> x = rf.convert_to_tensor(np.arange(16.0).reshape(4, 2, 2), dims=[time, height, width])
>>> y, new_dims = rf.pool3d(x, mode="max", pool_size=(1, 2, 2), in_spatial_dims=[time, height, width])
>>> y.raw_tensor.flatten().tolist()
[3.0, 7.0, 11.0, 15.0]
""")  # fmt: skip


@op(frames="any")
def stft(
    x: Tensor,
    *,
    in_spatial_dim: Dim,
    frame_step: int,
    frame_length: int,
    fft_length: int | None = None,
    window_use_frame_length: bool = True,
    align_window_left: bool = True,
    window_enforce_even: bool = True,
    out_spatial_dim: Dim | None = None,
    out_dim: Dim | None = None,
    use_mask: bool | None = None,
) -> tuple[Tensor, Dim, Dim]:
    """The short-time Fourier transform with a Hann window, the dim of frames, the dim of frequencies.

    {…, in_spatial_dim} → {…, out_spatial_dim, out_dim} complex, where out_dim has size fft_length // 2 + 1

    >>> samples = rf.Dim(400, name="samples")
    >>> spectrum, frames, bins = rf.stft(rf.ones([samples]), in_spatial_dim=samples, frame_step=160, frame_length=320)
    >>> spectrum.dtype, frames.dimension, bins.dimension
    ('complex64', 1, 161)

    The number of frames is (length - frame_length) // frame_step + 1.

    Args:
        fft_length: by default `frame_length`; each frame is padded to it with zeros.
        window_use_frame_length: if False, only frames whose whole `fft_length` is in the signal are used.
        align_window_left: whether the window is at the start of `fft_length`, else in its middle.
        window_enforce_even: whether the window of an odd `frame_length` is one sample shorter.
        use_mask: if False, padding counts as samples.
    """
    fft_length = frame_length if fft_length is None else fft_length
    out_dim = out_dim or Dim(fft_length // 2 + 1, name="stft-freq")
    frames = Window(frame_length if window_use_frame_length else fft_length, frame_step, 1, 0, 0).count(in_spatial_dim)

    def run(x: Tensor, given: Sequence[Dim] | None) -> tuple[Tensor, Sequence[Dim]]:
        [dim] = given or [frames]
        result = backend_of_raw(x._raw).stft(
            x,
            in_spatial_dim=in_spatial_dim,
            frame_step=frame_step,
            frame_length=frame_length,
            fft_length=fft_length,
            window_use_frame_length=window_use_frame_length,
            align_window_left=align_window_left,
            window_enforce_even=window_enforce_even,
            out_spatial_dim=dim,
            out_dim=out_dim,
        )
        return result, [dim]

    given = None if out_spatial_dim is None else [out_spatial_dim]
    result, [out_frames] = masked(run, x, [in_spatial_dim], given, use_mask)
    return result, out_frames, out_dim


@op(frames="any")
def window(
    source: Tensor,
    *,
    spatial_dim: Dim,
    window_dim: Dim,
    window_right: int | None = None,
    window_left: int | None = None,
    padding: Annotated[str, OneOf("same", "valid")] = "same",
    pad_value: float | None = None,
    stride: int = 1,
    use_mask: bool | None = None,
) -> tuple[Tensor, Dim]:
    """The frames around each frame, and the dim of the frames. {…, spatial_dim} → {…, out_dim, window_dim}

    >>> time, three = rf.Dim(4, name="time"), rf.Dim(3, name="three")
    >>> rf.window(rf.range_over_dim(time), spatial_dim=time, window_dim=three, pad_value=9)[0].raw_tensor.tolist()
    [[9, 0, 1], [0, 1, 2], [1, 2, 3], [2, 3, 9]]

    Args:
        window_left, window_right: number of frames before and after, which sum to the window size minus 1; by
            default half each.
        padding: "same": a window for each frame, with `pad_value` (by default 0) outside the sequence; "valid":
            only windows inside the sequence.
        stride: distance between windows, in frames.
        use_mask: if False, a window includes the padding after its sequence.
    """
    width = window_dim.dimension
    if not width or stride < 1:
        raise DimError(
            "window: `window_dim` and `stride` must be positive numbers of frames",
            got=f"{window_dim.describe()}, stride {stride}",
            expected="1 or more",
        )
    before = _before(width, window_left, window_right) if padding == "same" else None
    spatial_dim = source.sig.resolve(spatial_dim)
    outside = 0 if padding == "same" else width - 1
    key = ("window_dim", spatial_dim.serial, outside, stride)
    out_dim = derived(source.sig, key, lambda: (spatial_dim - outside).ceildiv_right(stride))
    backend: type[Backend] = backend_of_raw(source._raw)
    place, size = axis_of("window", source, spatial_dim), size_in(source, spatial_dim)
    require_no_inner_dims("window", source, [spatial_dim])
    frames = size.values if before is not None else np.maximum(size.values - width + 1, 0)
    counts = Size(size.dims, -(-frames // stride))
    lengths = bound(source.lengths, out_dim, counts, "window")
    fill = pad_value or 0
    raw = source._raw if use_mask is False else backend.fill_padding(source, fill, (spatial_dim,))
    total = max(counts.max - 1, 0) * stride + width
    margin = before or 0
    raw = backend.pad_raw(raw, {place: (margin, total - margin - size.max)}, fill)
    raw = backend.unfold_raw(raw, place, width, stride)
    if not counts.max:
        raw = backend.slice_raw(raw, place, 0, 0, 1)
    dims = [out_dim if dim is spatial_dim else dim for dim in source.dims]
    feature = out_dim if source.feature_dim is spatial_dim else source.feature_dim
    out = align.sig([*dims, window_dim], source.sparse_dim, feature)
    return fitted(backend, tensor_of(raw, out, lengths), out_dim), out_dim


def _before(width: int, left: int | None, right: int | None) -> int:
    if left is None:
        left = (width - 1) // 2 if right is None else width - 1 - right
    if not 0 <= left < width or (right is not None and left + 1 + right != width):
        raise DimError(
            "window: `window_left` and `window_right` do not sum to the window size minus 1",
            got=f"window_left={left}, window_right={right}",
            expected=f"{width - 1} in total",
        )
    return left
