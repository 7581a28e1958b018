"""Tensors as the expressions of net dicts see them, with numbered axes, and the functions of TensorFlow on them."""

from __future__ import annotations

import math as numbers
import operator
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.axes import NetworkDims, time_of, with_dim
from rfnb.netdict.layer_call import safe_log
from rfnb.ops import math, reduce as reductions
from rfnb.ops.concat import concat, split
from rfnb.ops.create import full, ones_like, range_over_dim, zeros_like
from rfnb.ops.grad import stop_gradient
from rfnb.ops.index import gather, one_hot
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import cast, combine_bc, compare_bc, logical_not, neg
from rfnb.ops.random import random_normal, random_uniform
from rfnb.ops.reduce import log_softmax, softmax
from rfnb.ops.shape import expand_dim, set_sparse_dim, squeeze
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
    """Whether a reduction over these dims leaves out the frames after the ends."""
    padding = PADDING.get(None)
    if padding is None:
        return False
    padding.counted |= padding.counts and any(x.size_of(dim).dims for dim in dims if not dim.is_batch_dim())
    return not padding.counts


Number = bool | int | float
ANY_NUMBER = 2
"""Stands for a number of a tensor while there are none."""


class AxisLength(int):
    """The size of an axis, which knows the axis: `tf.ones([tf.shape(x)[0], 3])` has the batch of x."""

    dim: Dim | None
    factors: tuple[Dim | None, ...]
    is_symbol: bool
    most: tuple[Dim | None, int] | None

    def __new__(
        cls, size: int, dim: Dim | None, factors: tuple[Dim | None, ...] = (), *, is_symbol: bool = False
    ) -> AxisLength:
        """The size, and the axis if it is one of a Tensor.

        Args:
            factors: the axes whose sizes were multiplied.
            is_symbol: whether the number only stands for the size, as there is no batch.
        """
        length = super().__new__(cls, size)
        length.dim, length.factors, length.is_symbol = dim, factors or (dim,), is_symbol
        length.most = None  # of the smaller one of a size and a number: that axis, and that number
        return length


class Shape(tuple[object, ...]):
    """The sizes of all axes; `ndims` and `as_list` as an expression may read them."""

    ndims = rank = property(len)

    def as_list(self) -> list[object]:
        """The sizes."""
        return list(self)


