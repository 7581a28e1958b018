"""Structures of tensors and dims, such as the state of a decoder: gather, select, scatter and choose entries.

A structure is a dict, list, tuple, named tuple or `rf.State` of tensors, dims and others of its kind. A dim whose
lengths differ along the axis that is picked from, such as the history of each beam, gets a new Dim in the result;
`dim_map` maps the old Dim to the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from rfnb.core.dims.align import apply, move
from rfnb.core.dims.dim import Dim, size_from
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.nested import map_leaves, map_pairs
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor, tensors_in
from rfnb.errors import DimError
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.index import gather
from rfnb.ops.mask import masked_scatter, masked_select
from rfnb.ops.math import cast, where
from rfnb.ops.shape import replace_dim_v2

T = TypeVar("T")
DimMap = dict[Dim, Dim]

__all__ = ["gather_nested", "mask_nested", "masked_scatter_nested", "masked_select_nested", "where_nested"]
__dir__ = __all__.copy  # names offered for completion, without imports


@guarded
def gather_nested(s: T, *, indices: Tensor, dim_map: DimMap | None = None) -> T:
    """The entries of all tensors at `indices`, which are sparse in the dim to pick from.

    >>> beam, best = rf.Dim(3, name="beam"), rf.Dim(2, name="best")
    >>> parents = rf.convert_to_tensor([2, 0], dims=[best], sparse_dim=beam)
    >>> rf.nested.gather_nested(rf.State(h=rf.range_over_dim(beam)), indices=parents).h.raw_tensor.tolist()
    [2, 0]
    """
    axis = indices.sparse_dim
    if axis is None:
        raise DimError("gather_nested: the indices need a `sparse_dim`", got=indices.describe_dims())
    return _picked(s, {axis}, lambda x: gather(x, indices=indices, axis=axis), dim_map, indices.device)


@guarded
def masked_select_nested(
    s: T,
    *,
    mask: Tensor,
    mask_cpu: Tensor | None = None,
    dims: Sequence[Dim],
    out_dim: Dim | None = None,
    dim_map: DimMap | None = None,
) -> tuple[T, Dim, DimMap]:
    """`rf.masked_select` on all tensors: the entries where `mask` is true, their new dim, and a map of old to new dims.

    Tensors without any of `dims` stay unchanged.

    >>> beam = rf.Dim(3, name="beam")
    >>> h = rf.range_over_dim(beam)
    >>> state, active, _ = rf.nested.masked_select_nested(rf.State(h=h), mask=h > 0, dims=[beam])
    >>> state.h.raw_tensor.tolist()
    [1, 2]

    Args:
        mask_cpu: the same mask on the CPU, where it can be read without waiting.
    """
    out_dim = Dim(None, name="selected") if out_dim is None else out_dim
    dim_map = {} if dim_map is None else dim_map
    where_read = mask if mask_cpu is None else mask_cpu

    def select(x: Tensor) -> Tensor:
        return masked_select(x, mask=where_read, dims=dims, out_dim=out_dim)[0]

    select(where_read)  # gives out_dim its size, even if `s` has no tensors
    return _picked(s, set(dims), select, dim_map, mask.device), out_dim, dim_map


@guarded
def masked_scatter_nested(
    s: T,
    backup: T,
    *,
    mask: Tensor,
    mask_cpu: Tensor | None,
    dims: Sequence[Dim],
    in_dim: Dim,
    masked_select_dim_map: DimMap,
    masked_scatter_dim_map: DimMap | None = None,
) -> T:
    """The entries of `s` where `mask` is true, else those of `backup`: the inverse of `masked_select_nested`.

    A dim with the same lengths as before stays the same Dim.

    >>> beam = rf.Dim(3, name="beam")
    >>> before = rf.State(h=rf.convert_to_tensor([7, 8, 9], dims=[beam]))
    >>> mask = rf.range_over_dim(beam) > 0
    >>> state, active, dim_map = rf.nested.masked_select_nested(before, mask=mask, dims=[beam])
    >>> after = rf.State(h=10 * state.h)
    >>> places = {"mask": mask, "mask_cpu": None, "dims": [beam], "in_dim": active, "masked_select_dim_map": dim_map}
    >>> rf.nested.masked_scatter_nested(after, before, **places).h.raw_tensor.tolist()
    [7, 80, 90]

    Args:
        masked_select_dim_map: the map that `masked_select_nested` returned.
    """
    put_back: DimMap = {}

    def put(x: Tensor) -> Tensor:
        return masked_scatter(x, mask=mask, dims=dims, in_dim=in_dim)

    padded = _picked(s, {in_dim}, put, put_back, mask.device)
    table = {} if masked_scatter_dim_map is None else masked_scatter_dim_map
    result = mask_nested(padded, mask=mask, mask_cpu=mask_cpu, mask_value=backup, dim_map=table)
    for selected, scattered in put_back.items():
        table[selected] = table.get(scattered, scattered)
    for original, selected in masked_select_dim_map.items():
        table.setdefault(original, table.get(selected, original))
    return result


@guarded
def where_nested(x: T, y: T, *, condition: Tensor, condition_cpu: Tensor | None = None) -> T:
    """`rf.where` on all leaves: `x` where `condition` is true, else `y`.

    >>> beam = rf.Dim(2, name="beam")
    >>> x = rf.range_over_dim(beam)
    >>> rf.nested.where_nested(rf.State(h=x), rf.State(h=x - 9), condition=x > 0).h.raw_tensor.tolist()
    [-9, 1]

    In a loop, a state can advance only where `condition` {batch} is true, and stay bit for bit the same elsewhere:
    `loop.state.lstm = rf.nested.where_nested(new, loop.state.lstm, condition=is_label)`. Both sides
    are computed everywhere. If the gradient of the unused side is infinite, guard its argument:
    `rf.where(is_label, x, 1.0)`.
    """
    return mask_nested(x, mask=condition, mask_cpu=condition_cpu, mask_value=y)


@guarded
def mask_nested(
    s: T,
    *,
    mask: Tensor,
    mask_cpu: Tensor | None = None,
    mask_value: T | Tensor | float | None,
    dim_map: DimMap | None = None,
    allow_dim_extension: bool = True,
) -> T:
    """`s` where `mask` is true, else `mask_value`: a structure like `s`, or one value for all; None means 0.

    Two dims at the same place with different lengths become one Dim, with the lengths of the chosen entries.

    >>> beam = rf.Dim(3, name="beam")
    >>> h = rf.range_over_dim(beam)
    >>> rf.nested.mask_nested(rf.State(h=h), mask=h > 0, mask_value=9).h.raw_tensor.tolist()
    [9, 1, 2]

    Args:
        allow_dim_extension: whether a dim of `s` may become longer.
    """
    if mask_value is None or isinstance(mask_value, Tensor | int | float):
        return map_leaves(lambda leaf: _where(mask, leaf, mask_value) if isinstance(leaf, Tensor) else leaf, s)
    table = {} if dim_map is None else dim_map
    merging = _Chosen(mask if mask_cpu is None else mask_cpu, table, allow_dim_extension)
    map_pairs(merging.look, s, mask_value)

    def choose(a: Any, b: Any) -> Any:
        if isinstance(a, Dim):
            return table.get(a, a)
        if not isinstance(a, Tensor):
            return a
        return _where(mask, _with_dims(a, table), b if b is None else _with_dims(b, table))

    return map_pairs(choose, s, mask_value)


def _where(mask: Tensor, a: Tensor, b: object) -> Tensor:
    if not isinstance(b, Tensor):
        b = cast(convert_to_tensor(0 if b is None else b), a.dtype)
    return a if a is b else where(mask, a, b, allow_broadcast_all_sources=True)


def _with_dims(x: Tensor, table: DimMap) -> Tensor:
    for dim in x.dims:
        if dim in table:
            x = replace_dim_v2(x, in_dim=dim, out_dim=table[dim])
    return x


def _picked(s: T, axes: set[Dim], pick: Callable[[Tensor], Tensor], dim_map: DimMap | None, device: str | None) -> T:
    """`pick` applied to each tensor with one of `axes`, with new dims where lengths depend on `axes`."""
    table = {} if dim_map is None else dim_map

    def leaf(x: object) -> Any:
        if isinstance(x, Dim):
            if x not in table and not axes.isdisjoint(_size(x).dims):
                size = _size(x)
                lengths = convert_to_tensor(size.values, dims=size.dims, dtype=size.dtype, device=device)
                table[x] = _new(x, pick(lengths))
            return table.get(x, x)
        if not isinstance(x, Tensor) or axes.isdisjoint(x.dims):
            return x
        over = [dim for dim in x.dims if dim.is_dynamic() and not axes.isdisjoint(x.size_of(dim).dims)]
        picked = pick(x)
        for dim in over:
            if dim in picked.dims_set and dim not in axes:
                table.setdefault(dim, Dim(None, name=dim.name, kind=dim.kind))
                picked = replace_dim_v2(picked, in_dim=dim, out_dim=table[dim])
        return picked

    tensors_first = tensors_in(s)
    leaves = {id(x): leaf(x) for x in tensors_first}
    return map_leaves(lambda x: leaves[id(x)] if isinstance(x, Tensor) else leaf(x), s)


def _size(dim: Dim) -> Size:
    return dim.size if dim.is_dynamic() and dim.is_defined() else Size((), 0)


def _new(dim: Dim, lengths: Tensor) -> Dim:
    new = Dim(None, name=dim.name, kind=dim.kind)
    new.bind(size_from(lengths))
    return new


class _Chosen:
    """Finds pairs of dims at the same place of two structures, and merges each pair into one dim."""

    def __init__(self, mask: Tensor, table: DimMap, may_grow: bool):
        self.mask, self.table, self.may_grow = mask, table, may_grow

    def look(self, a: object, b: object) -> None:
        """Registers the merged dims of a pair of leaves."""
        if isinstance(a, Dim) and isinstance(b, Dim):
            self._pair(a, b, a.size, b.size)
        if isinstance(a, Tensor) and isinstance(b, Tensor):
            a_dims = [dim for dim in a.dims if dim not in b.dims_set and dim not in self.mask.dims]
            b_dims = [dim for dim in b.dims if dim not in a.dims_set and dim not in self.mask.dims]
            for a_dim, b_dim in zip(a_dims, b_dims, strict=False):
                self._pair(a_dim, b_dim, a.size_of(a_dim), b.size_of(b_dim))

    def _pair(self, a: Dim, b: Dim, mine: Size, theirs: Size) -> None:
        if a is b or a in self.table or self.table.get(b) is a:
            return
        over = [*dict.fromkeys([*self.mask.dims, *mine.dims, *theirs.dims])]
        mask = apply(move(self.mask.dims, over, trailing=False), self.mask.numpy())
        parts = [apply(move(size.dims, over, trailing=False), size.values) for size in (mine, theirs)]
        size = Size(over, np.where(mask, *parts))
        if size.max > mine.max and not self.may_grow:
            raise DimError(
                f"mask_nested: {a.name} would get longer",
                got=size.max,
                expected=mine.max,
                hint="allow_dim_extension=True",
            )
        if theirs.agrees(size):
            self.table[a] = b
            return
        new = Dim(None, name=a.name, kind=a.kind)
        new.bind(size)
        self.table[a] = self.table[b] = new
