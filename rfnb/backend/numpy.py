"""The numpy backend, a reference that computes ops without gradients, loops and fused kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rfnb.backend.base.backend import Backend
from rfnb.core.dims import align
from rfnb.core.ground.backends import register_backend_by_tensor_type
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import BackendError

if TYPE_CHECKING:
    from rfnb.core.tensor.parameter import Parameter


Array = np.ndarray


def quiet(function: Callable[..., object]) -> Callable[..., Array]:
    """Wraps a function to return an array where numpy returns a number, and not to warn about values in padding."""

    def call(*args: object) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*args))

    return call


def common(a: object, b: object) -> tuple[Array, Array]:
    """Both operands in one dtype, by the rules of torch. The highest kind of bool, integer and float decides. Within a
    kind, tensors with axes come before those without, and these before Python numbers.
    """
    ranked = [_rank(x) for x in (a, b)]
    highest = max(key for key, _ in ranked)
    result_dtype = np.result_type(*[dtype for key, dtype in ranked if key == highest])
    return np.asarray(a, result_dtype), np.asarray(b, result_dtype)


def _rank(x: object) -> tuple[tuple[int, int], np.dtype]:
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


def type_of(name: str) -> np.dtype:
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


def _complex(a: Array, b: Array) -> Array:
    return np.asarray(floats(a) + 1j * floats(b), np.result_type(floats(a), np.complex64))


def _softplus(x: Array) -> Array:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _elu(x: Array, alpha: float = 1.0) -> Array:
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def _sigmoid(x: Array) -> Array:
    return (1 + np.tanh(x / 2)) / 2


KINDS = {"b": 0, "i": 1, "u": 1, "f": 2, "c": 3}
NUMBERS = {bool: np.bool_, int: np.int64, float: np.float32, complex: np.complex64}
COMBINE: dict[str, Callable[..., Array]] = {
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
    "ceildiv": lambda a, b: a // b + (a % b != 0) if np.result_type(a, b).kind == "u" else -(-a // b),
    "logaddexp": lambda a, b: np.logaddexp(floats(a), floats(b)),
    "complex": _complex,
}
COMPARE: dict[str, Callable[..., Array]] = {
    kind: getattr(np, kind) for kind in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
}
OF_WHOLE_NUMBERS: dict[str, Callable[..., Array]] = {
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
ACTIVATION: dict[str, Callable[..., Array]] = {
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
    def combine_raw(a: object, kind: str, b: object) -> Array:
        """a kind b"""
        return quiet(COMBINE[kind])(*common(a, b))

    @staticmethod
    def compare_raw(a: object, kind: str, b: object) -> Array:
        """a kind b"""
        return quiet(COMPARE[kind])(*common(a, b))

    @staticmethod
    def activation_raw(raw_tensor: Array, func: str) -> Array:
        """func(raw_tensor)"""
        return quiet(ACTIVATION[func])(raw_tensor if func in OF_WHOLE_NUMBERS else floats(raw_tensor))

    @staticmethod
    def as_dtype_raw(dtype_name: str) -> np.dtype:
        """dtype("float32")"""
        return type_of(dtype_name)

    @staticmethod
    def cast_raw(raw_tensor: Array, dtype: str) -> Array:
        """The same values in another dtype."""
        with np.errstate(invalid="ignore"):  # NaN may be in padding
            return raw_tensor.astype(type_of(dtype), copy=False)

    @staticmethod
    def clip_raw(raw_tensor: Array, low: object, high: object) -> Array:
        """The values limited to the range from low to high: arrays, numbers or None."""
        raw = raw_tensor if low is None else np.asarray(np.maximum(*common(raw_tensor, low)))
        return raw if high is None else np.asarray(np.minimum(*common(raw, high)))

    @staticmethod
    def complex_as_real_raw(raw_tensor: Array) -> Array:
        """The real and the imaginary part along a new last axis."""
        return np.stack([raw_tensor.real, raw_tensor.imag], -1)

    @staticmethod
    def masked_fill_raw(raw: Array, padding: Array, value: object) -> Array:
        """`value` where `padding` is true."""
        return np.where(padding, np.asarray(value, raw.dtype), raw)

    @staticmethod
    def finite_raw(raw: Array, where: Array) -> Array:
        """`raw` with 0 in place of ∞ and NaN at `where`."""
        return np.where(~np.isfinite(raw) & where, np.zeros((), raw.dtype), raw)


def _check_device(device: str | None) -> None:
    if device not in (None, "cpu"):
        raise BackendError("the numpy backend runs on the CPU only", got=device, expected='"cpu"')


class NumpyData:
    """Types, shapes, and arrays from numbers."""

    device_key_raw = staticmethod(lambda raw: "numpy")
    get_device_raw = staticmethod(lambda raw_tensor: "cpu")
    version_raw = staticmethod(lambda raw: 0)  # arrays do not count their changes
    copy_raw = staticmethod(Array.copy)
    to_numpy_raw = staticmethod(Array.copy)

    @staticmethod
    def get_dtype_name_raw(raw_tensor: Array) -> str:
        """ "float32" """
        return raw_tensor.dtype.name

    @staticmethod
    def get_ndim_raw(raw_tensor: Array) -> int:
        """The number of axes."""
        return raw_tensor.ndim

    @staticmethod
    def get_shape_tuple_raw(raw_tensor: Array) -> tuple[int, ...]:
        """The sizes of the axes."""
        return raw_tensor.shape

    @staticmethod
    def copy_to_device_raw(raw_tensor: Array, device: str | None) -> Array:
        """The array itself, since there is only the CPU."""
        _check_device(device)
        return raw_tensor

    @staticmethod
    def from_numpy_raw(values: Array, device: str | None = None) -> Array:
        """The array itself, as a constant."""
        return np.array(values)

    @staticmethod
    def convert_raw(value: object, dtype: str | None, device: str | None) -> Array:
        """A copy of numbers, lists or arrays, in `dtype` if given; Python floats are float32."""
        _check_device(device)
        array = np.array(value, None if dtype is None else type_of(dtype))
        plain = dtype is None and not isinstance(value, np.ndarray | np.generic)
        return array.astype(np.float32) if plain and array.dtype == np.float64 else array

    @staticmethod
    def full_raw(shape: Sequence[int], value: object, dtype: str, device: str | None) -> Array:
        """An array filled with one value."""
        _check_device(device)
        return np.full(shape, value, type_of(dtype))

    @staticmethod
    def range_raw(size: int, dtype: str, device: str | None) -> Array:
        """0, 1, … size-1"""
        _check_device(device)
        return np.arange(size, dtype=type_of(dtype))

    @classmethod
    def create_parameter_raw(cls, tensor: Parameter, *, device: str | None = None) -> Array:
        """Zeros with the dims and dtype of `tensor`."""
        return cls.full_raw([dim.dimension or 0 for dim in tensor.dims], 0, tensor.dtype, device)

    @staticmethod
    def set_parameter_trainable(param: Parameter, trainable: bool) -> None:
        """Does nothing, since there are no gradients."""

    @staticmethod
    def parameter_assign_raw(raw: Array, value: object, *, op: str = "assign") -> None:
        """Sets the values, or adds to them, in place."""
        raw[...] = raw + value if op == "add" else value

    @staticmethod
    def parameter_assign_at_raw(raw: Array, index: tuple[Any, ...], value: Any, *, op: str) -> None:
        """Sets, or adds to, the values at `index`: positions for each axis, or a slice."""
        if op == "add":
            np.add.at(raw, index, value)
        else:
            raw[index] = value


SCATTER: dict[str, np.ufunc] = {"max": np.maximum, "min": np.minimum}


class NumpyIndex:
    """The raw part of `backend.base.index`."""

    known_numbers_raw = staticmethod(lambda raw: raw)

    @staticmethod
    def index_raw(raw: Array, index: Array, axis: int) -> Array:
        """Entries along `axis`, which is replaced by the axes of `index`."""
        return np.asarray(raw.take(index, axis))

    @staticmethod
    def select_raw(raw: Array, axis: int, index: int) -> Array:
        """The entry at one position."""
        return np.asarray(raw.take(index, axis))

    @staticmethod
    def gather_raw(raw: Array, index: Array, axis: int, own: int, expand: bool = True) -> Array:
        """Entries along `axis`, in whose place `index` has `own` axes (one of size 1 if it has none)."""
        sizes = index.shape[axis : axis + max(own, 1)]
        index = index.reshape(*index.shape[:axis], -1, *index.shape[axis + len(sizes) :])
        shape = (*raw.shape[:axis], index.shape[axis], *raw.shape[axis + 1 :])
        entries = np.take_along_axis(raw, np.broadcast_to(index, shape), axis)
        return entries.reshape(*shape[:axis], *(sizes if own else ()), *shape[axis + 1 :])

    @staticmethod
    def one_hot_raw(raw: Array, size: int, dtype: str) -> Array:
        """1 where the last axis is the label. Raises IndexError if a label is not below `size`."""
        if raw.size and not 0 <= raw.min() <= raw.max() < size:
            raise IndexError("not a label")
        return (raw[..., None] == np.arange(size)).astype(type_of(dtype))

    @staticmethod
    def scatter_raw(
        raw: Array,
        index: Array,
        batch: int,
        shape: Sequence[int],
        mode: str,
        fill_value: object,
        features: int,
        spare: bool,
    ) -> Array:
        """`raw` [batch…, over…, features…] at `index` [batch…, over…] → [batch…, shape…, features…]

        spare: whether there is an extra place after the last one, for entries to discard.
        """
        outer, inner, places = index.shape[:batch], raw.shape[raw.ndim - features :], math.prod(shape)
        raw = np.broadcast_to(raw, (*index.shape, *inner))
        rows = np.arange(math.prod(outer)).reshape(*outer, *[1] * (index.ndim - batch))
        where = (np.broadcast_to(rows, index.shape), index)
        out = np.zeros((math.prod(outer), places + spare, *inner), raw.dtype)
        count = np.zeros(out.shape[:2], np.int64)
        np.add.at(count, where, 1)
        if mode in SCATTER:
            out[count > 0] = lowest(raw) if mode == "max" else highest(raw)
        SCATTER.get(mode, np.add).at(out, where, raw)
        if mode == "mean":
            mean = np.true_divide if raw.dtype.kind in "fcV" else np.floor_divide
            out = mean(out, np.maximum(count, 1).reshape(*count.shape, *[1] * features)).astype(raw.dtype)
        out[count == 0] = fill_value or 0
        return out[:, :places].reshape(*outer, *shape, *inner)


Axes = int | tuple[int, ...]


def _mean(raw: Array, axes: Axes) -> Array:
    return floats(raw).mean(axes) if raw.size else floats(raw).sum(axes)


def _logsumexp(raw: Array, axes: Axes) -> Array:
    raw = floats(raw)
    for axis in sorted([axes] if isinstance(axes, int) else axes, reverse=True):
        raw = np.logaddexp.reduce(raw, axis)
    return raw


REDUCE: dict[str, Callable[[Array, Any], object]] = {
    "sum": lambda raw, axes: raw.sum(axes),
    "mean": _mean,
    "max": lambda raw, axes: raw.max(axes, initial=lowest(raw)),
    "min": lambda raw, axes: raw.min(axes, initial=highest(raw)),
    "logsumexp": _logsumexp,
    "any": np.any,
    "all": np.all,
    "argmax": lambda raw, axis: raw.argmax(axis) if raw.size else raw.sum(axis).astype(np.int64),
    "argmin": lambda raw, axis: raw.argmin(axis) if raw.size else raw.sum(axis).astype(np.int64),
}
NOTHING: dict[str, Callable[[Array], object]] = {
    "sum": lambda raw: 0,
    "max": lowest,
    "min": highest,
    "argmax": lowest,
    "argmin": highest,
    "logsumexp": lambda raw: -np.inf,
    "any": lambda raw: False,
    "all": lambda raw: True,
}
"""The neutral element of each reduction."""


class NumpyReduce:
    """The raw part of `backend.base.reduce`."""

    @staticmethod
    def reduce_function(mode: str) -> Callable[[Array, Axes], Array]:
        """The function that reduces over axes."""
        return quiet(REDUCE[mode])

    @staticmethod
    def reduce_raw(raw: Array, mode: str, axes: Axes, padding: Array) -> Array:
        """`mode` over `axes`; entries where `padding` is true do not count."""
        raw = floats(raw) if mode == "logsumexp" else raw
        return quiet(REDUCE[mode])(np.where(padding, np.asarray(NOTHING[mode](raw), raw.dtype), raw), axes)

    @classmethod
    def softmax_raw(cls, raw: Array, axis: int, padding: Array | None, some_empty: bool) -> Array:
        """Softmax over `axis`; 0 where `padding` is true."""
        return np.exp(cls.log_softmax_raw(raw, axis, padding, some_empty))

    @staticmethod
    @quiet
    def log_softmax_raw(raw: Array, axis: int, padding: Array | None, some_empty: bool) -> Array:
        """Log softmax over `axis`; -inf where `padding` is true."""
        if padding is not None:
            raw = np.where(padding, np.asarray(-np.inf, raw.dtype), raw)
            raw = np.where(padding.all(axis, keepdims=True), np.asarray(0.0, raw.dtype), raw)
        high = raw - raw.max(axis, keepdims=True, initial=-np.inf)
        result = high - np.log(np.exp(high).sum(axis, keepdims=True))
        return result if padding is None else np.where(padding, np.asarray(-np.inf, raw.dtype), result)

    @classmethod
    def log_probs_raw(cls, raw: Array, axis: int) -> Array:
        """Log softmax over `axis`; -inf where all entries are -inf."""
        empty = (raw == -np.inf).all(axis, keepdims=True)
        return np.where(empty, np.asarray(-np.inf, raw.dtype), cls.log_softmax_raw(raw, axis, None, False))


class NumpyLoss:
    """The raw part of `backend.base.loss`."""

    @staticmethod
    def cross_entropy_raw(logits: Array, labels: Array) -> Array:
        """-log softmax(logits)[label], over the last axis."""
        log_probs = NumpyReduce.log_softmax_raw(logits, -1, None, False)
        return -np.take_along_axis(log_probs, labels[..., None], -1)[..., 0]


class NumpyMatmul:
    """The raw part of `backend.base.matmul` and `backend.base.norm`."""

    matmul_raw = staticmethod(quiet(np.matmul))
    einsum_raw = staticmethod(quiet(np.einsum))

    @staticmethod
    @quiet
    def linear_raw(raw: Array, weight: Array, bias: Array | None, transpose: bool) -> Array:
        """raw · weight + bias over the last axis; `transpose` if the weight is [in, out]."""
        product = raw @ (weight if transpose else weight.T)
        return product if bias is None else product + bias

    @staticmethod
    @quiet
    def layer_norm_raw(raw: Array, sizes: Sequence[int], scale: object, bias: object, eps: float) -> Array:
        """Over the last axes, of these sizes."""
        axes = tuple(range(-len(sizes), 0))
        normal = (raw - raw.mean(axes, keepdims=True)) / np.sqrt(raw.var(axes, keepdims=True) + eps)
        return normal * (1 if scale is None else scale) + (0 if bias is None else bias)

    @staticmethod
    @quiet
    def rms_norm_raw(raw: Array, sizes: Sequence[int], scale: object, bias: object, eps: float) -> Array:
        """Over the last axes, of these sizes."""
        mean = np.square(raw).mean(tuple(range(-len(sizes), 0)), keepdims=True)
        return raw / np.sqrt(mean + eps) * (1 if scale is None else scale) + (0 if bias is None else bias)


class NumpyShape:
    """The raw part of `backend.base.shape`, `concat` and `slice`."""

    move_raw = staticmethod(lambda raw, how: align.apply(how, raw))
    concat_raw = staticmethod(np.concatenate)
    stack_raw = staticmethod(np.stack)
    flip_raw = staticmethod(np.flip)
    cumsum_raw = staticmethod(np.cumsum)
    unstack_raw = staticmethod(lambda raw, axis: list(np.moveaxis(raw, axis, 0)))
    split_raw = staticmethod(lambda raw, sizes, axis: np.split(raw, np.cumsum(sizes)[:-1], axis))
    broadcast_raw = staticmethod(np.broadcast_to)

    @staticmethod
    def reshape_raw(raw_tensor: Array, shape: Sequence[int]) -> Array:
        """The same entries in another shape."""
        return raw_tensor.reshape(shape)

    @staticmethod
    def squeeze_raw(raw_tensor: Array, axes: Sequence[int]) -> Array:
        """The array without these axes of size 1."""
        return raw_tensor.squeeze(tuple(axes))

    @staticmethod
    def transpose_raw(raw_tensor: Array, perm: Sequence[int]) -> Array:
        """The array with permuted axes."""
        return raw_tensor.transpose(perm)

    @staticmethod
    def expand_dims_raw(raw_tensor: Array, axis: int) -> Array:
        """The array with a new axis of size 1."""
        return np.expand_dims(raw_tensor, axis)

    @staticmethod
    def expand_raw(raw_tensor: Array, axis: int, dim: int) -> Array:
        """The array with `axis` of size 1 repeated to size `dim`, without a copy."""
        shape = list(raw_tensor.shape)
        shape[axis] = dim
        return np.broadcast_to(raw_tensor, shape)

    @staticmethod
    def merge_axes_raw(raw: Array, axis: int, count: int) -> Array:
        """The array with `count` axes from `axis` on merged."""
        size = math.prod(raw.shape[axis : axis + count])
        return raw.reshape(*raw.shape[:axis], size, *raw.shape[axis + count :])

    @staticmethod
    def split_axis_raw(raw: Array, axis: int, sizes: Sequence[int]) -> Array:
        """The array with one axis split into several."""
        return raw.reshape(*raw.shape[:axis], *sizes, *raw.shape[axis + 1 :])

    @staticmethod
    def slice_raw(raw: Array, axis: int, start: int, end: int, step: int) -> Array:
        """Every `step`-th entry from `start` up to `end`; backwards if `step` is negative."""
        return raw.take(range(start, end, step), axis)

    @staticmethod
    def unfold_raw(raw: Array, axis: int, size: int, step: int) -> Array:
        """Pieces of length `size` along `axis`, at every `step`-th place, with their entries as a new last axis."""
        pieces = np.lib.stride_tricks.sliding_window_view(raw, size, axis)
        return pieces.take(range(0, pieces.shape[axis], step), axis)

    @staticmethod
    def pad_raw(raw: Array, padding: Mapping[int, tuple[int, int]], value: object) -> Array:
        """The array with `value` added before and after the axes in `padding`; negative numbers cut off."""
        amounts = [padding.get(axis, (0, 0)) for axis in range(raw.ndim)]
        cut = raw[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(raw.shape, amounts, strict=True))]
        added = [(max(a, 0), max(b, 0)) for a, b in amounts]
        return np.pad(cut, added, constant_values=np.asarray(value, raw.dtype))


def _descending(raw: Array, axis: int) -> Array:
    """The positions from the largest to the smallest entry; of equal entries, the first one first."""
    backwards = np.argsort(np.flip(raw, axis), axis, kind="stable")
    return np.flip(raw.shape[axis] - 1 - backwards, axis)


class NumpySort:
    """The raw part of `backend.base.index`."""

    @staticmethod
    def top_k_raw(raw: Array, axis: int, k: int, sorted: bool) -> tuple[Array, Array]:
        """The largest values, the first of equal ones first then NaN, and -∞ last; and their positions."""
        lowest = np.finfo(raw.dtype).min if raw.dtype.kind == "f" else 0
        order = _descending(np.where(np.isnan(raw), lowest, raw), axis).take(range(k), axis)
        return np.take_along_axis(raw, order, axis), order

    @staticmethod
    def sort_raw(raw: Array, axis: int, descending: bool, stable: bool) -> tuple[Array, Array]:
        """The sorted values, and their former positions."""
        order = _descending(raw, axis) if descending else np.argsort(raw, axis, kind="stable")
        return np.take_along_axis(raw, order, axis), order

    @staticmethod
    def search_sorted_raw(entries: Array, values: Array, right: bool) -> Array:
        """Where to insert `values` [batch…, own…] in sorted `entries` [batch…, axis]. → [batch…, own…]"""
        index = np.zeros(values.shape, np.int64)
        for row in np.ndindex(*entries.shape[:-1]):
            index[row] = np.searchsorted(entries[row], values[row], "right" if right else "left")
        return index

    @staticmethod
    def split_index_raw(index: Array, sizes: Sequence[int]) -> list[Array]:
        """Positions in merged axes, as positions in each axis."""
        return list(np.unravel_index(index, sizes))


class NumpyBackend(
    NumpyMath, NumpyData, NumpyIndex, NumpySort, NumpyShape, NumpyReduce, NumpyMatmul, NumpyLoss, Backend
):
    """Computes with numpy, on the CPU. There are no gradients: every tensor is a constant."""

    name = "numpy"
    RawTensorType = np.ndarray

    stop_gradient_raw = staticmethod(Array.view)
    scaled_gradient_raw = staticmethod(lambda raw, factor: raw.view())
    shifted_gradient_raw = staticmethod(lambda raw, *how: raw.view())
    needs_gradient_raw = staticmethod(lambda raw: False)
    version_raw = current_version_raw = staticmethod(lambda raw: 0)
    plain_version_raw = counted_version_raw = staticmethod(lambda raw: None)
    unobserved = staticmethod(nullcontext)
    is_observed = staticmethod(int)
    is_finite_raw = staticmethod(lambda raw: raw.dtype.kind not in "fc" or bool(np.isfinite(raw).all()))
    holds_finite_raw = is_finite_raw
    is_ready_raw = staticmethod(lambda value: False)
    is_readable_raw = staticmethod(lambda raw: raw.dtype.kind in "biufc")

    @staticmethod
    def no_gradients() -> AbstractContextManager[None]:
        """A context that does nothing, since numpy has no gradients."""
        return nullcontext()

    @classmethod
    def gradient(cls, y: Tensor, x: Tensor) -> NoReturn:
        """Raises BackendError."""
        raise BackendError("gradient: the numpy backend does not compute gradients", hint=WAY_OUT)

    @classmethod
    def set_requires_gradient(cls, tensor: Tensor) -> NoReturn:
        """Raises BackendError."""
        raise BackendError("set_requires_gradient: the numpy backend does not compute gradients", hint=WAY_OUT)


WAY_OUT = 'use torch: rf.select_backend("torch") before the tensors are made'

register_backend_by_tensor_type(np.ndarray, NumpyBackend)
