"""Sizes that are not numbers yet: torch is tracing (`torch.compile`, `torch.export`), or there is no batch."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin

from rfnb.core.dims.binding import DATA
from rfnb.core.dims.dim import DIMS, Dim
from rfnb.core.dims.lengths import Size, symbolic_range, symbolic_values
from rfnb.errors import BackendError


class SymbolicValues(NDArrayOperatorsMixin):
    """Lengths, and what ops compute from them, with the interface of numpy arrays, held as a torch tensor, or as one
    symbolic number.

    longest: the size of the padded axis. Each operation is applied to both, which is right for increasing functions.
        None for masks and positions. On the device "meta" it only stands for a size: any two differ.
    """

    __slots__ = ("longest", "raw")

    def __init__(self, raw: Any, longest: object):
        self.raw, self.longest = raw, longest

    @property
    def ndim(self) -> int:
        """The number of axes of the lengths."""
        return self.raw.ndim if isinstance(self.raw, torch.Tensor) else 0

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes of the lengths."""
        return tuple(self.raw.shape) if isinstance(self.raw, torch.Tensor) else ()

    @property
    def is_meta(self) -> bool:
        """Whether these are lengths of no batch, on torch's device "meta"."""
        return isinstance(self.raw, torch.Tensor) and self.raw.is_meta

    @property
    def tensor(self) -> torch.Tensor:
        """The values as a torch tensor."""
        return _raw(self.raw)

    def __getitem__(self, index: Any) -> SymbolicValues:
        return SymbolicValues(self.tensor[index], self.longest)

    def permute(self, *order: int) -> SymbolicValues:
        """The values with their axes in another order."""
        return SymbolicValues(self.raw.permute(*order), self.longest)

    def sum(self, axis: int | tuple[int, ...] | None = None) -> SymbolicValues:
        """The sum over axes."""
        if axis is None:
            raise not_traced("the sum of all lengths")
        return SymbolicValues(self.tensor.sum(axis), self.shape[-1] if self.is_meta and axis == -1 else None)

    def min(self, initial: int = 0) -> int:
        """The smallest value that there may be."""
        return 0

    def max(self, axis: int | tuple[int, ...] | None = None, initial: int = 0) -> Any:
        """The largest along axes; of all, the size of the padded axis."""
        return self.longest if axis is None else SymbolicValues(self.tensor.amax(axis), self.longest)

    def take(self, index: Any, axis: int) -> SymbolicValues:
        """The values at one place of an axis, or at several that follow each other."""
        if isinstance(index, int):
            return SymbolicValues(self.tensor.select(axis, index), self.longest)
        if list(index) != list(range(index[0], index[0] + len(index))):
            raise not_traced("`take` of lengths")
        return SymbolicValues(self.tensor.narrow(axis, index[0], len(index)), self.longest)

    def astype(self, dtype: object) -> SymbolicValues:
        """The values, which are whole numbers."""
        return self

    def reshape(self, *shape: int) -> SymbolicValues:
        """The values with other axes."""
        return SymbolicValues(self.tensor.reshape(shape), self.longest)

    def any(self) -> bool:
        """Whether one of the values may be true; without a batch none is, as checks are made when there is one."""
        return not self.is_meta

    def all(self) -> bool:
        """Whether all values are known to be true."""
        return False

    def tobytes(self) -> object:
        """A key that no other values have."""
        return object()

    def agrees(self, other: object) -> bool:
        """Whether both are the same, as far as that is known while tracing."""
        if self.is_meta and isinstance(other, SymbolicValues):
            return self.longest is not None and self.longest == other.longest
        if not isinstance(other, SymbolicValues) or self.ndim or other.ndim:
            return self.raw is getattr(other, "raw", None)
        return bool(self.raw == other.raw)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: object, **options: object) -> SymbolicValues:
        function = _FUNCTIONS.get(ufunc.__name__)
        if function is None or method != "__call__" or options:
            raise not_traced(f"{ufunc.__name__} of lengths")
        raws = [x.raw if isinstance(x, SymbolicValues) else _operand(x) for x in inputs]
        longest = list(map(_longest, inputs))
        known = ufunc.__name__ in _INCREASING and None not in longest
        if any(isinstance(x, SymbolicValues) and x.is_meta for x in inputs):
            return SymbolicValues(_without_numbers(ufunc, raws), function(*longest) if known else None)
        return SymbolicValues(function(*raws), function(*longest) if known else None)

    def __array_function__(
        self, function: Callable[..., object], types: object, args: Sequence[object], kwargs: dict[str, object]
    ) -> object:
        implementation = _ARRAY_FUNCTIONS.get(function.__name__)
        if implementation is None:
            raise not_traced(f"{function.__name__} of lengths")
        return implementation(*args, **kwargs)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        raise not_traced(f"`{name}` of lengths")

    def __array__(self, *args: object, **kwargs: object) -> NoReturn:
        raise not_traced("the value of a length")

    __int__ = __array__


def _operand(x: object) -> object:
    """An array of numbers as a torch tensor; one number, and a symbol, as they are."""
    return torch.from_numpy(x.copy()) if isinstance(x, np.ndarray) and x.ndim else _largest(x)


def _largest(x: Any) -> Any:
    return x if isinstance(x, bool | torch.SymInt) else int(np.max(x)) if np.size(x) else 0


