"""Detects global random generators used in a body. It is traced once, so what it draws there repeats at every step."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

_STATES: dict[str, Callable[[Any], Any]] = {
    "Python's `random`": lambda backend: random.getstate(),
    "`numpy.random`": lambda backend: _numpy(),
    "the backend's own generator": lambda backend: backend.get_random_state(),
}


class GlobalGenerators:
    """Watches the global generators while a body is traced, to find those that it draws from. look: False for off."""

    def __init__(self, backend: Any, *, look: bool):
        self._backend = backend
        self._used: dict[str, None] = {}
        self._before = self._now() if look else {}

    def _now(self) -> dict[str, Any]:
        return {name: read(self._backend) for name, read in _STATES.items()}

    def _look(self) -> None:
        if self._before:
            now = self._now()
            self._used |= dict.fromkeys(name for name, state in now.items() if state != self._before[name])
            self._before = now

    @contextmanager
    def ignored(self) -> Iterator[None]:
        """Ignores numbers that are drawn in this context, by the loop itself."""
        self._look()
        yield
        if self._before:
            self._before = self._now()

    def used(self) -> list[str]:
        """The generators that the body has drawn from. Call it at the end of the body."""
        self._look()
        return list(self._used)


def _numpy() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()
    return kind, keys.tobytes() if isinstance(keys, np.ndarray) else keys, *rest
