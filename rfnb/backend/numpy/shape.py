"""The axes of numpy arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.backend.numpy.math import Array
from rfnb.core.dims import align


class NumpyShape:
    """The raw part of `backend.base.shape`, `concat` and `slice`."""

    move_raw = staticmethod(lambda raw, how: align.apply(how, raw))
    concat_raw = staticmethod(np.concatenate)
    stack_raw = staticmethod(np.stack)
    flip_raw = staticmethod(np.flip)
    cumsum_raw = staticmethod(np.cumsum)
    unstack_raw = staticmethod(lambda raw, axis: list(np.moveaxis(raw, axis, 0)))
    split_raw = staticmethod(lambda raw, sizes, axis: np.split(raw, np.cumsum(sizes)[:-1], axis))
    broadcast_raw = staticmethod(np.broadcast_to)

    @staticmethod
    def reshape_raw(raw_tensor: Array, shape: Sequence[int]) -> Array:
        """The same entries in another shape."""
        return raw_tensor.reshape(shape)

    @staticmethod
    def squeeze_raw(raw_tensor: Array, axes: Sequence[int]) -> Array:
        """The array without these axes of size 1."""
        return raw_tensor.squeeze(tuple(axes))

    @staticmethod
    def transpose_raw(raw_tensor: Array, perm: Sequence[int]) -> Array:
        """The array with permuted axes."""
        return raw_tensor.transpose(perm)

    @staticmethod
    def expand_dims_raw(raw_tensor: Array, axis: int) -> Array:
        """The array with a new axis of size 1."""
        return np.expand_dims(raw_tensor, axis)

    @staticmethod
    def expand_raw(raw_tensor: Array, axis: int, dim: int) -> Array:
        """The array with `axis` of size 1 repeated to size `dim`, without a copy."""
        shape = list(raw_tensor.shape)
        shape[axis] = dim
        return np.broadcast_to(raw_tensor, shape)

    @staticmethod
    def merge_axes_raw(raw: Array, axis: int, count: int) -> Array:
        """The array with `count` axes from `axis` on merged."""
        size = math.prod(raw.shape[axis : axis + count])
        return raw.reshape(*raw.shape[:axis], size, *raw.shape[axis + count :])

    @staticmethod
    def split_axis_raw(raw: Array, axis: int, sizes: Sequence[int]) -> Array:
        """The array with one axis split into several."""
        return raw.reshape(*raw.shape[:axis], *sizes, *raw.shape[axis + 1 :])

    @staticmethod
    def slice_raw(raw: Array, axis: int, start: int, end: int, step: int) -> Array:
        """Every `step`-th entry from `start` up to `end`; backwards if `step` is negative."""
        return raw.take(range(start, end, step), axis)

    @staticmethod
    def unfold_raw(raw: Array, axis: int, size: int, step: int) -> Array:
        """Pieces of length `size` along `axis`, at every `step`-th place, with their entries as a new last axis."""
        pieces = np.lib.stride_tricks.sliding_window_view(raw, size, axis)
        return pieces.take(range(0, pieces.shape[axis], step), axis)

    @staticmethod
    def pad_raw(raw: Array, padding: Mapping[int, tuple[int, int]], value: Any) -> Array:
        """The array with `value` added before and after the axes in `padding`; negative numbers cut off."""
        amounts = [padding.get(axis, (0, 0)) for axis in range(raw.ndim)]
        cut = raw[tuple(slice(max(-a, 0), n - max(-b, 0)) for n, (a, b) in zip(raw.shape, amounts, strict=True))]
        added = [(max(a, 0), max(b, 0)) for a, b in amounts]
        return np.pad(cut, added, constant_values=np.asarray(value, raw.dtype))
