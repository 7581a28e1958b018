"""Cases of attention and positions, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from rfnb.ops.attention import relative_scores, relative_shift
from rfnb.ops.position import turn_pairs
from tests.ops.batches import FEAT, Batch


def _relative_scores(b: Batch) -> rf.Tensor:
    sides = {"query_spatial_dim": b.time, "key_value_spatial_dim": b.other}
    positions, axis = rf.relative_positional_encoding(**sides, feat_dim=FEAT, dtype="float64")
    return relative_scores(b.x, positions, b.z, key_dim=FEAT, axis=axis, queries=b.time, keys=b.other)


def _relative_shift(b: Batch) -> rf.Tensor:
    sides = {"query_spatial_dim": b.time, "key_value_spatial_dim": b.other}
    positions, axis = rf.relative_positional_encoding(**sides, feat_dim=FEAT, dtype="float64")
    by_distance = rf.matmul(b.x, positions, reduce=FEAT)
    return relative_shift(by_distance, axis=axis, queries=b.time, keys=b.other)


def _turn_pairs(b: Batch) -> rf.Tensor:
    angles, _ = rf.split(b.x, axis=FEAT, out_dims=[FEAT // 2, FEAT // 2])
    return turn_pairs(b.y, rf.cos(angles), rf.sin(angles), feat_dim=FEAT)


CASES: dict[str, Callable[[Batch], Any]] = {
    "dot_attention": lambda b: rf.dot_attention(b.x, b.z, b.z * 0.5, key_dim=FEAT, axis=b.other),
    "dot_attention of one": lambda b: rf.dot_attention(b.v, b.x, b.x, key_dim=FEAT, axis=b.time),
    "dot_attention causal": lambda b: rf.dot_attention(
        b.x, b.y, b.x, key_dim=FEAT, axis=b.time, causal_query_spatial_dim=b.time
    ),
    "dot_attention composed": lambda b: rf.dot_attention(b.x, b.z, b.z, key_dim=FEAT, axis=b.other, att_dropout=1e-12),
    "relative_scores": _relative_scores,
    "relative_shift": _relative_shift,
    "turn_pairs": _turn_pairs,
    "sinusoidal_encoding": lambda b: rf.sinusoidal_encoding(b.labels, feat_dim=FEAT, dtype="float64"),
    "sinusoidal_positional_encoding": lambda b: (
        b.x + rf.sinusoidal_positional_encoding(spatial_dim=b.time, feat_dim=FEAT, dtype="float64")
    ),
    "sinusoidal_positional_encoding offset": lambda b: rf.sinusoidal_positional_encoding(
        spatial_dim=b.time, feat_dim=FEAT, offset=b.at, dtype="float64"
    ),
}
