"""Normalisation of torch tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

Maybe = torch.Tensor | None


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

    @staticmethod
    def batch_norm_raw(
        raw: torch.Tensor,
        axes: int,
        scale: Maybe,
        bias: Maybe,
        running_mean: Maybe,
        running_variance: Maybe,
        train: bool,
        momentum: float,
        eps: float,
    ) -> torch.Tensor:
        """Over all but the last `axes` axes; in training, the running statistics move in place."""
        if axes > 1:
            scale, bias, running_mean, running_variance = (
                x if x is None else x.view(-1) for x in (scale, bias, running_mean, running_variance)
            )
        flat, cudnn = raw.flatten(0, -axes - 1).flatten(1), torch.backends.cudnn.enabled
        result = torch.batch_norm(flat, scale, bias, running_mean, running_variance, train, momentum, eps, cudnn)
        return result.view(raw.shape)
