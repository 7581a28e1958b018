"""The probes that follow the loops over `rf.progress`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping
from typing import Protocol


class Driven(Protocol):
    """What follows training steps. loop: the name of the only `rf.progress` that counts; None: all count."""

    loop: str | None

    def after_step(self, measures: Callable[[], Mapping[str, float]]) -> None:
        """A training step is done; `measures` gives what was reported."""


class Followers:
    """The probes, one for each place in the code, and the number of training steps so far.

    count: tells an outer loop that a step of an inner one has been counted, so that a loop over epochs is none of
    training steps.
    """

    def __init__(self) -> None:
        self.count = 0
        self._probes: dict[Hashable, Driven] = {}

    def add(self, key: Hashable, probe: Driven) -> None:
        """Follows from now on; replaces the probe with the same key."""
        self._probes[key] = probe

    def remove(self, probe: Driven) -> None:
        """Follows no more."""
        self._probes = {key: follower for key, follower in self._probes.items() if follower is not probe}

    def after_step(self, before: int, name: str | None, measures: Callable[[], Mapping[str, float]]) -> None:
        """A step of an `rf.progress` called `name` is done; `before` is the count when it began.

        It is no training step if an inner loop has counted since, or gradients are off.
        """
        if self.count != before or not _gradients():
            return
        self.count += 1
        for probe in list(self._probes.values()):
            if probe.loop in (None, name):
                probe.after_step(measures)


def _gradients() -> bool:
    torch = sys.modules.get("torch")
    return torch is None or bool(torch.is_grad_enabled())


followers = Followers()
