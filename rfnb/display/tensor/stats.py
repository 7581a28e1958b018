"""Statistics over the real entries of a tensor: padding is ignored, NaN and Inf are counted and located.

They are sums over frames, computed on the device of the tensor; only one number per frame is copied. A frame consists
of the axes that the mask does not depend on: the features of one step of one sequence.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from rfnb.core.ground.defaults import is_int_dtype
from rfnb.core.tensor.tensor import RawTensor
from rfnb.display.kit import options
from rfnb.display.kit.data import Data, real_entries, thin_mask, thinned, to_numpy
from rfnb.display.markup.numbers import Number, plain
from rfnb.display.tensor.schema import BadView, PaddingView, StatsView, TensorStats

Index = tuple[int, ...]

KINDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"NaN": np.isnan, "+Inf": np.isposinf, "−Inf": np.isneginf}
"""Tests for entries that are not finite, by their name in views."""


@dataclass
class Bad:
    """The number of entries that are not finite in one way, and the index of the first."""

    count: int
    first: Index


@dataclass
class FrameSums:
    """Statistics of each frame as float64, of size 1 along the axes `inner`; each frame has `entries` entries.

    peak: the largest absolute value; NaN and Inf where a frame has some. weights: number of finite real entries.
    bad: entries that are not finite, by kind. wrong: their number in each frame, by kind.
    """

    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    var: np.ndarray
    peak: np.ndarray
    real: np.ndarray
    weights: np.ndarray
    inner: Index
    entries: int
    bad: dict[str, Bad] = field(default_factory=dict)
    wrong: dict[str, np.ndarray] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of real entries."""
        return int(self.real.sum()) * self.entries


def frames_of(raw: RawTensor, mask: np.ndarray | None, sequences: int | None = None) -> FrameSums:
    """The frames of a raw tensor, separated along the axis `sequences` if possible."""
    raw = floating(raw)
    inner = inner_axes(tuple(raw.shape), mask, sequences)
    frames = _sums(raw, inner)
    frames.real = np.broadcast_to(True if mask is None else mask, frames.mean.shape)
    frames.weights = np.where(frames.real, float(frames.entries), 0.0)
    bad = frames.real & ~(np.isfinite(frames.mean) & np.isfinite(frames.var))
    if bad.any():
        _mend(raw, frames, bad)
    return frames


def inner_axes(shape: tuple[int, ...], mask: np.ndarray | None, sequences: int | None = None) -> Index:
    """The axes of a frame: those that the mask does not depend on, or the last axis."""
    if mask is not None:
        return tuple(i for i, size in enumerate(mask.shape) if size == 1 and shape[i] != 1)
    return tuple([i for i in range(len(shape)) if i != sequences][-1:])


def floating(raw: RawTensor) -> RawTensor:
    """The raw tensor in a floating-point type that can be summed."""
    if hasattr(raw, "detach"):
        if not raw.is_floating_point():
            return raw.double()
        return raw.float() if raw.dtype.itemsize < 4 else raw
    return raw if raw.dtype in (np.float32, np.float64) else raw.astype(np.float64)


def reduced(raw: RawTensor, how: str, axes: Index) -> RawTensor:
    """The "mean", "sum", "amin", "amax" … over axes, which keep size 1."""
    if hasattr(raw, "detach"):
        return getattr(raw, how)(dim=axes, keepdim=True)
    return getattr(np, how)(raw, axis=axes, keepdims=True)


def rows_at(raw: RawTensor, inner: Index, positions: tuple[np.ndarray, ...]) -> np.ndarray:
    """The chosen frames, one per row; `positions` are theirs, as returned by `np.nonzero`."""
    outer = tuple(i for i in range(len(positions)) if i not in inner)
    at = [positions[i] for i in outer]
    ordered = raw.permute(*outer, *inner) if hasattr(raw, "detach") else raw.transpose(*outer, *inner)
    rows = to_numpy(ordered[tuple(at)]) if at else to_numpy(ordered)[None]
    return rows.reshape(max(1, len(at[0]) if at else 1), -1)


def located(rows: np.ndarray, shape: tuple[int, ...], inner: Index, at: tuple[np.ndarray, ...]) -> dict[str, Bad]:
    """Entries that are not finite in the rows, which are the frames `at` of a tensor of this shape."""
    bad = {}
    for word, test in KINDS.items():
        hit = test(rows)
        if hit.any():
            bad[word] = Bad(int(hit.sum()), _first(hit, shape, inner, at))
    return bad


