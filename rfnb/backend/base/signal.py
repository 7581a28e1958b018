"""Signals: the spectrum over time, and windows that slide over frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from rfnb.backend.base.conv import Window, one_axis, several_axes
from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound, fitted, size_in
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


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

    @classmethod
    def window(
        cls: type[Backend],
        source: Tensor,
        *,
        spatial_dim: Dim,
        window_dim: Dim,
        before: int | None,
        pad_value: float,
        stride: int,
        use_mask: bool,
        out_dim: Dim,
    ) -> Tensor:
        """The frames around every `stride`-th frame. {…, spatial_dim} → {…, out_dim, window_dim}

        before: number of frames of the window before the frame; None uses only windows inside `source`.
        """
        place, size = axis_of("window", source, spatial_dim), size_in(source, spatial_dim)
        if spatial_dim in source.lengths.owners:
            raise DimError(
                f"window: the lengths of another dim depend on {spatial_dim.name}", got=source.describe_dims()
            )
        width = window_dim.dimension or 0
        frames = size.values if before is not None else np.maximum(size.values - width + 1, 0)
        counts = Size(size.dims, -(-frames // stride))
        lengths = bound(source.lengths, out_dim, counts, "window")
        raw = cls.fill_padding(source, pad_value, (spatial_dim,)) if use_mask else source._raw
        total = max(counts.max - 1, 0) * stride + width
        margin = before or 0
        raw = cls.pad_raw(raw, {place: (margin, total - margin - size.max)}, pad_value)
        raw = cls.unfold_raw(raw, place, width, stride)
        if not counts.max:
            raw = cls.slice_raw(raw, place, 0, 0, 1)
        dims = [out_dim if dim is spatial_dim else dim for dim in source.dims]
        feature = out_dim if source.feature_dim is spatial_dim else source.feature_dim
        out = align.sig([*dims, window_dim], source.sparse_dim, feature)
        return fitted(cls, tensor_of(raw, out, lengths), out_dim)
