"""Repeating frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of, require_ints
from rfnb.backend.base.sizes import bound, fitted, size_in, taken, trimmed
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class RepeatOps:
    """Repeating of frames. There is no raw part."""

    @classmethod
    def repeat(
        cls: type[Backend],
        values: Tensor,
        *,
        in_spatial_dim: Dim,
        repeats: Tensor | int,
        out_spatial_dim: Dim,
    ) -> Tensor:
        """Each frame as often as `repeats` says. {…, in_spatial_dim}, {…, in_spatial_dim} → {…, out_spatial_dim}"""
        in_spatial_dim = values.sig.resolve(in_spatial_dim)
        axis_of("repeat", values, in_spatial_dim, "values")
        if not isinstance(repeats, Tensor):
            return _all_alike(cls, values, in_spatial_dim, repeats, out_spatial_dim)
        lengths, dims, counts = join(values, repeats), *_counts(cls, values, repeats, in_spatial_dim)
        sizes = counts.sum(-1)
        lengths = bound(lengths, out_spatial_dim, Size(dims, sizes, dtype=repeats.dtype), "repeat")
        at = _positions(counts, sizes)
        raw = cls.from_numpy_raw(at, cls.device_key_raw(values._raw))
        positions = fitted(cls, tensor_of(raw, align.sig([*dims, out_spatial_dim]), lengths), out_spatial_dim)
        result = cls.gather(values, indices=positions, axis=in_spatial_dim)
        feature = out_spatial_dim if values.feature_dim is in_spatial_dim else values.feature_dim
        out = align.sig(result.dims, values.sparse_dim, feature)
        if dims or in_spatial_dim not in lengths.owners:
            return result.like(result._raw, out)
        lengths = taken(lengths, in_spatial_dim, out_spatial_dim, at.tobytes(), lambda lens, i: lens.take(at, i))
        return trimmed(cls, tensor_of(result._raw, out, lengths))


def _all_alike(backend: type[Backend], values: Tensor, axis: Dim, count: int, out_dim: Dim) -> Tensor:
    if count < 0:
        raise DimError("repeat: `repeats` is negative", got=count, expected="0 or more")
    inner, place = Dim(count, name="repeats"), values.sig.index[axis] + 1
    wide = backend.expand_dim(values, inner).copy_transpose([*values.dims[:place], inner, *values.dims[place:]])
    result: Tensor = backend.merge_dims(wide, dims=[axis, inner], out_dim=out_dim)[0]
    return result


def _counts(backend: type[Backend], values: Tensor, repeats: Tensor, axis: Dim) -> tuple[list[Dim], np.ndarray]:
    """How often each frame is repeated, as an array over the dims and the axis; 0 for padding."""
    require_ints("repeat", repeats, "repeats")
    size = size_in(values, axis)
    dims = [dim for dim in repeats.dims if dim is not axis]
    dims += [dim for dim in size.dims if dim not in dims]
    raw = backend.to_numpy_raw(backend.fill_padding(backend.with_numbers(repeats, 1), 0)).astype(np.int64)
    counts = align.apply(align.move(repeats.dims, [*dims, axis], trailing=False), raw)
    frames = size.frames(dims)
    counts = np.where(frames, counts, 0)
    if counts.min(initial=0) < 0:
        raise DimError("repeat: `repeats` contains a negative number", got=int(counts.min()), expected="0 or more")
    return dims, counts


def _positions(counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Each position repeated as often as its count: [… , frames] → [… , longest]"""
    frames = np.broadcast_to(np.arange(counts.shape[-1]), counts.shape)
    positions = np.zeros((*sizes.shape, int(sizes.max(initial=0))), np.int64)
    positions[np.arange(positions.shape[-1]) < sizes[..., None]] = np.repeat(frames.reshape(-1), counts.reshape(-1))
    return positions
