"""Normalization of torch tensors."""

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
        """Over the last axes, of these sizes; in the dtype of `raw`."""
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
        """Normalizes over all but the last `axes` axes; in training, the running statistics move in place.

        Gradients use copies of these, since they may move again before the backward pass.
        """
        running = [running_mean, running_variance]
        if axes > 1:
            scale, bias = (x if x is None else x.reshape(-1) for x in (scale, bias))
        mean, variance = copies = [_flat_copy(x) for x in running]
        flat, cudnn = raw.flatten(0, -axes - 1).flatten(1), torch.backends.cudnn.enabled
        result = torch.batch_norm(flat, scale, bias, mean, variance, train, momentum, eps, cudnn)
        if train:
            with torch.no_grad():
                for old, new in zip(running, copies, strict=True):
                    if old is not None and new is not None:
                        old.copy_(new.view(old.shape))
        return result.view(raw.shape)


def _flat_copy(raw: Maybe) -> Maybe:
    return None if raw is None else raw.detach().clone(memory_format=torch.contiguous_format).view(-1)
