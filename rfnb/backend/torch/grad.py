"""Gradients of torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from rfnb.backend.base.tape import current_tape
from rfnb.backend.torch.recompute import gradient_checkpoint_scope


class ShiftedGradient(torch.autograd.Function):
    """The identity, whose gradient g becomes scale · g + shift.

    axis: the shift is multiplied by Σ |g| over it. clip: the result is at most as large as the largest |g| over it.
    """

    @staticmethod
    def forward(ctx: Any, raw: torch.Tensor, *how: Any) -> torch.Tensor:
        """Raw itself."""
        ctx.how = how
        return raw.view_as(raw)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """scale · gradient + shift, 0 in padding."""
        scale, shift, axis, clip, padding = ctx.how
        [gradient] = gradients
        if padding is not None:
            gradient = gradient.masked_fill(padding, 0)
        if axis is not None:
            shift = shift * gradient.abs().sum(axis, keepdim=True)
        limit = None if clip is None or not gradient.numel() else gradient.abs().amax(clip, keepdim=True)
        gradient = gradient * scale + shift
        gradient = gradient if limit is None else gradient.clamp(-limit, limit)
        gradient = gradient if padding is None else gradient.masked_fill(padding, 0)
        return gradient, *(None for _ in ctx.how)


def shift_gradient(
    raw: torch.Tensor, scale: Any, shift: Any, axis: int | None, clip: int | None, padding: Any
) -> torch.Tensor:
    """A single raw call for recorders of raw calls."""
    if has_torch_function_unary(raw):
        return handle_torch_function(shift_gradient, (raw,), raw, scale, shift, axis, clip, padding)
    return ShiftedGradient.apply(raw, scale, shift, axis, clip, padding)


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
    """A single raw call for recorders of raw calls."""
    if has_torch_function_unary(raw):
        return handle_torch_function(scale_gradient, (raw,), raw, factor)
    return ScaledGradient.apply(raw, factor)


class GradientProbe:
    """Reports the gradients that arrive at some tensors, without keeping them or their graph alive."""

    def __init__(self) -> None:
        self._anchor = torch.zeros((), requires_grad=True)
        self._found: dict[Any, torch.Tensor] | None = None  # while gradients are computed

    def __call__(self, raw: torch.Tensor, key: Any) -> torch.Tensor:
        """The same tensor, to be used from here on; its gradient is stored under `key`."""
        return ProbedGradient.apply(raw, self._anchor, self, key) if raw.requires_grad else raw

    def see(self, key: Any, gradient: torch.Tensor) -> None:
        """Stores a gradient, in the backward pass."""
        if self._found is not None:
            self._found[key] = gradient.detach()

    def gradients(self, loss: torch.Tensor) -> dict[Any, torch.Tensor]:
        """The gradients of the sum of `loss`, by key. The graph is kept. Raises RuntimeError if it was freed before."""
        by_key: dict[Any, torch.Tensor] = {}
        self._found = by_key
        try:
            torch.autograd.grad(loss.sum(), [self._anchor], retain_graph=True, allow_unused=True)
        finally:
            self._found = None
        return by_key


class ProbedGradient(torch.autograd.Function):
    """The identity, which reports its gradient to a probe. The anchor makes it part of the backward pass."""

    @staticmethod
    def forward(ctx: Any, raw: torch.Tensor, anchor: torch.Tensor, probe: GradientProbe, key: Any) -> torch.Tensor:
        """The tensor itself, but not as a view for autograd, so that it may be changed in place."""
        ctx.told = probe, key
        return raw.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """The unchanged gradient."""
        probe, key = ctx.told
        probe.see(key, gradients[0])
        return gradients[0], None, None, None


def reaching(raw: torch.Tensor, sources: Sequence[torch.Tensor]) -> torch.Tensor:
    """The same values, with a gradient of 0 with respect to all sources."""
    if not raw.is_floating_point():
        return raw
    return raw + sum(source.reshape(-1)[:0].sum().to(raw) for source in sources)


class TorchGrad:
    """The raw part of `backend.base.grad`."""

    stop_gradient_raw = staticmethod(torch.Tensor.detach)
    reaching_raw = staticmethod(reaching)
    scaled_gradient_raw = staticmethod(scale_gradient)
    shifted_gradient_raw = staticmethod(shift_gradient)
    gradient_checkpoint_scope = staticmethod(gradient_checkpoint_scope)
    copy_raw = staticmethod(torch.clone)
    new_probe = GradientProbe

    @staticmethod
    def pull_back_raw(
        ys: Sequence[Any], gradients: Sequence[torch.Tensor | None], xs: Sequence[Any]
    ) -> list[torch.Tensor | None]:
        """The gradients with respect to `xs`, from those with respect to `ys`; None without a gradient."""
        outputs = [(y, g) for y, g in zip(ys, gradients, strict=True) if g is not None and _followed(y)]
        inputs = [x for x in xs if _followed(x)]
        if not outputs or not inputs:
            return [None for _ in xs]
        grads = torch.autograd.grad([y for y, _ in outputs], inputs, [g for _, g in outputs], allow_unused=True)
        remaining = iter(grads)
        return [next(remaining) if _followed(x) else None for x in xs]

    @staticmethod
    def follow_gradients_raw(ys: Sequence[torch.Tensor], xs: Sequence[torch.Tensor]) -> None:
        """Runs the backward pass from the sum of `ys` to `xs` for its hooks; gradients are not accumulated.

        The real and the imaginary parts of complex numbers are added up.
        """
        sums = [(torch.view_as_real(y) if y.is_complex() else y).sum() for y in ys]
        torch.autograd.grad(sums, list(xs), allow_unused=True, retain_graph=True)

    @staticmethod
    def gradient_leaves_raw(ys: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """The leaves, such as parameters, that gradients of `ys` reach."""
        nodes, visited = [y.grad_fn for y in ys], set[Any]()
        leaves = [y for y in ys if y.grad_fn is None]
        while nodes:
            node = nodes.pop()
            if node is None or node in visited:
                continue
            visited.add(node)
            variable = getattr(node, "variable", None)
            leaves += [] if variable is None else [variable]
            nodes += [parent for parent, _ in node.next_functions]
        return leaves

    @staticmethod
    def set_requires_gradient_raw(raw: torch.Tensor) -> None:
        """Sets in place whether a leaf requires a gradient."""
        raw.requires_grad_(True)

    @staticmethod
    def no_gradients() -> AbstractContextManager[Any]:
        """Makes constants of what is computed inside. The trial of a loop body has no gradients anyway."""
        return torch.no_grad() if current_tape() is None else nullcontext()

    @staticmethod
    def gradient_raw(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        """The gradient of the sum of y with respect to x; zeros if y does not depend on x."""
        if not y.requires_grad:
            return torch.zeros_like(x)
        [gradient] = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True, allow_unused=True)
        return torch.zeros_like(x) if gradient is None else gradient


def _followed(raw: Any) -> bool:
    return isinstance(raw, torch.Tensor) and raw.requires_grad
