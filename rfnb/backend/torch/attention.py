"""Attention on torch tensors."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from rfnb.backend.base.attention import RawAttention
from rfnb.backend.torch.seen_attention import Watcher


class TorchAttention:
    """The raw part of `backend.base.attention`."""

    @staticmethod
    def attention_raw(
        query: torch.Tensor,
        keys: torch.Tensor,
        values: torch.Tensor,
        mask: torch.Tensor | None,
        causal: bool,
        scale: float,
    ) -> torch.Tensor:
        """softmax(query · keysᵀ · scale) · values, over the last two axes; `mask`: what is seen."""
        return scaled_dot_product_attention(query, keys, values, mask, is_causal=causal, scale=scale)

    @classmethod
    def watching_attention(cls, see: Callable[[RawAttention], None], model: Any) -> AbstractContextManager[Any]:
        """Inside, `see` is told of the attention of plain torch."""
        if model is not None and not isinstance(model, torch.nn.Module):
            return nullcontext()
        return Watcher(see, model).watching()
