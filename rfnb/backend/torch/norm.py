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

    @staticmethod
    def rms_norm_raw(
        raw: torch.Tensor, sizes: Sequence[int], scale: torch.Tensor | None, bias: torch.Tensor | None, eps: float
    ) -> torch.Tensor:
        """Over the last axes, of these sizes; in the type of `raw`."""
        if scale is not None and scale.dtype is not raw.dtype:
            scale = scale.to(raw.dtype)
        result = torch.rms_norm(raw, sizes, scale, eps)
        return result if bias is None else (result + bias).to(raw.dtype)
