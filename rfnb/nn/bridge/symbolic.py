"""Sizes that are not numbers yet, because torch is tracing (`torch.compile`, `torch.export`)."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin

from rfnb.core.dims.binding import DATA
from rfnb.core.dims.dim import DIMS, Dim
from rfnb.core.dims.lengths import Size, symbolic_values
from rfnb.errors import BackendError


class SymbolicValues(NDArrayOperatorsMixin):
    """Lengths with the interface of numpy arrays, held as a torch tensor, or as one symbolic number.

    longest: the size of the padded axis. Each operation is applied to both, which is right for increasing functions.
    """

    __slots__ = ("longest", "raw")

    def __init__(self, raw: Any, longest: Any):
        self.raw, self.longest = raw, longest

    @property
    def ndim(self) -> int:
        """The number of axes of the lengths."""
        return self.raw.ndim if isinstance(self.raw, torch.Tensor) else 0

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the axes of the lengths."""
        return tuple(self.raw.shape) if isinstance(self.raw, torch.Tensor) else ()

    def __getitem__(self, index: Any) -> SymbolicValues:
        return SymbolicValues(self.raw[index] if self.ndim else torch.as_tensor(self.raw)[index], self.longest)

    def transpose(self, order: Sequence[int]) -> SymbolicValues:
        """The lengths with their axes in another order."""
        return SymbolicValues(self.raw.permute(*order), self.longest)

    def frames(self) -> torch.Tensor:
        """A mask of the positions that are frames, not padding. […, longest]"""
        raw = torch.as_tensor(self.raw)
        return torch.arange(self.longest, device=raw.device) < raw[..., None]

    def agrees(self, other: Any) -> bool:
        """Whether both are the same, as far as that is known while tracing."""
        if not isinstance(other, SymbolicValues) or self.ndim or other.ndim:
            return self.raw is getattr(other, "raw", None)
        return bool(self.raw == other.raw)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> SymbolicValues:
        function = _FUNCTIONS.get(ufunc.__name__)
        if function is None or method != "__call__" or options:
            raise not_traced(f"{ufunc.__name__} of lengths")
        raws = [x.raw if isinstance(x, SymbolicValues) else int(x) for x in inputs]
        longest = [x.longest if isinstance(x, SymbolicValues) else int(x) for x in inputs]
        return SymbolicValues(function(*raws), function(*longest))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise not_traced(f"`{name}` of lengths")

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise not_traced("the value of a length")

    __int__ = __array__


def _either(of_numbers: Callable[..., Any], of_tensors: Callable[..., Any]) -> Callable[..., Any]:
    def pick(a: Any, b: Any) -> Any:
        if not isinstance(a, torch.Tensor) and not isinstance(b, torch.Tensor):
            return of_numbers(a, b)
        return of_tensors(torch.as_tensor(a), torch.as_tensor(b))

    return pick


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "floor_divide": operator.floordiv,
    "negative": operator.neg,
    "maximum": _either(torch.sym_max, torch.maximum),
    "minimum": _either(torch.sym_min, torch.minimum),
}


def not_traced(what: str) -> BackendError:
    """The error for an operation that cannot be part of a graph that serves all batches."""
    return BackendError(
        f"to_torch: the model is traced, or called by torch.vmap with lengths, but needs {what}",
        expected="ops whose sizes follow from those of their arguments",
        hint="compile only parts that do not need it: rf.from_torch(torch.compile(rf.to_torch(part, in_dims=…)), …, "
        'lengths="lengths")',
    )


@symbolic_values.register
def _values_of(size: Any) -> SymbolicValues:
    return size if isinstance(size, SymbolicValues) else SymbolicValues(size, size)


def symbolic_size(batch: Dim | None, values: torch.Tensor | None, longest: Any) -> Size:
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