class Array:
    """A Tensor with an order of its axes. An axis that is None has size 1 and is not a dim of the Tensor.

    Operators match axes by their place, from the last one, as numpy does.
    """

    __slots__ = ("axes", "counted", "pool", "x")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, x: Tensor, axes: Sequence[Dim | None], pool: NetworkDims):
        self.x, self.axes, self.pool = x, tuple(axes), pool
        self.counted: Dim | None = None  # the axis whose lengths these are

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

    def length(self, axis: Dim | None) -> int:
        """The size, which knows its axis, if there is one, and whether there is a batch."""
        return 1 if axis is None else AxisLength(self.size(axis), axis, is_symbol=follows_data(self.x, axis))

    def members(self) -> dict[str, object]:
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
            "set_shape": lambda shape: None,
            "ndim": len(axes),
            "batch_ndim": len(axes),
            "batch_shape": shape,
            "dtype": x.dtype,
            "sparse": x.sparse_dim is not None,
            "dim": None if labels is None else labels.dimension,
            "batch_dim_axis": batch,
            "time_dim_axis": places.get(time_of(self.ordered())),
            "feature_dim_axis": places.get(x.feature_dim),
            "is_batch_major": batch == 0,
            "have_batch_axis": lambda: batch is not None,
            "have_time_axis": lambda: time_of(self.ordered()) is not None,
            "have_feature_axis": lambda: x.feature_dim is not None,
            "time_dimension": lambda: self.length(time_of(self.ordered())),
            "get_sequence_lengths": lambda: self.lengths(time_of(self.ordered())),
            "get_dynamic_size": lambda axis: self.lengths(axes[self.at(axis)]),
            "get_sequence_mask": lambda: self.mask(full_rank=False),
            "get_sequence_mask_broadcast": lambda *_, **__: self.mask(full_rank=True),
            "get_placeholder_as_batch_major": lambda: self.major("batch"),
            "copy_as_batch_major": lambda: self.major("batch"),
            "get_placeholder_as_time_major": lambda: self.major("time"),
            "copy_as_time_major": lambda: self.major("time"),
            "copy": lambda *_, **__: self,
        }

    def lengths(self, dim: Dim | None) -> Array:
        """The lengths of an axis. {…} → {batch}"""
        if dim is None:
            raise TypeError("the tensor has no time axis")
        sizes = cast(get_size_tensor(dim, device=self.x.device), "int32")
        array = self.like(sizes, sizes.dims)
        array.counted = dim
        return array

    def sizes(self) -> dict[int, Array]:
        """The lengths of all axes that have some, by their places without the batch."""
        dims = [dim for dim in self.axes if dim is None or not dim.is_batch_dim()]
        return {i: self.lengths(dim) for i, dim in enumerate(dims) if dim is not None and dim.dimension is None}

    def mask(self, *, full_rank: bool) -> Array:
        """Which frames count. {…} → {batch, time} bool, with axes of size 1 for the others if `full_rank`"""
        time = time_of(self.ordered())
        lengths = self.lengths(time)
        y = compare_bc(range_over_dim(time, dtype="int32", device=self.x.device), "less", lengths.x)  # type: ignore[arg-type]
        order = [dim if dim in y.sig.index else None for dim in self.axes]
        return self.like(y, order if full_rank else [dim for dim in order if dim is not None])

    def major(self, kind: str) -> Array:
        """The tensor with the batch, or the time, as the first axis."""
        time = time_of(self.ordered()) if kind == "time" else None
        order = [dim for dim in self.axes if dim is not None and (dim is time or (not time and dim.is_batch_dim()))]
        return self.like(self.x, [*order, *(dim for dim in self.axes if dim not in order)])

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

    def __getitem__(self, key: object) -> Array:
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
            if isinstance(entry, int | Array):
                index: Any = plain(entry.x) if isinstance(entry, Array) else int(entry)
                x = x if dim is None else gather(x, indices=index, axis=dim)
                continue
            if not isinstance(entry, slice):
                raise TypeError("a tensor is indexed by numbers and slices")
            if dim is not None and entry != slice(None):
                x, dim = self._part(x, dim, entry)
            axes.append(dim)
        return self.like(x, axes)

    def _part(self, x: Tensor, dim: Dim, part: slice) -> tuple[Tensor, Dim]:
        limits = (part.start, part.stop, part.step)
        part = slice(*(None if number is None else whole_number(number) for number in limits))
        if dim.dimension is None:
            part = slice(part.start, _end(part.stop, limits[1], dim), part.step)
            single = part.stop is not None and part.stop - 1 == (part.start or 0) >= 0  # else some may be shorter
            length = self.pool.static(1, x.dims) if single else None
            return slice_(x, axis=dim, start=part.start, end=part.stop, step=part.step, out_dim=length)
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


def together(*given: object) -> tuple[list[object], tuple[Dim | None, ...], NetworkDims | None]:
    """The tensors with the same dims for axes at the same place; numbers stay. And the axes of the result.

    Raises TypeError if one is neither a tensor nor a number, or if sizes at one place differ.
    """
    arrays = [array for array in given if isinstance(array, Array)]
    for array in given:
        if not isinstance(array, Array | Number):
            raise TypeError(f"{type(array).__name__} is neither a tensor nor a number")
    if len(arrays) == 1:
        [only] = arrays
        return [plain(array.x) if array is only else _number(array) for array in given], only.axes, only.pool
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
            elif axis in x.sig.index or (array.size(dim) != size and not follows_data(x, dim, axis)):
                raise TypeError(f"the axes {dim.name} and {axis.name} are at the same place and do not match")
            else:
                x = with_dim(x, dim, axis)
            tensors[id(array)] = x
    results = [tensors[id(array)] if isinstance(array, Array) else _number(array) for array in given]
    return results, tuple(axes), arrays[0].pool if arrays else None


