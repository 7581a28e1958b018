"""Recorded steps: the states as they were, and any value of a step, computed again from them."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from copy import copy
from typing import Any, Self

import numpy as np

from rfnb.backend.base.tape import External, Var
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.listener import listening
from rfnb.errors import LoopError
from rfnb.loop.body.traced_step import place_of
from rfnb.loop.replay.recorded_plan import RecordedPlan
from rfnb.loop.steps.execute import Outcome, stepped
from rfnb.loop.steps.state_history import detached, held_bytes

SNAPSHOT_BUDGET = 64 * 2**20
"""Bytes of parameters that a run copies, so that later training does not change what it shows."""

COMPILED = 32
"""How many ways to do a step are kept compiled: those used last."""


class RecordedSteps:
    """A Plan with the inputs of a run.

    origin: of a fork, the steps that come before its own. lent: which of `externals` are weights that are read where
    they are, as no copy fits.
    """

    def __init__(
        self, plan: RecordedPlan, outcome: Outcome, frames: Sequence[Sequence[Any]], externals: Sequence[Any], seed: int
    ):
        backend = self.backend = plan.backend
        self.plan, self.program, self.schedule, self.recorder = plan, plan.program, plan.schedule, plan.recorder
        self.axis, self.name_of = plan.axis, plan.recorder.name_of
        self.templates = [each.before for each in plan.carried]
        self.places = {each.name: place for place, each in enumerate(plan.carried) if each.kind == "state"}
        self.seed = seed
        self.origin: Self | None = None
        self.frames = [_without_graph(backend, each) for each in frames]
        self.modes = backend.get_modes()
        self.probe: Any = None
        self.externals, self.lent = _of_outside(backend, externals)
        self.version = self.version_now()
        self._begin(0, outcome)

    def _begin(self, start: int, outcome: Outcome) -> None:
        """The steps from `start` on are those of `outcome`."""
        assert outcome.kept is not None
        self.start, self.steps, self.failed = start, outcome.steps, outcome.failure
        self.kept, self.every, self.kept_bytes = outcome.kept.states, outcome.kept.every, outcome.kept.bytes
        self.final = tuple(s if isinstance(s, int | None) else self.backend.alias_raw(s) for s in outcome.states)
        self.size = self._axis_size(self.plan.size)
        self._compiled: dict[Any, Any] = {}

    def version_now(self) -> list[Any]:
        """Differs from `version` when something has changed that the steps read from outside."""
        backend = self.backend
        entries = [backend.to_numpy_raw(backend.sample_raw(self.externals[i])).tobytes() for i in self.lent]
        return [*map(backend.version_raw, self.externals), *entries]

    def states_before(self, step: int) -> tuple[Any, ...]:
        """All states before a step: kept, or computed from the nearest that is."""
        if step > self.steps:
            raise LoopError(f"{self.recorder.name}: there is no state after step {step - 1}, which failed")
        if step == self.steps:
            return self.final
        if self.origin is not None and step < self.start:
            return self.origin.states_before(step)
        nearest, rest = divmod(step - self.start, self.every)
        states = self.kept[nearest]
        for done in range(step - rest, step):
            states = tuple(self.step(done, self.after(done), states))
        return states

    def after(self, step: int) -> tuple[Var, ...]:
        """The states that a step gives."""
        return self.schedule.new if step < self.schedule.free_steps else self.schedule.kept

    def step(
        self,
        step: int,
        wanted: Sequence[Var | External],
        states: Sequence[Any] | None = None,
        *,
        gradients: bool = False,
    ) -> Sequence[Any]:
        """`wanted` of a step, from the states before it or from others."""
        if self.origin is not None and step < self.start:
            return self.origin.step(step, wanted, states, gradients=gradients)
        key = tuple((type(var), var.number) for var in wanted)  # a Var equals the External of the same number
        compiled = self._compiled.pop(key, None) or stepped(
            self.program, self.schedule, wanted, self.backend, self.seed, self.externals
        )
        self._compiled[key] = compiled
        if len(self._compiled) > COMPILED:
            self._compiled.pop(next(iter(self._compiled)))
        states = self.states_before(step) if states is None else states
        with self.backend.modes(self.modes, gradients=gradients), listening(None):
            return compiled.run(step, *states, *[frames[step] for frames in self.frames])

    def over_steps(self, var: Var | External, steps: int) -> Iterator[Any]:
        """A value at each step. A step is done once, whether the states before it are kept or not."""
        states: Sequence[Any] | None = None
        for step in range(steps):
            after = () if self.keeps(step + 1) else self.after(step)
            [raw, *states] = self.step(step, [var, *after], states or None)
            yield raw

    def keeps(self, step: int) -> bool:
        """Whether the states before `step` need not be computed."""
        if self.origin is not None and step < self.start:
            return self.origin.keeps(step)
        return (step - self.start) % self.every == 0 or step == self.steps

    def continued(self, start: int, outcome: Outcome, seed: int) -> Self:
        """The fork that goes on from other states before `start`; the steps before are those of this run."""
        other = copy(self)
        other.origin, other.seed, other.probe = self, seed, None
        other._begin(start, outcome)
        return other

    def _axis_size(self, known: Size | None) -> Size:
        """How many steps each sequence took."""
        place = place_of(self.plan.carried, "lengths")
        if place is not None:
            return Size(self.templates[place].dims, self.backend.to_numpy_raw(self.final[place]))
        if known is None or known.max == self.steps:
            return known or Size([], self.steps)
        return Size(known.dims, np.minimum(known.values, self.steps), tags=known.tags)

    def storages(self) -> dict[Any, int]:
        """The memory that it keeps alive, of a fork with that of the run it is one of. Weights that are read where they
        are, as no copy fits, are the model's."""
        states = self.kept_bytes or held_bytes(self.backend, self.kept)
        if (self.steps - self.start) % self.every:
            states += held_bytes(self.backend, [self.final])
        raws = [frame for frames in self.frames for frame in self._apart(frames)]
        raws += [raw for i, raw in enumerate(self.externals) if i not in self.lent]
        raws += [*self.program.constants.values(), *(() if self.plan.call is None else self.plan.call.raws)]
        before = {} if self.origin is None else self.origin.storages()
        return before | {id(self): states} | dict(map(self.backend.storage_raw, raws))

    def _apart(self, frames: Sequence[Any]) -> Sequence[Any]:
        """One of them, if they are the frames of one tensor; none, if they are made when asked for."""
        if not len(frames):
            return ()
        of_one = self.backend.storage_raw(frames[0]) == self.backend.storage_raw(frames[-1])
        return frames[:1] if of_one else frames


