"""Cases of ops with indices, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from batches import FEAT, HALF, OUT, VOCAB, Batch

import rfnb as rf

CASES: dict[str, Callable[[Batch], Any]] = {
    "gather": lambda b: rf.gather(b.x, indices=b.index, axis=b.time, clip_to_valid=True),
    "gather one": lambda b: rf.gather(b.x, indices=b.at, axis=b.time, clip_to_valid=True),
    "gather last": lambda b: rf.gather(b.x, indices=-1, axis=b.time, clip_to_valid=True),
    "gather rows": lambda b: rf.gather(b.table, indices=b.labels, axis=VOCAB),
    "one_hot": lambda b: rf.one_hot(b.labels),
    "scatter": lambda b: rf.scatter(b.x, indices=b.labels, indices_dim=b.time),
    "scatter max": lambda b: rf.scatter(b.x, indices=b.labels, indices_dim=b.time, mode="max", fill_value=-7.0),
    "top_k feat": lambda b: rf.top_k(b.x, axis=FEAT, k_dim=HALF)[:2],
    "top_k two": lambda b: rf.top_k(rf.combine_bc(b.v, "add", b.w), axis=[FEAT, OUT], k=2)[:2],
}
NEEDS_FRAMES = {"gather", "gather last", "gather one"}  # on a sequence without frames, what they give is padding
