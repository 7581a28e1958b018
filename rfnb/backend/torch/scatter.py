"""Scattering entries of torch tensors."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

REDUCE = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin"}


class TorchScatter:
    """The raw part of `backend.base.scatter`."""

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
