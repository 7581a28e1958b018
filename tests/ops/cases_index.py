"""Cases of ops with indices, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import VOCAB, Batch

CASES: dict[str, Callable[[Batch], Any]] = {
    "gather": lambda b: rf.gather(b.x, indices=b.index, axis=b.time, clip_to_valid=True),
    "gather one": lambda b: rf.gather(b.x, indices=b.at, axis=b.time, clip_to_valid=True),
    "gather last": lambda b: rf.gather(b.x, indices=-1, axis=b.time, clip_to_valid=True),
    "gather rows": lambda b: rf.gather(b.table, indices=b.labels, axis=VOCAB),
    "gather own rows": lambda b: rf.gather(b.logits, indices=b.labels, axis=VOCAB),
    "one_hot": lambda b: rf.one_hot(b.labels),
    "sparse_to_dense": lambda b: rf.sparse_to_dense(b.labels, label_value=2.0, other_value=-1.0),
    "smooth_one_hot": lambda b: rf.smooth_one_hot(b.labels, label_prob=0.9),
}
NEEDS_FRAMES = {"gather", "gather last", "gather one"}  # on a sequence without frames, what they give is padding
