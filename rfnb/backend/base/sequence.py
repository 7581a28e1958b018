"""Ops along sequences: reversed, summed up, and with repeated frames."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of, require_ints
from rfnb.backend.base.sizes import bound, constant, fitted, ragged, size_in, taken, trimmed
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size, frame_numbers
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class SequenceOps:
    """Raw part: `flip_raw`, `cumsum_raw`."""

    flip_raw: Callable[..., RawTensor]
    cumsum_raw: Callable[..., RawTensor]

    @classmethod
    def reverse_sequence(cls: type[Backend], tensor: Tensor, *, axis: Dim, handle_dynamic_dims: bool = True) -> Tensor:
        """Each sequence in reverse order; padding stays at the end. {…, axis} → the same"""
        axis = tensor.sig.resolve(axis)
        place = axis_of("reverse_sequence", tensor, axis, "tensor")
        if handle_dynamic_dims and ragged(tensor, axis):
            size = size_in(tensor, axis)
            make, key = partial(_reversed, size.values, size.max), ("reverse", axis.serial)
            positions = constant(cls, tensor, [*size.dims, axis], key, make)
            return tensor.like(cls.gather_raw(tensor._raw, positions, place, 1))
        lengths = taken(tensor.lengths, axis, axis, "reverse", np.flip)
        return tensor_of(cls.flip_raw(tensor._raw, [place]), tensor.sig, lengths)

    @classmethod
    def cumsum(cls: type[Backend], source: Tensor, *, spatial_dim: Dim) -> Tensor:
        """The cumulative sum over the frames; small integers as int64. {…, spatial_dim} → the same"""
        spatial_dim = source.sig.resolve(spatial_dim)
        place = axis_of("cumsum", source, spatial_dim)
        if spatial_dim in source.lengths.owners:  # shorter sequences have padding before frames of longer ones
            source = source.like(cls.fill_padding(source, 0))
        dtype = "int64" if source.dtype in _SMALL else source.dtype
        summed = source.like(cls.cast_raw(cls.cumsum_raw(source._raw, place), dtype))
        return summed.like(cls.fill_padding(summed, 0, (spatial_dim,)))


_SMALL = frozenset({"bool", "int8", "uint8", "int16", "uint16"})
"""Types whose sums soon exceed their range."""


def _reversed(n: np.ndarray, longest: int) -> np.ndarray:
    frames, end = frame_numbers(longest), n[..., None] - 1
    return np.where(frames <= end, end - frames, frames)


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