def _without_numbers(ufunc: np.ufunc, raws: Sequence[object]) -> torch.Tensor:
    """What a function of lengths without numbers gives: torch's own functions of these load its compiler."""
    tensors = [raw for raw in raws if isinstance(raw, torch.Tensor)]
    dtype = torch.bool if "ll->?" in ufunc.types else tensors[0].dtype
    return torch.empty(np.broadcast_shapes(*(raw.shape for raw in tensors)), dtype=dtype, device="meta")


def _longest(x: object) -> Any:
    return x.longest if isinstance(x, SymbolicValues) else _largest(x)


def _raw(x: Any) -> torch.Tensor:
    x = x.raw if isinstance(x, SymbolicValues) else x
    is_number = isinstance(x, int | torch.SymInt)
    if is_number:
        return torch.scalar_tensor(x, dtype=torch.int64)
    return torch.as_tensor(x.copy() if isinstance(x, np.ndarray) else x)


def _either(of_numbers: Callable[..., object], of_tensors: Callable[..., object]) -> Callable[..., object]:
    def pick(a: object, b: object) -> object:
        if not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
            return of_numbers(a, b)
        return of_tensors(_raw(a), _raw(b))

    return pick


_FUNCTIONS: dict[str, Callable[..., object]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": operator.floordiv,
    "negative": operator.neg,
    "maximum": _either(torch.sym_max, torch.maximum),
    "minimum": _either(torch.sym_min, torch.minimum),
    "remainder": operator.mod,
    "absolute": abs,
    "less": operator.lt,
    "less_equal": operator.le,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "equal": operator.eq,
    "not_equal": operator.ne,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "invert": operator.invert,
}
_INCREASING = frozenset({"add", "subtract", "multiply", "floor_divide", "negative", "maximum", "minimum"})
"""Functions that are applied to the longest length as well."""


def _where(condition: object, x: object, y: object) -> Any:
    if isinstance(condition, SymbolicValues):
        longest = [n for n in map(_longest, (x, y)) if n is not None] if condition.is_meta else []
        return SymbolicValues(torch.where(condition.tensor, _raw(x), _raw(y)), max(longest, default=None))
    if isinstance(condition, np.ndarray) and condition.size > 1:
        return SymbolicValues(torch.where(_raw(condition), _raw(x), _raw(y)), None)
    return x if condition else y


def _clip(x: Any, low: Any, high: Any) -> object:
    return np.minimum(np.maximum(x, low), high)


def _concatenate(parts: Sequence[object], axis: int) -> SymbolicValues:
    return SymbolicValues(torch.cat([_raw(part) for part in parts], axis), None)


def _expanded(x: object, shape: Sequence[int]) -> Any:
    return SymbolicValues(_raw(x).expand(shape), _longest(x))


def _taken(x: object, at: object, axis: int) -> SymbolicValues:
    raw, index = _raw(x), _raw(at)
    device = "meta" if raw.is_meta or index.is_meta else raw.device
    return SymbolicValues(torch.take_along_dim(raw.to(device), index.to(device), axis), _longest(x))


def _padded(x: SymbolicValues, widths: Sequence[tuple[int, int]]) -> SymbolicValues:
    if not x.is_meta:
        raise not_traced("`pad` of lengths")
    sizes = [size + before + after for size, (before, after) in zip(x.shape, widths, strict=True)]
    return SymbolicValues(x.tensor.new_empty(sizes), x.longest)


def _broadcast(*arrays: Any) -> list[Any]:
    if not any(isinstance(x, SymbolicValues) and x.is_meta for x in arrays):
        return list(arrays)
    shape = np.broadcast_shapes(*(array.shape for array in arrays))
    return [_expanded(array, shape) for array in arrays]


def _argsort(x: SymbolicValues, axis: int, kind: str) -> SymbolicValues:
    return SymbolicValues(torch.argsort(x.tensor, dim=axis, stable=kind == "stable"), None)


_ARRAY_FUNCTIONS: dict[str, Callable[..., object]] = {
    "where": _where,
    "clip": _clip,
    "concatenate": _concatenate,
    "argsort": _argsort,
    "pad": _padded,
    "take_along_axis": _taken,
    "broadcast_arrays": _broadcast,
    "broadcast_to": _expanded,
}


def not_traced(what: str) -> BackendError:
    """The error for an operation that cannot be part of a graph that serves all batches."""
    return BackendError(
        f"to_torch: the model is traced or called by torch.vmap with lengths, or there is no batch, but needs {what}",
        expected="ops whose sizes follow from those of their arguments",
        hint="compile only parts that do not need it: rf.from_torch(torch.compile(rf.to_torch(part, in_dims=…)), …, "
        'lengths="lengths")',
    )


@symbolic_values.register
def _values_of(size: object, longest: object = None) -> SymbolicValues:
    return size if isinstance(size, SymbolicValues) else SymbolicValues(size, size if longest is None else longest)


@symbolic_range.register
def _range(size: Any) -> SymbolicValues:
    return SymbolicValues(torch.arange(size), None)


def symbolic_size(batch: Dim | None, values: torch.Tensor | None, longest: object) -> Size:
    """The size of a dim whose lengths are being traced."""
    return Size([], longest) if values is None or batch is None else Size([batch], SymbolicValues(values, longest))


@contextmanager
def sizes_restored() -> Iterator[None]:
    """Restores the sizes of all dims after the block, so that none stays bound to a traced size."""
    before = {serial: (dim.bound, dim.given) for serial, dim in list(DIMS.items())}
    try:
        yield
    finally:
        for serial, dim in list(DIMS.items()):
            bound, given = before.get(serial, (None, DATA))
            if dim.bound is not bound:
                dim.bind_to(bound, given)
