"""Masks of the entries that count in a value: neither padding nor entries of sequences that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.dims import lengths
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.dims.lengths import Lengths, Size


Entries = Tensor | int | None
"""What a state or value can be: a Tensor, the size of an axis that grows, or None."""


def numbers(value: Entries) -> np.ndarray:
    """The entries as a numpy array, padding included; a size gives a scalar, and None an empty array."""
    if not isinstance(value, Tensor):
        return np.zeros(0) if value is None else np.asarray(value)
    array: np.ndarray = backend_of_raw(value._raw).to_numpy_raw(value._raw)
    return array


def same(before: Entries, now: Entries) -> np.ndarray:
    """Which entries are equal; NaN equals NaN. If the shapes differ, no entry is equal."""
    a, b = numbers(before), numbers(now)
    if a.shape != b.shape:
        return np.zeros(b.shape, dtype=bool)
    equal: np.ndarray = np.asarray((a == b) | ((a != a) & (b != b)))
    return equal


def frames(value: Entries) -> np.ndarray:
    """A mask of the entries that are not padding; it has size 1 along dims that it does not depend on."""
    return frames_of(value.dims, value.lengths) if isinstance(value, Tensor) else np.ones((), dtype=bool)


def frames_of(dims: Sequence[Dim], sizes: Lengths) -> np.ndarray:
    """The same for the dims of a value and their sizes."""
    pairs = ((dim, sizes.size(dim)) for dim in dims)
    padded = [(dim, size) for dim, size in pairs if size and size.ragged and set(size.dims) <= {*dims}]
    mask = lengths.frames_mask(dims, padded)
    return np.ones([1] * len(dims), dtype=bool) if mask is None else mask


def going_on(value: Entries, steps: Size, step: int | np.ndarray) -> np.ndarray:
    """A mask of the entries whose sequences take `step`.

    steps: how many steps each sequence takes. step: one step, or an array of several whose further axes have size 1,
    one for each axis of the value.
    """
    if not isinstance(value, Tensor):
        return np.asarray(step < steps.max)
    return lengths.going_on_mask(value.dims, steps, step)


def of_sequence(value: Entries, dim: Dim | None, number: int) -> np.ndarray:
    """A mask of the entries of one sequence; all entries, if the value does not have the dim of the sequences."""
    if not isinstance(value, Tensor) or dim is None or dim not in value.sig.index:
        return np.ones((), dtype=bool)
    axis = value.sig.index[dim]
    shape = [1] * len(value.dims)
    shape[axis] = -1
    mask: np.ndarray = (np.arange(value.size_of(dim).max) == number).reshape(shape)
    return mask
