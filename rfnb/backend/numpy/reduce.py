"""Reductions and softmax on numpy arrays, with masks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rfnb.backend.numpy.math import Array, floats, highest, lowest, quiet

Axes = int | tuple[int, ...]


def _mean(raw: Array, axes: Axes) -> Any:
    return floats(raw).mean(axes) if raw.size else floats(raw).sum(axes)


def _logsumexp(raw: Array, axes: Axes) -> Any:
    raw = floats(raw)
    for axis in sorted([axes] if isinstance(axes, int) else axes, reverse=True):
        raw = np.logaddexp.reduce(raw, axis)
    return raw


REDUCE: dict[str, Callable[[Array, Any], Any]] = {
    "sum": lambda raw, axes: raw.sum(axes),
    "mean": _mean,
    "max": lambda raw, axes: raw.max(axes, initial=lowest(raw)),
    "min": lambda raw, axes: raw.min(axes, initial=highest(raw)),
    "logsumexp": _logsumexp,
    "any": np.any,
    "all": np.all,
    "argmax": lambda raw, axis: raw.argmax(axis) if raw.size else raw.sum(axis).astype(np.int64),
    "argmin": lambda raw, axis: raw.argmin(axis) if raw.size else raw.sum(axis).astype(np.int64),
}
NOTHING: dict[str, Callable[[Array], Any]] = {
    "sum": lambda raw: 0,
    "max": lowest,
    "min": highest,
    "argmax": lowest,
    "argmin": highest,
    "logsumexp": lambda raw: -np.inf,
    "any": lambda raw: False,
    "all": lambda raw: True,
}
"""The neutral element of each reduction."""


class NumpyReduce:
    """The raw part of `backend.base.reduce` and `backend.base.softmax`."""

    @staticmethod
    def reduce_function(mode: str) -> Callable[[Array, Axes], Array]:
        """The function that reduces over axes."""
        return quiet(REDUCE[mode])

    @staticmethod
    def reduce_raw(raw: Array, mode: str, axes: Axes, padding: Array) -> Array:
        """`mode` over `axes`; entries where `padding` is true do not count."""
        raw = floats(raw) if mode == "logsumexp" else raw
        return quiet(REDUCE[mode])(np.where(padding, np.asarray(NOTHING[mode](raw), raw.dtype), raw), axes)

    @classmethod
    def softmax_raw(cls, raw: Array, axis: int, padding: Array | None, some_empty: bool) -> Array:
        """Softmax over `axis`; 0 where `padding` is true."""
        return np.exp(cls.log_softmax_raw(raw, axis, padding, some_empty))

    @staticmethod
    @quiet
    def log_softmax_raw(raw: Array, axis: int, padding: Array | None, some_empty: bool) -> Array:
        """Log softmax over `axis`; -inf where `padding` is true."""
        raw = raw if padding is None else np.where(padding, np.finfo(raw.dtype).min, raw)
        high = raw - raw.max(axis, keepdims=True, initial=np.finfo(raw.dtype).min)
        result = high - np.log(np.exp(high).sum(axis, keepdims=True))
        return result if padding is None else np.where(padding, np.asarray(-np.inf, raw.dtype), result)

    @classmethod
    def log_probs_raw(cls, raw: Array, axis: int) -> Array:
        """Log softmax over `axis`; -inf where all entries are -inf."""
        empty = (raw == -np.inf).all(axis, keepdims=True)
        return np.where(empty, np.asarray(-np.inf, raw.dtype), cls.log_softmax_raw(raw, axis, None, False))
