"""The largest entries of torch tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch


class TorchTopK:
    """The raw part of `backend.base.top_k`."""

    @staticmethod
    def top_k_raw(raw: torch.Tensor, axis: int, k: int, sorted: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The largest values, and their positions."""
        values, index = torch.topk(raw, k, axis, True, sorted)
        return values, index

    @staticmethod
    def split_index_raw(index: torch.Tensor, sizes: Sequence[int]) -> list[torch.Tensor]:
        """Positions in merged axes, as positions in each axis."""
        parts = []
        for size in reversed(sizes[1:]):
            parts.append(index.remainder(size))
            index = index.div(size, rounding_mode="floor")
        return [index, *reversed(parts)]
