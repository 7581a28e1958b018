"""Filling padding in torch tensors."""

from __future__ import annotations

import torch

from rfnb.backend.base.tape import Var, current_tape


class TorchMask:
    """The raw part of `backend.base.mask`."""

    masked_fill_raw = staticmethod(torch.masked_fill)

    @staticmethod
    def is_trained_raw(raw: torch.Tensor, is_weight: bool) -> bool:
        """Whether it is a weight or a leaf, and takes a gradient, here or when the loop that is traced now is run."""
        tape = current_tape()
        if raw.requires_grad:
            return (is_weight or raw.is_leaf) and (torch.is_grad_enabled() or tape is not None)
        # what the body makes of weights has no gradient in the trial
        made_here = is_weight and tape is not None and isinstance(tape.find(raw), Var)
        return made_here and raw.dtype.is_floating_point

    @staticmethod
    def finite_raw(raw: torch.Tensor, where: torch.Tensor) -> torch.Tensor:
        """`raw` with 0 for what is not finite at `where`; itself if there is none."""
        if not raw.dtype.is_floating_point:
            return raw
        bad = ~torch.isfinite(raw) & where
        return raw.masked_fill(bad, 0) if bool(bad.any()) else raw
