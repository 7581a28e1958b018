"""Filling padding in torch tensors."""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

import torch

from rfnb.backend.base.tape import current_tape


def holds_finite(raw: torch.Tensor) -> bool:
    """Whether all numbers are known to be finite, without a copy of the data; on a device, they are not looked at."""
    if not raw.dtype.is_floating_point and not raw.dtype.is_complex:
        return True
    if not raw.is_cpu or current_tape() is not None or torch.compiler.is_compiling():
        return False
    return cmath.isfinite(raw.detach().sum().item())


class TorchMask:
    """The raw part of `backend.base.mask`."""

    masked_fill_raw = staticmethod(torch.masked_fill)

    @staticmethod
    def fill_rows_raw(raw: torch.Tensor, rows: torch.Tensor, value: Any, axes: int) -> torch.Tensor:
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
