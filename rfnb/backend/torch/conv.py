"""Convolution and pooling on torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional

Numbers = Sequence[int]
_CONV: dict[int, Any] = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
_TRANSPOSED: dict[int, Any] = {
    1: functional.conv_transpose1d,
    2: functional.conv_transpose2d,
    3: functional.conv_transpose3d,
}
_MAX: dict[int, Any] = {1: functional.max_pool1d, 2: functional.max_pool2d, 3: functional.max_pool3d}
_AVG: dict[int, Any] = {1: functional.avg_pool1d, 2: functional.avg_pool2d, 3: functional.avg_pool3d}


class TorchConv:
    """The raw part of `backend.base.conv`."""

    @staticmethod
    def conv_raw(
        raw: torch.Tensor,
        filter: torch.Tensor,
        bias: torch.Tensor | None,
        strides: Numbers,
        dilations: Numbers,
        groups: int,
        left: Numbers,
        counts: Numbers,
    ) -> torch.Tensor:
        """[batch, in, …], [out, in / groups, …], [out] → [batch, out, counts…]"""
        spans = [(size - 1) * d + 1 for size, d in zip(filter.shape[2:], dilations, strict=True)]
        right = _right(raw, spans, strides, left, counts)
        both = 0 not in raw.shape[2:] and _at_both_ends(left, right, strides)
        raw = raw if both else _padded(raw, left, right, 0)
        raw = _CONV[len(left)](raw, filter, bias, list(strides), list(left) if both else 0, list(dilations), groups)
        return _cut(raw, [0] * len(left), counts)

    @staticmethod
    def transposed_conv_raw(
        raw: torch.Tensor,
        filter: torch.Tensor,
        bias: torch.Tensor | None,
        strides: Numbers,
        groups: int,
        left: Numbers,
        counts: Numbers,
    ) -> torch.Tensor:
        """[batch, in, …], [in, out, …], [out] → [batch, out, counts…], the first `left` frames cut off.

        Frames of zeros behind the input give as many as are needed.
        """
        axes = zip(raw.shape[2:], filter.shape[2:], strides, left, counts, strict=True)
        right = [max(-(-(first + n - size) // s), 0) + 1 - length for length, size, s, first, n in axes]
        raw = _padded(raw, [0] * len(left), right, 0)
        raw = _TRANSPOSED[len(left)](raw, filter, bias, list(strides), groups=groups)
        return _cut(raw, left, counts)

    @staticmethod
    def pool_raw(
        raw: torch.Tensor,
        mode: str,
        sizes: Numbers,
        strides: Numbers,
        dilations: Numbers,
        left: Numbers,
        counts: Numbers,
    ) -> torch.Tensor:
        """[any, …] → [any, counts…]; in "avg", zeros at the ends count as frames."""
        raw = raw.unsqueeze(1)
        spans = [(size - 1) * d + 1 for size, d in zip(sizes, dilations, strict=True)]
        right = _right(raw, spans, strides, left, counts)
        raw = _padded(raw, left, right, _lowest(raw) if mode == "max" else 0)
        if mode == "max" and raw.dtype.is_floating_point:
            raw = _MAX[len(left)](raw, list(sizes), list(strides), 0, list(dilations))
        elif mode == "avg" and all(dilation == 1 for dilation in dilations):
            raw = _AVG[len(left)](raw, list(sizes), list(strides))
        else:  # what torch has no kernel for
            for axis, (span, stride, dilation) in enumerate(zip(spans, strides, dilations, strict=True), 2):
                windows = raw.unfold(axis, span, stride)[..., ::dilation]
                raw = windows.amax(-1) if mode == "max" else windows.mean(-1)
        return _cut(raw, [0] * len(left), counts).squeeze(1)


def _lowest(raw: torch.Tensor) -> Any:
    return float("-inf") if raw.dtype.is_floating_point else torch.iinfo(raw.dtype).min


def _right(raw: torch.Tensor, spans: Numbers, strides: Numbers, left: Numbers, counts: Numbers) -> list[int]:
    """How many zeros behind each of the last axes give `counts` positions, one at least; negative: so many to spare."""
    axes = zip(raw.shape[-len(left) :], spans, strides, left, counts, strict=True)
    return [(max(count, 1) - 1) * stride + span - before - n for n, span, stride, before, count in axes]


def _at_both_ends(left: Numbers, right: Numbers, strides: Numbers) -> bool:
    """Whether as many zeros behind as before give the same positions."""
    return all(before - stride < behind <= before for before, behind, stride in zip(left, right, strides, strict=True))


def _padded(raw: torch.Tensor, left: Numbers, right: Numbers, value: float) -> torch.Tensor:
    """More entries before and behind the last axes."""
    if not any(left) and all(behind <= 0 for behind in right):
        return raw
    amounts = [n for before, behind in zip(left, right, strict=True) for n in (max(behind, 0), before)]
    return functional.pad(raw, amounts[::-1], value=value)


def _cut(raw: torch.Tensor, left: Numbers, counts: Numbers) -> torch.Tensor:
    """`counts` entries of the last axes, after the first `left`."""
    for axis, (before, count) in enumerate(zip(left, counts, strict=True), raw.dim() - len(counts)):
        if before or count != raw.shape[axis]:
            raw = raw.narrow(axis, before, count)
    return raw
