"""Entries at indices, gathered, changed and scattered; and the indices that sort entries, or of the largest ones."""

from __future__ import annotations

import math
import operator
import warnings
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.backend.base.math import join
from rfnb.backend.base.reduce import EXACT
from rfnb.backend.base.require import axis_of, require_ints, require_owner_dims
from rfnb.backend.base.sizes import bound, fitted, inner_dims, ragged, size_in
from rfnb.backend.base.tape import is_trial, untaped
from rfnb.core.advice.similar_dims import mark_beam
from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, as_dims
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.ground.source import PerPlace, Source, user_source
from rfnb.core.ground.text import number_of
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, DtypeError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


@dataclass(frozen=True, slots=True)
class GatherPlan:
    """How to gather along `axis` of the source: by indexing, or, with shared dims, by aligned indices."""

    axis: int
    shared: bool
    own: int  # dims that only the indices have
    expand: bool  # whether the source has dims that the indices lack
    how: align.Move
    ragged_too: bool  # whether other dims of the source may have lengths over `axis`
    out: weakref.ref[Sig]


class Stacked(NamedTuple):
    """All frames that were stacked to `raw`, which lacks those after the longest sequence."""

    raw: RawTensor
    whole: Tensor
    axis: Dim


class IndexOps:
    """Raw part: `gather_raw`, `index_raw`, `select_raw`, `one_hot_raw`, `known_numbers_raw`."""

    gather_raw: Callable[..., RawTensor]
    index_raw: Callable[[RawTensor, RawTensor, int], RawTensor]
    select_raw: Callable[[RawTensor, int, int], RawTensor]
    one_hot_raw: Callable[[RawTensor, int, str], RawTensor]
    known_numbers_raw: Callable[[RawTensor], np.ndarray | None]

    @classmethod
    def gather(
        cls: type[Backend], source: Tensor, indices: Tensor | int | str, axis: Dim, clip_to_valid: bool = False
    ) -> Tensor:
        """Entries of `source` at `indices` along `axis`. {…, axis}, {…} → {… of both}"""
        if source.sig.priority_copies:
            axis = source.sig.resolve(axis)
        if not isinstance(indices, Tensor):
            return _select(cls, source, _number(source, indices, axis), axis, clip_to_valid)
        if axis.dimension is None and not clip_to_valid and ("stacked", axis.serial) in source.lengths.cache:
            source, axis = _with_dropped(source, axis)
        plan: Any = source.sig.plans.get(("gather", axis, indices.sig.serial))
        out = plan and plan.out()
        if not out:
            out, plan = _plan(source, indices, axis)
        dynamic = indices.sig.frames
        if clip_to_valid:
            indices = _clipped(cls, source, indices, axis)
            return cls.gather(cls.not_empty(source, axis), indices=indices, axis=axis)
        lengths, positions = source.lengths, indices._raw
        if lengths is not indices.lengths:
            lengths = lengths.join(indices.lengths, source.sig, indices.sig)
        if dynamic and indices.lengths.ragged:
            positions = cls.in_range(indices, cls.get_shape_tuple_raw(source._raw)[plan.axis], dynamic)
        if plan.how is not None:
            positions = cls.move_raw(positions, plan.how)
        try:
            raw = (
                cls.gather_raw(source._raw, positions, plan.axis, plan.own, plan.expand)
                if plan.shared
                else cls.index_raw(source._raw, positions, plan.axis)
            )
        except (IndexError, RuntimeError):
            if is_trial() and not source.size_of(axis).max:
                return cls.gather(cls.not_empty(source, axis), indices=indices, axis=axis)
            shape = (cls.get_shape_tuple_raw(source._raw)[plan.axis],)
            check_range(cls, "gather", indices, (axis,), shape, above=_dropped(source, axis))
            raise
        if plan.ragged_too and lengths.sizes and axis in source.lengths.owners:
            return _with_their_lengths(cls, tensor_of(raw, out, lengths), source, indices, axis)
        return tensor_of(raw, out, lengths)

    @classmethod
    def in_range(cls: type[Backend], indices: Tensor, size: int, dims: tuple[Dim, ...]) -> RawTensor:
        """The raw indices, where those in the padding of `dims` are moved into the range from 0 to `size` - 1.

        Those that are in the range stay, since windows without a mask let frames after the end into valid ones.
        """
        padding = cls.padding_for(indices, dims)
        if padding is None:
            return indices._raw
        return cls.where_raw(padding, cls.clip_raw(indices._raw, 0, size - 1), indices._raw)

    @classmethod
    def not_empty(cls: type[Backend], source: Tensor, axis: Dim) -> Tensor:
        """`source`, with one frame of zeros if all sequences are empty."""
        if source.size_of(axis).max:
            return source
        return source.like(cls.pad_raw(source._raw, {source.sig.index[axis]: (0, 1)}, 0))


