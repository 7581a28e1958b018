"""The entries of a value that count: no padding, and nothing of sequences that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.dims import entries
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.dims.lengths import Size


Entries = Tensor | int | None
"""A value, a size, or a state that there is not."""


def numbers(value: Entries) -> np.ndarray:
    """A copy as numpy, padding included; of a size, the number; of None, none."""
    if not isinstance(value, Tensor):
        return np.zeros(0) if value is None else np.asarray(value)
    array: np.ndarray = backend_of_raw(value._raw).to_numpy_raw(value._raw)
    return array


def frames(value: Entries) -> np.ndarray:
    """Which entries are frames, not padding; of size 1 along dims that it does not depend on."""
    if not isinstance(value, Tensor):
        return np.ones((), dtype=bool)
    sizes = ((dim, value.lengths.size(dim)) for dim in value.dims)
    padded = [(dim, size) for dim, size in sizes if size and size.ragged and set(size.dims) <= value.dims_set]
    mask = entries.frames(value.dims, padded)
    return np.ones([1] * len(value.dims), dtype=bool) if mask is None else mask


def going_on(value: Entries, steps: Size, step: int | np.ndarray) -> np.ndarray:
    """Which entries are of sequences that take `step`; `steps` is how many each takes.

    step: one, or several as an array with an axis of size 1 for each of the value.
    """
    if not isinstance(value, Tensor):
        return np.asarray(step < steps.max)
    return entries.going_on(value.dims, steps, step)


def of_sequence(value: Entries, dim: Dim | None, number: int) -> np.ndarray:
    """Which entries are of one sequence; all, if the value does not tell them apart."""
    if not isinstance(value, Tensor) or dim is None or dim not in value.sig.index:
        return np.ones((), dtype=bool)
    axis = value.sig.index[dim]
    shape = [1] * len(value.dims)
    shape[axis] = -1
    mask: np.ndarray = (np.arange(value.size_of(dim).max) == number).reshape(shape)
    return mask
