"""Cases of what is known of dims alone, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from rfnb import batch_dim
from tests.ops.batches import FEAT, Batch

CASES: dict[str, Callable[[Batch], Any]] = {
    "get_mask": lambda b: b.other.get_mask(),
    "get_size_tensor": lambda b: b.other.get_size_tensor(),
    "last_frame_position_of_dim": lambda b: rf.last_frame_position_of_dim(b.time),
    "linspace_over_dim": lambda b: rf.linspace_over_dim(b.time, -1.0, 2.0),
    "linspace_over_dim tensors": lambda b: rf.linspace_over_dim(b.time, b.v, rf.reduce_max(b.v, axis=FEAT)),
    "range_over_dim_strided": lambda b: rf.range_over_dim_strided(b.other, stride=2)[0],
    "count_entries": lambda b: rf.num_elements_of_shape([b.time, FEAT]),
    "fraction_of_entries": lambda b: rf.masked_fraction_of_shape([b.time, b.other]) * 0.0,
    "copy_compatible_to": lambda b: b.v.copy_compatible_to(b.x, unbroadcast=True),
    "copy_compatible_to_dims": lambda b: b.v.copy_compatible_to_dims(
        [batch_dim, FEAT, *b.v.remaining_dims([batch_dim, FEAT])]
    ),
}
