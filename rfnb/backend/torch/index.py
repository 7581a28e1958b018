"""Indexing, scattering and sorting torch tensors, and filling padding."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch

from rfnb.backend.base.tape import current_tape, opaque
from rfnb.backend.torch.data import dtype_of

int64, gather = torch.int64, torch.gather
INDEX = (torch.int64, torch.int32)


def holds_finite(raw: torch.Tensor) -> bool:
    """Whether all numbers are known to be finite, without a copy of the data; on a device, they are not looked at."""
    if not raw.dtype.is_floating_point and not raw.dtype.is_complex:
        return True
    return is_known(raw) and cmath.isfinite((raw.detach() if raw.requires_grad else raw).sum().item())


def is_known(raw: torch.Tensor) -> bool:
    """Whether its numbers are there to be looked at: not on a device, in a traced step, or where torch traces calls."""
    if not raw.is_cpu or type(raw) is not torch.Tensor or torch.compiler.is_compiling() or current_tape() is not None:
        return False
    return not torch._C._are_functorch_transforms_active() and torch._C._get_tracing_state() is None


class TorchIndex:
    """The raw part of `backend.base.index`."""

    select_raw = staticmethod(torch.select)

    @staticmethod
    def known_numbers_raw(raw: torch.Tensor) -> np.ndarray | None:
        """The numbers, without a copy if numpy has their dtype; None if they are not known."""
        if not is_known(raw):
            return None
        return (raw.detach().float() if raw.dtype is torch.bfloat16 else raw.detach()).numpy()

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
            index = index.expand(*shape)
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


class TorchSort:
    """The raw part of `backend.base.index`."""

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
    """The raw part of `TopKOps` in `backend.base.index`."""

    @staticmethod
    def top_k_raw(raw: torch.Tensor, axis: int, k: int, sorted: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """The largest values, the first of equal ones first then NaN, and -∞ last; and their positions."""
        result: tuple[torch.Tensor, torch.Tensor] = opaque(_largest, raw, axis, k, effect=False)
        return result

    @staticmethod
    def best_raw(raw: torch.Tensor | np.ndarray, k: int, exact: int) -> tuple[np.ndarray, np.ndarray]:
        """The `k` largest values of each row of two axes, as numpy; after `exact` places, any -∞ may be the next."""
        raw = torch.from_numpy(raw) if isinstance(raw, np.ndarray) else raw.detach()
        best = torch.topk(raw, min(k + 1, raw.shape[1]), 1)  # its order of equal values is open
        values, index = best[0].cpu().numpy(), best[1].cpu().numpy()
        distinct = values[:, 1:] < values[:, :-1]
        if not distinct.all():
            distinct[:, exact:] |= values[:, exact + 1 :] == -math.inf
            if not distinct.all():
                tied = np.flatnonzero(~distinct.all(1))
                rows = raw[torch.from_numpy(tied)]
                order = _order(rows, 1).narrow(1, 0, k)
                values[tied, :k], index[tied, :k] = rows.gather(1, order).cpu().numpy(), order.cpu().numpy()
        return values[:, :k], index[:, :k]

    @staticmethod
    def split_index_raw(index: torch.Tensor, sizes: Sequence[int]) -> list[torch.Tensor]:
        """Positions in merged axes, as positions in each axis."""
        parts = []
        for size in reversed(sizes[1:]):
            index, whole = index.div(size, rounding_mode="floor"), index
            parts.append(whole.sub(index, alpha=size))  # quicker than a remainder
        return [index, *reversed(parts)]


def _largest(raw: torch.Tensor, axis: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """`torch.topk` leaves the order of equal values open, so one more value is taken, to see whether some are equal."""
    if raw.device.type != "cpu" or torch.compiler.is_compiling():
        index = _order(raw, axis).narrow(axis, 0, k)
        return raw.gather(axis, index), index
    count = min(k + 1, raw.shape[axis])
    if count == 0:
        return raw, raw.long()
    values, index = torch.topk(raw, count, axis)
    larger = values.narrow(axis, 0, count - 1)
    distinct = larger > values.narrow(axis, 1, count - 1)
    if count > k:
        values, index = larger, index.narrow(axis, 0, k)
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


class TorchMask:
    """The raw part of `backend.base.mask`."""

    masked_fill_raw = staticmethod(torch.masked_fill)

    @staticmethod
    def fill_rows_raw(raw: torch.Tensor, rows: torch.Tensor, value: float, axes: int) -> torch.Tensor:
        """The tensor with `value` in these rows, where the first `axes` axes are merged."""
        return raw.flatten(0, axes - 1).index_fill(0, rows, value).unflatten(0, raw.shape[:axes])

    @staticmethod
    def on_rows_raw(
        function: Callable[[torch.Tensor], torch.Tensor], raw: torch.Tensor, rows: torch.Tensor, axes: int
    ) -> torch.Tensor:
        """`function` applied to these rows only; other rows are not read, become 0, and get no gradient."""
        flat = raw.flatten(0, axes - 1)
        values = function(flat.index_select(0, rows))
        result = values.new_zeros((flat.shape[0], *values.shape[1:])).index_copy_(0, rows, values)
        return result.unflatten(0, raw.shape[:axes])

    @staticmethod
    def finite_raw(raw: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        """`raw` with 0 in place of ∞ and NaN at `where`; on the CPU, `raw` itself if there are none."""
        return raw if holds_finite(raw) else raw.masked_fill(~torch.isfinite(raw) & where, 0)

    holds_finite_raw = staticmethod(holds_finite)
