"""Gradients of torch tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary


class ScaledGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a factor."""

    @staticmethod
    def forward(ctx: Any, raw: torch.Tensor, factor: Any) -> torch.Tensor:
        """Raw itself."""
        ctx.factor = factor
        return raw.view_as(raw)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """factor · gradient"""
        return gradients[0] * ctx.factor, None


def scale_gradient(raw: torch.Tensor, factor: Any) -> torch.Tensor:
    """One raw call for whoever records raw calls, as all functions of torch are."""
    if has_torch_function_unary(raw):
        return handle_torch_function(scale_gradient, (raw,), raw, factor)
    return ScaledGradient.apply(raw, factor)


class TorchGrad:
    """The raw part of `backend.base.grad`."""

    stop_gradient_raw = staticmethod(torch.Tensor.detach)
    scaled_gradient_raw = staticmethod(scale_gradient)
    copy_raw = staticmethod(torch.clone)

    @staticmethod
    def set_requires_gradient_raw(raw: torch.Tensor) -> None:
        """In place, of a leaf."""
        raw.requires_grad_(True)

    @staticmethod
    def gradient_raw(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """Of the sum of y; zeros if y does not depend on x."""
        [gradient] = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True, allow_unused=True)
        return torch.zeros_like(x) if gradient is None else gradient