def follows_data(x: Tensor, *dims: Dim) -> bool:
    """Whether there are no numbers yet, and the size of one of the dims comes with the data."""
    return x.device == "meta" and any(dim.dimension is None for dim in dims)


def plain(x: Tensor) -> Tensor:
    """Labels as numbers."""
    return x if x.sparse_dim is None else set_sparse_dim(x, None)


def elementwise(op: Callable[..., Tensor]) -> Callable[..., object]:
    """An op on tensors with named dims as one on arrays and numbers."""

    def call(*given: object) -> Any:
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
        if isinstance(a, Array) or isinstance(b, Array):
            return apply(a, b)
        lengths = [size for size in (a, b) if isinstance(size, AxisLength)]
        if not lengths:
            return numbers(a, b)
        is_symbol, result = any(size.is_symbol for size in lengths), numbers(_number(a), _number(b))
        if isinstance(result, bool):
            return _unknown() if is_symbol else result
        if not isinstance(result, int):
            return result
        factors = tuple(dim for size in lengths for dim in size.factors) if kind == "mul" and len(lengths) == 2 else ()
        size = AxisLength(result, None, factors, is_symbol=is_symbol)
        if kind == "minimum" and len(lengths) == 1:
            size.most = lengths[0].dim, _number(b if lengths[0] is a else a)
        return size

    return call


def _end(number: int | None, size: object, dim: Dim) -> int | None:
    """The end of a slice of an axis that has other sizes in other batches; None for the whole axis."""
    if not isinstance(size, AxisLength):
        return number
    if size.dim is not dim and (size.most is None or size.most[0] is not dim):
        raise TypeError("the end of a slice depends on the sizes of the batch; use a layer of the class slice_nd")
    return None if size.most is None else size.most[1]


def _number(size: Any) -> Any:
    return int(size) if isinstance(size, AxisLength) else size


def _unknown() -> Array:
    """A condition on the size of a batch while there is none."""
    return Array(full(dims=[], fill_value=False, dtype="bool", device="meta"), [], POOL.get())


for _name, _kind in {**_KINDS, **_COMPARED}.items():
    _call = binary(_kind)
    _dunder = _name.strip("_")
    for _class in (Array,) if _name in ("eq", "ne") else (Array, AxisLength):  # sizes are compared with -1, and 1
        setattr(_class, f"__{_dunder}__", _call)
        if _name in _KINDS:
            setattr(_class, f"__r{_dunder}__", (lambda call: lambda self, other: call(other, self))(_call))


DTYPES = {name: name for name in "float16 float32 float64 int8 int16 int32 int64 uint8 bool".split()}


def _unary(op: Callable[[Tensor], Tensor], of_number: Callable[[Any], object] | None = None) -> Callable[..., object]:
    def call(x: object, **_: object) -> Any:
        if isinstance(x, Array):
            return x.like(op(plain(x.x)))
        if of_number is None or not isinstance(x, Number):
            raise TypeError("the function needs a tensor")
        return of_number(x)

    return call


def reduction(mode: str) -> Callable[..., object]:
    """A reduction over axes: the function `reduce_{mode}`, or `mode` itself if it begins with arg."""
    reduce = getattr(reductions, f"reduce_{mode}")

    def call(x: Any, axis: Any = None, keepdims: bool = False, output_type: Any = "int64") -> Any:
        if isinstance(x, Number):
            return x
        if mode.startswith("arg") and axis is None:
            axis = 0
        places = range(len(x.axes)) if axis is None else [axis] if isinstance(axis, int) else axis
        at = {x.at(place) for place in places}
        dims = [x.axes[place] for place in sorted(at) if x.axes[place] is not None]
        mask = without_padding(x.x, dims)
        y = x.x if not dims else reduce(plain(x.x), axis=dims if len(dims) > 1 else dims[0], use_mask=mask)
        if mode.startswith("arg"):
            y = math.cast(plain(y), output_type)
        remaining = [None if i in at else dim for i, dim in enumerate(x.axes) if keepdims or i not in at]
        return x.like(y, remaining)

    return call


