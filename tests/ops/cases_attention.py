"""Cases of attention and positions, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from batches import FEAT, Batch

import rfnb as rf

CASES: dict[str, Callable[[Batch], Any]] = {
    "dot_attention": lambda b: rf.dot_attention(b.x, b.z, b.z * 0.5, key_dim=FEAT, axis=b.other),
    "dot_attention of one": lambda b: rf.dot_attention(b.v, b.x, b.x, key_dim=FEAT, axis=b.time),
    "dot_attention causal": lambda b: rf.dot_attention(
        b.x, b.y, b.x, key_dim=FEAT, axis=b.time, causal_query_spatial_dim=b.time
    ),
    "dot_attention composed": lambda b: rf.dot_attention(b.x, b.z, b.z, key_dim=FEAT, axis=b.other, att_dropout=1e-12),
    "sinusoidal_encoding": lambda b: rf.sinusoidal_encoding(b.labels, feat_dim=FEAT, dtype="float64"),
    "sinusoidal_positional_encoding": lambda b: (
        b.x + rf.sinusoidal_positional_encoding(spatial_dim=b.time, feat_dim=FEAT, dtype="float64")
    ),
    "sinusoidal_positional_encoding offset": lambda b: rf.sinusoidal_positional_encoding(
        spatial_dim=b.time, feat_dim=FEAT, offset=b.at, dtype="float64"
    ),
}
