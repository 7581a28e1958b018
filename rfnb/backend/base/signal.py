"""Signals: the spectrum over time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound
from rfnb.backend.base.slide import Window
from rfnb.backend.base.slide_plan import one_axis, several_axes
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class SignalOps:
    """Raw part: `stft_raw(raw, window, left, step, fft_length, count)`, over the last axis; numbers of samples."""

    stft_raw: Callable[..., Any]

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
