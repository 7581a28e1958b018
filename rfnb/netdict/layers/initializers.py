"""Initial values of parameters, as net dicts give them: a number, a name, a call as text, or a dict."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.default import get_default_device
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.resolve import entry_of
from rfnb.nn.init import Glorot, HeNormal, HeUniform, Normal, ParamInit, VarianceScaling
from rfnb.ops.convert import convert_to_tensor


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
        rows = math.prod(dim.get_dim_value() for dim in dims[:-1])
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


NAMES: dict[str, Any] = {
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
        raise NetworkError(
            "an initializer of a kind that is not known", got=repr(given)[:60], expected='"glorot_uniform"'
        )
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


def _made(name: str, options: dict[str, Any]) -> Any:
    key = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).strip("_").removesuffix("_initializer")
    return entry_of(NAMES, key, f"there is no initializer {name!r:.40}")(**options)
