"""Losses on torch tensors."""

from __future__ import annotations

import torch
from torch.nn import functional

from rfnb.errors import DimError

NO_LABEL = -(2**62)


class TorchLoss:
    """The raw part of `backend.base.loss`."""

    @staticmethod
    def cross_entropy_raw(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """-log softmax(logits)[label], over the last axis."""
        if labels.dtype is not torch.int64:
            labels = labels.long()
        is_batch = labels.dim() > 1
        rows, flat = (logits.flatten(0, -2), labels.flatten()) if is_batch else (logits, labels)
        try:
            loss = functional.cross_entropy(rows, flat, reduction="none", ignore_index=NO_LABEL)
        except IndexError:
            raise DimError("cross_entropy: a label is not a class", expected=f"0 to {logits.shape[-1] - 1}") from None
        return loss.view_as(labels) if is_batch else loss

    @staticmethod
    def edit_distance_raw(a: torch.Tensor, a_len: torch.Tensor, b: torch.Tensor, b_len: torch.Tensor) -> torch.Tensor:
        """[…, a], […], […, b], […] → […]. Computed one row of the table at a time."""
        shape = torch.broadcast_shapes(a.shape[:-1], b.shape[:-1], a_len.shape, b_len.shape)
        b_len = b_len.expand(shape).unsqueeze(-1)
        columns = torch.arange(b.shape[-1] + 1, device=b.device)
        row = columns.expand(*shape, -1)
        result = row.gather(-1, b_len).squeeze(-1)
        for i in range(a.shape[-1]):
            replaced = row[..., :-1] + (a[..., i : i + 1] != b)
            best = torch.cat([row[..., :1] + 1, torch.minimum(replaced, row[..., 1:] + 1)], -1)
            row = (best - columns).cummin(-1).values + columns  # each insertion costs 1
            result = torch.where(a_len == i + 1, row.gather(-1, b_len).squeeze(-1), result)
        return result
