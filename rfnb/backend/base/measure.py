"""Measures of raw tensors: how large their entries are, and when a device has done its work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Magnitude(NamedTuple):
    """How large entries are: the sum of squares, the largest absolute value and the number of the finite ones, and
    whether there are a NaN, +Inf and −Inf."""

    squares: float
    most: float
    entries: int
    nan: bool = False
    infinite: bool = False
    minus_infinite: bool = False


class MeasureOps:
    """Raw part: `magnitude_raw(raw, mask)`, None for entries that are not floats; `watch_gradient_raw(raw, see)`, which
    calls `see` with the gradient of the tensor in the backward pass.
    """

    magnitude_raw: Callable[[Any, np.ndarray | None], Magnitude | None]
    watch_gradient_raw: Callable[[Any, Callable[[Any], None]], None]

    @staticmethod
    def synchronize() -> str:
        """Waits until all devices have computed what they were asked to; returns where this one computes: "cpu"."""
        return "cpu"
