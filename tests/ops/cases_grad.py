"""Cases of gradients, for `test_promises.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from batches import Batch

import rfnb as rf

CASES: dict[str, Callable[[Batch], Any]] = {
    "stop_gradient": lambda b: rf.stop_gradient(b.x),
    "scaled_gradient": lambda b: rf.scaled_gradient(b.x, 2.0),
}