def _plan(source: Tensor, indices: Tensor, axis: Dim) -> tuple[Sig, GatherPlan]:
    place = axis_of("gather", source, axis)
    require_ints("gather", indices, "indices")
    if indices.sparse_dim is not None and indices.sparse_dim is not axis and axis.dimension is not None:
        fits = indices.sparse_dim.dimension == axis.dimension or indices.sparse_dim.dimension is None
        if not fits:
            raise DimError(
                "gather: `indices` are indices of another dim",
                got=f"indices of {indices.sparse_dim.describe()}",
                expected=f"indices of {axis.describe()}",
                hint="rf.set_sparse_dim(indices, axis), if this is intended",
            )
    before, after = source.dims[:place], source.dims[place + 1 :]
    new = [d for d in indices.dims if d is axis or d not in source.sig.index]
    shared = any(d is not axis and d in source.sig.index for d in indices.dims)
    order = [*before, *(new or [axis]), *after]
    feature = None if source.feature_dim is axis else source.feature_dim
    out = align.sig([*before, *new, *after], source.sparse_dim, feature)
    how = align.move(indices.dims, order, trailing=False) if shared else None
    expand = any(d not in indices.sig.index for d in (*before, *after))
    ragged_too = any(d.dimension is None and d not in indices.sig.index for d in (*before, *after))
    plan = GatherPlan(place, shared, len(new), expand, how, ragged_too, weakref.ref(out))
    source.sig.keep(("gather", axis, indices.sig.serial), plan)
    return out, plan


def _number(source: Tensor, index: Any, axis: Dim) -> int:
    """The number of an entry of `axis`, given as an int, as a label, or as the tag of a sequence."""
    if not isinstance(index, str):
        try:
            return operator.index(index)
        except TypeError:
            raise DtypeError(
                f"gather: {index!r:.60} is not an index",
                got=type(index).__name__,
                expected="a Tensor, an int or a str",
                hint="rf.convert_to_tensor([…], dims=[…])",
            ) from None
    if axis.vocab is not None:
        return axis.vocab.encode([index])[0]
    size = source.lengths.size(axis)
    return number_of(index, None if size is None else size.tags, "gather")


