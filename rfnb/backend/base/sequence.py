"""Ops along sequences that need their true lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.require import axis_of
from rfnb.backend.base.sizes import ragged
from rfnb.core.dim import Dim
from rfnb.core.tensor import Tensor

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class SequenceOps:
    """Raw part: `flip_raw`, `cumsum_raw`."""

    flip_raw: Callable[..., Any]
    cumsum_raw: Callable[..., Any]

    @classmethod
    def reverse_sequence(cls: type[Backend], tensor: Tensor, *, axis: Dim, handle_dynamic_dims: bool = True) -> Tensor:  # type: ignore[misc]
        """The last frame first; padding stays at the end. {…, axis} → the same"""
        place = axis_of("reverse_sequence", tensor, axis, "tensor")
        if not handle_dynamic_dims or not ragged(tensor, axis):
            return tensor.like(cls.flip_raw(tensor._raw, [place]))
        return tensor.like(cls.gather_raw(tensor._raw, cls.per_frame(tensor, axis, "reverse", _reversed), place, 1))

    @classmethod
    def cumsum(cls: type[Backend], source: Tensor, *, spatial_dim: Dim) -> Tensor:  # type: ignore[misc]
        """The sum of all frames up to this one. {…, spatial_dim} → the same"""
        place = axis_of("cumsum", source, spatial_dim)
        summed = source.like(cls.cumsum_raw(source._raw, place))
        return summed.like(cls.fill_padding(summed, 0, (spatial_dim,)))


def _reversed(n: np.ndarray) -> np.ndarray:
    frames = np.arange(int(n.max(initial=0)))
    return np.where(frames < n, n - 1 - frames, frames)
