"""Elementwise ops on numpy arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rfnb.errors import BackendError

Array = np.ndarray[Any, Any]


def quiet(function: Callable[..., Any]) -> Callable[..., Array]:
    """Wraps a function to return an array where numpy returns a number, and not to warn about values in padding."""

    def call(*args: Any) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*args))

    return call


def common(a: Any, b: Any) -> tuple[Array, Array]:
    """Both operands in one dtype, by the rules of torch. The highest kind of bool, integer and float decides. Within a
    kind, tensors with axes come before those without, and these before Python numbers.
    """
    ranked = [_rank(x) for x in (a, b)]
    highest = max(key for key, _ in ranked)
    result_dtype = np.result_type(*[dtype for key, dtype in ranked if key == highest])
    return np.asarray(a, result_dtype), np.asarray(b, result_dtype)


def _rank(x: Any) -> tuple[tuple[int, int], np.dtype[Any]]:
    """The priority of an operand for the common dtype, and its dtype."""
    if isinstance(x, np.ndarray | np.generic):
        return (KINDS[x.dtype.kind], 2 if x.ndim else 1), x.dtype
    if type(x) not in NUMBERS:
        raise BackendError(
            "tensors of different backends are mixed",
            got=f"a numpy array and a {type(x).__name__}",
            hint="rf.convert_to_tensor(x.numpy(), dims=x.dims) makes it a tensor of the selected backend",
        )
    dtype = np.dtype(NUMBERS[type(x)])
    return (KINDS[dtype.kind], 0), dtype


def type_of(name: str) -> np.dtype[Any]:
    """dtype("float32")"""
    try:
        return np.dtype(name)
    except TypeError:
        raise BackendError(f"numpy has no dtype {name}", got=name, expected="float32, int64, bool, …") from None


def floats(raw: Array) -> Array:
    """The array, with integers and booleans cast to float32."""
    return raw if raw.dtype.kind == "f" else raw.astype(np.float32)


def lowest(raw: Array) -> Any:
    """The lowest value of the dtype: -∞, or the smallest integer."""
    return _LIMITS[raw.dtype.kind][0] if raw.dtype.kind in _LIMITS else np.iinfo(raw.dtype).min


def highest(raw: Array) -> Any:
    """The highest value of the dtype: ∞, or the largest integer."""
    return _LIMITS[raw.dtype.kind][1] if raw.dtype.kind in _LIMITS else np.iinfo(raw.dtype).max


_LIMITS = {"f": (-np.inf, np.inf), "b": (False, True)}


def _complex(a: Array, b: Array) -> Any:
    return np.asarray(floats(a) + 1j * floats(b), np.result_type(floats(a), np.complex64))


def _softplus(x: Array) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _elu(x: Array, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _sigmoid(x: Array) -> Any:
    return (1 + np.tanh(x / 2)) / 2


KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
NUMBERS = {bool: np.bool_, int: np.int64, float: np.float32, complex: np.complex64}
COMBINE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "truediv": lambda a, b: np.true_divide(floats(a), floats(b)),
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "squared_difference": lambda a, b: np.square(a - b),
    "ceildiv": lambda a, b: -(-a // b),
    "logaddexp": lambda a, b: np.logaddexp(floats(a), floats(b)),
    "complex": _complex,
}
COMPARE: dict[str, Callable[..., Any]] = {
    kind: getattr(np, kind) for kind in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
}
OF_WHOLE_NUMBERS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "neg": np.negative,
    "square": np.square,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.round,
    "sign": np.sign,
    "relu": lambda x: np.maximum(x, 0),
    "logical_not": np.logical_not,
    "is_finite": np.isfinite,
    "is_infinite": np.isinf,
    "is_neg_infinite": np.isneginf,
}
ACTIVATION: dict[str, Callable[..., Any]] = {
    **OF_WHOLE_NUMBERS,
    **{name: getattr(np, name) for name in ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tanh")},
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "sigmoid": _sigmoid,
    "log_sigmoid": lambda x: -_softplus(-x),
    "elu": _elu,
    "selu": lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772),
    "silu": lambda x: x * _sigmoid(x),
    "gelu": lambda x: (x * (1 + np.vectorize(math.erf, otypes=[x.dtype])(x / math.sqrt(2))) / 2).astype(x.dtype),
    "softplus": _softplus,
    "softsign": lambda x: x / (1 + np.abs(x)),
}


class NumpyMath:
    """The raw part of `backend.base.math` and `backend.base.mask`."""

    where_raw = staticmethod(lambda cond, a, b: np.where(cond, *common(a, b)))
    lowest_raw = staticmethod(lowest)
    highest_raw = staticmethod(highest)

    @staticmethod
    def combine_raw(a: Any, kind: str, b: Any) -> Array:
        """a kind b"""
        return quiet(COMBINE[kind])(*common(a, b))

    @staticmethod
    def compare_raw(a: Any, kind: str, b: Any) -> Array:
        """a kind b"""
        return quiet(COMPARE[kind])(*common(a, b))

    @staticmethod
    def activation_raw(raw_tensor: Array, func: str) -> Array:
        """func(raw_tensor)"""
        return quiet(ACTIVATION[func])(raw_tensor if func in OF_WHOLE_NUMBERS else floats(raw_tensor))

    @staticmethod
    def as_dtype_raw(dtype_name: str) -> np.dtype[Any]:
        """dtype("float32")"""
        return type_of(dtype_name)

    @staticmethod
    def cast_raw(raw_tensor: Array, dtype: str) -> Array:
        """The same values in another dtype."""
        with np.errstate(invalid="ignore"):  # NaN may be in padding
            return raw_tensor.astype(type_of(dtype), copy=False)

    @staticmethod
    def clip_raw(raw_tensor: Array, low: Any, high: Any) -> Array:
        """The values limited to the range from low to high: arrays, numbers or None."""
        raw = raw_tensor if low is None else np.asarray(np.maximum(*common(raw_tensor, low)))
        return raw if high is None else np.asarray(np.minimum(*common(raw, high)))

    @staticmethod
    def complex_as_real_raw(raw_tensor: Array) -> Array:
        """The real and the imaginary part along a new last axis."""
        return np.stack([raw_tensor.real, raw_tensor.imag], -1)

    @staticmethod
    def masked_fill_raw(raw: Array, padding: Array, value: Any) -> Array:
        """`value` where `padding` is true."""
        return np.where(padding, np.asarray(value, raw.dtype), raw)

    @staticmethod
    def finite_raw(raw: Array, where: Array) -> Array:
        """`raw` with 0 in place of ∞ and NaN at `where`."""
        return np.where(~np.isfinite(raw) & where, np.zeros((), raw.dtype), raw)
