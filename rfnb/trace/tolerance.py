"""How far apart two numbers may be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

RTOL = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-5, "complex64": 1e-5, "float16": 1e-2, "bfloat16": 1e-2}
"""By type, relative to the largest number of the value; numbers of other types have to be the same."""


class Tolerance(NamedTuple):
    """At most `atol + rtol · the largest number`; if not given, by type: `RTOL`, and a tenth of it as `atol`."""

    exact: bool = False
    rtol: float | None = None
    atol: float | None = None

    def agree(
        self, a: np.ndarray, b: np.ndarray, counts: np.ndarray, dtypes: tuple[str | None, str | None]
    ) -> np.ndarray:
        """Where two arrays agree; NaN agrees with NaN. counts: the entries whose largest is looked at."""
        same: np.ndarray = (a == b) | ((a != a) & (b != b))
        if self.exact:
            return same & (np.signbit(a) == np.signbit(b)) if a.dtype.kind == b.dtype.kind == "f" else same
        known = [RTOL[dtype] for dtype in dtypes if dtype in RTOL]
        if not known:
            return same
        largest = max(np.abs(x[counts & np.isfinite(x)]).max(initial=0) for x in (a, b))
        return same | (distance(a, b) <= self._limit(max(known), float(largest)))

    def _limit(self, by_type: float, largest: float) -> float:
        rtol = by_type if self.rtol is None else self.rtol
        return (rtol / 10 if self.atol is None else self.atol) + rtol * largest


def distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """|a - b|; infinite where only one of them is a number."""
    with np.errstate(all="ignore"):
        x, y = (each if each.dtype.kind == "c" else each.astype(np.float64) for each in (a, b))
        found = np.abs(x - y)
    made: np.ndarray = np.where(np.isnan(found), np.inf, found)
    return made
