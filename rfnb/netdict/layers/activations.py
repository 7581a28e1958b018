"""Activations, and initial values of parameters, as net dicts give them.

An initial value is a number, a name, a call as text, or a dict.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from math import prod
from operator import sub
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.defaults import get_default_device
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, NetworkError
from rfnb.netdict.config.compute import computed_by
from rfnb.netdict.config.values import Function
from rfnb.netdict.layer_call import safe_log
from rfnb.netdict.resolve import entry_of
from rfnb.nn.init import Glorot, HeNormal, HeUniform, Normal, ParamInit, VarianceScaling
from rfnb.ops import math
from rfnb.ops.convert import convert_to_tensor
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


OPS = (
    "tanh sigmoid log_sigmoid relu elu selu silu swish gelu softplus softsign identity exp log abs sin cos sqrt rsqrt "
    "square sign neg floor ceil round log1p expm1"
)
ACTIVATIONS: dict[str, Activation] = {
    **{name: getattr(math, name) for name in OPS.split()},
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


class RandomInit(ParamInit):
    """Random numbers with these options of `rf.random`."""

    def __init__(self, **options: object):
        self.options = options

    def distribution_of(self, dims: Sequence[Dim]) -> dict[str, object]:
        """The options."""
        return self.options


class Matrix(RandomInit):
    """A matrix, whose columns are those of the last dim: orthogonal ones (Saxe et al. 2014), or the identity."""

    def __init__(self, *, orthogonal: bool, gain: float = 1.0):
        super().__init__(distribution="normal")  # of which the orthogonal columns are made
        self.orthogonal, self.gain = orthogonal, gain

    def __call__(self, dims: Sequence[Dim], dtype: str, *, device: str | None = None, **options: Any) -> Tensor:
        """The matrix."""
        if (device or get_default_device()) == "meta":
            return super().__call__(dims, dtype, device=device, **options)
        columns = dims[-1].get_dim_value() if dims else 1
        rows = prod(dim.get_dim_value() for dim in dims[:-1])
        if self.orthogonal:
            sample = super().__call__(dims, "float32", device="cpu").raw_tensor.numpy().reshape(rows, columns)
            q, r = np.linalg.qr(sample if rows >= columns else sample.T)
            q = q * np.sign(np.diag(r))
            matrix = q if rows >= columns else q.T
        else:
            matrix = np.eye(rows, columns)
        shape = [dim.get_dim_value() for dim in dims]
        values = (matrix * self.gain).reshape(shape).astype(dtype)
        return convert_to_tensor(values, dims=dims, dtype=dtype, device=device)


INITIALIZERS: dict[str, Any] = {
    "glorot_uniform": lambda **_: Glorot(),
    "xavier_uniform": lambda **_: Glorot(),
    "xavier": lambda **_: VarianceScaling(1.0, "fan_avg", "normal"),
    "glorot_normal": lambda **_: VarianceScaling(1.0, "fan_avg", "normal"),
    "he_normal": lambda **_: HeNormal(),
    "he_uniform": lambda **_: HeUniform(),
    "zeros": lambda **_: 0.0,
    "ones": lambda **_: 1.0,
    "constant": lambda value=0.0, **_: value,
    "variance_scaling": lambda scale=1.0, mode="fan_in", distribution="truncated_normal", **_: VarianceScaling(
        scale, mode.lower(), distribution
    ),
    "random_normal": lambda mean=0.0, stddev=0.05, **_: RandomInit(distribution="normal", mean=mean, stddev=stddev),
    "random_uniform": lambda minval=-0.05, maxval=0.05, **_: RandomInit(
        distribution="uniform", minval=minval, maxval=maxval
    ),
    "orthogonal": lambda gain=1.0, **_: Matrix(orthogonal=True, gain=gain),
    "identity": lambda gain=1.0, **_: Matrix(orthogonal=False, gain=gain),
    "truncated_normal": lambda mean=0.0, stddev=0.05, **_: Normal(stddev),
}
"""What makes the initial values, by name, with the options of the call."""


def initial_values(given: object) -> object:
    """The `initial` of an rf.Parameter. Raises NetworkError if it is not known."""
    if given is None or isinstance(given, bool | int | float):
        return given or 0.0
    if isinstance(given, Mapping):
        options = {name: value for name, value in given.items() if name != "class"}
        return _made(str(given.get("class")), options)
    if not isinstance(given, str):
        raise NetworkError("an initializer of an unknown kind", got=repr(given)[:60], expected='"glorot_uniform"')
    name, _, arguments = given.partition("(")
    return _made(name.strip(), _options_of(given) if arguments else {})


def _options_of(text: str) -> dict[str, object]:
    """The keyword arguments of a call as text, which must be plain values."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
        assert isinstance(call, ast.Call)
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, AssertionError, MemoryError, RecursionError):
        raise NetworkError("an initializer cannot be read", got=text[:60], expected="name(option=value)") from None


def _made(name: str, options: dict[str, object]) -> Any:
    key = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).strip("_").removesuffix("_initializer")
    return entry_of(INITIALIZERS, key, f"there is no initializer {name!r:.40}")(**options)