def _over_axis(op: Callable[..., Tensor]) -> Callable[..., object]:
    def call(x: Array, axis: int = -1) -> Array:
        over = x.axes[x.at(axis)]
        return x.like(op(x.x, axis=over, use_mask=without_padding(x.x, [over] if over is not None else [])))

    return call


def whole_number(given: Any) -> int:
    """A number that an op needs, which a tensor may hold; without numbers, one that is as good as any."""
    if not isinstance(given, Array):
        return int(given)
    if given.x.dims:
        raise TypeError("one number is needed, not a tensor with axes")
    return ANY_NUMBER if given.x.device == "meta" else int(given.x.item())


def truth(given: object) -> bool | None:
    """Whether a condition holds; None while there are no numbers."""
    if not isinstance(given, Array):
        return bool(given)
    return None if given.x.device == "meta" else bool(whole_number(given))


def _where(condition: object, x: object = None, y: object = None) -> object:
    """Entry by entry one of two values; a condition with one axis may choose rows."""
    if not isinstance(condition, Array):
        return x if condition else y
    if x is None or y is None:
        raise TypeError("where needs two values")
    widest = max((array for array in (x, y) if isinstance(array, Array)), key=lambda a: len(a.axes), default=condition)
    if len(condition.axes) == 1 and len(widest.axes) > 1 and condition.axes[0] is widest.axes[0]:
        condition = condition.like(condition.x, [*condition.axes, *[None] * (len(widest.axes) - 1)])
    return elementwise(lambda c, a, b: math.where(c, a, b, allow_broadcast_all_sources=True))(condition, x, y)


def cast_to(x: Any, dtype: str = "float32") -> Any:
    """A tensor or number of another type."""
    if isinstance(x, Array):
        return x.like(math.cast(plain(x.x), dtype))
    return bool(x) if dtype == "bool" else float(x) if dtype.startswith("float") else int(x)


def _expand_dims(x: Array, axis: int = -1) -> Array:
    axes = list(x.axes)
    axes.insert(axis if axis >= 0 else len(axes) + 1 + axis, None)
    return x.like(x.x, axes)


def _squeeze(x: Array, axis: int | Sequence[int] | None = None) -> Array:
    single = [i for i, dim in enumerate(x.axes) if dim is None or dim.dimension == 1]
    at = single if axis is None else [x.at(number) for number in ([axis] if isinstance(axis, int) else axis)]
    y = reduce(squeeze, filter(None, (x.axes[place] for place in at)), x.x)
    return x.like(y, [dim for i, dim in enumerate(x.axes) if i not in at])


def _transpose(x: Array, perm: Sequence[int] | None = None) -> Array:
    order = range(len(x.axes))[::-1] if perm is None else perm
    return x.like(x.x, [x.axes[i] for i in order])


def _shape(x: Array, **_: object) -> Shape:
    return Shape(map(x.length, x.axes))


def concat_arrays(values: Sequence[Array], axis: int) -> Array:
    """Tensors joined one after the other along an axis of a fixed size."""
    like, at = values[0], values[0].at(axis)
    dims = [x.axes[at] for x in values]
    sizes = [1 if dim is None else dim.dimension for dim in dims]
    if None in sizes:
        raise TypeError("concat along an axis whose size comes with the data; use a layer of the class concat")
    new = _made(sum(size or 0 for size in sizes), like, at)
    parts = [(x.whole(), x.whole().dims[at]) for x in values]
    return like.like(concat(*parts, allow_broadcast=True, out_dim=new)[0], [*like.axes[:at], new, *like.axes[at + 1 :]])


