"""Selecting the entries where a mask is true, and putting them back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rfnb.backend.base.index import out_of_range
from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound, fitted, size_in
from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError, DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class MaskedOps:
    """Ops with a mask. There is no raw part."""

    @classmethod
    def masked_select(
        cls: type[Backend], tensor: Tensor, *, mask: Tensor, dims: Sequence[Dim], out_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """The entries where `mask` is true, one after the other, and their new dim. {…, dims…} → {…, out_dim}

        The last of `dims` varies fastest. Other dims of the mask are batch dims, with a number of entries each. The
        mask is read, since the number of entries decides the size.
        """
        _check_mask("masked_select", mask, dims)
        batch = [d for d in mask.dims if d not in dims]
        numbers = cls.to_numpy_raw(cls.fill_padding(cls.with_numbers(mask, True), False))
        holds = align.apply(align.move(mask.dims, [*batch, *dims]), numbers)
        return _select(cls, tensor, holds, batch, dims, join(tensor, mask), out_dim, "masked_select")

    @classmethod
    def masked_scatter(
        cls: type[Backend],
        source: Tensor,
        backup: Tensor | None = None,
        *,
        mask: Tensor,
        dims: Sequence[Dim],
        in_dim: Dim,
    ) -> Tensor:
        """The inverse of `masked_select`; `backup` or 0 where `mask` is false. {…, in_dim}, {dims…} → {…, dims…}"""
        _check_mask("masked_scatter", mask, dims)
        axis_of("masked_scatter", source, in_dim)
        holds = mask.like(cls.fill_padding(mask, False))
        order = [*(d for d in mask.dims if d not in dims), *dims]
        raw = align.apply(align.move(mask.dims, order), holds._raw)
        shape = cls.get_shape_tuple_raw(raw)
        raw = cls.cumsum_raw(cls.cast_raw(cls.merge_axes_raw(raw, len(order) - len(dims), len(dims)), "int64"), -1)
        number = cls.split_axis_raw(raw, len(order) - len(dims), shape[len(order) - len(dims) :])
        indices = tensor_of(cls.clip_raw(number - 1, 0, None), align.sig(order), mask.lengths)
        source_frames = cls.not_empty(source, in_dim)
        try:
            entries = cls.gather(source_frames, indices=indices, axis=in_dim)
        except DimError as error:
            if not len(out_of_range(cls, indices, source_frames.size_of(in_dim).max)[1]):
                raise
            raise DimError(
                f"masked_scatter: `mask` is true at more places than `source` has entries of {in_dim.name}",
                got=f"`mask` {mask.describe_dims()}, `source` {source.describe_dims()}",
                expected=f"one entry of {in_dim.name} for each place where the mask is true",
            ) from error
        entries, backup = _same_lengths(cls, entries, backup, source, holds, in_dim)
        zero = False if entries.dtype == "bool" else 0  # which keeps the dtype
        return cls.where(holds, entries, zero if backup is None else backup, allow_broadcast_all_sources=True)

    @classmethod
    def pack_padded(
        cls: type[Backend], source: Tensor, *, dims: Sequence[Dim], out_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """The frames, one after the other, without padding, and their new dim. {…, dims…} → {…, out_dim}

        Dims that the lengths of `dims` depend on, but that are not among them, are batch dims.
        """
        for dim in dims:
            axis_of("pack_padded", source, dim)
        lengths, batch = source.lengths, _owners("pack_padded", source, source.lengths, dims)
        holds = _frames(lengths, [*batch, *dims])
        return _select(cls, source, holds, batch, dims, lengths, out_dim, "pack_padded")

    @classmethod
    def pad_packed(cls: type[Backend], source: Tensor, *, in_dim: Dim, dims: Sequence[Dim]) -> Tensor:
        """The inverse of `pack_padded`, with 0 in padding. {…, in_dim} → {…, dims…}"""
        axis_of("pad_packed", source, in_dim)
        lengths = source.lengths.join(current_lengths(dims), source.sig, align.sig(dims))
        batch = _owners("pad_packed", source, lengths, dims)
        holds = _frames(lengths, [*batch, *dims])
        size, count = size_in(source, in_dim), holds.sum(tuple(range(len(batch), holds.ndim)))
        if (size.over(batch) != count).any():
            raise DimError(
                f"pad_packed: {in_dim.name} has a different number of frames than {align.show_dims(dims)}",
                got=size,
                expected=count,
            )
        key = cls.device_key_raw(source._raw)
        mask = tensor_of(cls.from_numpy_raw(holds, key), align.sig([*batch, *dims]), lengths)
        return cls.masked_scatter(source, mask=mask, dims=dims, in_dim=in_dim)

    @classmethod
    def resized(cls: type[Backend], tensor: Tensor, sizes: dict[Dim, Size]) -> Tensor:
        """The tensor with different lengths: axes are cut, or extended with zeros at the end."""
        raw = tensor._raw
        missing = {}
        for dim, size in sizes.items():
            if (place := tensor.sig.index.get(dim)) is not None:
                missing[place] = (0, size.max - cls.get_shape_tuple_raw(raw)[place])
        if any(end for _, end in missing.values()):
            raw = cls.pad_raw(raw, missing, 0)
        return tensor_of(raw, tensor.sig, tensor.lengths.bind(sizes) if sizes else tensor.lengths)


def _check_mask(what: str, mask: Tensor, dims: Sequence[Dim]) -> None:
    if mask.dtype != "bool":
        raise DtypeError(f"{what}: `mask` must be boolean", got=mask.dtype, expected="bool")
    for dim in dims:
        axis_of(what, mask, dim, "mask")


def _owners(what: str, source: Tensor, lengths: Lengths, dims: Sequence[Dim]) -> list[Dim]:
    """The dims of `source` that the lengths of `dims` depend on, except `dims` themselves."""
    owners = {owner for dim in dims for owner in lengths[dim].dims if owner not in dims}
    for owner in owners:
        axis_of(what, source, owner)
    return [dim for dim in source.dims if dim in owners]


def _frames(lengths: Lengths, dims: Sequence[Dim]) -> np.ndarray:
    """Whether a position of `dims` is a valid frame."""
    sizes = [lengths[dim] for dim in dims]
    frames = np.ones([size.max for size in sizes], dtype=bool)
    for dim, size in zip(dims, sizes, strict=True):
        if size.ragged:
            frames &= align.apply(align.move((*size.dims, dim), dims), size.frames(size.dims))
    return frames


def _select(
    backend: type[Backend],
    tensor: Tensor,
    holds: np.ndarray,
    batch: list[Dim],
    dims: Sequence[Dim],
    lengths: Lengths,
    out_dim: Dim | None,
    what: str,
) -> tuple[Tensor, Dim]:
    """The entries where `holds` [batch…, dims…] is true."""
    start, features = len(batch), [d for d in tensor.dims if d not in dims and d not in batch]
    flat = holds.reshape(*holds.shape[:start], math.prod(holds.shape[start:]))
    counts = flat.sum(-1)
    positions = np.argsort(~flat, axis=-1, kind="stable")[..., : counts.max(initial=0)]
    out_dim = Dim(None, name=what) if out_dim is None else out_dim
    sizes = _sizes(tensor, lengths, holds, positions, batch, dims, out_dim)
    lengths = bound(lengths, out_dim, Size(batch, counts), what)
    raw = align.apply(align.move(tensor.dims, [*batch, *dims, *features], trailing=False), tensor._raw)
    raw = backend.broadcast_raw(raw, [*holds.shape, *backend.get_shape_tuple_raw(raw)[holds.ndim :]])
    raw = backend.merge_axes_raw(raw, start, len(dims))
    index = positions.reshape(*positions.shape, *[1] * len(features)) if batch else positions
    index = backend.from_numpy_raw(index, backend.device_key_raw(raw))
    raw = backend.gather_raw(raw, index, start, 1) if batch else backend.index_raw(raw, index, 0)
    feature = tensor.feature_dim if tensor.feature_dim in features else None
    result = tensor_of(raw, align.sig([*batch, out_dim, *features], tensor.sparse_dim, feature), lengths)
    result = fitted(backend, backend.resized(result, sizes), out_dim)
    return result.like(backend.fill_padding(result, 0, (out_dim,))), out_dim


def _sizes(
    tensor: Tensor,
    lengths: Lengths,
    holds: np.ndarray,
    positions: np.ndarray,
    batch: list[Dim],
    dims: Sequence[Dim],
    out_dim: Dim,
) -> dict[Dim, Size]:
    """Lengths over the dims that are selected from become lengths over the new dim."""
    resized = {}
    for dim in tensor.dims:
        size = size_in(tensor, dim) if dim.dimension is None and dim not in dims else None
        if size is None or not any(d in dims for d in size.dims):
            continue
        outer = [d for d in size.dims if d not in dims and d not in batch]
        values = size.over([*batch, *dims, *outer])
        inner = values.shape[holds.ndim :]
        values = np.broadcast_to(values, (*holds.shape, *inner)).reshape(*holds.shape[: len(batch)], -1, *inner)
        at = positions.reshape(*positions.shape, *[1] * len(outer))
        resized[dim] = Size([*batch, out_dim, *outer], np.take_along_axis(values, at, len(batch)))
    return resized


def _same_lengths(
    backend: type[Backend], found: Tensor, backup: Tensor | None, source: Tensor, holds: Tensor, in_dim: Dim
) -> tuple[Tensor, Tensor | None]:
    """Both tensors with the same lengths, if those of `source` depend on `in_dim`: each entry keeps its own lengths."""
    sizes = {}
    for dim in source.dims:
        size = source.lengths.size(dim) if dim.dimension is None else None
        if size is None or in_dim not in size.dims:
            continue
        current = found.size_of(dim)
        base = backup.lengths.size(dim) if backup is not None else None
        over = [*current.dims, *(d for d in (base.dims if base else ()) if d not in current.dims)]
        mask = align.apply(
            align.move(holds.dims, over, trailing=False), backend.to_numpy_raw(backend.with_numbers(holds, True)._raw)
        )
        sizes[dim] = Size(over, np.where(mask, current.over(over), 0 if base is None else base.over(over)))
    if not sizes:
        return found, backup
    return backend.resized(found, sizes), None if backup is None else backend.resized(backup, sizes)
