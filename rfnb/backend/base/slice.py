"""Pieces of a dim, and frames added to it."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import bound, size_in
from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.lengths import Size
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend

Bound = int | Tensor | None


class SliceOps:
    """Raw part: `slice_raw`, `pad_raw`, and `gather_raw` where sequences differ."""

    slice_raw: Callable[[Any, int, int, int, int], Any]
    pad_raw: Callable[[Any, Mapping[int, tuple[int, int]], Any], Any]
    gather_raw: Callable[[Any, Any, int, int], Any]

    @classmethod
    def slice(  # type: ignore[misc]
        cls: type[Backend],
        source: Tensor,
        *,
        axis: Dim,
        start: Bound = None,
        end: Bound = None,
        step: int | None = None,
        size: int | Tensor | Dim | None = None,
        out_dim: Dim,
    ) -> Tensor:
        """From `start` to `end`, or `size` frames from `start`; negative: from the end of each sequence.

        {…, axis} → {…, out_dim}
        """
        place = axis_of("slice", source, axis)
        if isinstance(start, Tensor) or isinstance(end, Tensor) or isinstance(size, Tensor):
            return _slice_by_tensors(cls, source, axis, start, end, step or 1, size, out_dim)
        key = ("slice", axis, start, end, step, size, out_dim.serial)
        plan: Any = source.sig.plans.get(key)
        out = plan and plan[1]()
        if out:
            raw = source._raw if plan[0] is None else cls.slice_raw(source._raw, place, *plan[0])
            return tensor_of(raw, out, source.lengths)
        here, step = size_in(source, axis), step or 1
        count = None if size is None else size.size if isinstance(size, Dim) else Size((), size)
        first, last = slice_bounds(here.values, start, end, count, step)
        new = count or Size(here.dims, slice_length(first, last, step))
        lengths = bound(source.lengths, out_dim, new, "slice")
        dims = [*source.dims[:place], out_dim, *source.dims[place + 1 :]]
        out = align.sig(dims, source.sparse_dim, out_dim if source.feature_dim is axis else source.feature_dim)
        if here.dims and (step < 0 or (start or 0) < 0):
            how = ("slice", start, end, new.max, step)
            raw = _take_frames(cls, source, axis, how, lambda n: _slice_positions(n, start, end, count, step))
        else:
            begin, stop = _longest(first), _longest(last)
            if stop > here.max:
                raise DimError(
                    "slice: `size` goes behind the end", got=f"{begin} to {stop}", expected=f"at most {here.max} frames"
                )
            cut = None if (begin, stop, step) == (0, here.max, 1) else (begin, stop, step)
            raw = source._raw if cut is None else cls.slice_raw(source._raw, place, *cut)
            if axis.dimension is not None and out_dim.dimension is not None:
                source.sig.keep(key, (cut, weakref.ref(out)))
        return tensor_of(raw, out, lengths)

    @classmethod
    def pad(  # type: ignore[misc]
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
        """Frames before and behind those of `axes`. {…, axes…} → {…, out_dims…}

        They come directly behind the end of each sequence. mode: "constant" (`value`, or 0), "replicate", "reflect",
        "circular".
        """
        for axis, (left, right), out_dim in zip(axes, padding, out_dims, strict=True):
            source = _pad_one(cls, source, axis, _count(left), _count(right), out_dim, handle_dynamic_dims, mode, value)
        return source

    @classmethod
    def shift(cls: type[Backend], source: Tensor, *, axis: Dim, amount: int, pad_value: float | Tensor) -> Tensor:  # type: ignore[misc]
        """Each frame `amount` places later, `pad_value` in the gap; earlier if negative. {…, axis} → the same"""
        place = axis_of("shift", source, axis)
        size = size_in(source, axis)
        by = max(-size.max, min(amount, size.max))
        if isinstance(pad_value, Tensor):
            raw = cls.pad_raw(source._raw, {place: (by, -by)}, 0)
            return _filled(
                cls, source.like(raw), axis, ("shift", amount), pad_value, lambda n: _gap(n, size.max, amount)
            )
        raw = cls.pad_raw(source._raw, {place: (by, -by)}, pad_value)
        if amount < 0 and size.dims:
            return _filled(
                cls, source.like(raw), axis, ("shift", amount), pad_value, lambda n: _gap(n, size.max, amount)
            )
        return source.like(raw)


def _longest(values: np.ndarray) -> int:
    return int(values.max()) if values.size else 0


def slice_bounds(
    n: np.ndarray, start: int | None, end: int | None, count: Size | None, step: int
) -> tuple[np.ndarray, np.ndarray]:
    """First and last (exclusive) frame for sequences of lengths `n`, as Python's slices have them."""
    lowest, highest = (0 * n, n) if step > 0 else (0 * n - 1, n - 1)
    begin = (lowest if step > 0 else highest) if start is None else start + (n if start < 0 else 0 * n)
    first = np.clip(begin, lowest, highest)
    if count is not None:
        return first, first + count.max * step
    stop = (highest if step > 0 else lowest) if end is None else end + (n if end < 0 else 0 * n)
    return first, np.clip(stop, lowest, highest)


