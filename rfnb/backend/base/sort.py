"""Sorting, and searching in sorted sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound, renamed, size_in
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor, tensor_of

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class SortOps:
    """Raw part: `sort_raw(raw, axis, descending, stable)`, `search_sorted_raw(sorted, values, right)`."""

    sort_raw: Callable[[Any, int, bool, bool], tuple[Any, Any]]
    search_sorted_raw: Callable[[Any, Any, bool], Any]

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
