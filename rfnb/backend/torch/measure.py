"""Measures of torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from rfnb.backend.base.measure import Magnitude
from rfnb.backend.torch.data import unwrapped


class TorchMeasure:
    """The raw part of `backend.base.measure`."""

    @staticmethod
    def magnitude_raw(raw: torch.Tensor, mask: np.ndarray | None) -> Magnitude | None:
        """How large the entries are that `mask` selects; it is broadcast. None if they are not floats."""
        raw = unwrapped(raw)
        if (
            raw.layout is not torch.strided
            or raw.is_nested
            or raw.is_meta
            or not (raw.is_floating_point() or raw.is_complex())
        ):
            return None
        with torch.no_grad():
            x = raw.detach().abs() if raw.is_complex() else raw.detach()
            x = x.float() if x.dtype.itemsize < 4 else x
            counts = None if mask is None else torch.from_numpy(mask).to(x.device).expand(x.shape)
            finite = torch.isfinite(x) if counts is None else torch.isfinite(x) & counts
            size = torch.where(finite, x, 0).abs()
            largest = float(size.max()) if size.numel() else 0.0
            squares = float(((size / largest) ** 2).sum(dtype=torch.float64)) * largest**2 if largest else 0.0
            magnitude = Magnitude(squares, largest, int(finite.sum()))
            if magnitude.entries == (x.numel() if counts is None else int(counts.sum())):
                return magnitude
            kinds = torch.isnan(x), torch.isposinf(x), torch.isneginf(x)
            bad = [bool((kind if counts is None else kind & counts).any()) for kind in kinds]
            return magnitude._replace(nan=bad[0], infinite=bad[1], minus_infinite=bad[2])

    @staticmethod
    def watch_gradient_raw(raw: torch.Tensor, see: Callable[[Any], None]) -> None:
        """Calls `see` with the gradient of the tensor in the backward pass."""
        if raw.requires_grad and unwrapped(raw) is raw:
            raw.register_hook(lambda gradient: see(gradient.detach()))

    @staticmethod
    def synchronize() -> str:
        """Waits for the GPU, if it is used; returns "cuda" then, else "cpu"."""
        if not torch.cuda.is_initialized():
            return "cpu"
        for device in range(torch.cuda.device_count()):
            if torch.cuda.memory_allocated(device):
                torch.cuda.synchronize(device)
        return "cuda" if torch.cuda.memory_allocated() else "cpu"
