"""Cases of entries taken out by a mask and put back, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from rfnb import batch_dim
from tests.ops.batches import Batch


def mask_of(b: Batch) -> rf.Tensor:
    return b.labels > 1


def selected(b: Batch) -> Any:
    return rf.masked_select(b.x, mask=mask_of(b), dims=[b.time])


def packed(b: Batch) -> Any:
    """Packed and back again: the packed frames themselves are no longer of one sequence."""
    y, frames = rf.pack_padded(b.x, dims=[batch_dim, b.time])
    return rf.pad_packed(y * 2.0, in_dim=frames, dims=[batch_dim, b.time])


def put_back(b: Batch) -> Any:
    y, some = selected(b)
    return rf.masked_scatter(y * 2.0, mask=mask_of(b), dims=[b.time], in_dim=some)


CASES: dict[str, Callable[[Batch], Any]] = {
    "masked_select": lambda b: selected(b)[0],
    "masked_scatter": lambda b: rf.masked_scatter(b.x, b.v, mask=mask_of(b), dims=[b.time], in_dim=b.time),
    "masked_scatter selected": put_back,
    "pad_packed": packed,
}
STAY = {"masked_select", "masked_scatter selected"}  # the size of what is selected depends on the mask
