"""Filling padding in torch tensors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from rfnb.backend.base.tape import Var, current_tape


class TorchMask:
    """The raw part of `backend.base.mask`."""

    masked_fill_raw = staticmethod(torch.masked_fill)

    @staticmethod
    def fill_rows_raw(raw: torch.Tensor, rows: torch.Tensor, value: Any, axes: int) -> torch.Tensor:
        """`value` in these rows, where the first `axes` axes are one."""
        return raw.flatten(0, axes - 1).index_fill(0, rows, value).unflatten(0, raw.shape[:axes])

    @staticmethod
    def on_rows_raw(
        function: Callable[[torch.Tensor], torch.Tensor], raw: torch.Tensor, rows: torch.Tensor, axes: int
    ) -> torch.Tensor:
        """`function` of these rows alone; others are not read and get 0, and no gradient comes from them."""
        flat = raw.flatten(0, axes - 1)
        found = function(flat.index_select(0, rows))
        result = found.new_zeros((flat.shape[0], *found.shape[1:])).index_copy_(0, rows, found)
        return result.unflatten(0, raw.shape[:axes])

    @staticmethod
    def is_trained_raw(raw: torch.Tensor, is_weight: bool) -> bool:
        """Whether it is a weight or a leaf, and takes a gradient, here or when the loop that is traced now is run."""
        if raw.requires_grad:
            return (is_weight or raw.is_leaf) and (torch.is_grad_enabled() or current_tape() is not None)
        tape = current_tape() if is_weight else None  # what the body makes of weights has no gradient in the trial
        return tape is not None and isinstance(tape.find(raw), Var) and raw.dtype.is_floating_point

    @staticmethod
    def finite_raw(raw: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        """`raw` with 0 for what is not finite at `where`; itself if there is none."""
        if not raw.dtype.is_floating_point or math.isfinite(raw.detach().sum()):  # of no NaN or ∞, unless too large
            return raw
        bad = ~torch.isfinite(raw) & where
        return raw.masked_fill(bad, 0) if bool(bad.any()) else raw