def slice_length(first: np.ndarray, last: np.ndarray, step: int) -> np.ndarray:
    """How many frames there are."""
    length: np.ndarray = np.maximum(-(-(last - first) // step), 0)
    return length


def _slice_positions(n: np.ndarray, start: int | None, end: int | None, count: Size | None, step: int) -> np.ndarray:
    first, last = slice_bounds(n, start, end, count, step)
    longest = int(slice_length(first, last, step).max(initial=0))
    positions: np.ndarray = np.clip(first + step * np.arange(longest), 0, max(int(n.max(initial=1)) - 1, 0))
    return positions


def _slice_by_tensors(
    backend: Any, source: Tensor, axis: Dim, start: Any, end: Any, step: int, size: Any, out_dim: Dim
) -> Tensor:
    """Bounds of their own for each sequence; the lengths of the result come from them, unless `size` is a number."""
    lengths = source.lengths
    limit = source.size_of(axis)
    begin = _whole(backend, start, 0, limit, lengths, source)
    count: Size | None = None
    if isinstance(size, int):
        count = Size((), size)
    elif isinstance(size, Dim):
        count = lengths.size(size) or size.size
    elif size is not None:
        count = Size(size.dims, backend.to_numpy_raw(size._raw))
    else:
        stop = _whole(backend, end, None, limit, lengths, source)
        gap = backend.combine(stop, "sub", begin, allow_broadcast_all_sources=True)
        values = backend.to_numpy_raw(gap._raw)
        count = Size(gap.dims, np.maximum(-(-values // step), 0))
    lengths = bound(lengths, out_dim, count, "slice")
    steps = tensor_of(backend.range_raw(count.max, "int64", source.device), align.sig([out_dim]), lengths)
    if step != 1:
        steps = steps.like(backend.combine_raw(steps._raw, "mul", step))
    positions = backend.combine(begin, "add", steps, allow_broadcast_all_sources=True)
    positions = positions.like(backend.clip_raw(positions._raw, 0, max(limit.max - 1, 0)), align.sig(positions.dims))
    found: Tensor = backend.gather(source, indices=positions, axis=axis)
    feature = out_dim if source.feature_dim is axis else source.feature_dim
    return found.like(found._raw, align.sig(found.dims, source.sparse_dim, feature))


def _whole(backend: Any, value: Any, default: int | None, limit: Size, lengths: Any, source: Tensor) -> Tensor:
    """A bound as a Tensor; None and negative numbers count from the end of each sequence."""
    if isinstance(value, Tensor):
        return backend.cast(value, "int64")
    if value is None and default is not None:
        value = default
    values = limit.values if value is None else limit.values + value if value < 0 else np.full_like(limit.values, value)
    return tensor_of(
        backend.from_numpy_raw(values, backend.device_key_raw(source._raw)), align.sig(limit.dims), lengths
    )


def _take_frames(backend: Any, x: Tensor, axis: Dim, key: Any, positions: Callable[[np.ndarray], np.ndarray]) -> Any:
    """The frames at the positions that each sequence has of its own."""
    return backend.gather_raw(x._raw, backend.per_frame(x, axis, key, positions), x.sig.index[axis], 1)


def _filled(
    backend: Any, x: Tensor, axis: Dim, key: Any, value: Any, where: Callable[[np.ndarray], np.ndarray]
) -> Tensor:
    """`value` in the places that `where` gives for each sequence, which may be a Tensor."""
    places = backend.per_frame(x, axis, key, where)
    if not isinstance(value, Tensor):
        return x.like(backend.masked_fill_raw(x._raw, places, value))
    missing = [dim for dim in value.dims if dim not in x.sig.index]
    if missing:
        raise DimError(
            f"`value` has a dim {missing[0].name} that `source` has not",
            got=value.describe_dims(),
            expected=x.describe_dims(),
        )
    raw = align.apply(align.move(value.dims, x.dims), value._raw)
    return x.like(backend.where_raw(places, raw, x._raw))


def _gap(n: np.ndarray, longest: int, amount: int) -> np.ndarray:
    frames = np.arange(longest)
    return frames < amount + 0 * n if amount > 0 else frames >= n + amount


def _count(amount: Dim | int) -> int:
    if isinstance(amount, Dim):
        size = amount.size
        if size.ragged:
            raise DimError(
                "pad: each sequence would be padded by another amount", got=amount.describe(), hint="rf.concat"
            )
        return size.max
    return int(amount)


def _pad_one(
    backend: Any, x: Tensor, axis: Dim, left: int, right: int, out_dim: Dim, directly: bool, mode: str, value: Any
) -> Tensor:
    place = axis_of("pad", x, axis)
    size = size_in(x, axis)
    new = Size(size.dims, np.maximum(size.values + left + right, 0))
    dims = [out_dim if dim is axis else dim for dim in x.dims]
    out = align.sig(dims, x.sparse_dim, out_dim if x.feature_dim is axis else x.feature_dim)
    lengths = bound(x.lengths, out_dim, new, "pad")
    if mode != "constant":
        key = ("pad", mode, left, right)
        return tensor_of(_take_frames(backend, x, axis, key, lambda n: _around(n, left, right, mode)), out, lengths)
    fill = 0 if value is None or isinstance(value, Tensor) else value
    padded = tensor_of(backend.pad_raw(x._raw, {place: (left, right)}, fill), out, lengths)
    behind = directly and bool(size.dims) and right > 0
    if not behind and not isinstance(value, Tensor):
        return padded
    longest = size.max + left + right
    return _filled(
        backend,
        padded,
        out_dim,
        ("pad", left, right),
        fill if value is None else value,
        lambda n: _added(n, left, right, longest),
    )


def _added(n: np.ndarray, left: int, right: int, longest: int) -> np.ndarray:
    frames = np.arange(longest)
    added: np.ndarray = (frames < left) | (frames >= n - right)
    return added


def _around(n: np.ndarray, left: int, right: int, mode: str) -> np.ndarray:
    """Positions of the frames that stand in for those before and behind a sequence."""
    frames = np.arange(-left, int(n.max(initial=0)) + right)
    last = np.maximum(n - 1, 0)
    if mode == "replicate":
        positions = np.clip(frames, 0, last)
    elif mode == "circular":
        positions = frames % np.maximum(n, 1)
    elif mode == "reflect":
        period = np.maximum(2 * last, 1)
        positions = last - np.abs(frames % period - last)
    else:
        raise DimError("pad: no such mode", got=mode, expected='"constant", "replicate", "reflect" or "circular"')
    return np.clip(positions, 0, last)
