"""Cases of the same entries under other dims, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from rfnb import batch_dim
from tests.ops.batches import FEAT, FEAT2, HALF, ONE, OUT, Batch

CASES: dict[str, Callable[[Batch], Any]] = {
    "expand_dim": lambda b: rf.expand_dim(b.x, OUT),
    "squeeze": lambda b: rf.squeeze(rf.slice(b.x, axis=FEAT, size=ONE, out_dim=ONE)[0], ONE),
    "replace_dim_v2": lambda b: rf.replace_dim_v2(b.x, in_dim=FEAT, out_dim=FEAT2),
    "replace_dim_v2 resized": lambda b: rf.replace_dim_v2(b.x, in_dim=b.time, out_dim=b.other),
    "replace_dim_v2 cut": lambda b: rf.replace_dim_v2(b.x, in_dim=FEAT, out_dim=OUT),
    "expand_make_non_empty": lambda b: rf.expand_make_non_empty(b.x, axis=b.time)[0],
    "set_sparse_dim": lambda b: rf.set_sparse_dim(b.labels, None),
    "set_feature_dim": lambda b: rf.set_feature_dim(b.x, FEAT),
    "merge_dims": lambda b: rf.merge_dims(b.x, dims=[b.time, FEAT])[0],
    "merge_dims static": lambda b: rf.merge_dims(rf.expand_dim(b.x, OUT), dims=[OUT, FEAT])[0],
    "split_dims": lambda b: rf.split_dims(b.x, axis=FEAT, dims=[HALF, rf.Dim(None, name="rest")]),
    "split_dims time": lambda b: rf.split_dims(b.x, axis=b.time, dims=[rf.Dim(None, name="chunks"), HALF]),
    "reshape": lambda b: rf.reshape(b.x, [b.time, FEAT], [rf.Dim(None, name="rows"), HALF]),
    "copy_transpose": lambda b: b.x.copy_transpose([FEAT, batch_dim, b.time]) if len(b.x.dims) == 3 else b.x,
    "identity": lambda b: rf.identity(b.x),
    "copy": lambda b: rf.copy(b.x),
    "copy_to_device": lambda b: rf.copy_to_device(b.x, "cpu"),
}
NEEDS_FRAMES = {"expand_make_non_empty"}
