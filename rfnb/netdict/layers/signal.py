"""Spectra of signals: stft, istft, mel_filterbank."""

from __future__ import annotations

import functools

import numpy as np

from rfnb.core.tensor.arguments import Positive
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.axes import time_of
from rfnb.netdict.layer import Layer
from rfnb.netdict.options import REQUIRED, value
from rfnb.netdict.resolve import required
from rfnb.ops.audio import mel_filterbank
from rfnb.ops.conv import stft
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import scatter
from rfnb.ops.math import combine_bc, complex_as_real
from rfnb.ops.matmul import matmul
from rfnb.ops.shape import set_sparse_dim, squeeze


class Stft(Layer, layer_class="stft"):
    """The short-time Fourier transform with a Hann window. {…, time} or {…, time, 1} → {…, frames, bins} complex"""

    frame_shift: int = value(REQUIRED, Positive)
    frame_size: int = value(REQUIRED, Positive)
    fft_size: int | None = value(None, Positive)

    def setup(self, x: Tensor) -> None:
        """The bins, which are the feature axis."""
        self.samples = required(time_of(x), "stft needs a source with a time axis", x.describe_dims())
        self.single = x.feature_dim if x.feature_dim is not None and x.feature_dim.dimension == 1 else None
        bins = self.out_dim or self.pool.feature((self.fft_size or self.frame_size) // 2 + 1, x.dims)
        self.result_feature = self.bins = bins

    def compute(self, x: Tensor) -> Tensor:
        """{…, time} → {…, frames, bins}"""
        x = x if self.single is None else squeeze(x, self.single)
        return stft(
            x, in_spatial_dim=self.samples, out_dim=self.bins, use_mask=False, frame_step=self.frame_shift,
            frame_length=self.frame_size, fft_length=self.fft_size,
        )[0]  # fmt: skip


class MelFilterbank(Layer, layer_class="mel_filterbank"):
    """Sums of the bins of a spectrum in triangular bands, equally spaced on the mel scale. {…, bins} → {…, bands}"""

    sampling_rate: float = value(16000, float)
    fft_size: int = value(1024, Positive)
    nr_of_filters: int = value(80, Positive)
    f_min: float | None = value(None, float)
    f_max: float | None = value(None, float)

    def setup(self, x: Tensor) -> None:
        """The bands."""
        fault = "mel_filterbank needs the bins of a spectrum as features"
        self.bins = required(x.feature_dim, fault, x.describe_dims())
        self.result_feature = self.bands = self.out_dim or self.pool.feature(self.nr_of_filters, x.dims)

    def compute(self, x: Tensor) -> Tensor:
        """{…, bins} → {…, bands}"""
        return mel_filterbank(
            x, in_dim=self.bins, out_dim=self.bands, sampling_rate=self.sampling_rate, fft_length=self.fft_size,
            f_min=self.f_min, f_max=self.f_max,
        )  # fmt: skip


class Istft(Layer, layer_class="istft"):
    """The signal of which `stft` gives this spectrum, where windows overlap. {…, frames, bins} complex → {…, time}

    Each frame goes back to the time domain and is multiplied by the window that is dual to the one of `stft`, so that
    the sum over the frames is the signal (Griffin & Lim 1984).
    """

    frame_shift: int = value(REQUIRED, Positive)
    frame_size: int = value(REQUIRED, Positive)
    fft_size: int | None = value(None, Positive)
    result_feature = None

    def setup(self, x: Tensor) -> None:
        """The samples."""
        fault, got = "istft needs frames of a spectrum", x.describe_dims()
        self.frames, self.bins = required(time_of(x), fault, got), required(x.feature_dim, fault, got)
        self.inside = self.pool.static(self.frame_size, x.dims)
        self.samples = (self.frames - 1) * self.frame_shift + self.frame_size

    def compute(self, x: Tensor) -> Tensor:
        """{…, frames, bins} → {…, time}"""
        pairs, two = complex_as_real(x)
        matrix = _inverse(self.fft_size or self.frame_size, self.frame_size, self.frame_shift)
        weight = convert_to_tensor(matrix, dims=[self.bins, two, self.inside], dtype="float32", device=x.device)
        y = matmul(pairs, weight, reduce=[self.bins, two])
        starts = range_over_dim(self.frames, device=x.device) * self.frame_shift
        places = combine_bc(starts, "add", range_over_dim(self.inside, device=x.device))
        over = [self.frames, self.inside]
        return scatter(y, indices=set_sparse_dim(places, self.samples), indices_dim=over, out_dim=self.samples)


@functools.lru_cache(8)
def _inverse(fft_size: int, size: int, shift: int) -> np.ndarray:
    """The inverse transform [bins, 2, size] for real and imaginary parts, times the dual window."""
    even = size // 2 * 2
    window = np.concatenate([np.hanning(even + 1)[:even], np.zeros(size - even)])
    overlaps = np.concatenate([window**2, np.zeros(-size % shift)]).reshape(-1, shift).sum(0)
    dual = window / np.tile(np.maximum(overlaps, 1e-20), -(-size // shift))[:size]
    unit = np.eye(fft_size // 2 + 1)
    parts = [np.fft.irfft(spectra, n=fft_size, axis=-1)[:, :size] * dual for spectra in (unit, 1j * unit)]
    return np.stack(parts, axis=1)
