"""Attention on torch tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from rfnb.backend.base.attention import RawAttention
from rfnb.backend.base.random import random_stream
from rfnb.backend.torch.random import TorchRandom


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
        bias: torch.Tensor | None,
        dropout: float,
    ) -> torch.Tensor:
        """softmax(query · keysᵀ · scale + bias) · values, over the last two axes. mask: where a query sees a key."""
        if bias is not None:
            if causal:
                mask = torch.ones(bias.shape[-2:], dtype=torch.bool, device=bias.device).tril()
            mask, causal = bias if mask is None else bias.masked_fill(~mask, -math.inf), False
        if dropout:
            stream = random_stream(str(query.device))
            if stream is not None or query.device.type == "cpu":
                return _in_steps(query, keys, values, mask, causal, scale, dropout, stream)
        return scaled_dot_product_attention(query, keys, values, mask, dropout, causal, scale=scale)

    @staticmethod
    def relative_shift_raw(scores: torch.Tensor, keys: int) -> torch.Tensor:
        """[…, i, j] → scores[…, i, j - i + queries - 1], for `keys` columns j."""
        queries, width = scores.shape[-2:]
        if queries == 0:
            return scores.new_empty((*scores.shape[:-1], keys))
        if queries == 1:
            return scores
        # rows with one column less, so that each row begins one entry earlier
        flat = scores.flatten(-2)[..., queries - 1 : queries - 1 + queries * (width - 1)]
        return flat.unflatten(-1, (queries, width - 1))[..., :keys]

    @staticmethod
    def turn_pairs_raw(x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
        """Pairs (a, b) along the last axis: (a · cos - b · sin, a · sin + b · cos), in the dtype of `cosines`."""
        a, b = x.to(cosines.dtype).unflatten(-1, (-1, 2)).unbind(-1)
        turned = torch.stack([a * cosines - b * sines, a * sines + b * cosines], -1)
        return turned.flatten(-2).to(x.dtype)

    @classmethod
    def watching_attention(cls, see: Callable[[RawAttention], None], model: Any) -> AbstractContextManager[Any]:
        """Inside, `see` is called with each attention that plain torch computes."""
        from rfnb.backend.torch.seen_attention import AttentionMode  # rarely needed, so imported late

        if model is not None and not isinstance(model, torch.nn.Module):
            return nullcontext()
        return AttentionMode(see, model).watching()


def _in_steps(
    query: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scale: float,
    dropout: float,
    stream: torch.Generator | None,
) -> torch.Tensor:
    """Attention in separate steps, for what the kernel does not support.

    The kernel takes no generator, and on a CPU, its dropout is slower than this.
    """
    energy = torch.matmul(query * scale, keys.transpose(-2, -1))
    if causal:
        mask = torch.ones(energy.shape[-2:], dtype=torch.bool, device=energy.device).tril()
    if mask is not None:
        energy = energy.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else energy + mask
    weights = torch.softmax(energy, -1)
    return torch.matmul(TorchRandom.dropout_raw(weights, dropout, weights.shape, stream), values)
