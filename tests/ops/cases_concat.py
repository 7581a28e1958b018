"""Cases of joining and splitting, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import FEAT, HALF, VOCAB, Batch

CASES: dict[str, Callable[[Batch], Any]] = {
    "concat time": lambda b: rf.concat((b.x, b.time), (b.z, b.other))[0],
    "concat three": lambda b: rf.concat((b.x, b.time), (b.z, b.other), (b.y, b.time))[0],
    "concat feat": lambda b: rf.concat((b.x, FEAT), (b.logits, VOCAB))[0],
    "concat broadcast": lambda b: rf.concat((b.v, FEAT), (b.x, FEAT), (b.scale, FEAT), allow_broadcast=True)[0],
    "stack": lambda b: rf.stack([b.x, b.y])[0],
    "unstack": lambda b: rf.unstack(b.x, axis=FEAT),
    "split": lambda b: rf.split(b.x, axis=FEAT, out_dims=[HALF, rf.Dim(2, name="rest")]),
    "split numbers": lambda b: rf.split(b.x, axis=FEAT, out_dims=[1, 3]),
    "split time": lambda b: rf.split(
        rf.concat((b.x, b.time), (b.z, b.other))[0], axis=b.time + b.other, out_dims=[b.time, b.other]
    ),
    "split rest": lambda b: rf.split(
        rf.concat((b.x, b.time), (b.z, b.other))[0], axis=b.time + b.other, out_dims=[b.time, rf.Dim(None, name="rest")]
    ),
    "cum_concat_step": lambda b: rf.cum_concat_step(b.v, prev_accum=b.x, axis=b.time)[0],
}
