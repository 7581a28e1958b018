"""Masks: frames and padding, which stays finite; selecting entries where a mask is true, and the way back."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from rfnb.backend.base.index import out_of_range
from rfnb.backend.base.math import Domain, join
from rfnb.backend.base.require import axis_of, require_owner_dims
from rfnb.backend.base.sizes import bound, fitted, size_in
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size, frames_mask, longest_of
from rfnb.core.ground.scope import within
from rfnb.core.tensor.listener import takes_kernels
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


_of_size: weakref.WeakKeyDictionary[Size, dict[object, object]] = weakref.WeakKeyDictionary()
"""Raw masks of padding, by their place in a tensor, shared by all Lengths that have this size.

They are weakly keyed by the size, since graphs hold sizes but must not keep masks alive."""


class Rows(NamedTuple):
    """Rows of a raw tensor whose first `axes` axes are merged into one.

    joined: the frames, and one row of padding. places: of each row, its place in `joined`.
    """

    padding: RawTensor
    joined: RawTensor
    places: RawTensor
    axes: int

    @property
    def frames(self) -> RawTensor:
        """The numbers of the rows that are frames."""
        return self.joined[:-1]


FEW = 8192
"""Number of entries below which `masked_fill` is faster than row indices."""
ROW = 8
"""Number of entries per row below which `masked_fill` is faster than row indices."""


class MaskOps:
    """Raw part: `masked_fill_raw(raw, padding, value)`; where a backend has them,
    `fill_rows_raw(raw, rows, value, axes)` and `on_rows_raw(function, raw, rows, axes)`, for which the first `axes`
    axes are one.
    """

    masked_fill_raw: Callable[[RawTensor, RawTensor, RawTensor], RawTensor]
    fill_rows_raw: Any = None
    on_rows_raw: Any = None

    @classmethod
    def sequence_mask(cls: type[Backend], dim: Dim, lengths: Lengths, device: str | None = None) -> Tensor:
        """Whether a position of `dim` is within its sequence. → {… of the lengths, dim} bool"""
        size = lengths[dim]
        key = ("sequence_mask", dim.serial, device, cls)
        raw = lengths.cached(key, lambda: cls.from_numpy_raw(size.frames(size.dims), device))
        return tensor_of(raw, align.sig((*size.dims, dim)), lengths)

    @staticmethod
    def have_sequence_mask_raw() -> bool:
        """True: `sequence_mask_raw` is available."""
        return True

    @classmethod
    def sequence_mask_raw(cls: type[Backend], lengths: object, *, batch_major: bool = True) -> RawTensor:
        """Whether a position is below the length. [batch] → [batch, longest], or [longest, batch]"""
        values = cls.to_numpy_raw(lengths)
        mask = np.arange(values.max(initial=0)) < values[..., None]
        return cls.from_numpy_raw(mask if batch_major else np.moveaxis(mask, -1, 0), cls.device_key_raw(lengths))

    @classmethod
    def mask_for(cls: type[Backend], tensor: Tensor, dims: Sequence[Dim]) -> RawTensor:
        """The raw mask of the frames of `dims`, shaped to broadcast against `tensor`; None if there is no padding."""
        padding = cls.padding_for(tensor, tuple(dims))
        return None if padding is None else cls.activation_raw(padding, "logical_not")

    @classmethod
    def padding_for(cls: type[Backend], tensor: Tensor, dims: tuple[Dim, ...]) -> object:
        """The opposite of `mask_for`: true in padding. It is computed once per batch, and cached by its lengths."""
        lengths = tensor.lengths
        if not lengths.ragged:
            return None
        key = (tensor.sig.serial, tensor.sig.serials[dims], cls.device_key_raw(tensor._raw))
        try:
            return lengths.cache[key]
        except KeyError:
            return lengths.keep(key, _padding(cls, tensor, sized(tensor, dims), key[2]))

    @classmethod
    def count_for(cls: type[Backend], tensor: Tensor, dims: tuple[Dim, ...], axes: int | tuple[int, ...]) -> object:
        """The number of entries of `axes` that are not padding of `dims`, at least 1, in the shape without `axes`."""
        device = cls.device_key_raw(tensor._raw)
        key = ("count", tensor.sig.serial, tensor.sig.serials[dims], axes, device)
        return tensor.lengths.cached(key, lambda: cls.from_numpy_raw(_count(cls, tensor, dims, axes), device))

    @classmethod
    def fill_padding(
        cls: type[Backend], tensor: Tensor, value: float, dims: tuple[Dim, ...] | None = None
    ) -> RawTensor:
        """The raw tensor with `value` in the padding of `dims`, or of all its dims."""
        lengths = tensor.lengths
        if not lengths.ragged or (value == 0 and cls.is_empty_in_padding(tensor, dims)):
            return tensor._raw
        dims = tensor.sig.dims if dims is None else dims
        serials, device = tensor.sig.serials[dims], cls.device_key_raw(tensor._raw)
        key = ("fill", tensor.sig.serial, serials, device, takes_kernels())
        try:
            where = lengths.cache[key]
        except KeyError:
            uneven, rows = sized(tensor, dims), None
            if cls.fill_rows_raw is not None and key[-1]:
                rows = _rows(cls, tensor, uneven, None, key[3], few=False)
            where = lengths.keep(key, _padding(cls, tensor, uneven, key[3]) if rows is None else rows)
        if where is None:
            return tensor._raw
        if type(where) is Rows:
            return cls.fill_rows_raw(tensor._raw, where.padding, value, where.axes)
        return cls.masked_fill_raw(tensor._raw, where, value)

    @classmethod
    def note_empty_padding(cls: type[Backend], result: Tensor, dims: tuple[Dim, ...] | None = None) -> Tensor:
        """Marks that the new tensor `result` has 0 in the padding of `dims`, by default of all dims.

        Writes to `.data` go unnoticed.
        """
        dims = result.sig.frames if dims is None else dims
        if not result.lengths.finite and all(dim in dims for dim in result.sig.frames):
            result.lengths = result.lengths.made_finite()
        result._emptied = result._raw, cls.version_raw(result._raw), dims
        return result

    @classmethod
    def is_empty_in_padding(cls: type[Backend], tensor: Tensor, dims: Sequence[Dim] | None = None) -> bool:
        """Whether it is known to have 0 in the padding of `dims`, by default of all dims."""
        record = getattr(tensor, "_emptied", None)
        if record is None or not tensor.lengths.ragged:
            return False
        raw, version, emptied = record
        dims = tensor.sig.frames if dims is None else dims
        return (
            raw is tensor._raw
            and version == cls.version_raw(raw)
            and all(dim in emptied for dim in dims if dim in tensor.sig.frames)
        )

    @classmethod
    def has_empty_rows(cls: type[Backend], tensor: Tensor, dims: tuple[Dim, ...], axes: int | tuple[int, ...]) -> bool:
        """Whether some entries along `axes` are all padding of `dims`."""

        def make() -> bool:
            mask = frames_of(tensor, dims)
            if not isinstance(mask, np.ndarray):
                return mask is not None  # lengths that torch traces
            return not mask.any(axes).all()

        empty: bool = tensor.lengths.cached(("empty", tensor.sig.serial, tensor.sig.serials[dims], axes), make)
        return empty

    @classmethod
    def rows_for(
        cls: type[Backend],
        tensor: Tensor,
        dims: tuple[Dim, ...],
        inner: tuple[Dim, ...] | None = None,
        *,
        few: bool = False,
    ) -> Rows | None:
        """Which rows of `tensor` are frames of `dims`, and which are padding; None if a mask must be used.

        inner: the dims of a row, moved to the end; by default all last dims without padding.
        few: also use rows if they are so few or so short that a mask is faster.
        """
        lengths = tensor.lengths
        if not lengths.ragged or cls.fill_rows_raw is None or not takes_kernels():
            return None
        sig = tensor.sig
        device = cls.device_key_raw(tensor._raw)
        key = ("rows", sig.serial, sig.serials[dims], inner and sig.serials[inner], device, few)
        try:
            return lengths.cache[key]
        except KeyError:
            return lengths.keep(key, _rows(cls, tensor, sized(tensor, dims), inner, device, few))

    @classmethod
    def on_frames(cls: type[Backend], function: Callable[[RawTensor], object], raw: RawTensor, rows: Rows) -> object:
        """`function` applied to the frames only: padding is not read, becomes 0, and gets no gradient."""
        return cls.on_rows_raw(function, raw, rows.frames, rows.axes)

    @classmethod
    def copy_masked(cls: type[Backend], tensor: Tensor, value: Any, dims: tuple[Dim, ...]) -> Tensor:
        """The tensor with `value`, a number or a Tensor, in the padding of `dims`. {…}, {…} → {… of both}"""
        if not isinstance(value, Tensor):
            raw = cls.fill_padding(tensor, value, dims)
            if raw is tensor._raw:
                return tensor
            if value == 0:
                return cls.note_empty_padding(tensor.like(raw), dims)
            lengths = tensor.lengths if math.isfinite(abs(value)) else tensor.lengths.infinite()
            return tensor_of(raw, tensor.sig, lengths)
        mask = cls.mask_for(tensor, dims)
        if mask is None:
            return tensor
        dims_out, (how, how_value) = align.broadcast([tensor.dims, value.dims])
        mask, raw, fill = align.apply(how, mask), align.apply(how, tensor._raw), align.apply(how_value, value._raw)
        out = align.sig(dims_out, tensor.sparse_dim, tensor.feature_dim)
        return tensor_of(cls.where_raw(mask, raw, fill), out, join(tensor, value))

    @classmethod
    def per_frame(
        cls: type[Backend], tensor: Tensor, dim: Dim, key: object, make: Callable[[np.ndarray], np.ndarray]
    ) -> object:
        """A raw constant along `dim`, from the lengths of each sequence, shaped to broadcast against `tensor`.

        make: maps lengths [… , 1] to values [… , frames]. It is called once per batch and `key`.
        """
        key = (key, tensor.sig.serial, dim.serial, cls.device_key_raw(tensor._raw))
        raw = tensor.lengths.cache.get(key)
        if raw is None:
            size = size_in(tensor, dim)
            aligned = align.apply(
                align.move((*size.dims, dim), tensor.dims, trailing=False), make(size.values[..., None])
            )
            raw = cls.from_numpy_raw(aligned, key[-1])
            if tensor.lengths.sizes:
                tensor.lengths.keep(key, raw)
        return raw


def _padding(backend: type[Backend], tensor: Tensor, uneven: Sequence[Dim], device: Any) -> object:
    """The mask of padding, shared by all tensors that have the dims with lengths at the same places."""
    if len(uneven) != 1:
        mask = frames_of(tensor, uneven)
        return None if mask is None else backend.from_numpy_raw(~mask, device)
    size = size_in(tensor, uneven[0])
    axes = (uneven[0], *size.dims)
    key = (device, *[axes.index(dim) if dim in axes else None for dim in tensor.dims])
    masks = _of_size.setdefault(size, {})
    padding = masks.get(key)
    if padding is None:
        padding = masks[key] = backend.from_numpy_raw(~frames_of(tensor, uneven), device)  # type: ignore[operator]
    return padding


def _rows(
    backend: type[Backend], tensor: Tensor, uneven: Sequence[Dim], inner: Sequence[Dim] | None, device: Any, few: bool
) -> Rows | None:
    if not uneven or not all(isinstance(size_in(tensor, dim).values, np.ndarray) for dim in uneven):
        return None  # no padding, or lengths that torch traces
    shape = backend.get_shape_tuple_raw(tensor._raw)
    if not few and math.prod(shape) < FEW:
        return None
    mask = frames_of(tensor, uneven)
    assert mask is not None
    if inner is None:
        outer = [axis for axis in range(mask.ndim) if max(mask.shape[axis:]) > 1]
    else:
        outer = [axis for axis, dim in enumerate(tensor.dims) if dim not in inner]
    inner_axes = [axis for axis in range(mask.ndim) if axis not in outer]
    count = math.prod(shape[axis] for axis in outer)
    if not outer or any(mask.shape[axis] > 1 for axis in inner_axes):
        return None
    if not few and math.prod(shape) < ROW * count:
        return None
    mask = mask.transpose([*outer, *inner_axes]).reshape([mask.shape[axis] for axis in outer])
    flat = np.broadcast_to(mask, [shape[axis] for axis in outer]).ravel()
    padding, places = np.flatnonzero(~flat), np.where(flat, flat.cumsum() - 1, flat.sum())
    joined = np.append(np.flatnonzero(flat), padding[:1])
    raws = [backend.from_numpy_raw(numbers, device) for numbers in (padding, joined, places)]
    return Rows(raws[0], raws[1], raws[2], len(outer))


def _count(backend: type[Backend], tensor: Tensor, dims: tuple[Dim, ...], axes: int | tuple[int, ...]) -> np.ndarray:
    mask = frames_of(tensor, dims)
    assert mask is not None
    over = (axes,) if isinstance(axes, int) else axes
    shape = backend.get_shape_tuple_raw(tensor._raw)
    wide = [n if i in over else mask.shape[i] for i, n in enumerate(shape)]
    return np.maximum(np.broadcast_to(mask, wide).sum(over), 1)


def frames_of(tensor: Tensor, dims: Sequence[Dim]) -> np.ndarray | None:
    """The mask of the frames of `dims` on the CPU, shaped to broadcast against `tensor`; None without padding."""
    return frames_mask(tensor.dims, [(dim, size_in(tensor, dim)) for dim in sized(tensor, dims)])


def sized(tensor: Tensor, dims: Sequence[Dim]) -> list[Dim]:
    """The dims of `dims` along which the sequences of `tensor` may differ in length."""
    sizes = ((dim, tensor.lengths.size(dim)) for dim in dims if dim.dimension is None)
    return [dim for dim, size in sizes if size is not None and size.ragged and size_in(tensor, dim).ragged]


class MaskedOps:
    """Ops with a mask. There is no raw part."""

    @classmethod
    def masked_select(
        cls: type[Backend], tensor: Tensor, *, mask: Tensor, dims: Sequence[Dim], out_dim: Dim | None = None
    ) -> tuple[Tensor, Dim]:
        """The entries where `mask` is true, one after the other, and their new dim. {…, dims…}, {dims…} → {…, out_dim}

        Padding is dropped. The last of `dims` varies fastest. Other dims of the mask are batch dims: the entries that
        are left of each sequence form a sequence.

        >>> time = rf.Dim(4, name="time")
        >>> x = rf.range_over_dim(time)
        >>> rf.masked_select(x, mask=x > 1, dims=[time])[0].raw_tensor.tolist()
        [2, 3]
        """
        _check_mask("masked_select", mask, dims)
        require_owner_dims("masked_select", mask, mask.dims)
        batch = [d for d in mask.dims if d not in dims]
        numbers = cls.numbers(mask.like(cls.fill_padding(mask, False)), True)
        if isinstance(numbers, np.ndarray):  # without numbers, padding is not filled
            numbers = numbers & _frames(mask.lengths, mask.dims)
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
        """The entries of `source` in order where `mask` is true, else `backup` or 0: the inverse of `masked_select`.

        {…, in_dim}, {dims…} → {…, dims…}

        >>> time, some = rf.Dim(4, name="time"), rf.Dim(2, name="some")
        >>> mask = rf.range_over_dim(time) > 1
        >>> rf.masked_scatter(rf.range_over_dim(some) + 7, mask=mask, dims=[time], in_dim=some).raw_tensor.tolist()
        [0, 0, 7, 8]
        """
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
        cls: type[Backend],
        source: Tensor,
        *,
        dims: Sequence[Dim],
        enforce_sorted: bool = False,
        out_dim: Dim | None = None,
    ) -> tuple[Tensor, Dim]:
        """The frames of all sequences, one after the other, without padding, and their new dim.

        {…, dims…} → {…, out_dim}

        The last of `dims` varies fastest. If their lengths depend on a dim that is not among them, it is a batch dim:
        the frames of each of its sequences form a sequence.

        >>> time = rf.Dim(None, name="time")
        >>> x = rf.convert_to_tensor([[1, 2, 3], [4]], dims=[rf.batch_dim, time])
        >>> rf.pack_padded(x, dims=[rf.batch_dim, time])[0].raw_tensor.tolist()
        [1, 2, 3, 4]

        Args:
            enforce_sorted: raise DimError if a sequence is longer than the one before it.
        """
        for dim in dims:
            axis_of("pack_padded", source, dim)
            size = source.size_of(dim)
            if enforce_sorted and size.dims and (np.diff(size.values, axis=0) > 0).any():
                raise DimError(
                    "pack_padded: the sequences are not sorted by length, longest first", got=size, expected=dim
                )
        lengths, batch = source.lengths, _owners("pack_padded", source, source.lengths, dims)
        holds = _frames(lengths, [*batch, *dims])
        return _select(cls, source, holds, batch, dims, lengths, out_dim, "pack_padded")

    @classmethod
    def pad_packed(cls: type[Backend], source: Tensor, *, in_dim: Dim, dims: Sequence[Dim]) -> Tensor:
        """The inverse of `pack_padded`, with 0 in padding. {…, in_dim} → {…, dims…}

        Raises DimError if a sequence of `in_dim` has not the number of frames of `dims`.

        >>> time = rf.Dim(None, name="time")
        >>> x = rf.convert_to_tensor([[1, 2], [3]], dims=[rf.batch_dim, time])
        >>> packed, frames = rf.pack_padded(x, dims=[rf.batch_dim, time])
        >>> rf.pad_packed(packed, in_dim=frames, dims=[rf.batch_dim, time]).raw_tensor.tolist()
        [[1, 2], [3, 0]]
        """
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
    frames = np.ones([1] * len(dims), dtype=bool)
    for dim, size in zip(dims, sizes, strict=True):
        if size.ragged:
            frames = frames & align.apply(align.move((*size.dims, dim), dims), size.frames(size.dims))
    return np.broadcast_to(frames, [size.max for size in sizes])


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
    positions = np.argsort(~flat, axis=-1, kind="stable")[..., : longest_of(counts)]
    out_dim = Dim(None, name=what) if out_dim is None else out_dim
    sizes = _sizes(tensor, holds, positions, batch, dims, out_dim)
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
        start, count = holds.shape[: len(batch)], math.prod(holds.shape[len(batch) :])
        values = np.broadcast_to(values, (*holds.shape, *inner)).reshape(*start, count, *inner)
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
        mask = align.apply(align.move(holds.dims, over, trailing=False), backend.numbers(holds, True))
        entries, others = current.over(over), 0 if base is None else base.over(over)
        if isinstance(mask, np.ndarray) and isinstance(others, np.ndarray):  # the entries may have fewer frames
            shapes = zip(*[part.shape for part in (entries, others, mask)], strict=True)
            shape = [max((n for n in sizes if n != 1), default=1) for sizes in shapes]
            others, mask = np.broadcast_to(others, shape), np.broadcast_to(mask, shape)
            at = tuple(slice(n if d in current.dims else None) for d, n in zip(over, entries.shape, strict=True))
            values = others.copy()
            values[at] = entries
            entries = values
        sizes[dim] = Size(over, np.where(mask, entries, others))
    if not sizes:
        return found, backup
    return backend.resized(found, sizes), None if backup is None else backend.resized(backup, sizes)


class Bounds(NamedTuple):
    """small: numbers from which on powers such as x⁻² are finite. large: numbers up to which exp(x) can be squared and
    summed, as for a variance."""

    small: float
    large: float


BOUNDS = {"float16": Bounds(2.0**-6, 4.0), "float64": Bounds(2.0**-400, 340.0)}
FLOAT32 = Bounds(2.0**-50, 40.0)
"""For all other dtypes. Numbers within the bounds are never changed."""


class EndedSequences(Protocol):
    """Knows the sequences that a loop has ended."""

    def __call__(self, backend: type[Backend], signature: Sig, device: object) -> RawTensor:
        """The raw mask of entries that have ended, shaped to broadcast against tensors with that signature; None if
        there are no such entries."""

    def guard(self, backend: type[Backend], x: Tensor, raw: RawTensor, domain: Domain, *, finite: bool) -> RawTensor:
        """The raw argument `raw` of an op, made harmless in sequences that end by a condition, which is known later.

        x: the tensor of which it is the argument. finite: whether all its numbers are finite.
        """


_ended: ContextVar[EndedSequences | None] = ContextVar("rfnb_ended", default=None)


def ended_by(ended: EndedSequences) -> AbstractContextManager[None]:
    """Inside, sequences may have ended, as `ended` knows."""
    return within(_ended, ended)


class FiniteOps:
    """Padding is finite: what ops compute there never leaves the finite numbers, nor do its slopes.

    Then a gradient of 0 that comes back from padding stays 0, whatever it is multiplied with, and no op needs to fill
    padding for the sake of gradients. Data is made finite when it enters. An op that is not defined everywhere, or
    grows without bound, gets a harmless argument in entries whose results do not count: in padding, in empty sequences,
    and in sequences that a loop has ended. Arguments that are safe stay as they are, and so do all arguments of valid
    frames.

    Raw part: `finite_raw(raw, padding)`, `holds_finite_raw(raw)`.
    """

    finite_raw: Callable[[RawTensor, RawTensor], RawTensor]
    holds_finite_raw: Callable[[RawTensor], bool]

    @classmethod
    def finite_padding(cls: type[Backend], tensor: Tensor) -> RawTensor:
        """The raw tensor with 0 in place of ∞ and NaN in padding."""
        if not tensor.lengths.ragged or cls.holds_finite_raw(tensor._raw):
            return tensor._raw  # without a mask
        padding = cls.padding_for(tensor, tensor.dims)
        return tensor._raw if padding is None else cls.finite_raw(tensor._raw, padding)

    @classmethod
    def finite_operand(cls: type[Backend], tensor: Tensor) -> Tensor:
        """An operand of a product: the tensor itself, or, if its padding may be infinite, a finite copy of it.

        Padding may be infinite after ops such as `where(mask, x, -inf)`, and after writes into the raw tensor.
        """
        lengths = tensor.lengths
        if not lengths.ragged or (lengths.finite and not (tensor.sig.frames and cls.version_raw(tensor._raw))):
            return tensor
        ignored = cls.ignored_for(tensor, lengths)
        raw = tensor._raw if ignored is None else cls.finite_raw(tensor._raw, ignored)
        return tensor_of(raw, tensor.sig, lengths.made_finite())

    @classmethod
    def safe_argument(
        cls: type[Backend], x: Tensor, domain: Domain, lengths: Lengths | None = None, out: Sig | None = None
    ) -> object:
        """The raw tensor, with harmless numbers where the result does not count and `x` is outside of the domain.

        lengths, out: those of the result, and its dims; by default as those of `x`.
        """
        lengths = x.lengths if lengths is None else lengths
        guard, raw = _ended.get(), x._raw
        if guard is None and not lengths.ragged:
            return raw
        finite = x.lengths.finite and not cls.version_raw(raw)
        ignored = cls.ignored_for(x, lengths, out)
        if ignored is not None:
            raw = cls.harmless_raw(raw, ignored, domain, x.dtype, finite=finite)
        return raw if guard is None else guard.guard(cls, x, raw, domain, finite=finite)

    @classmethod
    def harmless_raw(
        cls: type[Backend], raw: RawTensor, ignored: object, domain: Domain, dtype: str, *, finite: bool = False
    ) -> RawTensor:
        """`raw` with harmless numbers where `ignored` is true and it is outside of the domain. finite: whether all its
        numbers are."""
        bounds = BOUNDS.get(dtype, FLOAT32)
        if dtype.startswith("complex"):
            return cls.masked_fill_raw(raw, ignored, 1) if domain == "nonzero" else raw
        if domain != "not large" and not finite:
            raw = cls.finite_raw(raw, ignored)
        if domain in ("nonzero", "positive", "not small"):
            size = cls.activation_raw(raw, "abs") if domain == "nonzero" else raw
            least = bounds.small**0.4 if domain == "not small" else bounds.small  # x⁻³ can be squared as well
            small = cls.compare_raw(size, "less", least)
            return cls.masked_fill_raw(raw, cls.combine_raw(small, "logical_and", ignored), 1)
        low = bounds.small**0.25 - 1 if domain == "above -1" else None
        return cls.where_raw(ignored, cls.clip_raw(raw, low, bounds.large if low is None else None), raw)

    @classmethod
    def ignored_for(cls: type[Backend], x: Tensor, lengths: Lengths, out: Sig | None = None) -> object:
        """The raw mask of entries of `x` that no result with these lengths and dims counts; None if there are none."""
        device, out = cls.device_key_raw(x._raw), out or x.sig
        key = ("ignored", x.sig.serial, out.serial, device)
        ignored = lengths.cache.get(key, lengths)
        if ignored is lengths:
            mask = _ignored(x, lengths, out)
            ignored = lengths.keep(key, None if mask is None else cls.from_numpy_raw(mask, device))
        guard = _ended.get()
        if guard is None:
            return ignored
        over = guard(cls, x.sig, device)
        return ignored if over is None else over if ignored is None else cls.combine_raw(ignored, "logical_or", over)


def _ignored(x: Tensor, lengths: Lengths, out: Sig) -> np.ndarray | None:
    """The mask of padding, and of empty sequences, shaped to broadcast against `x`.

    A sequence is empty along a dim that the result has and `x` lacks. Where `x` has no frames of its own, it may be a
    reduction over nothing: then any dim counts.
    """
    frames = frames_of(tensor_of(x._raw, x.sig, lengths), x.dims)
    mask: np.ndarray | None = None if frames is None else ~frames
    own = {owner for dim in x.dims for owner in lengths[dim].dims}
    sizes = [lengths[dim] for dim in out.dims if dim not in x.sig.index]
    for size in (*sizes, *(size for size in lengths.sizes.values() if own.isdisjoint(size.dims))):
        if not size.traced and size.dims and size.some_empty() and set(size.dims) <= set(x.dims):
            empty: np.ndarray = align.apply(align.move(size.dims, x.dims, trailing=False), size.values == 0)
            mask = empty if mask is None else mask | empty
    return mask