def _select(backend: type[Backend], source: Tensor, index: int, axis: Dim, clip_to_valid: bool) -> Tensor:
    """The entry at one position; a negative one counts from the end of each sequence."""
    stored = source.sig.plans.get(("select", axis))
    place, out, may_differ = stored or source.sig.keep(
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
        full, every = _with_dropped(source, axis)
        if full is source:
            raise _no_entry(source, index, axis) from None
        return _select(backend, full, index, every, clip_to_valid)


def _select_sequence(backend: type[Backend], source: Tensor, index: int, axis: Dim, clip_to_valid: bool) -> Tensor:
    """The entry of a dim on which lengths depend, without the padding after it."""
    count = source.size_of(axis).max
    if clip_to_valid:
        index = min(max(index, -count), count - 1)
    if not -count <= index < count:
        raise _no_entry(source, index, axis)
    if (index < 0 or clip_to_valid) and ragged(source, axis):
        frames = size_in(source, axis)
        at = backend.from_numpy_raw(_place(index, frames.values), backend.device_key_raw(source._raw))
        return backend.gather(source, tensor_of(at, align.sig(frames.dims), source.lengths), axis)
    index %= count
    lengths = source.lengths.of_one(axis, index)
    raw, out = backend.select_raw(source._raw, source.sig.index[axis], index), align.without(source.sig, [axis])
    for place, dim in enumerate(out.dims):
        size = lengths.size(dim)
        if dim.dimension is None and size is not None and size.max < backend.get_shape_tuple_raw(raw)[place]:
            raw = backend.slice_raw(raw, place, 0, size.max, 1)
    return tensor_of(raw, out, lengths)


def _select_valid(
    backend: type[Backend], source: Tensor, index: int, axis: Dim, clip_to_valid: bool, place: int, out: Sig
) -> Tensor:
    if clip_to_valid:
        source = backend.not_empty(source, axis)
    size = size_in(source, axis)
    if index:
        require_owner_dims("gather", source, (axis,))
    if not clip_to_valid and index < -size.max:
        raise _no_entry(source, index, axis)
    key = ("select", index)
    positions = backend.per_frame(source, axis, key, partial(_place, index))
    return tensor_of(backend.gather_raw(source._raw, positions, place, 0), out, source.lengths)


def _place(index: int, n: np.ndarray) -> np.ndarray:
    """The place of an index, which counts from the end if it is negative, in sequences of `n` frames."""
    place: np.ndarray = np.clip(index + (n if index < 0 else 0 * n), 0, np.maximum(n - 1, 0))
    return place


def _no_entry(source: Tensor, index: int, axis: Dim) -> DimError:
    size = source.size_of(axis).max
    return DimError(
        f"gather: {axis.name} has no entry {index}",
        got=source.describe_dims(),
        expected=f"less than {size}",
        hint=_dropped(source, axis) if index >= size else None,
    )


def _with_dropped(source: Tensor, axis: Dim) -> tuple[Tensor, Dim]:
    """The tensor with the frames that `TensorArray.stack` dropped, if it is the result of that, and their axis."""
    stacked: Stacked | None = source.lengths.cache.get(("stacked", axis.serial))
    return (source, axis) if stacked is None or stacked.raw is not source._raw else (stacked.whole, stacked.axis)


def _dropped(source: Tensor, axis: Dim) -> str | None:
    """A hint about the frames that `TensorArray.stack` dropped; None if there were none."""
    stacked: Stacked | None = source.lengths.cache.get(("stacked", axis.serial))
    if stacked is None:
        return None
    count = (
        f"the longest sequence of {axis.name} is shorter than the {stacked.axis.dimension} tensors that were stacked"
    )
    return f'{count}; stack(axis=rf.Dim(None, name="…")) keeps all'


NEGATIVE_LABEL = (
    "padding may have any value if `lengths` are given; for others without a loss: rf.where(labels < 0, 0, labels), "
    "and rf.where(labels < 0, 0, loss)"
)
"""The hint for a negative label: other libraries leave out the loss of -1 or -100."""


def check_range(
    backend: type[Backend],
    what: str,
    indices: Tensor,
    dims: Sequence[Dim],
    shape: Sequence[int],
    *,
    noun: str = "an index",
    hint: str | None = "negative indices in a Tensor do not count from the end",
    above: str | None = None,
) -> None:
    """Raises DimError if one of the `indices`, in valid frames, is out of range for `dims` of this `shape`.

    It reads the values, so it is called only after an op has failed.

    Args:
        noun: what one of the `indices` is called in the message.
        hint: shown if the index is negative.
        above: a hint that is shown if it is too large.
    """
    size = math.prod(shape)
    values, bad = out_of_range(backend, indices, size)
    if len(bad):
        value, got = _first(indices, values, bad)
        raise DimError(
            f"{what}: {value} is not {noun} of {align.show_dims(dims) if len(dims) > 1 else dims[0].name}",
            got=got,
            expected=f"0 to {size - 1}" if size else "none: the size is 0",
            hint=hint if value < 0 else above,
        ) from None


def _first(x: Tensor, values: np.ndarray, bad: np.ndarray) -> tuple[Any, str]:
    """The first of the `bad` values, and where it stands, with the number of the others."""
    place = tuple(bad[0].tolist())
    at = ", ".join(f"{dim.name} {i}" for dim, i in zip(x.dims, place, strict=True))
    more = f", and {len(bad) - 1} more" if len(bad) > 1 else ""
    value = values[place]
    return value, (f"{value:.4g}" if value.dtype.kind == "f" else f"{value}") + (f" at {at}" if at else "") + more


def warn_of_padding(backend: type[Backend], indices: Tensor, axis: Dim, lengths: Lengths) -> None:
    """Warns of `indices`, in valid frames, that are after the last frame of a sequence; once for each line of the user.

    Indices that all sequences share are not looked at: they stand for the same frames of each. Nor are numbers on a
    device or in a traced step.
    """
    key, raw = ("ends", axis.serial, indices.sig.serial), indices._raw
    ends, known, version = lengths.cache.get(key, (None, None, 0))
    if known is raw and version == backend.current_version_raw(raw):
        return
    values = backend.known_numbers_raw(raw)
    if values is None:
        return
    if ends is None:
        ends = _ends(backend, indices, lengths.size(axis))
    version = backend.counted_version_raw(raw)
    lengths.keep(key, (ends, None if version is None else raw, version))
    beyond = values >= ends
    if not np.count_nonzero(beyond):
        return

    def error() -> DimError:
        bad = np.argwhere(beyond)
        return DimError(
            f"gather: an index is after the end of its sequence of {axis.name}, and gives padding",
            got=_first(indices, values, bad)[1],
            expected=f"0 to {ends[tuple(bad[0])] - 1}",
            hint="clip_to_valid=True gives the last frame; a mask leaves such results out",
        )

    warn_once("gather", error)


def warn_once(kind: str, error_of: Callable[[], Exception], line: Source | None = None) -> None:
    """Warns at a line, by default where the user's code is, once for each line and kind, with the words of an error."""
    line = line or user_source()
    if line is not None and kind not in _warned[line]:
        _warned[line].append(kind)
        warnings.warn_explicit(str(error_of()), UserWarning, line.file, line.line)


def first_outside(backend: type[Backend], x: Tensor, low: float, high: float) -> str | None:
    """The first entry in valid frames that is below `low` or above `high`, and its place; None if all are inside.

    It is also None if the numbers are not known: on a device, in a traced step.
    """
    values = backend.known_numbers_raw(x._raw)
    if values is None or not values.size or (low <= values.min() and values.max() <= high):
        return None
    outside, padding = (values < low) | (values > high), backend.padding_for(x, x.dims)
    bad = np.argwhere(outside if padding is None else outside & ~backend.to_numpy_raw(padding))
    return _first(x, values, bad)[1] if len(bad) else None


def _ends(backend: type[Backend], indices: Tensor, size: Size | None) -> np.ndarray:
    """For each of the indices, the number of frames of its sequence; more in padding, and where nothing can be wrong.

    It is at least 1: `clip_to_valid` takes the first entry of an empty sequence too.
    """
    if size is None or not size.ragged or size.traced or any(dim not in indices.sig.index for dim in size.dims):
        return np.array(_MORE)
    ends = np.broadcast_to(np.maximum(size.over(indices.dims), 1), backend.get_shape_tuple_raw(indices._raw))
    padding = backend.padding_for(indices, indices.dims)
    return ends if padding is None else np.where(backend.to_numpy_raw(padding), _MORE, ends)


_MORE = 2**63 - 1
_warned: PerPlace[list[str]] = PerPlace(lambda line: [])
"""What has been warned of, by the line of the user."""


def out_of_range(backend: type[Backend], indices: Tensor, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The values of `indices`, and the places of those in valid frames that are not in 0 to `size` - 1."""
    with untaped():
        values = backend.to_numpy_raw(backend.fill_padding(indices, 0))
    return values, np.argwhere((values < 0) | (values >= size))


def _with_their_lengths(backend: type[Backend], found: Tensor, source: Tensor, indices: Tensor, axis: Dim) -> Tensor:
    """The gathered tensor, with the gathered lengths of dims whose lengths depend on `axis`."""
    sizes = {}
    for dim in source.dims:
        size = source.lengths.size(dim) if dim.dimension is None and dim not in indices.sig.index else None
        if size is not None and axis in size.dims:
            raw = backend.from_numpy_raw(size.values, backend.device_key_raw(indices._raw))
            frames = backend.not_empty(tensor_of(raw, align.sig(size.dims), source.lengths), axis)
            picked = backend.gather(frames, indices=indices, axis=axis)
            sizes[dim] = Size(picked.dims, backend.numbers(picked, size.max))
    return backend.resized(found, sizes)


def _clipped(backend: type[Backend], source: Tensor, indices: Tensor, axis: Dim) -> Tensor:
    """The indices, limited to the last frame of each sequence."""
    size, indices = size_in(source, axis), backend.cast(indices, "int64")  # a small type may not hold the limit
    if not size.dims:
        return indices.like(backend.clip_raw(indices._raw, 0, max(size.max - 1, 0)))
    key = ("last", axis.serial, source.sig.serial, backend.device_key_raw(source._raw))
    raw = source.lengths.cached(key, lambda: backend.from_numpy_raw(np.maximum(size.values - 1, 0), key[-1]))
    limit = tensor_of(raw, align.sig(size.dims), source.lengths)
    clipped = backend.combine(indices, "minimum", limit, allow_broadcast_all_sources=True)
    return clipped.like(backend.clip_raw(clipped._raw, 0, None))


MODES = ("sum", "mean", "max", "min")


class ScatterOps:
    """Raw part: `scatter_raw`."""

    scatter_raw: Callable[..., RawTensor]

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
            indices = _with_owners(cls, indices, over, source, join(source, indices))
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
            exact = EXACT.get(source.dtype) if mode == "mean" else None
            raw = cls.cast_raw(raw, exact) if exact else raw
            raw = cls.scatter_raw(raw, positions, len(batch), shape, mode, fill_value, len(features), padded)
            raw = cls.cast_raw(raw, source.dtype) if exact else raw
        except (IndexError, RuntimeError):
            check_range(cls, "scatter", indices, into, shape)
            raise
        signature = align.sig(
            [*batch, *into, *features],
            source.sparse_dim,
            source.feature_dim if source.feature_dim in features else None,
        )
        return tensor_of(raw, signature, lengths)


def _with_owners(
    backend: type[Backend], indices: Tensor, over: Sequence[Dim], source: Tensor, lengths: Lengths
) -> Tensor:
    """The indices repeated along dims that the lengths of `over` depend on, or the reverse: padding differs there."""
    for dim in over:
        size = lengths.size(dim) if dim.dimension is None else None
        for owner in () if size is None else size.dims:
            if owner not in indices.sig.index:
                indices = backend.expand_dim(indices, owner)
    for dim in inner_dims(source, over):
        if dim not in indices.sig.index:
            indices = backend.expand_dim(indices, dim)
            indices = tensor_of(indices._raw, indices.sig, lengths)
    return indices


def _beside_the_spare(backend: type[Backend], indices: Tensor, count: int) -> object:
    """The indices, with padding sent to the extra place `count`, which is discarded.
    Wrong indices of valid frames stay wrong."""
    raw = backend.cast_raw(indices._raw, "int64")
    raw = backend.combine_raw(raw, "add", backend.compare_raw(raw, "greater_equal", count))
    return backend.fill_padding(indices.like(raw), count)


class SortOps:
    """Raw part: `sort_raw(raw, axis, descending, stable)`, `search_sorted_raw(sorted, values, right)`."""

    sort_raw: Callable[[RawTensor, int, bool, bool], tuple[RawTensor, RawTensor]]
    search_sorted_raw: Callable[[RawTensor, RawTensor, bool], RawTensor]


class TopKOps:
    """Raw part: `top_k_raw(raw, axis, k, sorted)`, `best_raw(raw, k, exact)`, `lowest_raw(raw)`, `highest_raw(raw)`,
    `split_index_raw(index, sizes)`.
    """

    top_k_raw: Callable[[RawTensor, int, int, bool], tuple[RawTensor, RawTensor]]
    best_raw: Callable[[RawTensor, int, int], tuple[np.ndarray, np.ndarray]]
    lowest_raw: Callable[[RawTensor], RawTensor]
    highest_raw: Callable[[RawTensor], RawTensor]
    split_index_raw: Callable[[RawTensor, Sequence[int]], list[RawTensor]]

    @classmethod
    def top_k(
        cls: type[Backend],
        source: Tensor,
        *,
        axis: Dim | Sequence[Dim],
        k: int | Tensor,
        k_dim: Dim | None = None,
        sorted: bool = True,
    ) -> tuple[Tensor, Tensor | list[Tensor], Dim]:
        """The `k` largest over `axis`, their positions, and `k_dim`. {…, axis} → {…, k_dim}, the same sparse in axis

        Several axes are searched as one; for a list of dims, the positions are a list, one for each dim. Padding counts
        as -∞, so that it is only selected if nothing else is left. Places for which there is no entry get the lowest
        value, and position 0. The values of a Tensor `k` are read.
        """
        dims = (axis,) if isinstance(axis, Dim | int | str) else tuple(axis)
        places = [axis_of("top_k", source, dim) for dim in dims]
        require_owner_dims("top_k", source, dims)
        size = _count(cls, source, places, k)
        count, k_dim = size.max, k_dim or Dim(None if size.dims else size.max, name="top_k")
        padding = cls.padding_for(source, (*dims, *inner_dims(source, dims)))
        raw = source._raw
        if padding is not None:
            raw = cls.masked_fill_raw(raw, padding, cls.lowest_raw(raw))
        order, place = source.dims, places[0]
        sizes = [cls.get_shape_tuple_raw(raw)[i] for i in places]
        if len(dims) > 1:
            order = (*(d for d in source.dims if d not in dims), *dims)
            place = len(order) - len(dims)

        def as_one(raw: RawTensor) -> RawTensor:
            move = align.move(source.dims, order)
            return cls.merge_axes_raw(align.apply(move, raw), place, len(dims)) if len(dims) > 1 else raw

        available = min(count, math.prod(sizes))
        values, index = cls.top_k_raw(as_one(raw), place, available, sorted)
        if padding is not None and available > math.prod(size_in(source, dim).min for dim in dims):
            padding = as_one(cls.broadcast_raw(padding, cls.get_shape_tuple_raw(raw)))
            index = cls.masked_fill_raw(index, cls.gather_raw(padding, index, place, 1, False), 0)
        if available < count:
            extra = {place: (0, count - available)}
            values, index = cls.pad_raw(values, extra, cls.lowest_raw(raw)), cls.pad_raw(index, extra, 0)
        mark_beam(k_dim)
        lengths = bound(source.lengths, k_dim, size, "top_k")
        out = [*order[:place], k_dim, *order[place + len(dims) :]]
        feature = k_dim if source.feature_dim in dims else source.feature_dim

        def result(raw: RawTensor, sparse_dim: Dim | None, feature_dim: Dim | None = None) -> Tensor:
            return fitted(cls, tensor_of(raw, align.sig(out, sparse_dim, feature_dim), lengths), k_dim)

        best = result(values, source.sparse_dim, feature)
        if isinstance(axis, Dim):
            return best, result(index, dims[0]), k_dim
        parts = cls.split_index_raw(index, [max(size, 1) for size in sizes])
        return best, [result(part, dim) for part, dim in zip(parts, dims, strict=True)], k_dim


def _count(backend: type[Backend], source: Tensor, places: Sequence[int], k: int | Tensor) -> Size:
    """How many entries are selected, which differs between sequences for a Tensor."""
    if isinstance(k, Tensor):
        entries = math.prod(backend.get_shape_tuple_raw(source._raw)[place] for place in places)
        size = Size(k.dims, backend.numbers(k, entries))
    else:
        size = Size((), k)
    if size.min < 0:
        raise DimError("top_k: `k` is negative", got=size.min, expected="0 or more")
    return size
