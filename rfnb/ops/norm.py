"""Normalisation."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim
from rfnb.core.op import op
from rfnb.core.raw import backend_of_raw
from rfnb.core.tensor import Tensor


@op(frames="any")
def layer_norm(
    source: Tensor, scale: Tensor | None, bias: Tensor | None, *, in_dim: Dim | Sequence[Dim], eps: float = 1e-6
) -> Tensor:
    """Mean 0 and variance 1 over `in_dim`, then times `scale` plus `bias`, in one kernel. {…, in_dim} → the same"""
    return backend_of_raw(source._raw).layer_norm(source, scale, bias, in_dim=in_dim, eps=eps)
