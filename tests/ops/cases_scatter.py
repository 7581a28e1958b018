"""Cases of entries put in places, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rfnb as rf
from tests.ops.batches import Batch


def scattered(mode: str, fill: float | None = -7.0) -> Callable[[Batch], Any]:
    return lambda b: rf.scatter(b.x, indices=b.labels, indices_dim=b.time, mode=mode, fill_value=fill)


CASES: dict[str, Callable[[Batch], Any]] = {
    "scatter": scattered("sum", None),
    "scatter mean": scattered("mean"),
    "scatter max": scattered("max"),
    "scatter min": scattered("min"),
    "scatter logsumexp": scattered("logsumexp"),
    "scatter logmeanexp": scattered("logmeanexp"),
    "scatter argmax": scattered("argmax"),
    "scatter shared": lambda b: rf.scatter(b.v, indices=b.labels, indices_dim=b.time),
    "scatter_count": lambda b: rf.scatter_count(indices=b.labels, indices_dim=b.time),
}
