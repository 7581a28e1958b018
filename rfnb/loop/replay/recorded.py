"""What a recorded loop keeps: its step, which all runs of the same steps share, and the data of one run."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rfnb.backend.base.tape import External, Var
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.source import with_block
from rfnb.core.tensor.listener import listening
from rfnb.errors import LoopNameError
from rfnb.loop.step import place_of
from rfnb.loop.steps.beams import without_dead
from rfnb.loop.steps.execute import Bindings, Outcome, compile_step, detached, held_bytes
from rfnb.loop.steps.explain import ExplanationData
from rfnb.trace.record.record import Recorder
from rfnb.trace.record.traced import Traced

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.replay.fork import Edit
    from rfnb.loop.step import Step, TracedStep


def plan_of(step: TracedStep, explanation_data: ExplanationData | None) -> Step:
    """The step that the runs of a recorded loop share. Call it while the recorder still has its traced frame."""
    recorder = step.recorder
    variables, branch_vars = _vars(recorder, recorder.traced()), _vars(recorder, recorder.traced_in_branches())
    return step.without_tensors(
        block=with_block(step.source),
        vars=variables,
        in_branches={number: var for number, var in branch_vars.items() if isinstance(var, Var)},
        assigned_vars=dict(_assigned(step)),
        changes=_changes(step),
        explanation_data=explanation_data,
    )


def _vars(recorder: Recorder, traced: Sequence[Traced]) -> dict[int, Var | External]:
    """The place of each value on the tape, by its number. Also stores the dims of the values in the recorder."""
    variables: dict[int, Var | External] = {}
    for tensor in traced:
        number, plain = tensor.value.number, tensor.plain
        recorder.templates[number] = plain.sig, plain.lengths
        var = recorder.tape.find(plain._raw)
        if isinstance(var, Var | External):
            variables[number] = var
    return variables


def _assigned(step: TracedStep) -> Iterator[tuple[str, tuple[Var, Sequence[Dim]]]]:
    for name, leaf in step.assigned.items():
        if isinstance(leaf, Traced) and isinstance(var := step.tape.find(leaf.plain._raw), Var):
            yield name, (var, leaf.dims)


def _changes(step: TracedStep) -> str | None:
    """Why replayed steps may differ: they run without effects, so what the body writes and reads is not written."""
    program, is_kept = step.program, step.tape.is_kept
    written = {number for number, raw in enumerate(program.externals) if is_kept(raw)}
    if not written:
        return None

    def reads_written(reads: Iterable[Any]) -> bool:
        return any(type(read) is External and read.number in written for read in reads)

    schedule = step.schedule
    results = [*schedule.kept, *schedule.outputs, *([] if schedule.ended is None else [schedule.ended])]
    calls = [program.calls[position] for position in program.needed(results, effects=False)]
    if not reads_written(results) and not any(reads_written(call.reads) for call in calls):
        return None
    writers = [call.node for call in program.calls if call.effect and reads_written(call.reads)]
    lines = [f" ({node.source.place()}: `{node.source.text()}`)" for node in writers if node and node.source]
    return f"the loop changes something that it reads{lines[0] if lines else ''}"


SNAPSHOT_BUDGET = 64 * 2**20
"""Maximum size of the parameters that a run copies, in bytes. Copies are not changed by later training."""

COMPILED = 32
"""Number of compiled steps that a run keeps, one for each set of wanted values; the least recently used goes first."""


class RecordedSteps:
    """A Step with the inputs and states of a run.

    origin: for a fork, the run with the steps before its own. not_copied: which of the externals are weights that are
    read from the model, as copies would exceed the budget.
    """

    def __init__(self, plan: Step, outcome: Outcome, bindings: Bindings):
        backend = self.backend = plan.backend
        self.plan, self.program, self.schedule, self.recorder = plan, plan.program, plan.schedule, plan.recorder
        self.axis, self.name_of = plan.axis, plan.recorder.name_of
        self.templates = [carry.before for carry in plan.carried]
        self.places = {carry.name: place for place, carry in enumerate(plan.carried) if carry.kind == "state"}
        self.origin: Self | None = None
        self.goes_on = False  # while the loop is paused
        self.edits: Sequence[Edit] = ()  # of the states at its start
        self.modes = backend.get_modes()
        self.probe: Any = None
        frames = [_without_graph(backend, frame) for frame in bindings.frames]
        externals, self.not_copied = _snapshot_externals(backend, bindings.externals)
        self._begin(0, outcome, replace(bindings, frames=frames, externals=externals))
        self.version = self.version_now()

    def _begin(self, start: int, outcome: Outcome, bindings: Bindings) -> None:
        """Takes the steps from `start` on from `outcome`."""
        self.start, self.bindings, self.seed = start, bindings, bindings.seed
        self._compiled: dict[Any, Any] = {}
        self._latest: tuple[int, Sequence[Any]] | None = None
        self.advance(outcome)

    def advance(self, outcome: Outcome) -> None:
        """Takes the steps that `outcome` has now, which may be more than before."""
        assert outcome.kept is not None
        self.steps, self.failed = outcome.steps, outcome.failure
        self.kept, self.every, self.kept_bytes = outcome.kept.states, outcome.kept.every, outcome.kept.bytes
        self.final = tuple(s if isinstance(s, int | None) else self.backend.alias_raw(s) for s in outcome.states)
        self.size = self._axis_size(self.plan.limit)
        for name in ("search_steps", "parents", "lineages"):  # of the steps before
            self.__dict__.pop(name, None)

    def version_now(self) -> list[Any]:
        """Versions of all externals; they differ from `version` if something that the steps read has changed."""
        backend, externals = self.backend, self.bindings.externals
        entries = [backend.to_numpy_raw(backend.sample_raw(externals[i])).tobytes() for i in self.not_copied]
        return [*map(backend.version_raw, externals), *entries]

    @property
    def is_isolated(self) -> bool:
        """Whether steps are computed by ops of rfnb from values that training does not change, so that another thread
        may compute them while the program runs.
        """
        return not self.not_copied and self.plan.changes is None and not self.program.may_do_anything

    def states_before(self, step: int) -> tuple[Any, ...]:
        """All states before a step: as kept, or recomputed from the nearest earlier ones that are."""
        if step > self.steps:
            raise LoopNameError(f"{self.recorder.name}: there is no state after step {step - 1}, which failed")
        if step == self.steps:
            return self.final
        if self.origin is not None and step < self.start:
            return self.origin.states_before(step)
        nearest, offset = divmod(step - self.start, self.every)
        states, start = self.kept[nearest], step - offset
        latest, carries = self._latest or (-1, ())
        if start <= latest <= step:
            states, start = tuple(carries), latest
        for n in range(start, step):
            states = tuple(self.step(n, self.after(n), states))
        return states

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """For a look at the values of all steps in order: the states after each are kept until the next one."""
        self._latest = -1, ()
        try:
            yield
        finally:
            self._latest = None

    def _reached(self, step: int, states: Sequence[Any]) -> None:
        """The states before `step` have been computed."""
        if self._latest is not None and not self.keeps(step):
            self._latest = step, states

    def after(self, step: int) -> tuple[Var, ...]:
        """The Vars of the states after a step."""
        return self.schedule.new if step < self.schedule.free_steps else self.schedule.kept

    def step(
        self,
        step: int,
        wanted: Sequence[Var | External],
        states: Sequence[Any] | None = None,
        *,
        gradients: bool = False,
        given: Mapping[Var, Any] | None = None,
    ) -> Sequence[Any]:
        """Recomputes the values `wanted` of a step, from the states before it or from `states`; those that are `given`
        are not computed.
        """
        if self.origin is not None and step < self.start:
            return self.origin.step(step, wanted, states, gradients=gradients, given=given)
        given = {**self.bindings.given.get(step, {}), **(given or {})}
        key = *_names(wanted), None, *_names(given)
        compiled = self._compiled.pop(key, None) or compile_step(self.plan, self.bindings, wanted, [*given])
        self._compiled[key] = compiled
        if len(self._compiled) > COMPILED:
            self._compiled.pop(next(iter(self._compiled)))
        states = self.states_before(step) if states is None else states
        with self.backend.modes(self.modes, gradients=gradients), listening(None):
            return compiled.run(step, *states, *[frames[step] for frames in self.bindings.frames], *given.values())

    def over_steps(self, wanted: Sequence[Var | External], steps: int) -> Iterator[Sequence[Any]]:
        """Values at each step. Each step runs only once, even if the states before it are not kept."""
        states: Sequence[Any] | None = None
        for step in range(steps):
            after = () if self.keeps(step + 1) else self.after(step)
            results = self.step(step, [*wanted, *after], states or None)
            states = results[len(wanted) :]
            yield results[: len(wanted)]

    def keeps(self, step: int) -> bool:
        """Whether the states before `step` are kept, so that they need not be recomputed."""
        if self.origin is not None and step < self.start:
            return self.origin.keeps(step)
        return (step - self.start) % self.every == 0 or step == self.steps

    def continued(self, start: int, outcome: Outcome, bindings: Bindings, edits: Sequence[Edit] = ()) -> Self:
        """The fork with the steps of `outcome` from `start` on; its earlier steps are those of this run."""
        steps = copy(self)
        steps.origin, steps.probe = self, None
        steps.edits = [*self.edits_before(start), *edits]
        steps._begin(start, outcome, bindings)
        return steps

    def edits_before(self, step: int) -> Sequence[Edit]:
        """The edits of the states that `step` began with."""
        if self.origin is not None and step < self.start:
            return self.origin.edits_before(step)
        return self.edits if step == self.start else ()

    def _axis_size(self, known: Size | None) -> Size:
        """How many steps each sequence took."""
        place = place_of(self.plan.carried, "lengths")
        if place is not None:
            scores = place_of(self.plan.carried, "search")
            values = self.backend.to_numpy_raw(self.final[place])
            if scores is not None:
                values = without_dead(self.backend, values, self.final[scores])
            return Size(self.templates[place].dims, values)
        if known is None or known.max == self.steps:
            return known or Size([], self.steps)
        return Size(known.dims, np.minimum(known.values, self.steps), tags=known.tags)

    def storages(self) -> dict[Any, int]:
        """The storages that the run keeps alive, with their bytes; those of a fork include its origin's.

        Weights that were not copied belong to the model and do not count.
        """
        states = self.kept_bytes or held_bytes(self.backend, self.kept)
        if (self.steps - self.start) % self.every:
            states += held_bytes(self.backend, [self.final])
        raws = [frame for frames in self.bindings.frames for frame in self._storage_holders(frames)]
        raws += [raw for i, raw in enumerate(self.bindings.externals) if i not in self.not_copied]
        call = self.bindings.call
        raws += [*self.program.constants.values(), *(() if call is None else call.raws)]
        before = {} if self.origin is None else self.origin.storages()
        return before | {id(self): states} | dict(map(self.backend.storage_raw, raws))

    def _storage_holders(self, frames: Sequence[Any]) -> Sequence[Any]:
        """The frames that hold separate storages: one if all are of one tensor, none if frames are made on access."""
        if not len(frames):
            return ()
        shared = self.backend.storage_raw(frames[0]) == self.backend.storage_raw(frames[-1])
        return frames[:1] if shared else frames


def _names(wanted: Iterable[Var | External]) -> list[tuple[type, int]]:
    """Keys of values; a Var equals the External of the same number."""
    return [(type(var), var.number) for var in wanted]


def _without_graph(backend: type[Backend], frames: Sequence[Any]) -> Sequence[Any]:
    """The frames without their autograd graph. Either all frames of a tensor need gradients or none does."""
    return detached(backend, frames) if len(frames) and backend.needs_gradient_raw(frames[0]) else frames


def _snapshot_externals(backend: type[Backend], externals: Sequence[Any]) -> tuple[list[Any], set[int]]:
    """The externals, with weights copied if the budget allows; and the positions of weights that were not copied."""
    weights = {i for i, raw in enumerate(externals) if backend.is_leaf_raw(raw)}
    fits = sum(backend.nbytes_raw(externals[i]) for i in weights) <= SNAPSHOT_BUDGET
    snapshots = [
        _snapshots.take(backend, raw) if fits and i in weights else backend.alias_raw(raw)
        for i, raw in enumerate(externals)
    ]
    return snapshots, set() if fits else weights


class _Snapshots:
    """Copies of parameters, shared by all runs until a parameter changes. Only the runs keep them alive."""

    def __init__(self) -> None:
        self._taken: dict[int, weakref.ref[Any]] = {}  # by id of the parameter

    def take(self, backend: type[Backend], raw: Any) -> Any:
        """A copy of the parameter's current value."""
        reference = self._taken.get(id(raw))
        if reference is not None and (copy := reference()) is not None and backend.equal_raw(raw, copy):
            return copy
        if len(self._taken) > 1024:
            self._taken = {key: entry for key, entry in self._taken.items() if entry() is not None}
        copy = backend.snapshot_raw(raw)
        self._taken[id(raw)] = weakref.ref(copy)
        return copy


_snapshots = _Snapshots()
