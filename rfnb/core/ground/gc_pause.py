"""Imports make much that stays, and nothing that could be freed."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_searched() -> Iterator[None]:
    """Inside, Python does not search for garbage, which takes longer than the imports."""
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()
