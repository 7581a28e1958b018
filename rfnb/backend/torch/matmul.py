"""Products on torch tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.functional import linear


class TorchMatmul:
    """The raw part of `backend.base.matmul`."""

    @staticmethod
    def matmul_raw(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        """Σ over the last axis of `a` and the second last of `b`, the same with gradients as without.

        For rows that are not contiguous, torch chooses a kernel that depends on whether gradients are recorded, so a
        replay would differ in the last bits.
        """
        if a.is_contiguous() or not b.ndim == 2 < a.ndim:
            return torch.matmul(a, b)
        return torch.mm(a.flatten(0, -2), b).unflatten(0, a.shape[:-1])

    @staticmethod
    def einsum_raw(
        a: torch.Tensor, axes_a: Sequence[int], b: torch.Tensor, axes_b: Sequence[int], axes_out: Sequence[int]
    ) -> torch.Tensor:
        """Σ over the axes that are not in `axes_out`."""
        return torch.einsum(a, list(axes_a), b, list(axes_b), list(axes_out))

    @staticmethod
    def linear_raw(raw: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, transpose: bool) -> torch.Tensor:
        """raw · weight + bias over the last axis; `transpose` if the weight is [in, out]."""
        return linear(raw, weight.t() if transpose else weight, bias)
