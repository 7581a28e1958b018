"""Activation functions."""

from __future__ import annotations

from collections.abc import Callable

from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.index import gather
from rfnb.ops.math import _unary, mul, square
from rfnb.ops.shape import split_dims

HALVES = Dim(2, name="halves")

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
    """The tensor itself. {…} → the same"""
    return x


def relu_square(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021). {…} → the same"""
    return square(relu(x))


def gating(
    x: Tensor,
    *,
    axis: Dim | None = None,
    gate_func: Callable[[Tensor], Tensor] = sigmoid,
    act_func: Callable[[Tensor], Tensor] = identity,
    out_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """The first half of `axis`, times `gate_func` of the second (Dauphin et al. 2017), and their dim.

    {…, axis} → {…, axis // 2}. axis: the feature dim if not given.

    >>> feat = rf.Dim(4, name="feat")
    >>> y, half = rf.gating(rf.ones([feat]), axis=feat, gate_func=rf.relu)
    >>> y.raw_tensor.tolist()
    [1.0, 1.0]
    """
    axis = axis or x.feature_dim
    if axis is None or axis.dimension is None or axis.dimension % 2:
        got = "no feature dim" if axis is None else align.show_dims([axis])
        raise DimError("gating: needs two halves", got=got, expected="an even number of features")
    out_dim = out_dim or axis // 2
    halves = split_dims(x, axis=axis, dims=[HALVES, out_dim])
    values, gate = (gather(halves, indices=i, axis=HALVES) for i in (0, 1))
    return mul(act_func(values), gate_func(gate)), out_dim
