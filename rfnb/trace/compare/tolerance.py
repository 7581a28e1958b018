"""The tolerance within which two numbers agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

RTOL = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-5, "complex64": 1e-5, "float16": 1e-2, "bfloat16": 1e-2}
"""Default tolerance by dtype, relative to the largest number of the value. Other dtypes must agree exactly."""


class Tolerance(NamedTuple):
    """Allows differences up to `atol + rtol · the largest number`; the defaults are `RTOL` and a tenth of it."""

    exact: bool = False
    rtol: float | None = None
    atol: float | None = None

    def agree(self, a: np.ndarray, b: np.ndarray, counts: np.ndarray, dtypes: Sequence[str]) -> np.ndarray:
        """Where two arrays [steps, …] agree; NaN agrees with NaN.

        counts: the entries that count for the largest number of a step. dtypes: the original ones, before numpy.
        """
        equal: np.ndarray = (a == b) | ((a != a) & (b != b))
        if self.exact:
            return equal & (np.signbit(a) == np.signbit(b)) if a.dtype.kind == b.dtype.kind == "f" else equal
        rtols = [RTOL[dtype] for dtype in dtypes if dtype in RTOL]
        if not rtols or equal.all():
            return equal
        largest = np.maximum(_largest(a, counts), _largest(b, counts))
        return equal | (distance(a, b) <= self._limit(max(rtols), largest))

    def _limit(self, by_type: float, largest: np.ndarray) -> np.ndarray:
        rtol = by_type if self.rtol is None else self.rtol
        return (rtol / 10 if self.atol is None else self.atol) + rtol * largest


def _largest(array: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The largest finite absolute value at each step. [steps, 1…]"""
    sizes = np.where(counts & np.isfinite(array), np.abs(array).astype(np.float64), 0.0)
    largest: np.ndarray = sizes.max(axis=tuple(range(1, array.ndim)), keepdims=True, initial=0.0)
    return largest


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The distance |a - b|; infinite where the difference is NaN, as when only one of them is NaN."""
    with np.errstate(all="ignore"):
        x, y = (array if array.dtype.kind == "c" else array.astype(np.float64) for array in (a, b))
        difference = np.abs(x - y)
    result: np.ndarray = np.where(np.isnan(difference), np.inf, difference)
    return result
