"""Cases of elementwise ops, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import FEAT, HALF, Batch

PAIR = rf.Dim(2, name="pair")
CASES: dict[str, Callable[[Batch], Any]] = {
    "add": lambda b: b.x + b.v,
    "sub": lambda b: b.v - b.x,
    "mul": lambda b: b.x * b.y,
    "true_divide": lambda b: b.x / (b.y * b.y + 1.0),
    "floor_divide": lambda b: (b.labels + 7) // (b.labels + 1),
    "ceil_divide": lambda b: rf.ceil_divide(b.x, 0.3),
    "mod": lambda b: rf.range_over_dim(b.time) % (b.labels + 1),
    "log_add_exp": lambda b: rf.log_add_exp(b.x, b.v),
    "maximum": lambda b: rf.maximum(b.x, b.v),
    "less": lambda b: rf.less(b.x, b.y),
    "equal": lambda b: b.labels == 2,
    "tanh": lambda b: rf.tanh(b.x),
    "where": lambda b: rf.where(b.x > 0.0, b.y, b.v),
    "where number": lambda b: rf.where(b.x > 0.0, b.y, 0.0),
    "cast": lambda b: rf.cast(b.x, "float32"),
    "where weight": lambda b: rf.where(b.x > 0.0, b.x, b.scale),
    "clip_by_value": lambda b: rf.clip_by_value(b.x, -0.5, 0.5),
    "clip_by_value tensors": lambda b: rf.clip_by_value(b.x, b.scale - 1.0, b.v),
    "lerp": lambda b: rf.lerp(b.x, b.y, rf.sigmoid(b.v)),
    "safe_log": lambda b: rf.safe_log(rf.relu(b.x)),
    "gating": lambda b: rf.gating(b.x, axis=FEAT)[0],
    "relu_square": lambda b: rf.relu_square(b.x),
    "make_complex": lambda b: rf.abs(rf.make_complex(b.x, b.v)),
    "complex_as_real": lambda b: rf.complex_as_real(rf.make_complex(b.x, b.y))[0],
    "real_as_complex": lambda b: rf.abs(
        rf.real_as_complex(rf.split_dims(b.x, axis=FEAT, dims=[HALF, PAIR]), pair_dim=PAIR)
    ),
    "normalize time": lambda b: rf.normalize(b.x, axis=b.time, epsilon=0.1),
    "normalize time, feat": lambda b: rf.normalize(b.x, axis=[b.time, FEAT], epsilon=0.1),
    "moments": lambda b: rf.moments(b.x, [b.time, FEAT], correction=1),
    "zeros_like": lambda b: rf.zeros_like(b.x),
    "copy_masked": lambda b: b.x.copy_masked(0.5),
    "copy_masked tensor": lambda b: b.x.copy_masked(b.v),
}
