"""Initial values of parameters: `self.weight.initial = rf.init.Glorot()`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.ops.random import random

__all__ = ["Glorot", "He", "HeNormal", "HeUniform", "Normal", "ParamInit", "VarianceScaling"]
__dir__ = __all__.copy  # what is offered for completion: no imports


class ParamInit:
    """Base of initializers, which are called with dims and dtype and return the initial values.

    >>> rf.init.Glorot()([rf.Dim(3), rf.Dim(2)], "float32").dtype
    'float32'
    """

    def __call__(
        self,
        dims: Sequence[Dim],
        dtype: str,
        *,
        sparse_dim: Dim | None = None,
        device: str | None = None,
        out: Any = None,
    ) -> Tensor:
        """The initial values. → {dims}. If a Parameter is given as `out`, it is set to them as well."""
        values = random(tuple(dims), dtype=dtype, device=device, sparse_dim=sparse_dim, **self.distribution_of(dims))
        if out is not None:
            out.assign(values)
        return values

    def distribution_of(self, dims: Sequence[Dim]) -> dict[str, Any]:
        """The distribution for a parameter with these dims, as arguments of `rf.random`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if value is not None)
        return f"{type(self).__name__}({options})"


class Normal(ParamInit):
    """A normal distribution around 0, truncated at two stddev unless `truncated` is False.

    >>> feat = rf.Dim(1000, name="feat")
    >>> rf.init.Normal(0.1)([feat], "float32").raw_tensor.abs().max().item() <= 0.2
    True
    """

    def __init__(self, stddev: float, *, truncated: bool = True, dtype: str | None = None):
        self.stddev, self.truncated, self.dtype = stddev, truncated, dtype

    def distribution_of(self, dims: Sequence[Dim]) -> dict[str, Any]:
        """The normal distribution, which does not depend on the dims."""
        return {"distribution": "truncated_normal" if self.truncated else "normal", "mean": 0.0, "stddev": self.stddev}


class VarianceScaling(ParamInit):
    """A distribution with variance scale / n, where n is the number of inputs, of outputs, or their mean.

    With two dims, the first is the input and the second the output. With more, they are those of a filter, as in torch:
    output, input, and the sizes of the filter, which multiply both.

    >>> in_dim, out_dim = rf.Dim(300, name="in"), rf.Dim(100, name="out")
    >>> weight = rf.init.VarianceScaling(scale=3.0, mode="fan_in", distribution="uniform")([in_dim, out_dim], "float32")
    >>> round(weight.raw_tensor.var().item(), 3), round(weight.raw_tensor.abs().max().item(), 2)
    (0.01, 0.17)

    Args:
        scale: the factor of the variance; 1 by default.
        mode: "fan_in" (the default), "fan_out" or "fan_avg".
        distribution: "truncated_normal" (the default), "normal" (or "untruncated_normal"), or "uniform".
    """

    scale: float = 1.0
    mode: str = "fan_in"
    distribution: str = "truncated_normal"

    def __init__(
        self,
        scale: float | None = None,
        mode: str | None = None,
        distribution: str | None = None,
        dtype: str | None = None,
    ):
        options = {"scale": scale, "mode": mode, "distribution": distribution}
        vars(self).update({name: value for name, value in options.items() if value is not None})
        self.dtype = dtype
        _require("mode", self.mode, ("fan_in", "fan_out", "fan_avg"))
        _require("distribution", self.distribution, tuple(_DISTRIBUTIONS))

    def distribution_of(self, dims: Sequence[Dim]) -> dict[str, Any]:
        """The distribution, with the variance for these dims."""
        fan_in, fan_out = _fans([dim.get_dim_value() for dim in dims])
        fan = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        return _DISTRIBUTIONS[self.distribution](math.sqrt(self.scale / max(1.0, fan)))


class Glorot(VarianceScaling):
    """A uniform distribution with variance 2 / (inputs + outputs) (Glorot & Bengio 2010).

    >>> in_dim, out_dim = rf.Dim(300, name="in"), rf.Dim(100, name="out")
    >>> round(rf.init.Glorot()([in_dim, out_dim], "float32").raw_tensor.var().item(), 3)
    0.005
    """

    mode = "fan_avg"
    distribution = "uniform"


class He(VarianceScaling):
    """A normal distribution with variance 2 / inputs (He et al. 2015).

    >>> in_dim, out_dim = rf.Dim(200, name="in"), rf.Dim(300, name="out")
    >>> round(rf.init.He()([in_dim, out_dim], "float32").raw_tensor.var().item(), 3)
    0.01
    """

    scale = 2.0
    distribution = "normal"


HeNormal = He


class HeUniform(He):
    """A uniform distribution with variance 2 / inputs (He et al. 2015).

    >>> in_dim, out_dim = rf.Dim(200, name="in"), rf.Dim(300, name="out")
    >>> round(rf.init.HeUniform()([in_dim, out_dim], "float32").raw_tensor.var().item(), 3)
    0.01
    """

    distribution = "uniform"


_CUT = 0.87962566103423978  # stddev of the standard normal distribution, truncated at ±2


def _normal(stddev: float) -> dict[str, object]:
    return {"distribution": "normal", "mean": 0.0, "stddev": stddev}


def _truncated_normal(stddev: float) -> dict[str, object]:
    return {"distribution": "truncated_normal", "mean": 0.0, "stddev": stddev / _CUT}


def _uniform(stddev: float) -> dict[str, object]:
    limit = math.sqrt(3) * stddev
    return {"distribution": "uniform", "minval": -limit, "maxval": limit}


_DISTRIBUTIONS = {
    "truncated_normal": _truncated_normal,
    "normal": _normal,
    "untruncated_normal": _normal,
    "uniform": _uniform,
}


def _fans(shape: Sequence[int]) -> tuple[float, float]:
    """The number of inputs and outputs that a weight of this shape connects."""
    if len(shape) < 2:
        size = float(shape[0]) if shape else 1.0
        return size, size
    fan_out, fan_in, *filter_size = shape if len(shape) > 2 else shape[::-1]
    return float(fan_in * math.prod(filter_size)), float(fan_out * math.prod(filter_size))


def _require(what: str, got: str, expected: Sequence[str]) -> None:
    if got not in expected:
        raise ParameterError(
            f"VarianceScaling: unknown {what}", got=repr(got), expected=" or ".join(map(repr, expected))
        )
