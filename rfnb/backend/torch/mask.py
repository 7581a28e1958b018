"""Filling padding in torch tensors."""

from __future__ import annotations

import torch


class TorchMask:
    """The raw part of `backend.base.mask`."""

    masked_fill_raw = staticmethod(torch.masked_fill)
