"""Which entries of a tensor count: those that are not padding, and those of sequences that have not ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.lengths import Size

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim


def frames(dims: Sequence[Dim], sizes: Iterable[tuple[Dim, Size]]) -> np.ndarray | None:
    """Which entries over `dims` are within their sequences; None without `sizes`.

    The mask has size 1 along dims on which it does not depend.

    sizes: the dims that may have padding, each with its size over some of `dims`.
    """
    mask: np.ndarray | None = None
    for dim, size in sizes:
        how = align.move((*size.dims, dim), dims, trailing=False)
        entries: np.ndarray = align.apply(how, size.frames(size.dims))
        mask = entries if mask is None else mask & entries
    return mask


def going_on(dims: Sequence[Dim], steps: Size, step: int | np.ndarray) -> np.ndarray:
    """Which entries over `dims` are of sequences that take `step`; `steps` is the number of steps of each sequence.

    step: one, or several as an array with an axis of size 1 for each of `dims`.
    """
    going: np.ndarray = within(steps, dims).over(dims) > step
    return going


def within(size: Size, dims: Sequence[Dim]) -> Size:
    """The size over those of its dims that are in `dims`. Lengths over other dims become their maximum."""
    lost = tuple(axis for axis, dim in enumerate(size.dims) if dim not in dims)
    if not lost:
        return size
    owners = [dim for dim in size.dims if dim in dims]
    return Size(owners, size.values.max(axis=lost, initial=0), made=size.made, capacity=size.capacity)
