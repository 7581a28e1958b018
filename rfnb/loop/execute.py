"""Runs a Program step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rfnb.backend.base.tape import External, Var
from rfnb.loop.program import CompiledStep, Program


@dataclass(frozen=True)
class Schedule:
    """What the steps of a loop are given and what is taken from them, by Vars of its Program.

    states, frames: what a step is given. new: the states after a step in which no sequence has ended. kept: the same,
    where ended sequences keep theirs. outputs: what is stacked. ended: whether all is over. max_steps: the most steps
    there can be. free_steps: how many of them come before the first sequence ends.
    """

    states: tuple[Var, ...]
    frames: tuple[Var, ...]
    new: tuple[Var, ...]
    kept: tuple[Var, ...]
    outputs: tuple[Var, ...]
    ended: Var | None
    max_steps: int
    free_steps: int


KEPT = 20_000
"""At most so many states of a run are kept; of a longer one every second, then every fourth, and so on."""


class Kept:
    """The states before step 0, every, 2·every, …; detached, by reference."""

    def __init__(self, backend: Any, initial: Sequence[Any]):
        self.every = 1
        self.states = [tuple(_apart(backend, state) for state in initial)]
        self._backend = backend

    def add(self, steps: int, states: Sequence[Any]) -> None:
        """The states after so many steps."""
        if steps % self.every:
            return
        if len(self.states) >= KEPT:
            self.states = self.states[::2]
            self.every *= 2
            if steps % self.every:
                return
        self.states.append(_detached(self._backend, states))


@dataclass
class Outcome:
    """What a loop computed. `kept`: states on the way; `states`: those after the last step."""

    states: tuple[Any, ...]
    outputs: list[list[Any]]
    steps: int = 0
    kept: Kept | None = None
    error: BaseException | None = None
    failed_call: int | None = None


def execute(
    program: Program,
    schedule: Schedule,
    backend: Any,
    initial: Sequence[Any],
    frames: Sequence[Sequence[Any]],
    seed: int,
    *,
    record: bool,
    externals: Sequence[Any] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """All steps. An error, or an interrupt, ends the loop early and is kept in the outcome."""
    generator = generators(backend, seed, program.stream_devices)
    ended = () if schedule.ended is None else (schedule.ended,)
    free = program.compile([*schedule.new, *schedule.outputs, *ended], generator, externals)
    keeping = free
    if schedule.kept != schedule.new and schedule.free_steps < schedule.max_steps:
        keeping = program.compile([*schedule.kept, *schedule.outputs, *ended], generator, externals)
    outcome = Outcome(tuple(initial), [[] for _ in schedule.outputs])
    if record:
        outcome.kept = Kept(backend, initial)
    compiled = free
    try:
        n_states, n_outputs = len(schedule.new), len(schedule.outputs)
        for i in range(schedule.max_steps):
            compiled = free if i < schedule.free_steps else keeping
            result = compiled.step(i, *outcome.states, *[frame[i] for frame in frames])
            for taken, value in zip(outcome.outputs, result[n_states : n_states + n_outputs], strict=True):
                taken.append(value)
            if outcome.kept is not None:
                outcome.kept.add(i + 1, result[:n_states])
            outcome.states, outcome.steps = result[:n_states], i + 1
            if progress is not None:
                progress(i + 1)
            if ended and backend.all_true_raw(result[-1]):
                break
    except BaseException as error:
        outcome.error = error
        outcome.failed_call = compiled.failed_call(error)
        outcome.outputs = [taken[: outcome.steps] for taken in outcome.outputs]
    return outcome


def _apart(backend: Any, state: Any) -> Any:
    """An initial state as it is now; a copy of a parameter, which training changes."""
    if isinstance(state, int):
        return state
    return backend.snapshot_raw(state) if backend.is_leaf_raw(state) else backend.alias_raw(state)


def _detached(backend: Any, states: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(state if isinstance(state, int) else backend.alias_raw(state) for state in states)


def generators(backend: Any, seed: int, devices: Sequence[str]) -> Callable[[int, int], Any]:
    """Gives the generator of a random op, seeded by (seed, op, step)."""
    made: dict[int, Any] = {}

    def generator(stream: int, step: int) -> Any:
        if stream not in made:
            made[stream] = backend.new_generator(devices[stream])
        made[stream].manual_seed(mixed(seed, stream, step))
        return made[stream]

    return generator


def mixed(seed: int, stream: int, step: int) -> int:
    """A seed from three numbers, by the finalizer of splitmix64 (Steele et al. 2014)."""
    z = (seed + 0x9E3779B97F4A7C15 * (stream + 1) + 0xD1B54A32D192ED03 * (step + 1)) & (2**64 - 1)
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (z ^ (z >> 31)) & (2**63 - 1)


def stepped(
    program: Program,
    schedule: Schedule,
    wanted: Sequence[Var | External],
    backend: Any,
    seed: int,
    externals: Sequence[Any],
) -> CompiledStep:
    """A step that gives `wanted` and changes nothing."""
    return program.compile(wanted, generators(backend, seed, program.stream_devices), externals, effects=False)
