"""Along a dim: slices, padding, shifts, the reverse, running sums, and repeated frames."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.require import axis_of, require_owner_dims
from rfnb.backend.base.sizes import bound, constant, fitted, moved, picked, renamed, same, size_in, taken, trimmed
from rfnb.backend.base.tape import current_tape
from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size, frame_numbers, longest_of
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


Bound = int | Tensor | None


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """The axis, its (start, end, step) or None if all of it stays, and the signature of the result."""

    place: int
    cut: tuple[int, int, int] | None
    out: weakref.ref[align.Sig]


class SliceOps:
    """Raw part: `slice_raw(raw, axis, start, end, step)`."""

    slice_raw: Callable[[RawTensor, int, int, int, int], RawTensor]

    @classmethod
    def slice(
        cls: type[Backend],
        source: Tensor,
        axis: Dim,
        out_dim: Dim,
        start: Bound = None,
        end: Bound = None,
        step: Bound = None,
        size: int | Tensor | Dim | None = None,
    ) -> Tensor:
        """The frames from `start` to `end`, or `size` frames from `start`; negative bounds count from the end.

        {…, axis} → {…, out_dim}
        """
        signature = source.sig
        if signature.priority_copies:
            axis = signature.resolve(axis)
        key = ("slice", axis.serial, start, end, step, size, out_dim.serial)
        plan: Any = signature.plans.get(key)
        out = plan and plan.out()
        if out and axis not in source.lengths.owners:
            raw = source._raw if plan.cut is None else cls.slice_raw(source._raw, plan.place, *plan.cut)
            return tensor_of(raw, out, source.lengths)
        place = axis_of("slice", source, axis)
        if not all(bound_ is None or (type(bound_) is int and bound_ >= 0) for bound_ in (start, step)):
            require_owner_dims("slice", source, (axis,))
        if any(isinstance(bound_, Tensor) for bound_ in (start, end, step, size)):
            return _slice_by_tensors(cls, source, axis, start, end, step, size, out_dim)
        limit, count = size_in(source, axis), _count(source, size)
        if count and any(dim not in source.sig.index for dim in count.dims):
            return _slice_by_tensors(cls, source, axis, start, end, step, size, out_dim)
        dims = [dim for dim in source.dims if dim in limit.dims or (count and dim in count.dims)]
        limits = None if count is None else count.over(dims)
        every = 1 if step is None else int(step)
        begins, length = slice_frames(limit.over(dims), start, end, every, limits)
        lengths = bound(source.lengths, out_dim, count or Size(dims, length), "slice")
        begins, length = np.broadcast_arrays(begins, length)
        longest = longest_of(length)
        begin = _first(start, every) if limit.traced else same(begins[length > 0])
        out = renamed(source, axis, out_dim)
        if begin is None:
            make = partial(_steps, begins, longest, every, limit.max)
            source = tensor_of(source._raw, signature, lengths)
            raw, lengths = picked(cls, source, axis, out_dim, dims, (*key[:5], length.tobytes()), make)
            return fitted(cls, tensor_of(raw, out, lengths), out_dim)
        stop = begin + longest * every
        whole = not limit.traced and (begin, longest, every) == (0, limit.max, 1)
        if not limit.traced or limit.unknown:
            begin, stop = min(begin, limit.max), min(stop, limit.max)
        cut = None if whole else (begin, stop, every)
        raw = source._raw if cut is None else cls.slice_raw(source._raw, place, *cut)
        if axis in lengths.owners:
            at = range(begin, stop, every)
            lengths = taken(lengths, axis, out_dim, ("slice", at), lambda values, i: values.take(at, i))
            return trimmed(cls, tensor_of(raw, out, lengths))
        if axis.dimension is not None and out_dim.dimension is not None:
            signature.keep(key, SlicePlan(place, cut, weakref.ref(out)))
        y = tensor_of(raw, out, lengths)
        return trimmed(cls, y) if limit.traced else fitted(cls, y, out_dim)


def slice_frames(n: np.ndarray, start: object, end: object, step: Any, count: object) -> tuple[np.ndarray, np.ndarray]:
    """The first frame and the number of frames, for sequences of lengths `n`, as in slices of Python.

    All arguments are numbers, or arrays that broadcast. Raises DimError if a sequence has fewer than `count` frames.
    """
    if count is not None and end is not None:
        raise DimError("slice: `end` and `size` cannot be combined", expected="one of them")
    if not np.all(step):
        raise DimError("slice: `step` must not be 0", expected="1 or more, or -1 or less")
    forward = np.greater(step, 0)
    lowest, highest = np.where(forward, 0, -1), np.where(forward, n, n - 1)

    def place(bound_: Any, default: np.ndarray) -> np.ndarray:
        if bound_ is None:
            return default
        position: np.ndarray = np.clip(np.where(np.less(bound_, 0), bound_ + n, bound_), lowest, highest)
        return position

    first = place(start, np.where(forward, lowest, highest))
    last = place(end, np.where(forward, highest, lowest))
    length: np.ndarray = np.maximum(-((first - last) // step), 0)
    if count is None:
        return first, length
    if not isinstance(length, np.ndarray):
        return first, np.asarray(count)  # lengths that torch traces
    missing = np.asarray(count - length)
    if missing.max(initial=0) > 0:
        have = int(np.broadcast_to(length, missing.shape).flat[missing.argmax()])
        raise DimError(
            "slice: `size` reaches past the end",
            got=f"{have + missing.max()} frames of a sequence that has {have}",
            expected="at most the frames of each sequence",
            hint="`end` stops at the end of each sequence: rf.slice(…, start=i, end=i + size)",
        )
    return first, np.asarray(count)


def _first(start: Any, step: int) -> int | None:
    """The first frame, if one piece is cut out that begins there for sequences of all lengths; otherwise None."""
    first: int = start or 0
    return first if step == 1 and first >= 0 else None


def _count(source: Tensor, size: object) -> Size | None:
    if isinstance(size, Dim):
        return source.lengths.size(size) or size.size
    return None if size is None else Size((), size)


def _steps(first: Any, count: int, step: object, longest: int) -> np.ndarray:
    """The positions of `count` frames from `first` on."""
    at = first[..., None] + np.asarray(step)[..., None] * frame_numbers(count)
    return np.clip(at, 0, max(longest - 1, 0))


def _slice_by_tensors(
    backend: type[Backend],
    source: Tensor,
    axis: Dim,
    start: object,
    end: object,
    step: object,
    size: object,
    out_dim: Dim,
) -> Tensor:
    """`slice` with Tensors as bounds, which differ between sequences."""
    if isinstance(start, Tensor) and isinstance(size, int | Dim) and end is None:
        return _slice_from(backend, source, axis, start, step, size, out_dim)
    bounds = [x for x in (start, end, step, size) if isinstance(x, Tensor)]
    limit, lengths, tape = size_in(source, axis), join(source, *bounds), current_tape()
    count = None if isinstance(size, Tensor) else _count(source, size)
    dims = list(dict.fromkeys([*limit.dims, *(count.dims if count else ()), *(d for x in bounds for d in x.dims)]))

    def values(bound_: object, padding: int = 0, unknown: int = 0) -> Any:
        if not isinstance(bound_, Tensor):
            return bound_
        if tape is not None and tape.differs(bound_._raw, axis):
            raw = np.full(backend.get_shape_tuple_raw(bound_._raw), unknown)
        else:
            numbers = bound_.like(backend.fill_padding(bound_, padding))
            raw = backend.numbers(numbers, unknown).astype(np.int64)
        return align.apply(align.move(bound_.dims, dims, trailing=False), raw)

    n, step = limit.over(dims), 1 if step is None else values(step, 1, unknown=1)
    counts = values(size, unknown=limit.max) if count is None else count.over(dims)
    first, length = slice_frames(n, values(start), values(end, unknown=limit.max), step, counts)
    shape = np.broadcast_shapes(n.shape, np.shape(step), first.shape, length.shape)
    dtype = size.dtype if isinstance(size, Tensor) else None
    lengths = bound(lengths, out_dim, Size(dims, np.broadcast_to(length, shape), dtype=dtype), "slice")
    positions = _steps(np.broadcast_to(first, shape), longest_of(length), step, limit.max)
    raw = backend.from_numpy_raw(positions, backend.device_key_raw(source._raw))
    at = fitted(backend, tensor_of(raw, align.sig([*dims, out_dim]), lengths), out_dim)
    return _at(backend, source, at, axis, out_dim)


def _slice_from(
    backend: type[Backend], source: Tensor, axis: Dim, start: Tensor, step: object, size: int | Dim, out_dim: Dim
) -> Tensor:
    """`size` frames from `start` on. `start` stays on its device; past the end, a sequence repeats its last frame."""
    count: Any = _count(source, size)
    lengths = bound(join(source, start), out_dim, count, "slice")
    begin = backend.cast(start.like(start._raw, align.sig(start.dims)), "int64")
    limit, device = size_in(source, axis), backend.device_key_raw(source._raw)
    n = tensor_of(backend.from_numpy_raw(limit.values, device), align.sig(limit.dims), lengths)
    from_end = backend.combine(begin, "add", n, allow_broadcast_all_sources=True)
    negative = begin.like(backend.compare_raw(begin._raw, "less", 0))
    begin = backend.where(negative, from_end, begin, allow_broadcast_all_sources=True)
    steps = tensor_of(backend.range_raw(count.max, "int64", source.device), align.sig([out_dim]), lengths)
    steps = fitted(backend, steps, out_dim)
    if isinstance(step, Tensor):
        steps = backend.combine(steps, "mul", step, allow_broadcast_all_sources=True)
    elif step is not None:
        steps = steps.like(backend.combine_raw(steps._raw, "mul", step))
    positions = backend.combine(begin, "add", steps, allow_broadcast_all_sources=True)
    return _at(backend, source, positions, axis, out_dim)


def _at(backend: type[Backend], source: Tensor, positions: Tensor, axis: Dim, out_dim: Dim) -> Tensor:
    """The frames at these positions, which are limited to the last frame."""
    bare = positions.like(positions._raw, align.sig(positions.dims))
    frames: Tensor = backend.gather(source, indices=bare, axis=axis, clip_to_valid=True)
    feature = out_dim if source.feature_dim is axis else source.feature_dim
    return frames.like(frames._raw, align.sig(frames.dims, source.sparse_dim, feature))


Amount = Dim | int


@dataclass(frozen=True, slots=True)
class PadPlan:
    """How much to add before and after each axis (by its position), and the signature of the result."""

    amounts: dict[int, tuple[int, int]]
    out: weakref.ref[align.Sig]


class PadOps:
    """Raw part: `pad_raw(raw, {axis: (before, after)}, value)`; negative numbers cut off."""

    pad_raw: Callable[[RawTensor, Mapping[int, tuple[int, int]], RawTensor], RawTensor]

    @classmethod
    def pad(
        cls: type[Backend],
        source: Tensor,
        *,
        axes: Sequence[Dim],
        padding: Sequence[tuple[Dim | int, Dim | int]],
        out_dims: Sequence[Dim],
        handle_dynamic_dims: bool = True,
        mode: str = "constant",
        value: float | Tensor | None = None,
    ) -> Tensor:
        """`source` with frames added before and after those of `axes`. {…, axes…} → {…, out_dims…}

        They follow directly after the end of each sequence. mode: "constant" (`value`, or 0), "replicate", "reflect",
        "circular".
        """
        if source.sig.priority_copies:
            axes = source.sig.resolve_all(axes)
        if mode == "constant" and not isinstance(value, Tensor) and source.lengths.owners.isdisjoint(axes):
            key = ("pad", *axes, *[n for pair in padding for n in pair], *out_dims)
            plan: Any = source.sig.plans.get(key)
            out = plan and plan.out()
            if not out and (static := _plan_pad(source, axes, padding, out_dims)):
                amounts, out = static
                plan = source.sig.keep(key, PadPlan(amounts, weakref.ref(out)))
            if out:
                return tensor_of(cls.pad_raw(source._raw, plan.amounts, value or 0), out, source.lengths)
        for axis, (left, right), out_dim in zip(axes, padding, out_dims, strict=True):
            source = _pad_one(cls, source, axis, (left, right), out_dim, handle_dynamic_dims, mode, value)
        return source

    @classmethod
    def shift(cls: type[Backend], source: Tensor, *, axis: Dim, amount: int, pad_value: float | Tensor) -> Tensor:
        """Each frame `amount` places later, or earlier if negative; the gap gets `pad_value`. {…, axis} → the same"""
        axis = source.sig.resolve(axis)
        place = axis_of("shift", source, axis)
        if amount < 0:
            require_owner_dims("shift_left", source, (axis,))
        size = size_in(source, axis)
        by = _within(amount, size)
        fill = 0 if isinstance(pad_value, Tensor) else pad_value
        lengths = _lengths_padded(source.lengths, axis, axis, by, size.max)
        result = tensor_of(cls.pad_raw(source._raw, {place: (by, -by)}, fill), source.sig, lengths)
        if isinstance(pad_value, Tensor) or (amount < 0 and size.dims):
            key = ("shift", axis.serial, amount)
            make = partial(_gap, size.values, size.max, amount)
            result = _filled(cls, result, [*size.dims, axis], key, pad_value, make)
        return fitted(cls, result, axis)


def _within(amount: int, size: Size) -> int:
    """The amount, limited to the frames that there are."""
    if not size.traced:
        return max(-size.max, min(amount, size.max))
    n = Size((), size.max).values
    return longest_of(np.clip(amount, -n, n))


def _filled(
    backend: type[Backend], x: Tensor, dims: Sequence[Dim], key: object, value: object, where: Callable[[], np.ndarray]
) -> Tensor:
    """`x` with `value`, which may be a Tensor, at the places that `where` gives over `dims`."""
    places = constant(backend, x, dims, key, where)
    if not isinstance(value, Tensor):
        return x.like(backend.masked_fill_raw(x._raw, places, value))
    missing = [dim for dim in value.dims if dim not in x.sig.index]
    if missing:
        raise DimError(
            f"`value` has a dim {missing[0].name} that `source` lacks",
            got=value.describe_dims(),
            expected=x.describe_dims(),
        )
    raw = align.apply(align.move(value.dims, x.dims), value._raw)
    return tensor_of(backend.where_raw(places, raw, x._raw), x.sig, join(x, value))


def _gap(n: np.ndarray, longest: int, amount: int) -> np.ndarray:
    frames = frame_numbers(longest)
    return np.broadcast_to(frames < amount, (*n.shape, longest)) if amount > 0 else frames >= n[..., None] + amount


def _number(amount: Amount) -> int:
    return int(amount) if not isinstance(amount, Dim) else amount.dimension or 0


def _plan_pad(
    source: Tensor, axes: Sequence[Dim], padding: Sequence[tuple[Amount, Amount]], out_dims: Sequence[Dim]
) -> tuple[dict[int, tuple[int, int]], align.Sig] | None:
    """The amounts before and after each axis, and the signature of the result; None if a size depends on data."""
    amounts, out = {}, source.sig
    for axis, (left, right), out_dim in zip(axes, padding, out_dims, strict=True):
        place = axis_of("pad", source, axis)
        if any(isinstance(dim, Dim) and dim.dimension is None for dim in (axis, left, right, out_dim)):
            return None
        before, size, after = (_number(dim) for dim in (left, axis, right))
        if min(size + before, size + after) < 0:
            return None
        bound(source.lengths, out_dim, Size((), max(before + size + after, 0)), "pad")
        amounts[place] = (before, after)
        out = renamed(tensor_of(None, out, source.lengths), axis, out_dim)
    return amounts, out


def _pad_one(
    backend: type[Backend],
    x: Tensor,
    axis: Dim,
    padding: tuple[Amount, Amount],
    out_dim: Dim,
    directly: bool,
    mode: str,
    value: object,
) -> Tensor:
    """Pads one axis whose lengths or amounts depend on data, so that they may differ between sequences."""
    place, size = axis_of("pad", x, axis), size_in(x, axis)
    if directly and (mode != "constant" or padding[1] != 0):
        require_owner_dims("pad", x, (axis,))
    lengths, before, after = _amounts(x, padding)
    if not directly and after.max:
        size = Size((), size.max)
    dims = [dim for dim in x.dims if any(dim in s.dims for s in (size, before, after))]
    n, left, right = (s.over(dims) for s in (size, before, after))
    new = np.maximum(n + left + right, 0)
    lengths = bound(lengths, out_dim, Size(dims, new), "pad")
    x, out, longest = tensor_of(x._raw, x.sig, lengths), renamed(x, axis, out_dim), longest_of(new)
    shift, key = same(left), ("pad", mode, axis.serial, n.tobytes(), left.tobytes(), right.tobytes())
    fill = 0 if value is None or isinstance(value, Tensor) else value
    if mode == "constant" and shift is not None and -size.max <= shift <= longest:
        raw = backend.pad_raw(x._raw, {place: (shift, longest - size.max - shift)}, fill)
        todo = isinstance(value, Tensor) or (bool(size.dims) and bool((right > 0).any()))
        lengths = _lengths_padded(lengths, axis, out_dim, shift, longest)
    else:
        x = x if size.max else x.like(backend.pad_raw(x._raw, {place: (0, 1)}, fill))
        raw, lengths = picked(backend, x, axis, out_dim, dims, key, partial(_around, n, left, longest, mode))
        todo = mode == "constant" or not n.all()
    places = partial(_outside, n, left, longest, mode)
    lengths = moved(lengths, [out_dim], (*key, "new"), partial(_emptied, dims=[*dims, out_dim], places=places))
    result = tensor_of(raw, out, lengths)
    if todo:
        result = _filled(backend, result, [*dims, out_dim], (*key, "fill"), value if value is not None else 0, places)
    return fitted(backend, result, out_dim)


def _amounts(x: Tensor, padding: tuple[Amount, Amount]) -> tuple[Lengths, Size, Size]:
    """The amounts before and after each sequence, and lengths that include the sizes of the amounts."""
    lengths, sizes = x.lengths, []
    for amount in padding:
        if not isinstance(amount, Dim):
            sizes.append(Size((), int(amount)))
            continue
        if lengths.size(amount) is None:
            lengths = lengths.join(current_lengths([amount]), x.sig, align.sig([amount]))
        size = lengths.size(amount) or amount.size
        missing = [dim for dim in size.dims if dim not in x.sig.index]
        if missing:
            raise DimError(
                f"pad: {amount.name} differs along {missing[0].name}, which `source` lacks",
                got=x.describe_dims(),
                hint=f"rf.expand_dim(…, {missing[0].name})",
            )
        sizes.append(size)
    return lengths, sizes[0], sizes[1]


def _lengths_padded(lengths: Lengths, axis: Dim, out_dim: Dim, left: int, count: int) -> Lengths:
    """Lengths over an axis that was padded or shifted: new entries are empty sequences."""

    def take(values: np.ndarray, i: int) -> np.ndarray:
        at = np.arange(count) - left
        valid = (at >= 0) & (at < values.shape[i])
        entries = np.moveaxis(values, i, -1)[..., at[valid]]
        shifted = np.zeros((*entries.shape[:-1], count), np.int64)
        shifted[..., valid] = entries
        return np.moveaxis(shifted, -1, i)

    return taken(lengths, axis, out_dim, ("pad", left, count), take)


def _emptied(size: Size, dims: Sequence[Dim], places: Callable[[], np.ndarray]) -> Size:
    """Lengths that are 0 at these places."""
    order = [*size.dims, *(dim for dim in dims if dim not in size.dims)]
    new = align.apply(align.move(dims, order, trailing=False), places())
    return Size(order, np.where(new, 0, size.over(order)))


def _outside(n: np.ndarray, left: np.ndarray, longest: int, mode: str) -> np.ndarray:
    """Whether a place is outside the frames; for modes that copy frames, whether there are none to copy."""
    frames = frame_numbers(longest) - left[..., None]
    end = n[..., None]
    return (frames < 0) | (frames >= end) if mode == "constant" else np.broadcast_to(end == 0, (frames + end).shape)


def _around(n: np.ndarray, left: np.ndarray, longest: int, mode: str) -> np.ndarray:
    """Positions of the frames, with copied ones before and after them."""
    frames, end = frame_numbers(longest) - left[..., None], np.maximum(n[..., None] - 1, 0)
    if mode == "circular":
        frames = frames % (end + 1)
    elif mode == "reflect":
        frames = end - np.abs(frames % np.maximum(2 * end, 1) - end)
    return np.clip(frames, 0, end)


class SequenceOps:
    """Raw part: `flip_raw`, `cumsum_raw`."""

    flip_raw: Callable[..., RawTensor]
    cumsum_raw: Callable[..., RawTensor]
