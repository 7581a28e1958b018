"""Sums over the frames of a tensor, computed on its device; only one number per frame is copied.

A frame consists of the axes that the mask does not depend on: the features of one step of one sequence. NaN and Inf
are left out of the sums, counted and located.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rfnb.display.kit.data import to_numpy

Index = tuple[int, ...]

KINDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {"NaN": np.isnan, "+Inf": np.isposinf, "−Inf": np.isneginf}
"""Tests for entries that are not finite, by their name in views."""


@dataclass
class Bad:
    """The number of entries that are not finite in one way, and the index of the first."""

    count: int
    first: Index


@dataclass
class Frames:
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


def frames_of(raw: Any, mask: np.ndarray | None, sequences: int | None = None) -> Frames:
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


def floating(raw: Any) -> Any:
    """The raw tensor in a floating-point type that can be summed."""
    if hasattr(raw, "detach"):
        if not raw.is_floating_point():
            return raw.double()
        return raw.float() if raw.dtype.itemsize < 4 else raw
    return raw if raw.dtype in (np.float32, np.float64) else raw.astype(np.float64)


def reduced(raw: Any, how: str, axes: Index) -> Any:
    """The "mean", "sum", "amin", "amax" … over axes, which keep size 1."""
    if hasattr(raw, "detach"):
        return getattr(raw, how)(dim=axes, keepdim=True)
    return getattr(np, how)(raw, axis=axes, keepdims=True)


def rows_at(raw: Any, inner: Index, found: tuple[np.ndarray, ...]) -> np.ndarray:
    """The chosen frames, one per row; `found` are their positions, as returned by `np.nonzero`."""
    outer = tuple(i for i in range(len(found)) if i not in inner)
    at = [found[i] for i in outer]
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


def _sums(raw: Any, inner: Index) -> Frames:
    count = math.prod(raw.shape[i] for i in inner)
    empty = np.zeros(0)
    if not inner:
        values = to_numpy(raw).astype(np.float64)
        var = np.where(np.isfinite(values), 0.0, np.nan)
        return Frames(values, values.copy(), values.copy(), var, np.abs(values), empty, empty, inner, 1)
    with np.errstate(all="ignore"):
        mean, low, high = (reduced(raw, how, inner) for how in ("mean", "amin", "amax"))
        var = _variance(raw, mean, inner, count) if hasattr(raw, "detach") else reduced(raw, "var", inner)
    low, high, mean, var = (to_numpy(part).astype(np.float64) for part in (low, high, mean, var))
    return Frames(low, high, mean, var, np.maximum(high, -low), empty, empty, inner, count)


def _variance(raw: Any, mean: Any, inner: Index, count: int) -> Any:
    """The mean square minus the squared mean, which is faster; the exact way if too few digits would remain."""
    square = raw.norm(dim=inner, keepdim=True).square() / max(1, count)
    var = square - mean.square()
    if bool((var < 0.01 * square).any()):
        return raw.var(dim=inner, keepdim=True, correction=0)
    return var


def _mend(raw: Any, frames: Frames, bad: np.ndarray) -> None:
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
