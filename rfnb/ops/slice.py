"""Along a dim: slices, padding, shifts, the reverse, running sums, and repeated frames."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

import numpy as np

from rfnb.backend.base.backend import Backend
from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of, require_ints, require_owner_dims
from rfnb.backend.base.sizes import bound, derived, fitted, picked, ragged, size_in, taken, trimmed
from rfnb.core.dims import align, dim_math
from rfnb.core.dims.align import show_dims
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size, frame_numbers, longest_of
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.arguments import OneOf
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import DimError, DtypeError


@op(frames="any")
def slice(
    source: Tensor,
    *,
    axis: Dim,
    start: int | Tensor | None = None,
    end: int | Tensor | None = None,
    step: int | Tensor | None = None,
    size: int | Tensor | Dim | None = None,
    out_dim: Dim | None = None,
) -> tuple[Tensor, Dim]:
    """The frames from `start` to `end`, or `size` frames from `start`, and the new dim. {…, axis} → {…, out_dim}

    >>> time = rf.Dim(5, name="time")
    >>> rf.slice(rf.range_over_dim(time), axis=time, start=1, end=-1)[0].raw_tensor.tolist()
    [1, 2, 3]

    Bounds are as in Python; negative ones count from the end of each sequence. With Tensors, each sequence has its own
    bounds; the new dim then has a length for each sequence, unless `size` is an int or a Dim.

    Raises DimError if a sequence has fewer than `size` frames; `end=start + size` stops at the end of the sequence. If
    `start` is a Tensor, which may be on another device, frames past the end repeat the last frame instead.
    """
    if out_dim is None:
        out_dim = _out_dim(source, source.sig.resolve(axis), start, end, step, size)
    return backend_of_raw(source._raw).slice(source, axis, out_dim, start, end, step, size), out_dim


def _out_dim(source: Tensor, axis: Dim, start: Any, end: Any, step: Any, size: int | Tensor | Dim | None) -> Dim:
    if isinstance(size, Dim):
        return size
    if isinstance(size, int):
        return Dim(size, name=f"{axis.name}_slice")
    if any(isinstance(value, Tensor) for value in (start, end, step, size)):
        return Dim(None, name=f"{axis.name}_slice")
    key = ("slice_dim", axis.serial, start, end, step, size)
    return derived(source.sig, key, lambda: _formula(axis, start, end, step, size))


def _formula(axis: Dim, start: int | None, end: int | None, step: int | None, size: object) -> Dim:
    """An expression of `axis` if there is one, so that equal slices have the same dim."""
    for name, value in (("start", start), ("end", end), ("step", step), ("size", size)):
        if value is not None and not isinstance(value, int | np.integer):
            raise DtypeError(f"slice: `{name}` is not a whole number", got=repr(value), expected="an int or a Tensor")
    offset, step = start or 0, step or 1
    if axis.dimension is not None and len(range(axis.dimension)[start:end:step]) == axis.dimension:
        return axis
    if step < 0 or (offset < 0 and end is not None and end >= 0):
        return Dim(None, name=f"{axis.name}_slice")
    length = axis if offset < 0 else axis - offset
    if offset < 0:
        length = dim_math.extreme("min", [axis + (end or 0), (end or 0) - offset])
    elif end is not None:
        length = length + end if end < 0 else dim_math.extreme("min", [length, max(end - offset, 0)])
    return length if step == 1 else length.ceildiv_right(step)


@op(frames="any")
def pad(
    source: Tensor,
    *,
    axes: Sequence[Dim],
    padding: Sequence[tuple[Dim | int, Dim | int]] | tuple[Dim | int, Dim | int],
    out_dims: Sequence[Dim] | None = None,
    mode: Annotated[str, OneOf("constant", "replicate", "reflect", "circular")] = "constant",
    value: float | Tensor | None = None,
    handle_dynamic_dims: bool | None = None,
) -> tuple[Tensor, Sequence[Dim]]:
    """`source` with frames added before and after those of `axes`, and the new dims. {…, axes…} → {…, out_dims…}

    >>> time = rf.Dim(2, name="time")
    >>> y, [longer] = rf.pad(rf.range_over_dim(time), axes=[time], padding=(1, 2), value=9)
    >>> y.raw_tensor.tolist(), longer is 1 + time + 2
    ([9, 0, 1, 9, 9], True)

    Args:
        padding: (before, after) for each of the axes, or one pair for all. A Dim may have a different size for each
            sequence; a negative number removes frames.
        mode: "constant" (`value`, or 0), "replicate", "reflect", "circular"; a sequence without frames gets 0.
        handle_dynamic_dims: if False, the frames are added after the padding, which then counts as frames.
    """
    pairs: list[Any] = list(padding) if padding and isinstance(padding[0], tuple | list) else [padding] * len(axes)
    if len(pairs) != len(axes):
        raise DimError(
            "pad: the number of pairs differs from the number of axes",
            got=pairs,
            expected=f"one pair for each of {show_dims(axes)}",
        )
    if out_dims is None:
        direct = handle_dynamic_dims is not False
        out_dims = [_padded(source, axis, pair, direct) for axis, pair in zip(axes, pairs, strict=True)]
    result = backend_of_raw(source._raw).pad(
        source,
        axes=axes,
        padding=pairs,
        out_dims=out_dims,
        handle_dynamic_dims=handle_dynamic_dims is not False,
        mode=mode,
        value=value,
    )
    return result, out_dims


def _padded(source: Tensor, axis: Dim, padding: tuple[Dim | int, Dim | int], direct: bool) -> Dim:
    axis, (before, after) = source.sig.resolve(axis), padding
    if not direct and axis.dimension is None and after != 0:
        return Dim(None, name=f"{axis.name}_padded")
    return derived(source.sig, ("pad_dim", axis, before, after), lambda: before + axis + after)


@op(frames="any")
def shift_right(source: Tensor, *, axis: Dim, pad_value: float | Tensor, amount: int = 1) -> Tensor:
    """Each frame moved `amount` places later; the first frames are `pad_value`. {…, axis} → the same

    >>> time = rf.Dim(3, name="time")
    >>> rf.shift_right(rf.range_over_dim(time), axis=time, pad_value=9).raw_tensor.tolist()
    [9, 0, 1]
    """
    return backend_of_raw(source._raw).shift(source, axis=axis, amount=amount, pad_value=pad_value)


@op(frames="any")
def shift_left(source: Tensor, *, axis: Dim, pad_value: float | Tensor, amount: int = 1) -> Tensor:
    """Each frame moved `amount` places earlier; the last frames of each sequence are `pad_value`. {…, axis} → the same

    >>> time = rf.Dim(3, name="time")
    >>> rf.shift_left(rf.range_over_dim(time), axis=time, pad_value=9).raw_tensor.tolist()
    [1, 2, 9]
    """
    return backend_of_raw(source._raw).shift(source, axis=axis, amount=-amount, pad_value=pad_value)


@op(frames="any")
def reverse_sequence(tensor: Tensor, *, axis: Dim, handle_dynamic_dims: bool = True) -> Tensor:
    """Each sequence in reverse order; padding stays at the end. {…, axis} → the same

    >>> time = rf.Dim(None, name="time")
    >>> x = rf.convert_to_tensor([[1, 2, 3], [4, 5]], dims=[rf.batch_dim, time])
    >>> rf.reverse_sequence(x, axis=time).raw_tensor.tolist()
    [[3, 2, 1], [5, 4, 0]]
    """
    backend: type[Backend] = backend_of_raw(tensor._raw)
    axis = tensor.sig.resolve(axis)
    place = axis_of("reverse_sequence", tensor, axis, "tensor")
    if handle_dynamic_dims:
        require_owner_dims("reverse_sequence", tensor, (axis,))
    if handle_dynamic_dims and ragged(tensor, axis):
        size = size_in(tensor, axis)
        make, key = partial(_reversed, size.values, size.max), ("reverse", axis.serial)
        raw, lengths = picked(backend, tensor, axis, axis, size.dims, key, make)
        return tensor_of(raw, tensor.sig, lengths)
    lengths = taken(tensor.lengths, axis, axis, "reverse", np.flip)
    return tensor_of(backend.flip_raw(tensor._raw, [place]), tensor.sig, lengths)


def _reversed(n: np.ndarray, longest: int) -> np.ndarray:
    frames, end = frame_numbers(longest), n[..., None] - 1
    return np.where(frames <= end, end - frames, frames)


@op(frames="any")
def cumsum(source: Tensor, *, spatial_dim: Dim) -> Tensor:
    """The cumulative sum over the frames. {…, spatial_dim} → the same

    Truth values and integers of fewer than 32 bits are summed as int64, so that they do not wrap around; other types
    stay the same.

    >>> time = rf.Dim(4, name="time")
    >>> rf.cumsum(rf.ones([time]), spatial_dim=time).raw_tensor.tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    backend: type[Backend] = backend_of_raw(source._raw)
    spatial_dim = source.sig.resolve(spatial_dim)
    place = axis_of("cumsum", source, spatial_dim)
    if spatial_dim in source.lengths.owners:  # shorter sequences have padding before frames of longer ones
        source = source.like(backend.fill_padding(source, 0))
    dtype = "int64" if source.dtype in _SMALL else source.dtype
    summed = source.like(backend.cast_raw(backend.cumsum_raw(source._raw, place), dtype))
    return summed.like(backend.fill_padding(summed, 0, (spatial_dim,)))


