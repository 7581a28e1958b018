"""Attention on torch tensors."""

from __future__ import annotations

import torch
from torch.nn.functional import scaled_dot_product_attention


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
