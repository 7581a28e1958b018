"""Sorting, searching in sorted sequences, and selecting the largest entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound, fitted, renamed, size_in
from rfnb.core.advice.similar_dims import mark_beam
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class SortOps:
    """Raw part: `sort_raw(raw, axis, descending, stable)`, `search_sorted_raw(sorted, values, right)`."""

    sort_raw: Callable[[RawTensor, int, bool, bool], tuple[RawTensor, RawTensor]]
    search_sorted_raw: Callable[[RawTensor, RawTensor, bool], RawTensor]

    @classmethod
    def sort(
        cls: type[Backend], source: Tensor, *, axis: Dim, descending: bool = False, stable: bool = True
    ) -> tuple[Tensor, Tensor, Dim]:
        """The sorted entries, their former positions, and the new dim. {…, axis} → {…, out_dim}"""
        place = axis_of("sort", source, axis)
        size = size_in(source, axis)
        raw, padding = source._raw, cls.padding_for(source, (axis,))
        if padding is not None:
            raw = cls.masked_fill_raw(raw, padding, cls.lowest_raw(raw) if descending else cls.highest_raw(raw))
        stable = stable or padding is not None  # padding comes after equal entries
        values, index = cls.sort_raw(raw, place, descending, stable)
        out_dim = Dim(axis.dimension, name=f"{axis.name}_sorted")
        lengths = bound(source.lengths, out_dim, size, "sort")
        out = renamed(source, axis, out_dim)
        places = tensor_of(index, align.sig(out.dims, axis, out.feature_dim), lengths)
        return tensor_of(values, out, lengths), places, out_dim

    @classmethod
    def search_sorted(
        cls: type[Backend],
        sorted_seq: Tensor,
        values: Tensor,
        *,
        axis: Dim,
        side: str = "left",
        out_dtype: str = "int32",
    ) -> Tensor:
        """The number of entries along `axis` that are less ("left") or not greater. {…, axis}, {…} → {… of both}"""
        axis_of("search_sorted", sorted_seq, axis, "sorted_seq")
        batch = [dim for dim in sorted_seq.dims if dim is not axis]
        inner = [dim for dim in values.dims if dim not in batch]
        lengths = join(sorted_seq, values)
        raw, padding = sorted_seq._raw, cls.padding_for(sorted_seq, (axis,))
        if padding is not None:
            raw = cls.masked_fill_raw(raw, padding, cls.highest_raw(raw))
        raw = align.apply(align.move(sorted_seq.dims, [*batch, axis]), raw)
        queries = align.apply(align.move(values.dims, [*batch, *inner], trailing=False), values._raw)
        shape = cls.get_shape_tuple_raw(queries)[len(batch) :]
        queries = cls.broadcast_raw(queries, [*cls.get_shape_tuple_raw(raw)[:-1], *shape])
        index = cls.search_sorted_raw(raw, queries, side == "right")
        place = tensor_of(cls.cast_raw(index, out_dtype), align.sig([*batch, *inner], axis), lengths)
        if padding is None:
            return place
        size = size_in(sorted_seq, axis)
        limit = cls.cast_raw(cls.from_numpy_raw(size.values, cls.device_key_raw(raw)), out_dtype)
        limit = tensor_of(limit, align.sig(size.dims), sorted_seq.lengths)
        return cls.combine(place, "minimum", limit, allow_broadcast_all_sources=True)


class TopKOps:
    """Raw part: `top_k_raw(raw, axis, k, sorted)`, `best_raw(raw, k, exact)`, `lowest_raw(raw)`, `highest_raw(raw)`,
    `split_index_raw(index, sizes)`.
    """

    top_k_raw: Callable[[RawTensor, int, int, bool], tuple[RawTensor, RawTensor]]
    best_raw: Callable[[RawTensor, int, int], tuple[np.ndarray, np.ndarray]]
    lowest_raw: Callable[[RawTensor], RawTensor]
    highest_raw: Callable[[RawTensor], RawTensor]
    split_index_raw: Callable[[RawTensor, Sequence[int]], list[RawTensor]]

    @classmethod
    def top_k(
        cls: type[Backend],
        source: Tensor,
        *,
        axis: Dim | Sequence[Dim],
        k: int | Tensor,
        k_dim: Dim | None = None,
        sorted: bool = True,
    ) -> tuple[Tensor, Tensor | list[Tensor], Dim]:
        """The `k` largest over `axis`, their positions, and `k_dim`. {…, axis} → {…, k_dim}, the same sparse in axis

        Several axes are searched as one; for a list of dims, the positions are a list, one for each dim. Padding counts
        as -∞, so that it is only selected if nothing else is left. Places for which there is no entry get the lowest
        value, and position 0. The values of a Tensor `k` are read.
        """
        dims = (axis,) if isinstance(axis, Dim | int | str) else tuple(axis)
        places = [axis_of("top_k", source, dim) for dim in dims]
        size = _count(cls, source, places, k)
        count, k_dim = size.max, k_dim or Dim(None if size.dims else size.max, name="top_k")
        padding = cls.padding_for(source, dims)
        raw = source._raw
        if padding is not None:
            raw = cls.masked_fill_raw(raw, padding, cls.lowest_raw(raw))
        order, place = source.dims, places[0]
        sizes = [cls.get_shape_tuple_raw(raw)[i] for i in places]
        if len(dims) > 1:
            order = (*(d for d in source.dims if d not in dims), *dims)
            place = len(order) - len(dims)
            raw = cls.merge_axes_raw(align.apply(align.move(source.dims, order), raw), place, len(dims))
        available = min(count, math.prod(sizes))
        values, index = cls.top_k_raw(raw, place, available, sorted)
        if available < count:
            extra = {place: (0, count - available)}
            values, index = cls.pad_raw(values, extra, cls.lowest_raw(raw)), cls.pad_raw(index, extra, 0)
        mark_beam(k_dim)
        lengths = bound(source.lengths, k_dim, size, "top_k")
        out = [*order[:place], k_dim, *order[place + len(dims) :]]
        feature = k_dim if source.feature_dim in dims else source.feature_dim

        def result(raw: RawTensor, sparse_dim: Dim | None, feature_dim: Dim | None = None) -> Tensor:
            return fitted(cls, tensor_of(raw, align.sig(out, sparse_dim, feature_dim), lengths), k_dim)

        best = result(values, source.sparse_dim, feature)
        if isinstance(axis, Dim):
            return best, result(index, dims[0]), k_dim
        parts = cls.split_index_raw(index, sizes)
        return best, [result(part, dim) for part, dim in zip(parts, dims, strict=True)], k_dim


def _count(backend: type[Backend], source: Tensor, places: Sequence[int], k: int | Tensor) -> Size:
    """How many entries are selected, which differs between sequences for a Tensor."""
    if isinstance(k, Tensor):
        entries = math.prod(backend.get_shape_tuple_raw(source._raw)[place] for place in places)
        size = Size(k.dims, backend.to_numpy_raw(backend.with_numbers(k, entries)._raw))
    else:
        size = Size((), k)
    if size.min < 0:
        raise DimError("top_k: `k` is negative", got=size.min, expected="0 or more")
    return size
