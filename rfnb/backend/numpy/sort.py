"""Sorting numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rfnb.backend.numpy.math import Array


def _descending(raw: Array, axis: int) -> Array:
    """The positions from the largest to the smallest entry; of equal entries, the first one first."""
    backwards = np.argsort(np.flip(raw, axis), axis, kind="stable")
    return np.flip(raw.shape[axis] - 1 - backwards, axis)


class NumpySort:
    """The raw part of `backend.base.sort` and `backend.base.top_k`."""

    @staticmethod
    def top_k_raw(raw: Array, axis: int, k: int, sorted: bool) -> tuple[Array, Array]:
        """The largest values, the first of equal ones first then NaN, and -∞ last; and their positions."""
        lowest = np.finfo(raw.dtype).min if raw.dtype.kind == "f" else 0
        order = _descending(np.where(np.isnan(raw), lowest, raw), axis).take(range(k), axis)
        return np.take_along_axis(raw, order, axis), order

    @staticmethod
    def sort_raw(raw: Array, axis: int, descending: bool, stable: bool) -> tuple[Array, Array]:
        """The sorted values, and their former positions."""
        order = _descending(raw, axis) if descending else np.argsort(raw, axis, kind="stable")
        return np.take_along_axis(raw, order, axis), order

    @staticmethod
    def search_sorted_raw(entries: Array, values: Array, right: bool) -> Array:
        """Where to insert `values` [batch…, own…] in sorted `entries` [batch…, axis]. → [batch…, own…]"""
        index = np.zeros(values.shape, np.int64)
        for row in np.ndindex(*entries.shape[:-1]):
            index[row] = np.searchsorted(entries[row], values[row], "right" if right else "left")
        return index

    @staticmethod
    def split_index_raw(index: Array, sizes: Sequence[int]) -> list[Array]:
        """Positions in merged axes, as positions in each axis."""
        return list(np.unravel_index(index, sizes))
