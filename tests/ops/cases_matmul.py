"""Cases of products, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from rfnb.ops.matmul import linear
from tests.ops.batches import FEAT, OUT, Batch

CASES: dict[str, Callable[[Batch], Any]] = {
    "matmul feat": lambda b: rf.matmul(b.x, b.w, reduce=FEAT),
    "matmul shared": lambda b: rf.matmul(b.x, b.v, reduce=FEAT),
    "matmul time": lambda b: rf.matmul(b.x, b.y, reduce=b.time),
    "matmul time to vocab": lambda b: rf.matmul(b.x, b.logits, reduce=b.time),
    "matmul two": lambda b: rf.matmul(b.x, b.y, reduce=[b.time, FEAT]),
    "linear": lambda b: linear(b.x, b.w, b.bias, in_dim=FEAT, out_dim=OUT),
    "linear without bias": lambda b: linear(b.x, b.w, None, in_dim=FEAT, out_dim=OUT),
}
PER_FRAME = {"matmul shared"}
