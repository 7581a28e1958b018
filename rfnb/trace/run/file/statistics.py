"""Statistics of a tensor, without padding."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import reduce
from typing import NamedTuple

import numpy as np

from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.run.entries import frames, numbers


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
        found = map(backend.to_numpy_raw, (flat[i : i + FETCHED] for i in range(0, flat.shape[0], FETCHED)))
    else:
        entries = numbers(tensor)
        found = map(np.asarray, [entries[np.broadcast_to(real, entries.shape)]])
    for entries in found:
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


NOTHING = Statistics(0, math.nan, math.nan, math.nan, math.nan, 0, 0)
"""Of no entries."""


def _together(a: Statistics, b: Statistics) -> Statistics:
    """The statistics of all entries of both (Chan, Golub, LeVeque 1979: Updating formulae for sample variances)."""
    n, m = (each.entries - each.nan - each.inf for each in (a, b))
    if n == 0 or m == 0:
        low, mean, high, std = (b if n == 0 else a)[1:5]
    else:
        low, high, away, share = min(a.min, b.min), max(a.max, b.max), b.mean - a.mean, m / (n + m)
        mean = a.mean + away * share
        std = math.sqrt((n * a.std**2 + m * b.std**2) / (n + m) + away**2 * share * (1 - share))
    return Statistics(a.entries + b.entries, low, mean, high, std, a.nan + b.nan, a.inf + b.inf)
