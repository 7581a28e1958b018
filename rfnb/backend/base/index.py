"""Entries at indices: out of a tensor, and into one."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import ragged, size_in
from rfnb.core import align
from rfnb.core.align import Sig
from rfnb.core.dim import Dim, current_lengths
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError, DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class Gather(NamedTuple):
    """How to gather: `axis` of the source; without shared dims by index, else along `axis` with aligned indices."""

    axis: int
    shared: bool
    own: int  # dims that only the indices have
    expand: bool  # whether the source has dims that the indices have not
    how: align.Move
    out: weakref.ref[Sig]


class IndexOps:
    """Raw part: `gather_raw`, `index_raw`, `select_raw`, `one_hot_raw`, `scatter_raw`."""

    gather_raw: Callable[..., Any]
    index_raw: Callable[[Any, Any, int], Any]
    move_raw: Callable[[Any, align.Move], Any]
    select_raw: Callable[[Any, int, int], Any]
    one_hot_raw: Callable[[Any, int, str], Any]
    scatter_raw: Callable[..., Any]

    @classmethod
    def gather(  # type: ignore[misc]
        cls: type[Backend], source: Tensor, *, indices: Tensor | int, axis: Dim, clip_to_valid: bool = False
    ) -> Tensor:
        """Entries of `source` at `indices` along `axis`. {…, axis}, {…} → {… of both}"""
        if not isinstance(indices, Tensor):
            return _select(cls, source, int(indices), axis, clip_to_valid)
        plan: Any = source.sig.plans.get(("gather", axis, indices.sig.serial))
        out = plan and plan[5]()
        if not out:
            out, plan = _plan(source, indices, axis)
        place, shared, own, expand, how, _ = plan
        dynamic = indices.sig.frames
        if clip_to_valid:
            indices = _clipped(cls, source, indices, axis)
            return cls.gather(_not_empty(cls, source, axis), indices=indices, axis=axis)
        lengths, positions = source.lengths, indices._raw
        if lengths is not indices.lengths:
            lengths = lengths.join(indices.lengths, source.sig, indices.sig)
        if dynamic and lengths.sizes:
            positions = cls.fill_padding(indices, 0, dynamic)
        if how is not None:
            positions = cls.move_raw(positions, how)
        raw = (
            cls.gather_raw(source._raw, positions, place, own, expand)
            if shared
            else cls.index_raw(source._raw, positions, place)
        )
        return cls.cut_gradient(tensor_of(raw, out, lengths), source) if dynamic else tensor_of(raw, out, lengths)

    @classmethod
    def one_hot(cls, source: Tensor, *, dtype: str) -> Tensor:
        """1 at the label, 0 elsewhere. {…} sparse → {…, sparse_dim}"""
        dim = source.sparse_dim
        if dim is None:
            raise DimError(
                "one_hot: `source` is not sparse", got=source.describe_dims(), hint="rf.set_sparse_dim(source, dim)"
            )
        lengths = source.lengths if dim.dimension is not None else source.lengths.bind({dim: dim.size})
        size = lengths.size(dim)
        assert size is not None
        return tensor_of(
            cls.one_hot_raw(source._raw, size.max, dtype), align.sig([*source.dims, dim], None, dim), lengths
        )

    @classmethod
    def scatter(  # type: ignore[misc]
        cls: type[Backend],
        source: Tensor,
        *,
        indices: Tensor,
        indices_dim: Dim | Sequence[Dim],
        out_dim: Dim | Sequence[Dim],
        mode: str = "sum",
        fill_value: float | None = None,
        use_mask: bool = True,
    ) -> Tensor:
        """Puts the entries of `source` at `indices` along `out_dim`. {…, indices_dim}, {…, indices_dim} → {…, out_dim}

        Entries at one place are combined: "sum", "max", "min". Places without one hold `fill_value`, or 0.
        """
        over = (indices_dim,) if isinstance(indices_dim, Dim) else tuple(indices_dim)
        into = (out_dim,) if isinstance(out_dim, Dim) else tuple(out_dim)
        for dim in over:
            axis_of("scatter", indices, dim, "indices")
        batch = [d for d in indices.dims if d not in over]
        features = [d for d in source.dims if d not in indices.sig.index]
        lengths = join(source, indices).join(current_lengths(into), source.sig, align.sig(into))
        sizes = [lengths.size(dim) for dim in into]
        if any(size is None for size in sizes):
            raise DimError(
                "scatter: `out_dim` has no size yet", got=align.show_dims(into), expected="dims whose sizes are known"
            )
        shape = [size.max for size in sizes if size]
        positions, padded = indices._raw, use_mask and any(ragged(indices, dim) for dim in indices.dims)
        if padded:
            positions = cls.fill_padding(indices, math.prod(shape))  # one place more, which is thrown away
        raw = align.apply(align.move(source.dims, [*batch, *over, *features], trailing=False), source._raw)
        positions = align.apply(align.move(indices.dims, [*batch, *over]), positions)
        raw = cls.scatter_raw(raw, positions, len(batch), shape, mode, fill_value, len(features), padded)
        signature = align.sig([*batch, *into, *features], source.sparse_dim, _kept_feature(source, features))
        return tensor_of(raw, signature, lengths)


def _plan(source: Tensor, indices: Tensor, axis: Dim) -> tuple[Sig, Gather]:
    place = axis_of("gather", source, axis)
    if not indices.dtype.startswith(("int", "uint")):
        raise DtypeError("gather: `indices` are no whole numbers", got=indices.dtype, expected="int32 or int64")
    if indices.sparse_dim is not None and indices.sparse_dim is not axis and axis.dimension is not None:
        fits = indices.sparse_dim.dimension == axis.dimension or indices.sparse_dim.dimension is None
        if not fits:
            raise DimError(
                "gather: `indices` count another dim",
                got=f"indices of {indices.sparse_dim.describe()}",
                expected=f"indices of {axis.describe()}",
                hint="rf.set_sparse_dim(indices, axis), if it is meant",
            )
    before, after = source.dims[:place], source.dims[place + 1 :]
    own = [d for d in indices.dims if d is axis or d not in source.sig.index]
    shared = any(d is not axis and d in source.sig.index for d in indices.dims)
    order = [*before, *(own or [axis]), *after]
    feature = None if source.feature_dim is axis else source.feature_dim
    out = align.sig([*before, *own, *after], source.sparse_dim, feature)
    how = align.move(indices.dims, order, trailing=False) if shared else None
    expand = any(d not in indices.sig.index for d in (*before, *after))
    plan = Gather(place, shared, len(own), expand, how, weakref.ref(out))
    source.sig.keep(("gather", axis, indices.sig.serial), plan)
    return out, plan


def _not_empty(backend: Any, source: Tensor, axis: Dim) -> Tensor:
    """With a frame of zeros, if no sequence has any."""
    if source.size_of(axis).max:
        return source
    return source.like(backend.pad_raw(source._raw, {source.sig.index[axis]: (0, 1)}, 0))


def _select(backend: Any, source: Tensor, index: int, axis: Dim, clip_to_valid: bool) -> Tensor:
    """The entry at one position; from the end of each sequence if it is negative."""
    try:
        place, out, may_differ = source.sig.plans["select", axis]
    except KeyError:
        place, out, may_differ = source.sig.keep(
            ("select", axis),
            (axis_of("gather", source, axis), align.without(source.sig, [axis]), axis.dimension is None),
        )
    if out.frames and axis in source.lengths.owners:
        return _select_sequence(backend, source, index, axis, clip_to_valid)
    if clip_to_valid or (index < 0 and may_differ):
        return _select_valid(backend, source, index, axis, clip_to_valid, place, out)
    try:
        return tensor_of(backend.select_raw(source._raw, place, index), out, source.lengths)
    except IndexError:
        raise _no_entry(source, index, axis) from None


def _select_sequence(backend: Any, source: Tensor, index: int, axis: Dim, clip_to_valid: bool) -> Tensor:
    """The entry of a dim whose entries have lengths of their own, without the padding behind it."""
    count = source.size_of(axis).max
    if clip_to_valid:
        index = min(max(index, 0), count - 1)
    if not -count <= index < count:
        raise _no_entry(source, index, axis)
    index %= count
    lengths = source.lengths.of_one(axis, index)
    raw, out = backend.select_raw(source._raw, source.sig.index[axis], index), align.without(source.sig, [axis])
    for place, dim in enumerate(out.dims):
        size = lengths.size(dim)
        if dim.dimension is None and size is not None and size.max < backend.get_shape_tuple_raw(raw)[place]:
            raw = backend.slice_raw(raw, place, 0, size.max, 1)
    return tensor_of(raw, out, lengths)


def _select_valid(
    backend: Any, source: Tensor, index: int, axis: Dim, clip_to_valid: bool, place: int, out: Sig
) -> Tensor:
    if clip_to_valid:
        source = _not_empty(backend, source, axis)
    size = size_in(source, axis)
    if not clip_to_valid and index < -size.max:
        raise _no_entry(source, index, axis)
    key = ("select", index)
    positions = backend.per_frame(
        source, axis, key, lambda n: np.clip(index + (n if index < 0 else 0 * n), 0, np.maximum(n - 1, 0))
    )
    return tensor_of(backend.gather_raw(source._raw, positions, place, 0), out, source.lengths)


def _no_entry(source: Tensor, index: int, axis: Dim) -> DimError:
    size = source.size_of(axis).max
    return DimError(
        f"gather: there is no entry {index} of {axis.name}", got=source.describe_dims(), expected=f"less than {size}"
    )


def _clipped(backend: Any, source: Tensor, indices: Tensor, axis: Dim) -> Tensor:
    """The indices, none of them behind the last frame."""
    size = size_in(source, axis)
    key = ("last", axis.serial, source.sig.serial, backend.device_key_raw(source._raw))
    last = np.maximum(size.values - 1, 0)
    raw = (
        source.lengths.cached(key, lambda: backend.from_numpy_raw(last, key[-1]))
        if size.dims
        else backend.from_numpy_raw(last, key[-1])
    )
    limit = tensor_of(raw, align.sig(size.dims), source.lengths)
    clipped = backend.combine(indices, "minimum", backend.cast(limit, indices.dtype), allow_broadcast_all_sources=True)
    return clipped.like(backend.clip_raw(clipped._raw, 0, None))


def _kept_feature(source: Tensor, dims: Sequence[Dim]) -> Dim | None:
    return source.feature_dim if source.feature_dim in dims else None
