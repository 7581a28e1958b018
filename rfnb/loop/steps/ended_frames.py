"""Masks of the sequences that have ended before each step of a loop, for all steps together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.align import Sig
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.backend.base.math import Domain
    from rfnb.core.tensor.tensor import Tensor


def ended(size: Size, how: align.Move, steps: int) -> np.ndarray:
    """Whether each sequence has ended before each step, with the axes of the lengths moved. [steps, …]"""
    lengths: np.ndarray = align.apply(how, size.values)
    numbers = np.arange(steps).reshape([steps, *[1] * lengths.ndim])
    over: np.ndarray = numbers >= lengths
    return over


class EndedFrames:
    """The masks for values of all steps, over the dim `frames`. {frames, …}"""

    def __init__(self, limit: Size, frames: Dim):
        self._limit, self._frames = limit, frames
        self._made: dict[Any, Any] = {}

    def __call__(self, backend: type[Backend], signature: Sig, device: Any) -> Any:
        """The raw mask for tensors with this signature; None if they lack the steps or the sequences."""
        limit, frames = self._limit, self._frames
        if not limit.ragged or not {frames, *limit.dims} <= signature.index.keys():
            return None
        mask = self._made.get((signature.serial, device))
        if mask is None:
            over = ended(limit, None, frames.dimension or 0)
            aligned = align.apply(align.move((frames, *limit.dims), signature.dims, trailing=False), over)
            mask = self._made[signature.serial, device] = backend.from_numpy_raw(aligned, device)
        return mask

    def guard(self, backend: type[Backend], x: Tensor, raw: Any, domain: Domain, *, finite: bool) -> Any:
        """The argument itself: after the steps, all lengths are known."""
        return raw
