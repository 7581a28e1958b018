"""Signals: the spectrum over time."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.backend.base.slide import Window
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.slide import masked


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
