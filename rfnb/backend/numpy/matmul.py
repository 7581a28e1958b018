"""Products and norms of numpy arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.backend.numpy.math import Array, quiet


class NumpyMatmul:
    """The raw part of `backend.base.matmul` and `backend.base.norm`."""

    matmul_raw = staticmethod(quiet(np.matmul))
    einsum_raw = staticmethod(quiet(np.einsum))

    @staticmethod
    @quiet
    def linear_raw(raw: Array, weight: Array, bias: Array | None, transpose: bool) -> Array:
        """raw · weight + bias over the last axis; `transpose` if the weight is [in, out]."""
        product = raw @ (weight if transpose else weight.T)
        return product if bias is None else product + bias

    @staticmethod
    @quiet
    def layer_norm_raw(raw: Array, sizes: Sequence[int], scale: Any, bias: Any, eps: float) -> Array:
        """Over the last axes, of these sizes."""
        axes = tuple(range(-len(sizes), 0))
        normal = (raw - raw.mean(axes, keepdims=True)) / np.sqrt(raw.var(axes, keepdims=True) + eps)
        return normal * (1 if scale is None else scale) + (0 if bias is None else bias)

    @staticmethod
    @quiet
    def rms_norm_raw(raw: Array, sizes: Sequence[int], scale: Any, bias: Any, eps: float) -> Array:
        """Over the last axes, of these sizes."""
        mean = np.square(raw).mean(tuple(range(-len(sizes), 0)), keepdims=True)
        return raw / np.sqrt(mean + eps) * (1 if scale is None else scale) + (0 if bias is None else bias)
