"""The largest entries of torch tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class TorchTopK:
    """The raw part of `backend.base.top_k`."""

    @staticmethod
    def lowest_raw(raw: torch.Tensor) -> Any:
        """What is never larger than anything: -∞, or the smallest number of the type."""
        if raw.dtype is torch.bool:
            return False
        return float("-inf") if raw.dtype.is_floating_point else torch.iinfo(raw.dtype).min

    @staticmethod
    def highest_raw(raw: torch.Tensor) -> Any:
        """What is never smaller than anything: ∞, or the largest number of the type."""
        if raw.dtype is torch.bool:
            return True
        return float("inf") if raw.dtype.is_floating_point else torch.iinfo(raw.dtype).max

    @staticmethod
    def top_k_raw(raw: torch.Tensor, axis: int, k: int, sorted: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """Values and positions."""
        values, index = torch.topk(raw, k, axis, True, sorted)
        return values, index

    @staticmethod
    def split_index_raw(index: torch.Tensor, sizes: Sequence[int]) -> list[torch.Tensor]:
        """A position in merged axes as one for each axis."""
        parts = []
        for size in reversed(sizes[1:]):
            parts.append(index.remainder(size))
            index = index.div(size, rounding_mode="floor")
        return [index, *reversed(parts)]
