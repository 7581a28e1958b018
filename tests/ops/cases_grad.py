"""Cases of gradients, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import FEAT, Batch

CASES: dict[str, Callable[[Batch], Any]] = {
    "stop_gradient": lambda b: rf.stop_gradient(b.x),
    "scaled_gradient": lambda b: rf.scaled_gradient(b.x, 2.0),
    "scaled_gradient_ext": lambda b: rf.scaled_gradient_ext(rf.matmul(b.x, b.w, reduce=FEAT), scale=2.0, shift=0.5),
    "scaled_gradient_ext feat": lambda b: rf.scaled_gradient_ext(
        b.x * b.scale, scale=b.v, shift=0.5, scale_shift_by_sum_over_axis=FEAT
    ),
    "scaled_gradient_ext time": lambda b: rf.scaled_gradient_ext(
        b.x * b.scale, scale=2.0, shift=0.5, scale_shift_by_sum_over_axis=b.time
    ),
}