def _without_graph(backend: Any, frames: Sequence[Any]) -> Sequence[Any]:
    """The frames of a tensor: through all of them gradients flow, or through none."""
    return detached(backend, frames) if len(frames) and backend.needs_gradient_raw(frames[0]) else frames


def _of_outside(backend: Any, externals: Sequence[Any]) -> tuple[list[Any], set[int]]:
    """What the steps read from outside, of weights a copy, if the budget allows; else which of it are weights."""
    weights = {i for i, raw in enumerate(externals) if backend.is_leaf_raw(raw)}
    fits = sum(backend.nbytes_raw(externals[i]) for i in weights) <= SNAPSHOT_BUDGET
    found = [
        _snapshots.take(backend, raw) if fits and i in weights else backend.alias_raw(raw)
        for i, raw in enumerate(externals)
    ]
    return found, set() if fits else weights


class _Snapshots:
    """Copies of parameters, shared by the runs between two changes. The runs keep them alive, nothing else does."""

    def __init__(self) -> None:
        self._taken: dict[int, weakref.ref[Any]] = {}  # by id of the parameter

    def take(self, backend: Any, raw: Any) -> Any:
        """A copy as it is now."""
        found = self._taken.get(id(raw))
        if found is not None and (copy := found()) is not None and backend.equal_raw(raw, copy):
            return copy
        if len(self._taken) > 1024:
            self._taken = {key: entry for key, entry in self._taken.items() if entry() is not None}
        copy = backend.snapshot_raw(raw)
        self._taken[id(raw)] = weakref.ref(copy)
        return copy


_snapshots = _Snapshots()
