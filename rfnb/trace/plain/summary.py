"""What is left of values that no longer fit into the budget: shapes and statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.trace.plain.values import MAY, Kept, Parts, tensors_in


class Summary:
    """What is left of a value that no longer fits into the budget: shape and statistics, as text.

    finite: whether all entries are finite. largest: of the absolute values. None where that is not known.
    """

    __slots__ = ("finite", "largest", "words")

    def __init__(self, words: str, finite: bool | None = None, largest: float | None = None):
        self.words, self.finite, self.largest = words, finite, largest

    def __repr__(self) -> str:
        return self.words


def summary(value: Any, version: int | None) -> Any:
    """A value without its tensors."""
    kept = Kept.of_raw(value, version) if version is not None else value
    if not isinstance(kept, Kept) or not any(part.bytes for part in tensors_in(kept)):
        return value
    if kept.changed() or kept.note == MAY:
        return Summary(kept.note or "changed later")
    if isinstance(kept.value, Parts):
        return Summary(f"{kept.value.kind.__name__} of {kept.value.length} parts, no longer kept")
    array = kept.value if isinstance(kept.value, np.ndarray) else kept.backend.to_numpy_raw(kept.raw)
    shape = "×".join(map(str, array.shape))
    if array.dtype.kind not in "fiub" or not array.size:
        return Summary(f"{shape} {array.dtype}, no longer kept")
    finite = array[np.isfinite(array)].astype(np.float64)
    numbers = f"{finite.min():.4g} … {finite.max():.4g}, μ {finite.mean():.4g}" if finite.size else "none is finite"
    nan = int(np.isnan(array).sum())
    words = [shape, numbers, f"{nan} NaN" if nan else "", "no longer kept"]
    inf = bool(np.isinf(array).any())
    largest = np.inf if inf else float(np.abs(finite).max(initial=-1))
    return Summary(", ".join(filter(None, words)), not (nan or inf), largest)
