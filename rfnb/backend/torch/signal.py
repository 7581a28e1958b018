"""Signals on torch tensors."""

from __future__ import annotations

import torch
from torch.nn import functional


class TorchSignal:
    """The raw part of `backend.base.signal`."""

    @staticmethod
    def stft_raw(raw: torch.Tensor, window: int, left: int, step: int, fft_length: int, count: int) -> torch.Tensor:
        """[batch, samples] → [batch, count, fft_length // 2 + 1], with zeros after the samples where needed."""
        if raw.dtype not in (torch.float32, torch.float64):
            raw = raw.float()
        lacking = (max(count, 1) - 1) * step + fft_length - raw.shape[-1]
        raw = functional.pad(raw, (0, lacking)) if lacking > 0 else raw
        hann = torch.hann_window(window, dtype=raw.dtype, device=raw.device)
        hann = functional.pad(hann, (left, fft_length - window - left))
        spectrum = torch.stft(raw, fft_length, step, window=hann, center=False, return_complex=True)
        return spectrum.mT.narrow(1, 0, count)