_SMALL = frozenset({"bool", "int8", "uint8", "int16", "uint16"})
"""Types whose sums soon exceed their range."""


@op()
def repeat(
    values: Tensor, *, in_spatial_dim: Dim, repeats: Tensor | int, out_spatial_dim: Dim | None = None
) -> tuple[Tensor, Dim]:
    """Each frame as often as `repeats` says, and the new dim.

    {…, in_spatial_dim}, {…, in_spatial_dim} → {…, out_spatial_dim}

    >>> letters = rf.Dim(3, name="letters")
    >>> durations = rf.convert_to_tensor([2, 0, 1], dims=[letters])
    >>> frames, _ = rf.repeat(rf.range_over_dim(letters), in_spatial_dim=letters, repeats=durations)
    >>> frames.raw_tensor.tolist()
    [0, 0, 2]

    With an int, all frames are repeated equally often, and the new dim is `in_spatial_dim` times the int. The values
    of a Tensor are read, since the size of the result depends on them.
    """
    if out_spatial_dim is None:
        out_spatial_dim = (
            Dim(None, name=f"{in_spatial_dim.name}_repeated")
            if isinstance(repeats, Tensor)
            else in_spatial_dim * repeats
        )
    backend: type[Backend] = backend_of_raw(values._raw)
    in_spatial_dim = values.sig.resolve(in_spatial_dim)
    axis_of("repeat", values, in_spatial_dim, "values")
    if isinstance(repeats, Tensor):
        require_owner_dims("repeat", values, (in_spatial_dim,))
    else:
        return _all_alike(backend, values, in_spatial_dim, repeats, out_spatial_dim), out_spatial_dim
    lengths, dims, counts = join(values, repeats), *_counts(backend, values, repeats, in_spatial_dim)
    sizes = counts.sum(-1)
    lengths = bound(lengths, out_spatial_dim, Size(dims, sizes, dtype=repeats.dtype), "repeat")
    at = _positions(counts, sizes)
    raw = backend.from_numpy_raw(at, backend.device_key_raw(values._raw))
    positions = fitted(backend, tensor_of(raw, align.sig([*dims, out_spatial_dim]), lengths), out_spatial_dim)
    result = backend.gather(values, indices=positions, axis=in_spatial_dim)
    feature = out_spatial_dim if values.feature_dim is in_spatial_dim else values.feature_dim
    out = align.sig(result.dims, values.sparse_dim, feature)
    if dims or in_spatial_dim not in lengths.owners:
        return result.like(result._raw, out), out_spatial_dim
    lengths = taken(lengths, in_spatial_dim, out_spatial_dim, at.tobytes(), lambda lens, i: lens.take(at, i))
    return trimmed(backend, tensor_of(result._raw, out, lengths)), out_spatial_dim


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
    raw = backend.numbers(repeats.like(backend.fill_padding(repeats, 0)), 1).astype(np.int64)
    counts = align.apply(align.move(repeats.dims, [*dims, axis], trailing=False), raw)
    frames = size.frames(dims)
    counts = np.where(frames, counts, 0)
    if counts.min(initial=0) < 0:
        raise DimError("repeat: `repeats` contains a negative number", got=int(counts.min()), expected="0 or more")
    return dims, counts


def _positions(counts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Each position repeated as often as its count: [… , frames] → [… , longest]"""
    if not isinstance(counts, np.ndarray):  # without numbers
        return np.broadcast_to(sizes[..., None], (*sizes.shape, longest_of(sizes)))
    frames = np.broadcast_to(np.arange(counts.shape[-1]), counts.shape)
    positions = np.zeros((*sizes.shape, int(sizes.max(initial=0))), np.int64)
    positions[np.arange(positions.shape[-1]) < sizes[..., None]] = np.repeat(frames.reshape(-1), counts.reshape(-1))
    return positions
