"""What a search found, in the file of its run: functions that `rfnb.search` registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.ground.hook import Hook

write_found: Hook[[Any], tuple[Any, dict[str, np.ndarray]]] = Hook(
    "trace.run.file.found.write_found", by="search.register"
)
"""What a search found, as JSON and arrays."""

read_found: Hook[[Any, dict[str, np.ndarray]], Any] = Hook("trace.run.file.found.read_found", by="search.register")
"""What a search found, from JSON and arrays, which are untrusted."""
