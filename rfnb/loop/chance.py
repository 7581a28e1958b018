"""Finds global generators that a body uses: what it draws there is the same at every step."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from rfnb.core.source import Source

_STATES: dict[str, Callable[[Any], Any]] = {
    "Python's `random`": lambda backend: random.getstate(),
    "`numpy.random`": lambda backend: _numpy(),
    "the backend's own generator": lambda backend: backend.get_random_state(),
}
_known: WeakKeyDictionary[CodeType, set[int]] = WeakKeyDictionary()


class Chance:
    """The global generators before a body, and whether they have changed since. It looks once at each body."""

    def __init__(self, backend: Any, source: Source | None):
        self._backend, self._source = backend, source
        self._used: dict[str, None] = {}
        known = source is None or source.lasti in _known.get(source.code, ())
        self._before = {} if known else self._now()

    def _now(self) -> dict[str, Any]:
        return {name: read(self._backend) for name, read in _STATES.items()}

    def _look(self) -> None:
        if self._before:
            now = self._now()
            self._used |= dict.fromkeys(name for name, state in now.items() if state != self._before[name])
            self._before = now

    @contextmanager
    def own(self) -> Iterator[None]:
        """What the loop itself draws inside does not count."""
        self._look()
        yield
        if self._before:
            self._before = self._now()

    def used(self) -> list[str]:
        """The generators that the body has used. To be asked for at its end."""
        self._look()
        if self._before and self._source is not None:
            _known.setdefault(self._source.code, set()).add(self._source.lasti)
        return list(self._used)


def _numpy() -> tuple[Any, ...]:
    kind, keys, *rest = np.random.get_state()
    return kind, keys.tobytes() if isinstance(keys, np.ndarray) else keys, *rest
