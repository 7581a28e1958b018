"""Activations by the names that net dicts use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from operator import sub

from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, NetworkError
from rfnb.netdict.config.compute import computed_by
from rfnb.netdict.config.values import Function
from rfnb.netdict.layer_call import safe_log
from rfnb.netdict.resolve import entry_of
from rfnb.ops import math
from rfnb.ops.reduce import log_softmax, softmax

Activation = Callable[[Tensor], Tensor]


def _over_features(function: Callable[..., Tensor], x: Tensor) -> Tensor:
    if x.feature_dim is None:
        raise DimError("softmax needs features", got=x.describe_dims(), expected="a feature axis")
    return function(x, axis=x.feature_dim)


def _leaky_relu(x: Tensor, alpha: float = 0.2) -> Tensor:
    return math.maximum(x, x * alpha)


def _sigmoid_hard(x: Tensor) -> Tensor:
    return math.clip_by_value(x * 0.2 + 0.5, 0.0, 1.0)


NAMES = (
    "tanh sigmoid log_sigmoid relu elu selu silu swish gelu softplus softsign identity exp log abs sin cos sqrt rsqrt "
    "square sign neg floor ceil round log1p expm1"
)
ACTIVATIONS: dict[str, Activation] = {
    **{name: getattr(math, name) for name in NAMES.split()},
    "safe_log": safe_log,
    "relu6": partial(math.clip_by_value, clip_value_min=0.0, clip_value_max=6.0),
    "leaky_relu": _leaky_relu,
    "softmax": partial(_over_features, softmax),
    "log_softmax": partial(_over_features, log_softmax),
    "1-": partial(sub, 1.0),
    "negative": math.neg,
    "sigmoid_hard": _sigmoid_hard,
    "logical_not": math.logical_not,
}


LOGS = {"softmax": ACTIVATIONS["log_softmax"], "sigmoid": math.log_sigmoid}
"""The logarithms of activations, without rounding to 0 before."""


def activation_of(given: object, opts: Mapping[str, object] | None = None) -> Activation:
    """The activation with this name; "2.0*tanh" multiplies its result. Raises NetworkError if there is none.

    opts: arguments of the function, `{"eps": 1e-10}` for safe_log, for example.
    """
    if opts:
        return partial(_with_options, activation_of(given), opts, given)
    if given is None:
        return _unchanged
    if isinstance(given, Function):
        return partial(computed_by, given)
    if callable(given):
        function: Activation = given
        return function
    return _by_name(str(given))


@cache
def _by_name(given: str) -> Activation:
    name = re.sub(r"^(tensorflow\.|tf\.)?(nn\.|math\.)?", "", given.strip("<>"))
    scaled = re.fullmatch(r"\s*([0-9.eE+-]+)\s*\*\s*(\w+)\s*", name)
    if scaled:
        return partial(_scaled, activation_of(scaled[2]), float(scaled[1]))
    return entry_of(ACTIVATIONS, name, f"there is no activation {given!r}")


def _unchanged(x: Tensor) -> Tensor:
    """The same tensor: no op, which a loop would record."""
    return x


def _scaled(function: Activation, factor: float, x: Tensor) -> Tensor:
    return function(x) * factor


def _with_options(function: Callable[..., Tensor], opts: Mapping[str, object], given: object, x: Tensor) -> Tensor:
    try:
        return function(x, **opts)
    except TypeError:
        raise NetworkError(f"the activation {given!r} does not have these opts", got=repr(dict(opts))[:60]) from None
