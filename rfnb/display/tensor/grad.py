"""The gradient of a raw tensor, as far as it can be told without computing one."""

from __future__ import annotations

import math
from typing import Any

from rfnb.display.kit import options
from rfnb.display.markup.numbers import plain, short
from rfnb.display.schema import GradView


def describe_grad(raw: Any) -> GradView | None:
    """None if no gradient is asked for."""
    if not getattr(raw, "requires_grad", False):
        return None
    leaf = raw.is_leaf or raw.retains_grad  # of others, asking for the gradient warns
    grad = raw.grad if leaf else None
    if grad is None or math.prod(grad.shape) > options.FINITE_ENTRIES:
        return {"leaf": bool(leaf), "norm": None}
    return {"leaf": True, "norm": plain(float(grad.detach().norm().item()))}


def grad_text(grad: GradView | None) -> str | None:
    """`‖grad‖ 0.12`, `no grad yet`; nothing to say of a tensor that gradients only pass."""
    if grad is None or not grad["leaf"]:
        return None
    return "no grad yet" if grad["norm"] is None else f"‖grad‖ {short(grad['norm'])}"
