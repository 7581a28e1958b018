"""Activation functions."""

from __future__ import annotations

from rfnb.core.tensor import Tensor
from rfnb.ops.math import _unary, maximum, square

tanh = _unary("tanh", "tanh a")
sigmoid = _unary("sigmoid", "1 / (1 + e⁻ᵃ)")
log_sigmoid = _unary("log_sigmoid", "log sigmoid a")
relu = _unary("relu", "max(a, 0)")
elu = _unary("elu", "a if a > 0, else eᵃ - 1")
selu = _unary("selu", "scaled elu (Klambauer et al. 2017)")
silu = _unary("silu", "a · sigmoid a (Elfwing et al. 2018)")
swish = silu
gelu = _unary("gelu", "a · Φ(a) (Hendrycks & Gimpel 2016)")
softplus = _unary("softplus", "log(1 + eᵃ)")
softsign = _unary("softsign", "a / (1 + |a|)")


def identity(x: Tensor) -> Tensor:
    """x"""
    return x


def relu_square(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021)"""
    return square(maximum(x, 0))
