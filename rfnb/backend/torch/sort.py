"""Sorting torch tensors."""

from __future__ import annotations

import torch


class TorchSort:
    """The raw part of `backend.base.sort`."""

    @staticmethod
    def sort_raw(raw: torch.Tensor, axis: int, descending: bool, stable: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The sorted values, and their former positions."""
        values, index = torch.sort(raw, dim=axis, descending=descending, stable=stable)
        return values, index

    @staticmethod
    def search_sorted_raw(entries: torch.Tensor, values: torch.Tensor, right: bool) -> torch.Tensor:
        """Where to insert `values` [batch…, own…] in sorted `entries` [batch…, axis]. → [batch…, own…]"""
        batch = entries.shape[:-1]
        kind = torch.result_type(entries, values)
        flat = values.reshape(*batch, values.shape[len(batch) :].numel()).to(kind)
        return torch.searchsorted(entries.to(kind).contiguous(), flat.contiguous(), right=right).reshape(values.shape)
