"""Cases of ops over whole dims, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from rfnb.core.dims import align
from rfnb.ops.norm import layer_norm
from tests.ops.batches import FEAT, Batch


def with_feature(x: rf.Tensor) -> align.Sig:
    """`feat` is where its features are."""
    return align.sig(x.dims, x.sparse_dim, FEAT)


CASES: dict[str, Callable[[Batch], Any]] = {
    **{
        f"reduce_{mode} {dims}": lambda b, mode=mode, dims=dims: rf.reduce(
            b.x, mode=mode, axis=[b.time, FEAT] if dims == "time, feat" else b.time if dims == "time" else FEAT
        )
        for mode in ("sum", "mean", "logsumexp")
        for dims in ("time", "feat", "time, feat")
    },
    "reduce_any": lambda b: rf.reduce_any(b.x > 1.0, axis=b.time),
    "reduce_logmeanexp": lambda b: rf.reduce_logmeanexp(b.x, axis=[b.time, FEAT]),
    "reduce_out": lambda b: rf.reduce_out(b.x.like(b.x.raw_tensor, with_feature(b.x)), mode="max", num_pieces=2),
    "softmax and product": lambda b: rf.reduce_sum(rf.softmax(b.x, axis=b.time) * b.y, axis=b.time),
    "softmax time": lambda b: rf.softmax(b.x, axis=b.time),
    "softmax feat": lambda b: rf.softmax(b.x, axis=FEAT),
    "log_softmax feat": lambda b: rf.log_softmax(b.x, axis=FEAT),
    "log_softmax time": lambda b: rf.log_softmax(b.x, axis=b.time),
    "layer_norm": lambda b: layer_norm(b.x, b.scale, b.scale, in_dim=FEAT),
    "rms_norm": lambda b: rf.rms_norm(b.x, b.scale, b.scale, in_dim=FEAT),
    "layer_norm of groups": lambda b: rf.group_norm(b.x, b.scale, b.scale, in_dim=FEAT, num_groups=2, eps=0.1),
    "layer_norm of groups over time": lambda b: rf.group_norm(
        b.x, b.scale, b.scale, in_dim=FEAT, num_groups=2, axis=b.time, eps=0.1
    ),
    "cumsum": lambda b: rf.cumsum(b.x, spatial_dim=b.time),
}
