"""Cases of entries in order, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import FEAT, HALF, OUT, VOCAB, Batch


def search(b: Batch) -> Any:
    entries, _, axis = rf.sort(b.x, axis=b.time)
    return rf.search_sorted(entries, b.v, axis=axis)


CASES: dict[str, Callable[[Batch], Any]] = {
    "sort": lambda b: rf.sort(b.x, axis=b.time)[:2],
    "sort descending": lambda b: rf.sort(b.x, axis=b.time, descending=True)[:2],
    "sort feat": lambda b: rf.sort(b.x, axis=FEAT)[:2],
    "search_sorted": search,
    "search_sorted right": lambda b: rf.search_sorted(
        rf.cumsum(rf.exp(b.v), spatial_dim=FEAT), b.h, axis=FEAT, side="right"
    ),
    "top_k feat": lambda b: rf.top_k(b.x, axis=FEAT, k_dim=HALF)[:2],
    "top_k two": lambda b: rf.top_k(rf.combine_bc(b.v, "add", b.w), axis=[FEAT, OUT], k=2)[:2],
    "top_k_mask": lambda b: rf.top_k_mask(b.x, axis=b.time, k=2),
    "top_p_mask": lambda b: rf.top_p_mask(rf.softmax(b.logits, axis=VOCAB), axis=VOCAB, p=0.6),
    "top_p_mask time": lambda b: rf.top_p_mask(rf.softmax(b.x, axis=b.time), axis=b.time, p=0.6),
}
