"""The states that a recorded loop keeps: those of every step; for long runs or large states, of every 2nd, 4th, …"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.trace.run.options import options

MAX_STATES = 20_000
"""Maximum number of steps whose states are kept; longer runs keep every second step, then every fourth, and so on."""
SAMPLED_STATES = 8
"""Number of steps whose states are measured to estimate the memory of all."""


class StateHistory:
    """The states before step 0, every, 2·every, …; detached, by reference. They take half of the budget at most.

    fresh: where the steps append their states, about `room` of them; `take` then keeps every `every`-th.
    """

    def __init__(self, backend: Any, initial: Sequence[Any]):
        self.every, self.room = 1, 1
        self.states = [tuple(_initial_state(backend, state) for state in initial)]
        self.fresh: list[tuple[Any, ...]] = []
        self.bytes = 0  # of the states, once some are taken
        self._backend, self._steps = backend, 0

    def take(self, steps: int) -> None:
        """Keeps fresh states after `steps` steps. An interrupt leaves the history as it was, or updated."""
        states, every, fresh = self.states, self.every, self.fresh[: steps - self._steps]
        states = states + [detached(self._backend, each) for each in fresh[-(self._steps + 1) % every :: every]]
        n_bytes = held_bytes(self._backend, states)
        while len(states) > 1 and (len(states) > MAX_STATES or 2 * n_bytes > options.trace_budget):
            states, every = states[::2], 2 * every
            n_bytes = held_bytes(self._backend, states)
        few = 32 * n_bytes < options.trace_budget  # if states grow with each step, their memory grows with its square
        room = max(1, min(MAX_STATES, 3 * len(states) if few else len(states) // 4))
        self.states, self.every, self.room, self.fresh, self._steps = states, every, room, [], steps
        self.bytes = n_bytes


def held_bytes(backend: Any, states: Sequence[Sequence[Any]]) -> int:
    """The bytes of all storages that hold the states; an estimate if there are many states."""
    picked = states[:: -max(1, len(states) // SAMPLED_STATES)]  # from the last: of growing states, the large ones
    raws, found = _storages(backend, picked)
    if len(picked) < len(states) and len(found) < raws:  # some states share a storage
        picked, (raws, found) = states, _storages(backend, states)
    return sum(found.values()) * len(states) // max(1, len(picked))


def _storages(backend: Any, states: Sequence[Sequence[Any]]) -> tuple[int, dict[Any, int]]:
    raws = [raw for each in states for raw in each if not isinstance(raw, int | None)]
    return len(raws), dict(map(backend.storage_raw, raws))


def _initial_state(backend: Any, state: Any) -> Any:
    """An initial state as it is now: a reference, or a copy if it is a parameter, which training changes."""
    if isinstance(state, int | None):
        return state
    return backend.snapshot_raw(state) if backend.is_leaf_raw(state) else backend.alias_raw(state)


def detached(backend: Any, states: Sequence[Any]) -> tuple[Any, ...]:
    """States or frames, without their autograd graph."""
    needs, alias = backend.needs_gradient_raw, backend.alias_raw
    return tuple([s if s is None or type(s) is int or not needs(s) else alias(s) for s in states])
