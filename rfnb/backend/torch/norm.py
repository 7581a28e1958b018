"""Normalisation of torch tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class TorchNorm:
    """The raw part of `backend.base.norm`."""

    @staticmethod
    def layer_norm_raw(
        raw: torch.Tensor, sizes: Sequence[int], scale: torch.Tensor | None, bias: torch.Tensor | None, eps: float
    ) -> torch.Tensor:
        """Over the last axes, of these sizes."""
        return torch.layer_norm(raw, sizes, scale, bias, eps)
