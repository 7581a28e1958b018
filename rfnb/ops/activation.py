"""Activation functions."""

from __future__ import annotations

import functools
from collections.abc import Callable

from rfnb.core.advice.torch_equivalents import called, likely_features
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import guarded, op
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.concat import split
from rfnb.ops.math import _unary, mul, square

_activation = functools.partial(_unary, module=__name__)

tanh = _activation("tanh", "tanh a", "[-1.0, 0.0, 100.0] → [-0.761..., 0.0, 1.0]")
sigmoid = _activation("sigmoid", "1 / (1 + e⁻ᵃ)", "[-1.0, 0.0, 100.0] → [0.268..., 0.5, 1.0]")
log_sigmoid = _activation("log_sigmoid", "log sigmoid a", "[-100.0, 0.0, 1.0] → [-100.0, -0.693..., -0.313...]")
relu = _activation("relu", "max(a, 0)", "[-1.0, 0.0, 2.0] → [0.0, 0.0, 2.0]")
elu = _activation("elu", "a if a > 0, else eᵃ - 1", "[-1.0, 0.0, 2.0] → [-0.632..., 0.0, 2.0]")
selu = _activation("selu", "scaled elu (Klambauer et al. 2017)", "[-1.0, 0.0, 1.0] → [-1.111..., 0.0, 1.050...]")
silu = _activation("silu", "a · sigmoid a (Elfwing et al. 2018)", "[-1.0, 0.0, 100.0] → [-0.268..., 0.0, 100.0]")
swish = silu
gelu = _activation("gelu", "a · Φ(a) (Hendrycks & Gimpel 2016)", "[-1.0, 0.0, 100.0] → [-0.158..., 0.0, 100.0]")
softplus = _activation("softplus", "log(1 + eᵃ)", "[-1.0, 0.0, 100.0] → [0.313..., 0.693..., 100.0]")
softsign = _activation("softsign", "a / (1 + |a|)", "[-1.0, 0.0, 3.0] → [-0.5, 0.0, 0.75]")


@op(frames="any")
def identity(x: Tensor) -> Tensor:
    """The tensor itself; in the body of a loop, a value with its own name. {…} → the same

    >>> x = rf.ones([rf.Dim(2, name="feat")])
    >>> rf.identity(x) is x
    True
    """
    return x


@guarded
def relu_square(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021). {…} → the same

    >>> time = rf.Dim(3, name="time")
    >>> rf.relu_square(rf.convert_to_tensor([-2.0, 0.5, 3.0], dims=[time])).raw_tensor.tolist()
    [0.0, 0.25, 9.0]
    """
    return square(relu(x))


@guarded
def gating(
    x: Tensor,
    *,
    axis: Dim | None = None,
    gate_func: Callable[[Tensor], Tensor] = sigmoid,
    act_func: Callable[[Tensor], Tensor] = identity,
    out_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """The first half of `axis` times `gate_func` of the second half (Dauphin et al. 2017), and the dim of the halves.

    {…, axis} → {…, axis // 2}. axis: by default the feature dim.

    >>> feat = rf.Dim(4, name="feat")
    >>> y, half = rf.gating(rf.ones([feat]), axis=feat, gate_func=rf.relu)
    >>> y.raw_tensor.tolist()
    [1.0, 1.0]
    """
    axis = axis or x.feature_dim
    if axis is None or axis.dimension is None or axis.dimension % 2:
        got = "no feature dim" if axis is None else align.show_dims([axis])
        dim = likely_features(x) if axis is None else None
        raise DimError(
            "gating: the features must split into two halves",
            got=got,
            expected="an even number of features",
            hint=dim and f"rf.gating({called(x)}, axis={dim})",
        )
    out_dim = out_dim or axis // 2
    values, gate = split(x, axis=axis, out_dims=[out_dim, out_dim])
    return mul(act_func(values), gate_func(gate)), out_dim
