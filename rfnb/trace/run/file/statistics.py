"""Statistics of a tensor, without padding."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.run.entries import frames, numbers
from rfnb.trace.run.file.raws import stacked


class Statistics(NamedTuple):
    """The number of entries; minimum, mean, maximum and standard deviation of the finite ones; NaN and Inf counts."""

    entries: int
    min: float
    mean: float
    max: float
    std: float
    nan: int
    inf: int

    def words(self) -> str:
        """The statistics as text: "12 entries, -1 … 3, μ 0.2, σ 1.1, 2 NaN"."""
        parts = [f"{int(self.entries):,} entries"]
        parts += [f"{self.min:.4g} … {self.max:.4g}, μ {self.mean:.4g}, σ {self.std:.4g}"] if self.entries else []
        return ", ".join([*parts, *(f"{int(n):,} {name}" for n, name in ((self.nan, "NaN"), (self.inf, "Inf")) if n)])


TOGETHER = 2**12
"""Largest number of entries of tensors whose statistics are computed together."""

FETCHED, PART = 2**22, 2**16
"""Number of entries that are copied together, which bounds the memory, and that are looked at together, which fit into
the cache of a processor."""


def statistics(tensor: Tensor) -> Statistics:
    """Computes the statistics of a tensor without padding; complex numbers by their absolute values."""
    return reduce(_together, (_part(entries) for entries in _parts(tensor)), NOTHING)


def _parts(tensor: Tensor) -> Iterator[np.ndarray]:
    raw, real = tensor._raw, frames(tensor)
    backend = backend_of_raw(raw)
    if real.all():
        flat = backend.reshape_raw(raw, [math.prod(backend.get_shape_tuple_raw(raw))])
        arrays = map(backend.to_numpy_raw, (flat[i : i + FETCHED] for i in range(0, flat.shape[0], FETCHED)))
    else:
        entries = numbers(tensor)
        arrays = map(np.asarray, [entries[np.broadcast_to(real, entries.shape)]])
    for entries in arrays:
        yield from (entries[i : i + PART] for i in range(0, entries.size, PART))


def _part(entries: np.ndarray) -> Statistics:
    values = np.abs(entries) if entries.dtype.kind == "c" else entries.astype(np.float64)
    low, high = values.min(), values.max()
    if math.isfinite(low) and math.isfinite(high):  # else there is NaN or Inf, or both
        finite, nan = values, 0
    else:
        finite, nan = values[np.isfinite(values)], int(np.isnan(values).sum())
    inf = values.size - finite.size - nan
    if not finite.size:
        return Statistics(values.size, np.nan, np.nan, np.nan, np.nan, nan, inf)
    mean = finite.mean()
    away = finite - mean
    std = math.sqrt(np.square(away, out=away).mean())  # no dot product, whose threads would wait for each other
    return Statistics(values.size, float(finite.min()), float(mean), float(finite.max()), std, nan, inf)


def statistics_table(values: Sequence[Tensor] | Sequence[float]) -> np.ndarray:
    """The statistics of tensors of one dtype, a row each: of small ones with the same shape together; or of numbers."""
    first = values[0]
    if not isinstance(first, Tensor):
        return _rows(np.array(values, np.float64)[:, None])
    tensors: Any = values
    entries = math.prod(first._raw.shape)
    is_small = len(tensors) > 1 and 0 < entries <= TOGETHER and not first.dtype.startswith("complex")
    if not is_small or any(tensor.lengths.ragged or tensor._raw.shape != first._raw.shape for tensor in tensors):
        return np.array([statistics(tensor) for tensor in tensors], np.float64)
    stack = stacked([tensor._raw for tensor in tensors])
    return _rows(backend_of_raw(stack).to_numpy_raw(stack).reshape(len(tensors), entries).astype(np.float64))


def _rows(values: np.ndarray) -> np.ndarray:
    """The statistics of each row."""
    finite, entries = np.isfinite(values).all(axis=1), values.shape[1]
    table = np.zeros((len(values), len(Statistics._fields)))
    for at in np.flatnonzero(~finite):
        table[at] = _part(values[at])
    values = values[finite]
    mean = values.mean(axis=1)
    std = np.sqrt(np.square(values - mean[:, None]).mean(axis=1))
    table[finite, :5] = np.stack([np.full(len(mean), entries), values.min(axis=1), mean, values.max(axis=1), std], 1)
    return table


NOTHING = Statistics(0, math.nan, math.nan, math.nan, math.nan, 0, 0)
"""The statistics of a tensor without entries."""


def _together(a: Statistics, b: Statistics) -> Statistics:
    """The statistics of all entries of both (Chan, Golub, LeVeque 1979: Updating formulae for sample variances)."""
    n, m = (part.entries - part.nan - part.inf for part in (a, b))
    if n == 0 or m == 0:
        low, mean, high, std = (b if n == 0 else a)[1:5]
    else:
        low, high, away, share = min(a.min, b.min), max(a.max, b.max), b.mean - a.mean, m / (n + m)
        mean = a.mean + away * share
        std = math.sqrt((n * a.std**2 + m * b.std**2) / (n + m) + away**2 * share * (1 - share))
    return Statistics(a.entries + b.entries, low, mean, high, std, a.nan + b.nan, a.inf + b.inf)
