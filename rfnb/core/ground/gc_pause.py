"""Pauses the garbage collector during imports, which allocate only long-lived objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def not_searched() -> Iterator[None]:
    """Garbage collection is off inside the block: it would take longer than the imports themselves."""
    searches = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searches:
            gc.enable()
