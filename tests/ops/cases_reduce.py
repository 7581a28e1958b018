"""Cases of ops over whole dims, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from batches import FEAT, Batch

import rfnb as rf
from rfnb.ops.norm import layer_norm

CASES: dict[str, Callable[[Batch], Any]] = {
    **{
        f"reduce_{mode} {dims}": lambda b, mode=mode, dims=dims: rf.reduce(
            b.x, mode=mode, axis=[b.time, FEAT] if dims == "time, feat" else b.time if dims == "time" else FEAT
        )
        for mode in ("sum", "mean", "logsumexp")
        for dims in ("time", "feat", "time, feat")
    },
    "reduce_any": lambda b: rf.reduce_any(b.x > 1.0, axis=b.time),
    "softmax time": lambda b: rf.softmax(b.x, axis=b.time),
    "softmax feat": lambda b: rf.softmax(b.x, axis=FEAT),
    "log_softmax feat": lambda b: rf.log_softmax(b.x, axis=FEAT),
    "log_softmax time": lambda b: rf.log_softmax(b.x, axis=b.time),
    "layer_norm": lambda b: layer_norm(b.x, b.scale, b.scale, in_dim=FEAT),
    "cumsum": lambda b: rf.cumsum(b.x, spatial_dim=b.time),
}
