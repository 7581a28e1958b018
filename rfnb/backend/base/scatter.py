"""Scattering: entries are put at indices, and combined where indices are equal."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.index import check_range
from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of, require_ints
from rfnb.backend.base.sizes import ragged
from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, as_dims
from rfnb.core.dims.lengths import Lengths
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend

MODES = ("sum", "mean", "max", "min")


class ScatterOps:
    """Raw part: `scatter_raw`."""

    scatter_raw: Callable[..., Any]

    @classmethod
    def scatter(
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

        Entries at one place are combined: "sum", "mean", "max", "min". Places without entries hold `fill_value`;
        by default 0, for "max" the lowest number of the dtype, and for "min" the highest.
        """
        over, into = as_dims(indices_dim), as_dims(out_dim)
        for dim in over:
            axis_of("scatter", indices, dim, "indices")
        require_ints("scatter", indices, "indices")
        if use_mask:
            indices = _with_owners(cls, indices, over, join(source, indices))
        batch = [d for d in indices.dims if d not in over]
        features = [d for d in source.dims if d not in indices.sig.index]
        lengths = join(source, indices).join(current_lengths(into), source.sig, align.sig(into))
        sizes = [lengths.size(dim) for dim in into]
        if any(size is None for size in sizes):
            raise DimError(
                "scatter: `out_dim` has no size yet", got=align.show_dims(into), expected="dims of known size"
            )
        shape = [size.max for size in sizes if size]
        positions, values = indices._raw, source._raw
        padded = use_mask and any(ragged(indices, dim) for dim in indices.dims)
        if padded:
            positions = _beside_the_spare(cls, indices, math.prod(shape))
            values = values if mode == "sum" else cls.fill_padding(source, 0)  # keeps NaN out of the gradient
        if fill_value is None:
            fill_value = cls.lowest_raw(values) if mode == "max" else cls.highest_raw(values) if mode == "min" else 0
        raw = align.apply(align.move(source.dims, [*batch, *over, *features], trailing=False), values)
        positions = align.apply(align.move(indices.dims, [*batch, *over]), positions)
        try:
            raw = cls.scatter_raw(raw, positions, len(batch), shape, mode, fill_value, len(features), padded)
        except (IndexError, RuntimeError):
            check_range(cls, "scatter", indices, into, shape)
            raise
        signature = align.sig(
            [*batch, *into, *features],
            source.sparse_dim,
            source.feature_dim if source.feature_dim in features else None,
        )
        return tensor_of(raw, signature, lengths)


def _with_owners(backend: type[Backend], indices: Tensor, over: Sequence[Dim], lengths: Lengths) -> Tensor:
    """The indices repeated along dims that the lengths of `over` depend on: padding differs there."""
    for dim in over:
        size = lengths.size(dim) if dim.dimension is None else None
        for owner in () if size is None else size.dims:
            if owner not in indices.sig.index:
                indices = backend.expand_dim(indices, owner)
    return indices


def _beside_the_spare(backend: type[Backend], indices: Tensor, count: int) -> Any:
    """The indices, with padding sent to the extra place `count`, which is discarded.
    Wrong indices of valid frames stay wrong."""
    raw = backend.cast_raw(indices._raw, "int64")
    raw = backend.combine_raw(raw, "add", backend.compare_raw(raw, "greater_equal", count))
    return backend.fill_padding(indices.like(raw), count)
