"""The entries of a value that count: no padding, and nothing of sequences that have ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

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
    mask = np.ones([1] * len(value.dims), dtype=bool)
    for axis, dim in enumerate(value.dims):
        size = value.lengths.size(dim)
        if size is not None and size.ragged and set(size.dims) <= value.dims_set:
            others = [other for other in value.dims if other is not dim]
            mask = mask & np.moveaxis(size.frames(others), -1, axis)
    return mask


def going_on(value: Entries, steps: Size, step: int | np.ndarray) -> np.ndarray:
    """Which entries are of sequences that take `step`; `steps` is how many each takes.

    step: one, or several as an array with an axis of size 1 for each of the value.
    """
    if not isinstance(value, Tensor):
        return np.asarray(step < steps.max)
    taken, dims = steps.values, list(steps.dims)
    for axis in reversed(range(len(dims))):
        if dims[axis] not in value.sig.index:
            taken = taken.max(axis=axis, initial=0)
            del dims[axis]
    order = sorted(range(len(dims)), key=lambda axis: value.sig.index[dims[axis]])
    shape = [1] * len(value.dims)
    for axis in order:
        shape[value.sig.index[dims[axis]]] = taken.shape[axis]
    going: np.ndarray = taken.transpose(order).reshape(shape) > step
    return going


def of_sequence(value: Entries, dim: Dim | None, number: int) -> np.ndarray:
    """Which entries are of one sequence; all, if the value does not tell them apart."""
    if not isinstance(value, Tensor) or dim is None or dim not in value.sig.index:
        return np.ones((), dtype=bool)
    axis = value.sig.index[dim]
    shape = [1] * len(value.dims)
    shape[axis] = -1
    mask: np.ndarray = (np.arange(value.size_of(dim).max) == number).reshape(shape)
    return mask
