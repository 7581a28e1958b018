"""Indexing numpy arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.backend.numpy.math import Array, highest, lowest, type_of

SCATTER: dict[str, Any] = {"max": np.maximum, "min": np.minimum}


class NumpyIndex:
    """The raw part of `backend.base.index` and `backend.base.scatter`."""

    @staticmethod
    def index_raw(raw: Array, index: Array, axis: int) -> Array:
        """Entries along `axis`, which is replaced by the axes of `index`."""
        return np.asarray(raw.take(index, axis))

    @staticmethod
    def select_raw(raw: Array, axis: int, index: int) -> Array:
        """The entry at one position."""
        return np.asarray(raw.take(index, axis))

    @staticmethod
    def gather_raw(raw: Array, index: Array, axis: int, own: int, expand: bool = True) -> Array:
        """Entries along `axis`, in whose place `index` has `own` axes (one of size 1 if it has none)."""
        sizes = index.shape[axis : axis + max(own, 1)]
        index = index.reshape(*index.shape[:axis], -1, *index.shape[axis + len(sizes) :])
        shape = (*raw.shape[:axis], index.shape[axis], *raw.shape[axis + 1 :])
        entries = np.take_along_axis(raw, np.broadcast_to(index, shape), axis)
        return entries.reshape(*shape[:axis], *(sizes if own else ()), *shape[axis + 1 :])

    @staticmethod
    def one_hot_raw(raw: Array, size: int, dtype: str) -> Array:
        """1 where the last axis is the label. Raises IndexError if a label is not below `size`."""
        if raw.size and not 0 <= raw.min() <= raw.max() < size:
            raise IndexError("not a label")
        return (raw[..., None] == np.arange(size)).astype(type_of(dtype))

    @staticmethod
    def scatter_raw(
        raw: Array,
        index: Array,
        batch: int,
        shape: Sequence[int],
        mode: str,
        fill_value: Any,
        features: int,
        spare: bool,
    ) -> Array:
        """`raw` [batch…, over…, features…] at `index` [batch…, over…] → [batch…, shape…, features…]

        spare: whether there is an extra place after the last one, for entries to discard.
        """
        outer, inner, places = index.shape[:batch], raw.shape[raw.ndim - features :], math.prod(shape)
        raw = np.broadcast_to(raw, (*index.shape, *inner))
        rows = np.arange(math.prod(outer)).reshape(*outer, *[1] * (index.ndim - batch))
        where = (np.broadcast_to(rows, index.shape), index)
        out = np.zeros((math.prod(outer), places + spare, *inner), raw.dtype)
        count = np.zeros(out.shape[:2], np.int64)
        np.add.at(count, where, 1)
        if mode in SCATTER:
            out[count > 0] = lowest(raw) if mode == "max" else highest(raw)
        SCATTER.get(mode, np.add).at(out, where, raw)
        if mode == "mean":
            mean = np.true_divide if raw.dtype.kind in "fcV" else np.floor_divide
            out = mean(out, np.maximum(count, 1).reshape(*count.shape, *[1] * features)).astype(raw.dtype)
        out[count == 0] = fill_value or 0
        return out[:, :places].reshape(*outer, *shape, *inner)
