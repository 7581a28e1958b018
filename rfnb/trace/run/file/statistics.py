"""Statistics of a tensor, without padding."""

from __future__ import annotations

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


def statistics(tensor: Tensor) -> Statistics:
    """Computes the statistics of a tensor without padding; complex numbers by their absolute values."""
    entries = numbers(tensor)
    values = np.abs(entries) if entries.dtype.kind == "c" else entries.astype(np.float64)
    values = values[np.broadcast_to(frames(tensor), values.shape)]
    finite = values[np.isfinite(values)]
    low, mean, high, std = (finite.min(), finite.mean(), finite.max(), finite.std()) if finite.size else [np.nan] * 4
    nan = int(np.isnan(values).sum())
    inf = values.size - finite.size - nan
    return Statistics(values.size, float(low), float(mean), float(high), float(std), nan, inf)
