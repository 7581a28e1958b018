"""Cases of recurrent ops, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import FEAT, OUT, Batch


def lstm(b: Batch, **options: Any) -> Any:
    given = {"state_h": b.h, "state_c": b.h, "ff_weight": b.gates, "rec_weight": b.rec, "bias": b.gate_bias}
    return rf.lstm(b.x, **{**given, **options}, spatial_dim=b.time, in_dim=FEAT, out_dim=OUT)


CASES: dict[str, Callable[[Batch], Any]] = {
    "lstm": lambda b: lstm(b),
    "lstm one": lambda b: rf.lstm(
        b.v,
        state_h=b.h,
        state_c=b.h,
        ff_weight=b.gates,
        rec_weight=b.rec,
        bias=b.gate_bias,
        spatial_dim=rf.single_step_dim,
        in_dim=FEAT,
        out_dim=OUT,
    ),
}
STAY = {"lstm one", "lstm"}  # no row says frames="any"
