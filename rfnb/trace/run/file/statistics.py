"""Statistics of a tensor, without padding."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

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


PART = 2**22
"""Number of entries that are looked at together, which bounds the memory."""


def statistics(tensor: Tensor) -> Statistics:
    """Computes the statistics of a tensor without padding; complex numbers by their absolute values."""
    entries, real = numbers(tensor), frames(tensor)
    entries = entries.reshape(-1) if real.all() else entries[np.broadcast_to(real, entries.shape)]
    parts = [_part(entries[start : start + PART]) for start in range(0, max(entries.size, 1), PART)]
    found = parts[0]
    for part in parts[1:]:
        found = _together(found, part)
    return found


def _part(entries: np.ndarray) -> Statistics:
    values = np.abs(entries) if entries.dtype.kind == "c" else entries.astype(np.float64)
    usable = np.isfinite(values)
    finite = values if usable.all() else values[usable]
    low, mean, high, std = (finite.min(), finite.mean(), finite.max(), finite.std()) if finite.size else [np.nan] * 4
    nan = 0 if finite is values else int(np.isnan(values).sum())
    inf = values.size - finite.size - nan
    return Statistics(values.size, float(low), float(mean), float(high), float(std), nan, inf)


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
