"""Normalization."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.core.dim import Dim, check_dims
from rfnb.core.parameter import Parameter
from rfnb.core.tensor import Tensor
from rfnb.nn.module import Module
from rfnb.ops.norm import layer_norm


class LayerNorm(Module):
    """Mean 0 and variance 1 over `in_dim`, then scale and bias (Ba et al. 2016). {…, in_dim} → {…, in_dim}

    eps: added to the variance.

    >>> feat = rf.Dim(2, name="feat")
    >>> rf.LayerNorm(feat, eps=0.0)(rf.convert_to_tensor([1.0, 3.0], dims=[feat])).raw_tensor.tolist()
    [-1.0, 1.0]
    """

    def __init__(self, in_dim: Dim | Sequence[Dim], *, eps: float = 1e-6, with_bias: bool = True):
        self.in_dim = in_dim
        self.eps = eps
        dims = [in_dim] if isinstance(in_dim, Dim) else in_dim
        check_dims(dims, "LayerNorm")
        self.scale = Parameter(dims, initial=1.0)
        self.bias = Parameter(dims) if with_bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """{…, in_dim} → {…, in_dim}"""
        return layer_norm(x, self.scale, self.bias, in_dim=self.in_dim, eps=self.eps)
