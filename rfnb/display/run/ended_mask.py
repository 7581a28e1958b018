"""Which entries of a value of a run count at a step: those of sequences that have not ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run


def live_at(run: Run, value: Any, step: int) -> np.ndarray | None:
    """True for entries of sequences that begin the step; None for a number, or for what is no value of a run."""
    if value is None or not hasattr(value, "dims"):
        return None
    begun, dims = run.begun, list(value.dims)
    if not begun.dims or begun.dims[0] not in dims:
        return np.full([1] * len(dims), begun.max > step)
    live: np.ndarray = (begun.values > step).reshape([-1 if dim is begun.dims[0] else 1 for dim in dims])
    return live
