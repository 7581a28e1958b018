"""Signals: the spectrum over time, and windows that slide over frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from rfnb.backend.base.conv import Window
from rfnb.backend.base.sizes import derived
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.arguments import OneOf
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.conv import masked


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
    frames = 0 if padding == "same" else width - 1
    key = ("window_dim", spatial_dim.serial, frames, stride)
    out_dim = derived(source.sig, key, lambda: (spatial_dim - frames).ceildiv_right(stride))
    return backend_of_raw(source._raw).window(
        source,
        spatial_dim=spatial_dim,
        window_dim=window_dim,
        before=before,
        pad_value=pad_value or 0,
        stride=stride,
        use_mask=use_mask is not False,
        out_dim=out_dim,
    ), out_dim


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
