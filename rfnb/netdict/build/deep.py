"""Calls that are nested more deeply than Python allows by default: one layer in a loop constructs the next.

Python has one limit for all threads. It is raised only for a net that may need it, no further than that, and while
networks are constructed. What another thread risks in this time is to notice later that it calls itself without end.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from typing import Any

CALLS = 20
"""The most calls, one inside the other, for the construction of a layer."""
DEEPEST = 30_000
"""Never more: the stack of the interpreter has its own end."""

_lock = Lock()
_wanted: list[int] = []
_usual: list[int] = []


@contextmanager
def deep_calls(layers: int) -> Iterator[None]:
    """Lets Python functions nest as deeply inside the block as a chain of this many layers needs.

    Blocks in several threads may overlap: the last one that ends sets the limit of before the first one.
    """
    with _lock:
        if not _wanted:
            _usual[:] = [sys.getrecursionlimit()]
        limit = min(_usual[0] + CALLS * layers, DEEPEST)
        _wanted.append(limit)
        sys.setrecursionlimit(max(sys.getrecursionlimit(), limit))
    try:
        yield
    finally:
        with _lock:
            _wanted.remove(limit)
            if not _wanted:
                sys.setrecursionlimit(_usual[0])


def layers_in_loops(described: Any, *, inside: bool = False) -> int:
    """How many layers of a net dict are constructed by nested calls: those of recurrent nets, and what is in them."""
    if not isinstance(described, Mapping):
        return 0
    count = 0
    for layer in described.values():
        if not isinstance(layer, Mapping):
            continue
        count += inside
        for key in ("unit", "subnetwork", "true_layer", "false_layer"):
            net = layer.get(key)
            if isinstance(net, Mapping):
                one_layer = isinstance(net.get("class"), str)
                count += layers_in_loops({key: net} if one_layer else net, inside=inside or key != "subnetwork")
    return count
