"""Filling padding in torch tensors."""

from __future__ import annotations

import torch


class TorchMask:
    """The raw part of `backend.base.mask`."""

    masked_fill_raw = staticmethod(torch.masked_fill)

    @staticmethod
    def finite_raw(raw: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        """`raw` with 0 for what is not finite at `where`; itself if there is none."""
        if not raw.dtype.is_floating_point:
            return raw
        bad = ~torch.isfinite(raw) & where
        return raw.masked_fill(bad, 0) if bool(bad.any()) else raw