def _sums(raw: RawTensor, inner: Index) -> FrameSums:
    count = math.prod(raw.shape[i] for i in inner)
    empty = np.zeros(0)
    if not inner:
        values = to_numpy(raw).astype(np.float64)
        var = np.where(np.isfinite(values), 0.0, np.nan)
        return FrameSums(values, values.copy(), values.copy(), var, np.abs(values), empty, empty, inner, 1)
    with np.errstate(all="ignore"):
        mean, low, high = (reduced(raw, how, inner) for how in ("mean", "amin", "amax"))
        var = _variance(raw, mean, inner, count) if hasattr(raw, "detach") else reduced(raw, "var", inner)
    low, high, mean, var = (to_numpy(part).astype(np.float64) for part in (low, high, mean, var))
    return FrameSums(low, high, mean, var, np.maximum(high, -low), empty, empty, inner, count)


def _variance(raw: RawTensor, mean: RawTensor, inner: Index, count: int) -> RawTensor:
    """The mean square minus the squared mean, which is faster; the exact way if too few digits would remain."""
    square = raw.norm(2, dim=inner, keepdim=True).square() / max(1, count)
    var = square - mean.square()
    if bool((var < 0.01 * square).any()):
        return raw.var(dim=inner, keepdim=True, correction=0)
    return var


def _mend(raw: RawTensor, frames: FrameSums, bad: np.ndarray) -> None:
    """Recomputes the statistics of frames with NaN or Inf from their finite entries; counts and locates the others."""
    at = np.nonzero(bad)
    rows = rows_at(raw, frames.inner, at)
    finite = np.isfinite(rows)
    counts = finite.sum(axis=1)
    with np.errstate(all="ignore"):
        values = np.where(finite, rows, 0.0).astype(np.float64)
        mean = values.sum(axis=1) / np.maximum(counts, 1)
        frames.mean[at] = mean
        frames.var[at] = (np.where(finite, values - mean[:, None], 0) ** 2).sum(axis=1) / np.maximum(counts, 1)
    frames.low[at] = np.where(finite, rows, np.inf).min(axis=1)
    frames.high[at] = np.where(finite, rows, -np.inf).max(axis=1)
    frames.weights[at] = counts
    frames.bad = located(rows, tuple(raw.shape), frames.inner, at)
    for word in frames.bad:
        frames.wrong[word] = np.zeros(bad.shape, np.int64)
        frames.wrong[word][at] = KINDS[word](rows).sum(axis=1)


def _first(hit: np.ndarray, shape: tuple[int, ...], inner: Index, at: tuple[np.ndarray, ...]) -> Index:
    row = int(np.argmax(hit.any(axis=1)))
    index = [int(axis[row]) for axis in at]
    positions = np.unravel_index(int(np.argmax(hit[row])), tuple(shape[i] for i in inner)) if inner else ()
    for i, position in zip(inner, positions, strict=True):
        index[i] = int(position)
    return tuple(index)


@dataclass
class Measured:
    """Statistics of a tensor, or of a sample of it: every n-th entry, as given by `where`."""

    data: Data
    raw: RawTensor
    mask: np.ndarray | None
    where: tuple[slice, ...] | None
    frames: FrameSums
    bad: dict[str, Bad]
    masked: int = 0


def measure(data: Data, *, closely: bool = True) -> Measured | None:
    """Measures a tensor; None if it has no real entries.

    closely: if False, statistics come from a small sample; NaN and Inf are still counted in all entries."""
    if data.entries == 0:
        return None
    exact, limit = (options.EXACT_ENTRIES, options.SAMPLE_ENTRIES) if closely else [options.SKETCH_ENTRIES] * 2
    where = thinned(data.shape, limit) if data.entries > exact else None
    raw = data.raw if where is None else data.raw[where]
    mask = data.mask() if where is None else thin_mask(data.mask(), where)
    raw = raw if data.axes else raw.reshape(1)
    frames = frames_of(raw, mask, data.sequence_axis())
    if frames.count == 0:
        return None
    measured = Measured(data, raw, mask, where, frames, frames.bad if where is None else _everywhere(data))
    if "−Inf" in measured.bad and is_masked(data, data.raw, data.mask()):
        measured.masked = measured.bad.pop("−Inf").count
    return measured


def stats_of(measured: Measured, seen: np.ndarray) -> StatsView:
    """The statistics that every view shows; `seen` is a sample for the histogram."""
    nan = measured.bad["NaN"].count if "NaN" in measured.bad else 0
    first = min((bad.first for bad in measured.bad.values()), default=None)
    values = moments(measured.frames)
    return {
        "count": measured.frames.count,
        **values,  # type: ignore[typeddict-item]
        "nan": nan,
        "inf": sum(bad.count for bad in measured.bad.values()) - nan,
        "first_bad": None if first is None else place_of(measured.data, first),
        "sampled": measured.frames.count if measured.where is not None else None,
        "histogram": _histogram(seen, values["min"], values["max"]),
    }


