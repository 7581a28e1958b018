"""A few numbers about a tensor, over its real entries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rfnb.core.tensor.tensor import Tensor
from rfnb.trace.run.entries import frames, numbers


class Statistics(NamedTuple):
    """How many entries there are; of the finite ones the range, mean and standard deviation; how many are not."""

    entries: int
    min: float
    mean: float
    max: float
    std: float
    nan: int
    inf: int

    def words(self) -> str:
        """ "12 entries, -1 … 3, μ 0.2, σ 1.1, 2 NaN" """
        parts = [f"{int(self.entries):,} entries"]
        parts += [f"{self.min:.4g} … {self.max:.4g}, μ {self.mean:.4g}, σ {self.std:.4g}"] if self.entries else []
        return ", ".join([*parts, *(f"{int(n):,} {name}" for n, name in ((self.nan, "NaN"), (self.inf, "Inf")) if n)])


def statistics(tensor: Tensor) -> Statistics:
    """Padding counts for nothing; of complex numbers the absolute values."""
    entries = numbers(tensor)
    values = np.abs(entries) if entries.dtype.kind == "c" else entries.astype(np.float64)
    values = values[np.broadcast_to(frames(tensor), values.shape)]
    finite = values[np.isfinite(values)]
    low, mean, high, std = (finite.min(), finite.mean(), finite.max(), finite.std()) if finite.size else [np.nan] * 4
    nan = int(np.isnan(values).sum())
    inf = values.size - finite.size - nan
    return Statistics(values.size, float(low), float(mean), float(high), float(std), nan, inf)
