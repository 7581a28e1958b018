"""Cases of elementwise ops, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from batches import Batch

import rfnb as rf

CASES: dict[str, Callable[[Batch], Any]] = {
    "add": lambda b: b.x + b.v,
    "sub": lambda b: b.v - b.x,
    "mul": lambda b: b.x * b.y,
    "truediv": lambda b: b.x / (b.y * b.y + 1.0),
    "maximum": lambda b: rf.maximum(b.x, b.v),
    "less": lambda b: rf.less(b.x, b.y),
    "equal": lambda b: b.labels == 2,
    "tanh": lambda b: rf.tanh(b.x),
    "where": lambda b: rf.where(b.x > 0.0, b.y, b.v),
    "where number": lambda b: rf.where(b.x > 0.0, b.y, 0.0),
    "cast": lambda b: rf.cast(b.x, "float32"),
    "clip_by_value": lambda b: rf.clip_by_value(b.x, -0.5, 0.5),
    "zeros_like": lambda b: rf.zeros_like(b.x),
    "copy_masked": lambda b: b.x.copy_masked(0.5),
    "copy_masked tensor": lambda b: b.x.copy_masked(b.v),
}
