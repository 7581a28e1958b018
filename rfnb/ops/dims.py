"""Functions of dims alone: positions, counts, and match priorities."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, as_dims, check_dims
from rfnb.core.dims.dim_math import aligned
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.ground import backends
from rfnb.core.ground.defaults import get_default_array_index_dtype, get_default_device, get_default_float_dtype
from rfnb.core.tensor.op import guarded, method_of, op
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.ops.create import range_over_dim
from rfnb.ops.mask import get_dim_value_tensor, get_size_tensor
from rfnb.ops.math import Value, cast, combine_bc, maximum, mul, sub
from rfnb.ops.shape import set_sparse_dim

Dims = Dim | Sequence[Dim]


@guarded
def range_over_dim_strided(
    dim: Dim, *, stride: int | Tensor, out_dim: Dim | None = None, dtype: str | None = None, device: str | None = None
) -> tuple[Tensor, Dim]:
    """Every `stride`-th position of `dim`, and the dim of these positions. → {⌈dim/stride⌉}, sparse in `dim`

    >>> rf.range_over_dim_strided(rf.Dim(5, name="time"), stride=2)[0].raw_tensor.tolist()
    [0, 2, 4]
    """
    step = int(stride)
    counted = dim.ceildiv_right(step)
    if out_dim is not None:
        out_dim.define(counted.size, "range_over_dim_strided")
        counted = out_dim
    positions = mul(range_over_dim(counted, dtype=dtype, device=device), step)
    return set_sparse_dim(positions, dim), counted


@guarded
def range_over_merged_dims(dims: Sequence[Dim], *, dtype: str | None = None, device: str | None = None) -> Tensor:
    """The position in the merged dim that `rf.merge_dims` gives to each position. → {dims…}, sparse in their product

    >>> height, width = rf.Dim(2, name="height"), rf.Dim(3, name="width")
    >>> rf.range_over_merged_dims([height, width]).raw_tensor.tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    check_dims(dims, "range_over_merged_dims")
    positions = range_over_dim(dims[0], dtype=dtype, device=device)
    for dim in dims[1:]:
        inner = range_over_dim(dim, dtype=dtype, device=device)
        positions = combine_bc(
            mul(positions, get_dim_value_tensor(dim)), "add", inner, dim_order=[*positions.dims, dim]
        )
    return positions if len(dims) == 1 else set_sparse_dim(positions, functools.reduce(operator.mul, dims))


@op(frames="any")
def linspace_over_dim(
    dim: Dim, start: Value = 0.0, end: Value = 1.0, *, dtype: str | None = None, device: str | None = None
) -> Tensor:
    """Evenly spaced values from `start` up to, but not including, `end`, one for each frame. → {…, dim}

    >>> rf.linspace_over_dim(rf.Dim(4, name="time")).raw_tensor.tolist()
    [0.0, 0.25, 0.5, 0.75]
    """
    size = dim.size
    parts = np.arange(size.max) / np.maximum(size.values[..., None], 1)
    dtype, device = dtype or get_default_float_dtype(), device or get_default_device()
    fractions = _tensor(parts, (*size.dims, dim), current_lengths([dim]), dtype, device)
    return combine_bc(combine_bc(fractions, "mul", operator.sub(end, start)), "add", start)


@guarded
def last_frame_position_of_dim(
    dim: Dim, *, device: str | None = None, allow_scalar_on_cpu: bool = True
) -> Tensor | int:
    """The position of the last frame of each sequence; 0 for an empty one. → {batch}, sparse in `dim`; an int if static

    >>> rf.last_frame_position_of_dim(rf.Dim(4, name="time"))
    3
    """
    if dim.dimension is not None:
        return max(dim.dimension - 1, 0)
    device = None if allow_scalar_on_cpu and not dim.size.dims else device
    position = maximum(sub(get_size_tensor(dim, device=device), 1), 0)
    return set_sparse_dim(cast(position, get_default_array_index_dtype()), dim)


@guarded
def num_elements_of_shape(dims: Dims, *, use_mask: bool = True, device: str | None = None) -> Tensor | int:
    """The number of entries of a tensor with `dims`, without padding. → an int if all dims are static, else a Tensor

    If the lengths depend on a dim that is not among `dims`, the result has that dim: {batch} for [time].

    >>> rf.num_elements_of_shape([rf.Dim(2), rf.Dim(3)])
    6
    """
    dims = _several(dims)
    if all(dim.is_static() for dim in dims):
        return math.prod(dim.size.max for dim in dims)
    return count_entries(dims, use_mask=use_mask, device=device)


