"""Indexing torch tensors, and scattering their entries."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from rfnb.backend.torch.data import dtype_of

int64, gather = torch.int64, torch.gather
INDEX = (torch.int64, torch.int32)


class TorchIndex:
    """The raw part of `backend.base.index`."""

    select_raw = staticmethod(torch.select)

    @staticmethod
    def gather_raw(raw: torch.Tensor, index: torch.Tensor, axis: int, own: int, expand: bool = True) -> torch.Tensor:
        """Entries along `axis`. `index` has the axes of `raw`, of size 1 (if `expand`) where it does not vary,
        and `own` axes in place of `axis` (of size 1 if there is none, and then it is left out).
        """
        if index.dtype is not int64:
            index = index.long()
        sizes = index.shape if own > 1 else ()
        if own > 1:
            index = index.flatten(axis, axis + own - 1)
        if expand:
            shape = list(raw.shape)
            shape[axis] = -1
            index = index.expand(shape)
        raw = gather(raw, axis, index)
        if own == 1:
            return raw
        return raw.unflatten(axis, sizes[axis : axis + own]) if own else raw.squeeze(axis)

    @staticmethod
    def index_raw(raw: torch.Tensor, index: torch.Tensor, axis: int) -> torch.Tensor:
        """Entries along `axis`, which is replaced by the axes of `index`."""
        ndim = index.dim()
        if index.dtype not in INDEX:
            index = index.long()
        if axis == 0 and raw.dim() == 2 and ndim:
            return torch.embedding(raw, index)
        if ndim == 1:
            return raw.index_select(axis, index)
        if ndim == 0:
            return raw.index_select(axis, index.reshape(1)).squeeze(axis)
        return raw.index_select(axis, index.flatten()).unflatten(axis, index.shape)

    @staticmethod
    def one_hot_raw(raw: torch.Tensor, size: int, dtype: str) -> torch.Tensor:
        """1 where the last axis is the label. Raises RuntimeError if a label on the CPU is not below `size`."""
        zeros = torch.zeros((*raw.shape, size), dtype=dtype_of(dtype), device=raw.device)
        return torch.scatter(zeros, -1, raw.long().unsqueeze(-1), 1)


REDUCE = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}


class TorchScatter:
    """The raw part of `ScatterOps` in `backend.base.index`."""

    @staticmethod
    def scatter_raw(
        raw: torch.Tensor,
        index: torch.Tensor,
        batch: int,
        shape: Sequence[int],
        mode: str,
        fill_value: float,
        features: int,
        spare: bool,
    ) -> torch.Tensor:
        """`raw` [batch…, over…, features…] at `index` [batch…, over…] → [batch…, shape…, features…]

        spare: whether there is an extra place after the last one, for entries to discard.
        """
        raw = raw.expand((*index.shape, *raw.shape[index.dim() :]))
        if index.dim() == batch:  # one entry for each place
            raw, index = raw.unsqueeze(batch), index.unsqueeze(batch)
        raw = raw.flatten(batch, index.dim() - 1)
        index = index.long().flatten(batch)[(..., *[None] * features)].expand(raw.shape)
        places = math.prod(shape)
        out = torch.full(
            (*raw.shape[:batch], places + spare, *raw.shape[batch + 1 :]),
            fill_value,
            dtype=raw.dtype,
            device=raw.device,
        )
        if mode == "sum" and not fill_value:
            out = out.scatter_add(batch, index, raw)
        else:
            out = out.scatter_reduce(batch, index, raw, REDUCE[mode], include_self=False)
        out = out.narrow(batch, 0, places) if spare else out
        return out if len(shape) == 1 else out.unflatten(batch, list(shape))
