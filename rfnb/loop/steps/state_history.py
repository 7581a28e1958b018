"""The states of a recorded loop that are kept: all, or of long runs and large states every second, fourth and so on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.trace.run.options import options

KEPT = 20_000
"""At most so many states of a run are kept; of a longer one every second, then every fourth, and so on."""
PICKED = 8
"""So many states are looked at to tell how much memory all of them take."""


class Kept:
    """The states before step 0, every, 2·every, …; detached, by reference. They take half of the budget at most.

    fresh: where the steps put theirs, about `room` of them; `take` then keeps those that are wanted.
    """

    def __init__(self, backend: Any, initial: Sequence[Any]):
        self.every, self.room = 1, 1
        self.states = [tuple(_apart(backend, state) for state in initial)]
        self.fresh: list[tuple[Any, ...]] = []
        self.bytes = 0  # of the states, once some are taken
        self._backend, self._steps = backend, 0

    def take(self, steps: int) -> None:
        """So many steps are done since the first. An interrupt leaves all as it was, or as it should be."""
        states, every, fresh = self.states, self.every, self.fresh[: steps - self._steps]
        states = states + [detached(self._backend, each) for each in fresh[-(self._steps + 1) % every :: every]]
        n_bytes = held_bytes(self._backend, states)
        while len(states) > 1 and (len(states) > KEPT or 2 * n_bytes > options.trace_budget):
            states, every = states[::2], 2 * every
            n_bytes = held_bytes(self._backend, states)
        few = 32 * n_bytes < options.trace_budget  # states may grow with the steps, what they hold with the square
        room = max(1, min(KEPT, 3 * len(states) if few else len(states) // 4))
        self.states, self.every, self.room, self.fresh, self._steps = states, every, room, [], steps
        self.bytes = n_bytes


def held_bytes(backend: Any, states: Sequence[Sequence[Any]]) -> int:
    """The memory of all storages that the states are in; an estimate, if there are many states."""
    picked = states[:: -max(1, len(states) // PICKED)]  # rather too many bytes than too few, if states grow
    raws, found = _storages(backend, picked)
    if len(picked) < len(states) and len(found) < raws:  # some are in one storage
        picked, (raws, found) = states, _storages(backend, states)
    return sum(found.values()) * len(states) // max(1, len(picked))


def _storages(backend: Any, states: Sequence[Sequence[Any]]) -> tuple[int, dict[Any, int]]:
    raws = [raw for each in states for raw in each if not isinstance(raw, int | None)]
    return len(raws), dict(map(backend.storage_raw, raws))


def _apart(backend: Any, state: Any) -> Any:
    """An initial state as it is now; a copy of a parameter, which training changes."""
    if isinstance(state, int | None):
        return state
    return backend.snapshot_raw(state) if backend.is_leaf_raw(state) else backend.alias_raw(state)


def detached(backend: Any, states: Sequence[Any]) -> tuple[Any, ...]:
    """States or frames, without the graph of the gradients."""
    needs, alias = backend.needs_gradient_raw, backend.alias_raw
    return tuple([s if s is None or type(s) is int or not needs(s) else alias(s) for s in states])