@guarded
def masked_fraction_of_shape(dims: Dims, *, inverse: bool = False, device: str | None = None) -> Tensor | int:
    """The fraction of the entries of a tensor with `dims` that are not padding; with `inverse`, 1 divided by it.

    → 1 if all dims are static, else a Tensor

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1, 2], [3]], dims=[rf.batch_dim, time])
    >>> rf.masked_fraction_of_shape([rf.batch_dim, time]).item()
    0.75
    """
    dims = _several(dims)
    if all(dim.is_static() for dim in dims):
        return 1
    return fraction_of_entries(dims, inverse=inverse, device=device)


@op(frames="any")
def count_entries(dims: Sequence[Dim], *, use_mask: bool, device: str | None) -> Tensor:
    """The number of entries of a tensor with `dims`."""
    lengths = current_lengths(dims)
    count = _count(dims, lengths, use_mask=use_mask)
    return _tensor(count.values, count.dims, lengths, get_default_array_index_dtype(), device)


@op(frames="any")
def fraction_of_entries(dims: Sequence[Dim], *, inverse: bool, device: str | None) -> Tensor:
    """The fraction of entries that are not padding, or 1 divided by it; 1 if there are no entries."""
    lengths = current_lengths(dims)
    frames, padded = (_count(dims, lengths, use_mask=use_mask) for use_mask in (True, False))
    numerator, denominator = (padded.values, frames.values) if inverse else (frames.values, padded.values)
    part = np.where(padded.values == 0, 1.0, numerator / np.maximum(denominator, 1))
    return _tensor(part, frames.dims, lengths, get_default_float_dtype(), device)


def use_mask_default(
    *,
    default: bool | None = None,
    default_false_for_behavior_version_up_to: int | None = None,
    func_name: str | None = None,
) -> bool:
    """Whether an op ignores padding by default: True, unless `default` is given.

    >>> rf.use_mask_default(), rf.use_mask_default(default=False)
    (True, False)
    """
    return True if default is None else default


@guarded
def dim_match_priority_when_needed(dim: Dim, *other_dims: Dim) -> Dim:
    """`dim` with a higher match priority than the same dim has in `other_dims`, for a weight that has both.

    >>> feat, out = rf.Dim(4, name="feat"), rf.Dim(3, name="out")
    >>> rf.dim_match_priority_when_needed(feat, out), rf.dim_match_priority_when_needed(feat, feat)
    (Dim{feat:4}, Dim{feat(1):4})
    """
    highest = max((d.match_priority for d in other_dims if d.base is dim.base), default=-1)
    return dim if dim.match_priority > highest else dim.copy(match_priority=highest + 1)


def get_default_dim_size_device() -> str:
    """The device of lengths.

    >>> rf.get_default_dim_size_device()
    'cpu'
    """
    return "cpu"


def _tensor(values: np.ndarray, dims: Sequence[Dim], lengths: Lengths, dtype: str, device: str | None) -> Tensor:
    raw = backends.selected().from_numpy_raw(np.asarray(values), device)
    return cast(tensor_of(raw, align.sig(dims), lengths), dtype)


def _count(dims: Sequence[Dim], lengths: Lengths, *, use_mask: bool) -> Size:
    """The number of entries, for each entry of the dims that lengths depend on but that are not counted."""
    sizes = [lengths.size(dim) or dim.size for dim in dims]
    if not use_mask:
        return Size((), math.prod(size.max for size in sizes))
    owners = {dim for size in sizes for dim in size.dims}
    factors = [
        Size([*size.dims, dim], np.arange(size.max) < size.values[..., None]) if dim in owners else size
        for dim, size in zip(dims, sizes, strict=True)
    ]
    all_dims, values = aligned(factors)
    total = np.asarray(math.prod(values, start=np.asarray(1)))
    counted = tuple(axis for axis, dim in enumerate(all_dims) if dim in dims)
    return Size([dim for dim in all_dims if dim not in dims], total.sum(counted))


def _several(dims: Dims) -> tuple[Dim, ...]:
    dims = as_dims(dims)
    check_dims(dims)
    return dims


@method_of(Tensor)
def num_elements(self: Tensor) -> Tensor | int:
    """The number of entries, without padding. → an int if all dims are static, else {}

    >>> rf.ones([rf.Dim(5, name="time"), rf.Dim(3, name="feat")]).num_elements()
    15
    >>> rf.ones([rf.batch_dim, rf.Dim([4, 1], name="time")]).num_elements().item()  # 4 + 1 frames
    5
    """
    return num_elements_of_shape(self.dims) if all(dim.is_static() for dim in self.dims) else entries_of(self)


@op()
def entries_of(tensor: Tensor) -> Tensor:
    """The number of entries, without padding."""
    count = _count(tensor.dims, tensor.lengths, use_mask=True)
    return _tensor(count.values, count.dims, tensor.lengths, get_default_array_index_dtype(), tensor.device)
