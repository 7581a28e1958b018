"""Sizes beyond what a tensor can have: errors in place of those of a backend, or of numbers that overflow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim

LARGEST = 2**63 - 1
"""The largest size of a dim: sizes are integers of 64 bits."""
ENTRIES = 2**40
"""The number of entries from which on a tensor is not made because it is too large, whatever the memory."""


def check_size(name: str, size: int) -> int:
    """The size. Raises DimError if it is too large for a dim."""
    if size > LARGEST:
        raise DimError(f"Dim: {name} is too large", got=f"{size:.3g}", expected=f"at most {LARGEST:.3g}")
    return size


def too_large(what: str, dims: Sequence[Dim], shape: Sequence[int], error: Exception) -> Exception:
    """The error for a tensor that could not be made: a DimError if it has too many entries, else `error` itself."""
    if math.prod(shape) < ENTRIES:
        return error
    sizes = ", ".join(f"{dim.name}:{size}" for dim, size in zip(dims, shape, strict=True))
    return DimError(
        f"{what}: the tensor is too large",
        got=f"{{{sizes}}}: {math.prod(shape):.3g} entries",
        expected="smaller dims",
        dims=dims,
    )
