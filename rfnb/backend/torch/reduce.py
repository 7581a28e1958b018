"""Reductions and softmax on torch tensors, with masks."""

from __future__ import annotations

from typing import Any

import torch


def _lowest(raw: torch.Tensor) -> Any:
    return float("-inf") if raw.dtype.is_floating_point else torch.iinfo(raw.dtype).min


def _highest(raw: torch.Tensor) -> Any:
    return float("inf") if raw.dtype.is_floating_point else torch.iinfo(raw.dtype).max


_FILL = {
    "sum": lambda raw: 0,
    "mean": lambda raw: 0,
    "max": _lowest,
    "min": _highest,
    "argmax": _lowest,
    "argmin": _highest,
    "logsumexp": _lowest,
    "any": lambda raw: False,
    "all": lambda raw: True,
}


def _mean(raw: torch.Tensor, axes: tuple[int, ...], padding: torch.Tensor | None) -> torch.Tensor:
    if padding is None:
        return raw.mean(axes) if axes else raw
    counted = padding.expand([n if axis in axes else padding.shape[axis] for axis, n in enumerate(raw.shape)])
    return raw.sum(axes) / counted.logical_not().sum(axes).clamp(min=1).to(raw.dtype)


def _in_turn(function: Any) -> Any:
    """For functions over one axis: over several, one after the other, from the last."""

    def reduce(raw: torch.Tensor, axes: tuple[int, ...], padding: torch.Tensor | None) -> torch.Tensor:
        for axis in sorted(axes, reverse=True):
            raw = function(raw, axis)
        return raw

    return reduce


_REDUCE = {
    "sum": lambda raw, axes, padding: raw.sum(axes) if axes else raw,
    "mean": _mean,
    "max": lambda raw, axes, padding: raw.amax(axes),
    "min": lambda raw, axes, padding: raw.amin(axes),
    "logsumexp": lambda raw, axes, padding: raw.logsumexp(axes),
    "any": _in_turn(torch.any),
    "all": _in_turn(torch.all),
    "argmax": _in_turn(torch.argmax),
    "argmin": _in_turn(torch.argmin),
}


def _over_nothing(raw: torch.Tensor, mode: str, axes: tuple[int, ...]) -> torch.Tensor:
    """What a sequence of length 0 gives beside longer ones: 0 for the mean, position 0, the least for the largest."""
    shape = [n for axis, n in enumerate(raw.shape) if axis not in axes]
    if mode in ("argmax", "argmin"):
        return raw.new_zeros(shape, dtype=torch.int64)
    return raw.new_full(shape, _FILL[mode](raw))


class TorchReduce:
    """The raw part of `backend.base.reduce` and `backend.base.softmax`."""

    @staticmethod
    def reduce_raw(raw: torch.Tensor, mode: str, axes: tuple[int, ...], padding: torch.Tensor | None) -> torch.Tensor:
        """`mode` over `axes`; entries where `padding` is true do not count."""
        if padding is not None:
            raw = raw.masked_fill(padding, _FILL[mode](raw))
        if not raw.numel() and 0 in [raw.shape[axis] for axis in axes]:
            return _over_nothing(raw, mode, axes)
        return _REDUCE[mode](raw, axes, padding)  # type: ignore[no-any-return]

    @staticmethod
    def softmax_raw(raw: torch.Tensor, axis: int, padding: torch.Tensor | None, some_empty: bool) -> torch.Tensor:
        """Softmax over `axis`; 0 where `padding` is true."""
        if padding is None:
            return torch.softmax(raw, axis)
        if not some_empty:
            return torch.softmax(raw.masked_fill(padding, float("-inf")), axis)
        lowest = torch.finfo(raw.dtype).min
        return torch.softmax(raw.masked_fill(padding, lowest), axis).masked_fill(padding, 0.0)

    @staticmethod
    def log_softmax_raw(raw: torch.Tensor, axis: int, padding: torch.Tensor | None, some_empty: bool) -> torch.Tensor:
        """Log softmax over `axis`; -inf where `padding` is true."""
        if padding is None:
            return torch.log_softmax(raw, axis)
        low = torch.finfo(raw.dtype).min if some_empty else float("-inf")
        return torch.log_softmax(raw.masked_fill(padding, low), axis).masked_fill(padding, float("-inf"))
