"""Sorting torch tensors, and their largest entries."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch

from rfnb.backend.base.tape import opaque


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


class TorchTopK:
    """The raw part of `TopKOps` in `backend.base.sort`."""

    @staticmethod
    def top_k_raw(raw: torch.Tensor, axis: int, k: int, sorted: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The largest values, the first of equal ones first then NaN, and -∞ last; and their positions."""
        result: tuple[torch.Tensor, torch.Tensor] = opaque(_largest, raw, axis, k, effect=False)
        return result

    @staticmethod
    def best_raw(raw: torch.Tensor | np.ndarray, k: int, exact: int) -> tuple[np.ndarray, np.ndarray]:
        """The `k` largest values of each row of two axes, as numpy; behind `exact` places, any -∞ may be the next."""
        raw = torch.from_numpy(raw) if isinstance(raw, np.ndarray) else raw.detach()
        best = torch.topk(raw, min(k + 1, raw.shape[1]), 1)  # its order of equal values is open
        values, index = best[0].cpu().numpy(), best[1].cpu().numpy()
        distinct = values[:, 1:] < values[:, :-1]
        distinct[:, exact:] |= values[:, exact + 1 :] == -math.inf
        values, index = values[:, :k], index[:, :k]
        if not distinct.all():
            tied = np.flatnonzero(~distinct.all(1))
            rows = raw[torch.from_numpy(tied)]
            order = _order(rows, 1).narrow(1, 0, k)
            values[tied], index[tied] = rows.gather(1, order).cpu().numpy(), order.cpu().numpy()
        return values, index

    @staticmethod
    def split_index_raw(index: torch.Tensor, sizes: Sequence[int]) -> list[torch.Tensor]:
        """Positions in merged axes, as positions in each axis."""
        parts = []
        for size in reversed(sizes[1:]):
            parts.append(index.remainder(size))
            index = index.div(size, rounding_mode="floor")
        return [index, *reversed(parts)]


def _largest(raw: torch.Tensor, axis: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`torch.topk` leaves the order of equal values open, so one more value is taken, to see whether some are equal."""
    if raw.device.type != "cpu" or torch.compiler.is_compiling():
        index = _order(raw, axis).narrow(axis, 0, k)
        return raw.gather(axis, index), index
    count = min(k + 1, raw.shape[axis])
    values, index = torch.topk(raw, count, axis)
    shorter = values.narrow(axis, 1, count - 1)
    if count > k:
        values, index = values.narrow(axis, 0, k), index.narrow(axis, 0, k)
        distinct = values > shorter
    else:
        distinct = values.narrow(axis, 0, count - 1) > shorter
    if distinct.all():
        return values, index
    equal, index = ~distinct.all(axis), index.movedim(axis, -1).clone()
    index[equal] = _order(raw.movedim(axis, -1)[equal], -1).narrow(-1, 0, k)
    index = index.movedim(-1, axis)
    return raw.gather(axis, index), index


def _order(raw: torch.Tensor, axis: int) -> torch.Tensor:
    """The positions of the values from the largest to the smallest, the first of equal ones first."""
    if raw.is_floating_point():
        raw = raw.nan_to_num(nan=torch.finfo(raw.dtype).min, posinf=math.inf, neginf=-math.inf)
    return raw.sort(dim=axis, descending=True, stable=True).indices