def tensor_stats(measured: Measured) -> TensorStats:
    """The statistics that the view of a tensor shows."""
    subset = sample(measured)
    stats, dtype = stats_of(measured, subset), measured.data.dtype
    integral = is_int_dtype(dtype)
    return {
        **stats,
        "bad": [_bad(measured.data, word, bad) for word, bad in measured.bad.items()],
        "masked": measured.masked,
        "zeros": _zeros(subset, measured.frames.count),
        "unique": len(np.unique(subset)) if integral else None,
        "true": round(float(stats["mean"]) * stats["count"]) if dtype == "bool" else None,
        "entries": measured.data.entries,
        "padding": None if integral or dtype == "bool" else _padding(measured.frames),
    }


def same(stats: TensorStats) -> bool:
    """Whether all finite entries are equal."""
    return stats["min"] == stats["max"]


def sample(measured: Measured) -> np.ndarray:
    """A fixed sample of the finite real entries; all of them if there are few."""
    where = thinned(tuple(measured.raw.shape), options.HISTOGRAM_ENTRIES)
    values = to_numpy(measured.raw[where])
    values = real_entries(values, thin_mask(measured.mask, where))
    return values[np.isfinite(values)]


def _zeros(seen: np.ndarray, of: int) -> float:
    """The share of zeros; below 1 for a sample, which cannot prove that all entries are zero."""
    share = float((seen == 0).mean()) if seen.size else 0.0
    return min(share, 0.999) if seen.size < of else share


def place_of(data: Data, index: tuple[int, ...]) -> str:
    """A position in words: "batch 3 ('banana'), time 7"."""
    parts = []
    for axis, i in zip(data.axes, index, strict=False):  # a scalar has no axis
        tag = f" ({axis.tags[i]!r})" if axis.tags is not None and i < len(axis.tags) else ""
        parts.append(f"{axis.dim.name} {i}{tag}")
    return ", ".join(parts) or "the value"


def _bad(data: Data, word: str, bad: Bad) -> BadView:
    return {"word": word, "count": bad.count, "first": place_of(data, bad.first)}  # type: ignore[typeddict-item]


def moments(frames: FrameSums) -> dict[str, Number]:
    """Minimum, mean, maximum and deviation of the finite entries; "nan" if there are none."""
    mask = frames.weights > 0
    if not mask.any():
        return dict.fromkeys(("min", "mean", "max", "std"), "nan")
    mean, std = _mean_and_std(frames, mask, frames.weights)
    low, high = frames.low[mask].min(), frames.high[mask].max()
    return {"min": plain(low), "mean": plain(mean), "max": plain(high), "std": plain(std)}


