"""Memory that several runs hold together: whole storages, also where a run needs a part of one, each counted once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping

Storages = Mapping[Hashable, int]
"""By what tells one storage from another: its bytes."""


class Held:
    """The bytes of all storages that somebody holds."""

    def __init__(self) -> None:
        self.bytes = 0
        self._holders: Counter[Hashable] = Counter()

    def add(self, storages: Storages) -> None:
        """One more holder of these."""
        for key, n_bytes in storages.items():
            self.bytes += n_bytes if not self._holders[key] else 0
            self._holders[key] += 1

    def remove(self, storages: Storages) -> None:
        """One less."""
        for key, n_bytes in storages.items():
            self._holders[key] -= 1
            if not self._holders[key]:
                del self._holders[key]
                self.bytes -= n_bytes
