"""Statistics over the real entries of a tensor: padding counts for nothing, NaN and Inf are counted and located.

The sums are made frame by frame where the tensor lives; only one number a frame travels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.display import options
from rfnb.display.data import Data, thin_mask, thinned, to_numpy
from rfnb.display.numbers import plain
from rfnb.display.schema import StatsView


@dataclass
class Frames:
    """One number of each kind per frame, as float64; `inner` entries went into each."""

    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    var: np.ndarray
    inner: int


def describe_stats(data: Data) -> StatsView | None:
    """None if there is nothing to count."""
    if data.entries == 0:
        return None
    where = thinned(data.shape, options.SAMPLE_ENTRIES) if data.entries > options.EXACT_ENTRIES else None
    raw = data.raw if where is None else data.raw[where]
    mask = data.mask() if where is None else thin_mask(data.mask(), where)
    stats = _summary(raw if data.axes else raw.reshape(1), mask)
    if stats is None:
        return None
    first = stats.pop("first")
    first = first if data.axes or first is None else ()
    if where is not None:
        stats["nan"], stats["inf"], first = _everywhere(data)
    return {  # type: ignore[return-value]
        **stats,
        "first_bad": None if first is None else place_of(data, first),
        "sampled": stats["count"] if where is not None else None,
        "histogram": histogram(raw, mask, stats["min"], stats["max"]),
    }


def place_of(data: Data, index: tuple[int, ...]) -> str:
    """In words: "batch 3 ('banana'), time 7"."""
    parts = []
    for axis, i in zip(data.axes, index, strict=True):
        tag = f" ({axis.tags[i]!r})" if axis.tags is not None and i < len(axis.tags) else ""
        parts.append(f"{axis.dim.name} {i}{tag}")
    return ", ".join(parts) or "the value"


def histogram(raw: Any, mask: np.ndarray | None, low: object, high: object) -> list[int] | None:
    """How many entries (of a sample) are in each of a few equal steps from `low` to `high`."""
    if not isinstance(low, int | float) or not isinstance(high, int | float) or not low < high:
        return None
    where = thinned(tuple(raw.shape), options.HISTOGRAM_ENTRIES)
    values = to_numpy(raw[where]).astype(np.float64)
    thin = thin_mask(mask, where)
    if thin is not None:
        values = values[np.broadcast_to(thin, values.shape)]
    counts, _ = np.histogram(values[np.isfinite(values)], bins=options.HISTOGRAM_BINS, range=(low, high))
    return [int(n) for n in counts]


def _everywhere(data: Data) -> tuple[int, int, tuple[int, ...] | None]:
    """How many entries of a large tensor are NaN, how many Inf, and the first; sums tell which frames to look at."""
    if data.entries > options.FINITE_ENTRIES or not data.axes:
        return 0, 0, None
    mask = data.mask()
    raw = data.raw if not hasattr(data.raw, "detach") or data.raw.is_floating_point() else data.raw.double()
    inner = _inner_axes(data.shape, mask)
    with np.errstate(all="ignore"):
        sums = raw.sum(dim=inner, keepdim=True) if hasattr(raw, "detach") else np.sum(raw, axis=inner, keepdims=True)
    bad = ~np.isfinite(to_numpy(sums)) & (True if mask is None else mask)
    if not bad.any():
        return 0, 0, None
    at = tuple(
        axis[: options.SAMPLE_ENTRIES // max(1, math.prod(data.shape[i] for i in inner)) + 1]
        for axis in np.nonzero(bad)
    )
    rows = _rows(raw, tuple(i for i in range(bad.ndim) if i not in inner), inner, at)
    finite = np.isfinite(rows)
    nan = int(np.isnan(rows).sum())
    return nan, int((~finite).sum()) - nan, _first(raw, inner, at, finite)


def _summary(raw: Any, mask: np.ndarray | None) -> dict[str, Any] | None:
    raw = _floating(raw)
    inner = _inner_axes(tuple(raw.shape), mask)
    frames = _frames(raw, inner)
    real = np.broadcast_to(True if mask is None else mask, frames.mean.shape)
    bad = real & ~(np.isfinite(frames.mean) & np.isfinite(frames.var))
    nan = inf = 0
    first = None
    weights = np.where(real, float(frames.inner), 0.0)
    if bad.any():
        nan, inf, first = _mend(raw, inner, frames, bad, weights)
    total = weights.sum()
    count = int(real.sum()) * frames.inner
    if count == 0:
        return None
    seen = weights > 0
    if not seen.any():
        return {**_moments("nan"), "count": count, "nan": nan, "inf": inf, "first": first}
    mean = float((np.where(seen, frames.mean, 0) * weights).sum() / total)
    spread = np.where(seen, frames.var + (frames.mean - mean) ** 2, 0)
    return {
        "count": count,
        "min": plain(frames.low[seen].min()),
        "mean": plain(mean),
        "max": plain(frames.high[seen].max()),
        "std": plain(math.sqrt((spread * weights).sum() / total)),
        "nan": nan,
        "inf": inf,
        "first": first,
    }


def _moments(value: Any) -> dict[str, Any]:
    return {"min": value, "mean": value, "max": value, "std": value}


def _inner_axes(shape: tuple[int, ...], mask: np.ndarray | None) -> tuple[int, ...]:
    """The axes that a frame consists of: those that the mask does not know, or the last one."""
    if mask is None:
        return (len(shape) - 1,) if shape else ()
    return tuple(i for i, size in enumerate(mask.shape) if size == 1 and shape[i] != 1)


def _floating(raw: Any) -> Any:
    if hasattr(raw, "detach"):
        if not raw.is_floating_point():
            return raw.double()
        return raw.float() if raw.dtype.itemsize < 4 else raw
    return raw if raw.dtype in (np.float32, np.float64) else raw.astype(np.float64)


def _frames(raw: Any, inner: tuple[int, ...]) -> Frames:
    count = math.prod(raw.shape[i] for i in inner)
    if not inner:
        values = to_numpy(raw).astype(np.float64)
        return Frames(values, values, values.copy(), np.where(np.isfinite(values), 0.0, np.nan), 1)
    with np.errstate(all="ignore"):
        if hasattr(raw, "detach"):
            mean = raw.mean(dim=inner, keepdim=True)
            var = _variance(raw, mean, inner, count)
            low, high = raw.amin(dim=inner, keepdim=True), raw.amax(dim=inner, keepdim=True)
        else:
            mean, var = raw.mean(axis=inner, keepdims=True), raw.var(axis=inner, keepdims=True)
            low, high = raw.min(axis=inner, keepdims=True), raw.max(axis=inner, keepdims=True)
    low, high, mean, var = (to_numpy(part).astype(np.float64) for part in (low, high, mean, var))
    return Frames(low, high, mean, var, count)


def _variance(raw: Any, mean: Any, inner: tuple[int, ...], count: int) -> Any:
    """The mean square less the square of the mean: quicker by far; the slow way where too few digits would be left."""
    square = raw.norm(dim=inner, keepdim=True).square() / max(1, count)
    var = square - mean.square()
    if bool((var < 0.01 * square).any()):
        return raw.var(dim=inner, keepdim=True, correction=0)
    return var


def _mend(
    raw: Any, inner: tuple[int, ...], frames: Frames, bad: np.ndarray, weights: np.ndarray
) -> tuple[int, int, tuple[int, ...] | None]:
    """Makes the numbers of bad frames again from their finite entries; counts the others, and tells the first."""
    outer = tuple(i for i in range(bad.ndim) if i not in inner)
    at = np.nonzero(bad)
    rows = _rows(raw, outer, inner, at)
    finite = np.isfinite(rows)
    counts = finite.sum(axis=1)
    with np.errstate(all="ignore"):
        values = np.where(finite, rows, 0.0).astype(np.float64)
        mean = values.sum(axis=1) / np.maximum(counts, 1)
        frames.mean[at] = mean
        frames.var[at] = (np.where(finite, values - mean[:, None], 0) ** 2).sum(axis=1) / np.maximum(counts, 1)
    frames.low[at] = np.where(finite, rows, np.inf).min(axis=1)
    frames.high[at] = np.where(finite, rows, -np.inf).max(axis=1)
    weights[at] = counts
    nan = int(np.isnan(rows).sum())
    inf = int((~finite).sum()) - nan
    return nan, inf, _first(raw, inner, at, finite)


def _rows(raw: Any, outer: tuple[int, ...], inner: tuple[int, ...], found: tuple[np.ndarray, ...]) -> np.ndarray:
    """The chosen frames, one a row; `found` are their positions, as from `np.nonzero`."""
    at = [found[i] for i in outer]
    ordered = raw.permute(*outer, *inner) if hasattr(raw, "detach") else raw.transpose(*outer, *inner)
    rows = to_numpy(ordered[tuple(at)]) if at else to_numpy(ordered)[None]
    return rows.reshape(max(1, len(at[0]) if at else 1), -1)


def _first(raw: Any, inner: tuple[int, ...], at: tuple[np.ndarray, ...], finite: np.ndarray) -> tuple[int, ...] | None:
    hit = np.nonzero(~finite.all(axis=1))[0]
    if not len(hit):
        return None
    index = [int(axis[hit[0]]) for axis in at]
    inside = np.unravel_index(int(np.argmin(finite[hit[0]])), tuple(raw.shape[i] for i in inner)) if inner else ()
    for i, position in zip(inner, inside, strict=True):
        index[i] = int(position)
    return tuple(index)