def _mean_and_std(frames: FrameSums, seen: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    total = weights.sum()
    with np.errstate(all="ignore"):
        mean = float((np.where(seen, frames.mean, 0) * weights).sum() / total)
        spread = np.where(seen, frames.var + (frames.mean - mean) ** 2, 0)
        return mean, math.sqrt((spread * weights).sum() / total)


def _padding(frames: FrameSums) -> PaddingView | None:
    """How padding would change mean and deviation; None if there is no padding, or only zeros."""
    if frames.real.all():
        return None
    behind = ~frames.real
    with np.errstate(all="ignore"):
        zero = (frames.low[behind] == 0).all() and (frames.high[behind] == 0).all()
    if zero:
        return None
    finite = np.isfinite(frames.mean) & np.isfinite(frames.var)
    weights = np.where(frames.real, frames.weights, np.where(finite, float(frames.entries), 0.0))
    if not weights.any():
        return None
    mean, std = _mean_and_std(frames, weights > 0, weights)
    bad = np.isnan(frames.low) | np.isnan(frames.high) | np.isposinf(frames.high)  # −Inf is what masks leave there
    return {"mean": plain(mean), "std": plain(std), "bad": bool(bad[behind].any())}


def _histogram(seen: np.ndarray, low: object, high: object) -> list[int] | None:
    """Histogram with equal bins from `low` to `high`."""
    if not isinstance(low, int | float) or not isinstance(high, int | float) or not low < high:
        return None
    edges = np.linspace(low, high, options.HISTOGRAM_BINS + 1)[1:-1]
    bins = np.searchsorted(edges, seen.astype(np.float64), side="right")  # np.histogram takes longer for few entries
    counts: list[int] = np.bincount(bins, minlength=options.HISTOGRAM_BINS).tolist()
    return counts


def _everywhere(data: Data) -> dict[str, Bad]:
    """Entries of a large tensor that are not finite; sums show which frames to search."""
    if data.entries > options.FINITE_ENTRIES:
        return {}
    mask = data.mask()
    raw = data.raw if not hasattr(data.raw, "detach") or data.raw.is_floating_point() else data.raw.double()
    inner = inner_axes(data.shape, mask, data.sequence_axis())
    with np.errstate(all="ignore"):
        sums = reduced(raw, "sum", inner)
    bad = ~np.isfinite(to_numpy(sums)) & (True if mask is None else mask)
    if not bad.any():
        return {}
    limit = options.SAMPLE_ENTRIES // max(1, math.prod(data.shape[i] for i in inner)) + 1
    at = tuple(axis[:limit] for axis in np.nonzero(bad))
    return located(rows_at(raw, inner, at), data.shape, inner, at)


ENTRIES = 16_000_000
"""Largest number of entries searched for a mask; of larger tensors only some sequences are searched."""

FEW = 3
"""Fewest −Inf entries that count as a mask; fewer could form its shape by chance."""


def is_masked(data: Data, raw: RawTensor, mask: np.ndarray | None) -> bool:
    """Whether all −Inf entries of `raw` form a mask.

    They do if they are above a diagonal, left of a band, after the ends of sequences, or at the same labels in all
    frames.
    """
    if not data.axes:
        return False
    raw, mask = _some(raw, mask)
    hit = raw == -np.inf
    hit = hit.cpu().numpy() if hasattr(hit, "cpu") else hit
    real = np.broadcast_to(True if mask is None else mask, hit.shape)
    for i, axis in enumerate(data.axes):
        if axis.dim.vocab is not None and _same_labels(np.moveaxis(hit, i, -1), np.moveaxis(real, i, -1)):
            return True
    if hit.ndim < 2 or int((hit & real).sum()) < FEW:
        return False
    rows, cols = _square(data)
    return any(
        _behind_diagonal_or_end(np.moveaxis(hit, pair, (-2, -1)), np.moveaxis(real, pair, (-2, -1)))
        for pair in ((rows, cols), (cols, rows))
    )


def _some(raw: RawTensor, mask: np.ndarray | None) -> tuple[object, np.ndarray | None]:
    for axis in range(len(raw.shape) - 2):
        while math.prod(raw.shape) > ENTRIES and raw.shape[axis] > 1:
            half = (slice(None),) * axis + (slice(0, raw.shape[axis] // 2),)
            raw, mask = raw[half], mask if mask is None or mask.shape[axis] == 1 else mask[half]
    return raw, mask


def _same_labels(hit: np.ndarray, real: np.ndarray) -> bool:
    labels = (hit & real).reshape(-1, hit.shape[-1]).any(axis=0)
    return bool(not labels.all() and ((hit == labels) | ~real).all())


def _square(data: Data) -> tuple[int, int]:
    """The two axes of an attention mask."""
    axes = [i for i in range(len(data.axes)) if i != data.sequence_axis()]
    moving = [i for i in axes if data.axes[i].moves]
    rows, cols = moving if len(moving) == 2 else (len(data.axes) - 2, len(data.axes) - 1)
    return rows, cols


def _behind_diagonal_or_end(hit: np.ndarray, real: np.ndarray) -> bool:
    """[…, rows, cols]: whether each row is finite from the same kind of beginning to the same kind of end."""
    high, wide = hit.shape[-2:]
    hit, real = hit.reshape(-1, high, wide), real.reshape(-1, high, wide)
    columns = (~hit & real).any(axis=1)  # [sequence, cols]
    ends = np.where(columns.any(axis=1), wide - np.argmax(columns[:, ::-1], axis=1), 0)
    tail = np.arange(wide) >= ends[:, None, None]
    inner = hit & ~tail & real
    if not inner.any():
        lengths = ends[real.any(axis=(1, 2))]
        return len(set(lengths.tolist())) > 1 and bool(lengths.all())
    return any(bool(((inner == (band & ~tail)) | ~real).all()) for band in _bands(inner))


def _bands(inner: np.ndarray) -> list[np.ndarray]:
    """Causal masks, also with a limited context to the left, that may explain the entries."""
    high, wide = inner.shape[-2:]
    ahead = np.arange(wide) - np.arange(high)[:, None]
    bands = []
    for offset in {0, wide - high}:
        future = ahead > offset
        distances = ahead[inner.any(axis=0) & ~future]
        if future.any():
            bands.append(future if not distances.size else future | (ahead <= distances.max()))
    return bands