def _split(value: Array, num_or_size_splits: int | Sequence[int], axis: int = 0, num: object = None) -> list[Array]:
    at = value.at(axis)
    dim = value.axes[at]
    if dim is None or dim.dimension is None:
        raise TypeError("split along an axis without a fixed size")
    count = num_or_size_splits
    sizes = [dim.dimension // count] * count if isinstance(count, int) else count
    new = [_made(size, value, at) for size in sizes]
    parts = split(value.x, axis=dim, out_dims=new)
    return [value.like(y, [*value.axes[:at], d, *value.axes[at + 1 :]]) for y, d in zip(parts, new, strict=True)]


def _made(size: int, of: Array, at: int) -> Dim:
    make = of.pool.feature if of.axes[at] is of.x.feature_dim or at == len(of.axes) - 1 else of.pool.static
    return make(size, [dim for i, dim in enumerate(of.axes) if dim is not None and i != at])


def _one_hot(x: Array, depth: int, *, dtype: str = "float32", **_: object) -> Array:
    dim = x.pool.feature(depth, [dim for dim in x.axes if dim is not None])
    return x.like(math.cast(one_hot(set_sparse_dim(x.x, dim)), dtype), [*x.axes, dim])


def _l2_normalize(x: Array, axis: object = None, epsilon: float = 1e-12) -> Array:
    total = reduction("sum")(binary("mul")(x, x), axis=axis, keepdims=True)
    normalized: Array = binary("mul")(x, _unary(math.rsqrt)(binary("maximum")(total, epsilon)))
    return normalized


def of_shape(shape: Any) -> tuple[list[Dim | None], list[Dim]]:
    """The axes of a shape, some of which know their dims: `tf.shape(x)`, or parts of it; and the dims."""
    axes: list[Dim | None] = []
    for size in [shape] if isinstance(shape, int | Array) else shape:
        dim = size.dim if isinstance(size, AxisLength) else None
        size = whole_number(size)
        used_dims = [dim_there for dim_there in axes if dim_there is not None]
        axes.append(dim if dim is not None or size == 1 else POOL.get().static(int(size), used_dims))
    return axes, [dim for dim in axes if dim is not None]


def _filled(shape: object, value: float, dtype: str = "float32") -> Array:
    axes, dims = of_shape(shape)
    return Array(full(dims=dims, fill_value=value, dtype=dtype), axes, POOL.get())


def _uniform(shape: object, minval: Any = 0, maxval: Any = 1, dtype: str = "float32", seed: int | None = None) -> Array:
    axes, dims = of_shape(shape)
    minval, high = _number(minval), _number(maxval)
    if isinstance(minval, Number) and isinstance(high, Number):
        return Array(random_uniform(dims, minval=minval, maxval=high, dtype=dtype, seed=seed), axes, POOL.get())
    y = binary("mul")(Array(random_uniform(dims, seed=seed), axes, POOL.get()), cast_to(binary("sub")(high, minval)))
    y = binary("add")(cast_to(y if dtype.startswith("float") else y.like(math.floor(y.x)), dtype), minval)
    return y if isinstance(y, Array) else Array(y, axes, POOL.get())


def _normal(shape: object, mean: float = 0.0, stddev: float = 1.0, dtype: str = "float32", seed: Any = None) -> Array:
    axes, dims = of_shape(shape)
    return Array(random_normal(dims, mean=mean, stddev=stddev, dtype=dtype, seed=seed), axes, POOL.get())


def _range(start: object, limit: object = None, delta: int = 1, dtype: str = "int32") -> Array:
    if limit is None:
        start, limit = 0, start
    if isinstance(start, int) and start == 0 and delta == 1:
        axes, dims = of_shape([limit])
    else:
        start = whole_number(start)
        axes, dims = of_shape([len(range(start, whole_number(limit), delta))])
    y = range_over_dim(dims[0], dtype=dtype) if dims else full(dims=[], fill_value=0, dtype=dtype)
    return Array(y if delta == 1 and isinstance(start, int) and start == 0 else y * delta + start, axes, POOL.get())


_LIKE = {"stop_gradient": stop_gradient, "identity": lambda x: x}
_PLAIN: dict[str, Callable[[Any], object] | None] = {
    "exp": numbers.exp, "log": numbers.log, "abs": abs, "sqrt": numbers.sqrt, "square": lambda x: x * x,
    "sin": numbers.sin,
    "cos": numbers.cos, "floor": numbers.floor, "ceil": numbers.ceil, "round": round, "neg": lambda x: -x,
    "rsqrt": None, "log1p": numbers.log1p, "expm1": numbers.expm1, "sign": None,
    "logical_not": lambda x: not x, "is_finite": None,
}  # fmt: skip
_ACTIVATIONS = "relu sigmoid tanh log_sigmoid elu selu swish gelu softplus softsign".split()
_BINARY = {
    **{name: name for name in "add equal not_equal less less_equal greater greater_equal maximum minimum".split()},
    **{name: name for name in "logical_and logical_or floordiv mod pow squared_difference truediv".split()},
    "floormod": "mod", "subtract": "sub", "multiply": "mul", "divide": "truediv", "div": "truediv",
    "floor_div": "floordiv",
}  # fmt: skip


def functions() -> dict[str, Callable[..., object]]:
    """All functions by name, without `tf.`, `tf.math.` and `tf.nn.`."""
    names: dict[str, Callable[..., object]] = {
        **{name: _unary(getattr(math, name), of) for name, of in _PLAIN.items() if hasattr(math, name)},
        **{name: _unary(op) for name, op in _LIKE.items()},
        **{name: _like(number) for name, number in (("zeros_like", 0), ("ones_like", 1))},
        **{name: _unary(getattr(math, name)) for name in _ACTIVATIONS},
        **{name: binary(kind) for name, kind in _BINARY.items()},
        **{f"reduce_{mode}": reduction(mode) for mode in "sum mean max min logsumexp any all".split()},
        **{name: reduction(name) for name in ("argmax", "argmin")},
        "where": _where, "where_bc": _where, "cast": cast_to, "expand_dims": _expand_dims,
        "to_float": cast_to, "to_int32": lambda x: cast_to(x, "int32"), "squeeze": _squeeze,
        "transpose": _transpose, "shape": _shape, "get_shape_dim": lambda x, i, **_: _shape(x)[i],
        "rank": lambda x, **_: len(x.axes), "split": _split, "one_hot": _one_hot, "l2_normalize": _l2_normalize,
        "softmax": _over_axis(softmax), "log_softmax": _over_axis(log_softmax), "constant": lambda value, **_: value,
        "convert_to_tensor": lambda value, **_: value, "negative": _unary(math.neg, lambda x: -x),
        "clip_by_value": _clipped, "add_n": lambda values, **_: sum(values[1:], values[0]),
        "zeros": lambda shape, dtype="float32", **_: _filled(shape, 0, dtype),
        "ones": lambda shape, dtype="float32", **_: _filled(shape, 1, dtype),
        "fill": _filled, "range": _range, "random_uniform": _uniform, "random_normal": _normal,
        "safe_log": _safe_log,
    }  # fmt: skip
    return names


def _like(number: int) -> Callable[..., object]:
    def call(x: object, dtype: Any = None, **_: object) -> object:
        if not isinstance(x, Array):
            return number
        make = zeros_like if number == 0 else ones_like
        return x.like(make(plain(x.x) if dtype is None else math.cast(plain(x.x), dtype)))

    return call


def _safe_log(x: object, eps: float = 1e-20) -> object:
    return _unary(lambda y: safe_log(y, eps), lambda y: numbers.log(max(y, eps)))(x)


def _clipped(x: object, clip_value_min: object, clip_value_max: object) -> object:
    return binary("minimum")(binary("maximum")(x, clip_value_min), clip_value_max)
