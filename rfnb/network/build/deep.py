"""Calls that are nested more deeply than Python allows by default: one layer constructs the next."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

DEPTH = 30_000
"""Enough for a chain of some thousand layers in a loop."""


@contextmanager
def deep_calls() -> Iterator[None]:
    """Lets Python functions nest as deeply inside the block."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
