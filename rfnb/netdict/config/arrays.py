"""Tensors as the expressions of net dicts see them: with numbered axes, in the declared order."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.axes import NetworkDims, time_of
from rfnb.ops.index import gather
from rfnb.ops.math import combine_bc, compare_bc, logical_not, neg
from rfnb.ops.shape import expand_dim, replace_dim, set_sparse_dim, squeeze
from rfnb.ops.slice import slice as slice_

POOL: ContextVar[NetworkDims] = ContextVar("rfnb_dims_of_expressions")
"""The dims of the network whose expression is computed now. While a config is read, there are none."""


@dataclass
class Padding:
    """Whether reductions of an expression count frames after the end of a sequence; counted: whether one had some."""

    counts: bool = True
    counted: bool = False


PADDING: ContextVar[Padding] = ContextVar("rfnb_padding_in_expressions")


def without_padding(x: Tensor, dims: Sequence[Dim]) -> bool:
    """Whether a reduction over these dims leaves out the frames behind the ends."""
    padding = PADDING.get(None)
    if padding is None:
        return False
    padding.counted |= padding.counts and any(x.size_of(dim).dims for dim in dims if not dim.is_batch_dim())
    return not padding.counts


Number = bool | int | float


class AxisLength(int):
    """The size of an axis, which knows the axis: `tf.ones([tf.shape(x)[0], 3])` has the batch of x."""

    dim: Dim | None

    def __new__(cls, size: int, dim: Dim | None) -> AxisLength:
        """The size, and the axis if it is one of a Tensor."""
        length = super().__new__(cls, size)
        length.dim = dim
        return length


class Shape(tuple[Any, ...]):
    """The sizes of all axes; `ndims` and `as_list` as an expression may read them."""

    ndims = property(len)

    def as_list(self) -> list[Any]:
        """The sizes."""
        return list(self)


class Array:
    """A Tensor with an order of its axes. An axis that is None has size 1 and is no dim of the Tensor.

    Operators match axes by their place, from the last one, as numpy does.
    """

    __slots__ = ("axes", "pool", "x")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, x: Tensor, axes: Sequence[Dim | None], pool: NetworkDims):
        self.x, self.axes, self.pool = x, tuple(axes), pool

    def like(self, x: Tensor, axes: Sequence[Dim | None] | None = None) -> Array:
        """Another tensor, by default with the same axes."""
        return Array(x, self.axes if axes is None else axes, self.pool)

    def at(self, number: int) -> int:
        """The place of an axis that may be counted from the end. Raises IndexError."""
        if not -len(self.axes) <= number < len(self.axes):
            raise IndexError(f"axis {number} of a tensor with {len(self.axes)} axes")
        return number % len(self.axes)

    def size(self, axis: Dim | None) -> int:
        """The size of an axis in this batch."""
        return 1 if axis is None else axis.dimension or self.x.size_of(axis).max

    def members(self) -> dict[str, Any]:
        """What an expression may read of it, by name."""
        x, axes = self.x, self.axes
        places: dict[Dim | None, int] = {dim: i for i, dim in enumerate(axes) if dim is not None}
        batch = next((i for i, dim in enumerate(axes) if dim is not None and dim.is_batch_dim()), None)
        labels = x.sparse_dim or x.feature_dim
        shape = Shape(1 if dim is None else dim.dimension for dim in axes)
        return {
            "placeholder": self,
            "shape": shape,
            "get_shape": lambda: shape,
            "ndim": len(axes),
            "batch_ndim": len(axes),
            "dtype": x.dtype,
            "dim": None if labels is None else labels.dimension,
            "batch_dim_axis": batch,
            "time_dim_axis": places.get(time_of(self.ordered())),
            "feature_dim_axis": places.get(x.feature_dim),
            "get_placeholder_as_batch_major": lambda: self,
            "copy_as_batch_major": lambda: self,
            "copy": lambda: self,
        }

    def ordered(self) -> Tensor:
        """The Tensor with its dims in the order of the axes."""
        return self.x.copy_transpose([dim for dim in self.axes if dim is not None])

    def whole(self) -> Tensor:
        """The Tensor with dims of size 1 for the axes that are None."""
        y, axes = self.x, list(self.axes)
        for i, dim in enumerate(axes):
            if dim is None:
                make = self.pool.feature if i == len(axes) - 1 else self.pool.static
                axes[i] = make(1, [d for d in axes if d is not None])
                y = expand_dim(y, axes[i])  # type: ignore[arg-type]
        return y.copy_transpose([dim for dim in axes if dim is not None])

    def __getitem__(self, key: Any) -> Array:
        keys = list(key) if isinstance(key, tuple) else [key]
        count = sum(entry is not None and entry is not Ellipsis for entry in keys)
        if Ellipsis in keys:
            at = keys.index(Ellipsis)
            keys[at : at + 1] = [slice(None)] * (len(self.axes) - count)
        keys += [slice(None)] * (len(self.axes) - sum(entry is not None for entry in keys))
        x, remaining = self.x, list(self.axes)
        axes: list[Dim | None] = []
        for entry in keys:
            if entry is None:
                axes.append(None)
                continue
            dim = remaining.pop(0)
            if isinstance(entry, int):
                x = x if dim is None else gather(x, indices=int(entry), axis=dim)
                continue
            if not isinstance(entry, slice):
                raise TypeError("a tensor is indexed by numbers and slices")
            if dim is not None and entry != slice(None):
                x, dim = self._part(x, dim, entry)
            axes.append(dim)
        return self.like(x, axes)

    def _part(self, x: Tensor, dim: Dim, part: slice) -> tuple[Tensor, Dim]:
        if dim.dimension is None:
            raise TypeError("a slice along an axis whose size comes with the data; use a layer of the class slice")
        new = self.pool.instead(dim, len(range(dim.dimension)[part]), x)
        return slice_(x, axis=dim, start=part.start, end=part.stop, step=part.step, out_dim=new)

    def __neg__(self) -> Array:
        return self.like(neg(self.x))

    def __pos__(self) -> Array:
        return self

    def __invert__(self) -> Array:
        return self.like(logical_not(self.x))

    def __bool__(self) -> bool:
        raise TypeError("a tensor is neither true nor false; use tf.where")


def together(*given: Any) -> tuple[list[Any], tuple[Dim | None, ...], NetworkDims | None]:
    """The tensors with the same dims for axes at the same place; numbers stay. And the axes of the result.

    Raises TypeError if one is neither a tensor nor a number, or if sizes at one place differ.
    """
    arrays = [array for array in given if isinstance(array, Array)]
    for array in given:
        if not isinstance(array, Array | Number):
            raise TypeError(f"{type(array).__name__} is neither a tensor nor a number")
    if len(arrays) == 1:
        [only] = arrays
        return [plain(array.x) if array is only else array for array in given], only.axes, only.pool
    rank = max((len(array.axes) for array in arrays), default=0)
    tensors = {id(array): plain(array.x) for array in arrays}
    axes: list[Dim | None] = [None] * rank
    for place in range(1, rank + 1):
        candidates = [(array, array.axes[-place]) for array in arrays if len(array.axes) >= place]
        sized = [(array, dim) for array, dim in candidates if dim is not None and (dim.dimension != 1)]
        dynamic = [dim for _, dim in sized if dim.dimension is None]
        sized_one = [dim for _, dim in candidates if dim is not None]
        axis = next(iter(dynamic or [dim for _, dim in sized] or sized_one), None)
        size = next((array.size(dim) for array, dim in candidates if dim is axis), 1)
        if axis is not None and axis in axes:  # an outer product: the same axis at two places
            if axis.dimension is None:
                raise TypeError(f"the axis {axis.name} would be there twice")
            used_dims = [*(dim for dim in axes if dim is not None), *(dim for array in arrays for dim in array.x.dims)]
            axis = arrays[0].pool.feature(axis.dimension, used_dims)
        axes[-place] = axis
        for array, dim in candidates:
            if dim is None or dim is axis or axis is None:
                continue
            x = tensors[id(array)]
            if dim.dimension == 1:
                x = squeeze(x, dim)
            elif axis in x.sig.index or array.size(dim) != size:
                raise TypeError(f"the axes {dim.name} and {axis.name} are at the same place and do not match")
            else:
                x = replace_dim(x, in_dim=dim, out_dim=axis)[0]
            tensors[id(array)] = x
    results = [tensors[id(array)] if isinstance(array, Array) else array for array in given]
    return results, tuple(axes), arrays[0].pool if arrays else None


def plain(x: Tensor) -> Tensor:
    """Labels as numbers."""
    return x if x.sparse_dim is None else set_sparse_dim(x, None)


def elementwise(op: Callable[..., Tensor]) -> Callable[..., Any]:
    """An op on tensors with named dims as one on arrays and numbers."""

    def call(*given: Any) -> Any:
        tensors, axes, pool = together(*given)
        assert pool is not None
        return Array(op(*tensors), axes, pool)

    return call


_KINDS = {"add": "add", "sub": "sub", "mul": "mul", "truediv": "truediv", "floordiv": "floordiv", "mod": "mod"}
_KINDS |= {"pow": "pow", "and_": "logical_and", "or_": "logical_or"}
_COMPARED = {"eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}


def binary(kind: str) -> Callable[..., Any]:
    """An operator of two tensors or numbers, by its name for `rf.combine` or `rf.compare`."""
    bc = compare_bc if kind in _COMPARED.values() else combine_bc
    apply = elementwise(lambda a, b: bc(a, kind, b))
    names = {**{value: name for name, value in _KINDS.items()}, **{value: name for name, value in _COMPARED.items()}}
    builtins: Any = {"maximum": max, "minimum": min}
    numbers = builtins.get(kind) or getattr(operator, names.get(kind, ""), operator.sub)

    def call(a: Any, b: Any) -> Any:
        return apply(a, b) if isinstance(a, Array) or isinstance(b, Array) else numbers(a, b)

    return call


for _name, _kind in {**_KINDS, **_COMPARED}.items():
    _call = binary(_kind)
    _dunder = _name.strip("_")
    setattr(Array, f"__{_dunder}__", _call)
    if _name in _KINDS:
        setattr(Array, f"__r{_dunder}__", (lambda call: lambda self, other: call(other, self))(_call))
