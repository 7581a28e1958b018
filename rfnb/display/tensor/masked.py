"""Whether −Inf is where a mask would put it: then nothing is wrong with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rfnb.display.kit.data import Data

ENTRIES = 16_000_000
"""Of larger tensors only some sequences are asked."""

FEW = 3
"""Fewer could be where a mask would put them by chance."""


def is_masked(data: Data, raw: Any, mask: np.ndarray | None) -> bool:
    """Whether all −Inf of `raw` are the work of a mask.

    That is: above a diagonal, left of a band, behind ends that differ by sequence, or at the same labels in all frames.
    """
    if not data.axes:
        return False
    raw, mask = _some(raw, mask)
    hit = raw == -np.inf
    hit = hit.cpu().numpy() if hasattr(hit, "cpu") else hit
    real = np.broadcast_to(True if mask is None else mask, hit.shape)
    for i, axis in enumerate(data.axes):
        if axis.dim.vocab is not None and _same_labels(np.moveaxis(hit, i, -1), np.moveaxis(real, i, -1)):
            return True
    if hit.ndim < 2 or int((hit & real).sum()) < FEW:
        return False
    rows, cols = _square(data)
    return any(
        _behind_diagonal_or_end(np.moveaxis(hit, pair, (-2, -1)), np.moveaxis(real, pair, (-2, -1)))
        for pair in ((rows, cols), (cols, rows))
    )


def _some(raw: Any, mask: np.ndarray | None) -> tuple[Any, np.ndarray | None]:
    for axis in range(len(raw.shape) - 2):
        while math.prod(raw.shape) > ENTRIES and raw.shape[axis] > 1:
            half = (slice(None),) * axis + (slice(0, raw.shape[axis] // 2),)
            raw, mask = raw[half], mask if mask is None or mask.shape[axis] == 1 else mask[half]
    return raw, mask


def _same_labels(hit: np.ndarray, real: np.ndarray) -> bool:
    labels = (hit & real).reshape(-1, hit.shape[-1]).any(axis=0)
    return bool(not labels.all() and ((hit == labels) | ~real).all())


def _square(data: Data) -> tuple[int, int]:
    """The two axes that may attend to each other."""
    others = [i for i in range(len(data.axes)) if i != data.sequence_axis()]
    moving = [i for i in others if data.axes[i].lengths is not None or data.axes[i].dim.is_dynamic()]
    rows, cols = moving if len(moving) == 2 else (len(data.axes) - 2, len(data.axes) - 1)
    return rows, cols


def _behind_diagonal_or_end(hit: np.ndarray, real: np.ndarray) -> bool:
    """[…, rows, cols]: whether each row is finite from the same kind of beginning to the same kind of end."""
    high, wide = hit.shape[-2:]
    hit, real = hit.reshape(-1, high, wide), real.reshape(-1, high, wide)
    seen = (~hit & real).any(axis=1)  # [sequence, cols]
    ends = np.where(seen.any(axis=1), wide - np.argmax(seen[:, ::-1], axis=1), 0)
    tail = np.arange(wide) >= ends[:, None, None]
    inner = hit & ~tail & real
    if not inner.any():
        told = ends[real.any(axis=(1, 2))]
        return len(set(told.tolist())) > 1 and bool(told.all())
    return any(bool(((inner == (band & ~tail)) | ~real).all()) for band in _bands(inner))


def _bands(inner: np.ndarray) -> list[np.ndarray]:
    """Causal masks, also of a limited reach to the left, that might explain the entries."""
    high, wide = inner.shape[-2:]
    ahead = np.arange(wide) - np.arange(high)[:, None]
    found = []
    for offset in {0, wide - high}:
        above = ahead > offset
        left = ahead[inner.any(axis=0) & ~above]
        if above.any():
            found.append(above if not left.size else above | (ahead <= left.max()))
    return found
