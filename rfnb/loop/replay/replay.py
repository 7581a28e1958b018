"""A Replay gives a Run its recorded steps: states and values by their names in the user's code, forks and gradients.

`run.rerun()` calls the function again that the loop ran in.
"""

from __future__ import annotations

import dis
import inspect
import sys
import weakref
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from types import CodeType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rfnb.backend.base.tape import External, Var
from rfnb.core.dims import align
from rfnb.core.dims.binding import bind_again, current_lengths
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.graph.graph import Value
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.ground.source import locals_of, user_frame, with_block
from rfnb.core.run_ctx import RunCtx, entered, get_run_ctx
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of, tensors_in
from rfnb.errors import LoopError, LoopNameError
from rfnb.loop.body.hypotheses import Searched, first_nan
from rfnb.loop.ends import not_ended, reasons_of_ends, steps_begun, steps_taken
from rfnb.loop.replay import fork, gradients
from rfnb.loop.step import Bindings, Inspection, Outcome, compile_step, detached, held_bytes, inspecting, place_of
from rfnb.loop.steps.explain import Explanation, ExplanationData
from rfnb.trace.record.record import Recorder
from rfnb.trace.record.traced import Traced
from rfnb.trace.run.run import Run
from rfnb.trace.run.session import run_again
from rfnb.trace.run.stacked import Lineage
from rfnb.trace.run.step import AGREES, StepLines, StepText, StepValue

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.replay.fork import Edit
    from rfnb.loop.step import Step, TracedStep


def recorded_step(step: TracedStep, explanation_data: ExplanationData | None) -> Step:
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

    def reads_written(reads: Iterable[object]) -> bool:
        return any(type(ref) is External and ref.number in written for ref in reads)

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

    def __init__(self, step: Step, outcome: Outcome, bindings: Bindings):
        backend = self.backend = step.backend
        self.step, self.program, self.schedule, self.recorder = step, step.program, step.schedule, step.recorder
        self.axis, self.name_of = step.axis, step.recorder.name_of
        self.templates = [carry.before for carry in step.carried]
        self.places = {carry.name: place for place, carry in enumerate(step.carried) if carry.kind == "state"}
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
        self._free_steps = self.schedule.free_steps(bindings.limit)
        self._compiled: dict[Hashable, Any] = {}
        self._latest: tuple[int, Sequence[RawTensor]] | None = None
        self.advance(outcome)

    def advance(self, outcome: Outcome) -> None:
        """Takes the steps that `outcome` has now, which may be more than before."""
        assert outcome.kept is not None
        self.steps, self.failed = outcome.steps, outcome.failure
        self.kept, self.every, self.kept_bytes = outcome.kept.states, outcome.kept.every, outcome.kept.bytes
        self.final = tuple(s if isinstance(s, int | None) else self.backend.alias_raw(s) for s in outcome.states)
        self.size = steps_taken(self.step, self.bindings.limit, self.final, self.steps)
        for name in ("search_steps", "parents", "lineages"):  # of the steps before
            self.__dict__.pop(name, None)

    def version_now(self) -> list[object]:
        """Versions of all externals; they differ from `version` if something that the steps read has changed."""
        backend, externals = self.backend, self.bindings.externals
        entries = [backend.to_numpy_raw(backend.sample_raw(externals[i])).tobytes() for i in self.not_copied]
        return [*map(backend.version_raw, externals), *entries]

    @property
    def is_isolated(self) -> bool:
        """Whether steps are computed by ops of rfnb from values that training does not change, so that another thread
        may compute them while the program runs.
        """
        return not self.not_copied and self.step.changes is None and not self.program.may_do_anything

    def states_before(self, step: int) -> tuple[RawTensor, ...]:
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
            states = tuple(self.compute(n, self.after(n), states))
        return states

    @contextmanager
    def in_order(self) -> Iterator[None]:
        """For a look at the values of all steps in order: the states after each are kept until the next one."""
        self._latest = -1, ()
        try:
            yield
        finally:
            self._latest = None

    def _reached(self, step: int, states: Sequence[RawTensor]) -> None:
        """The states before `step` have been computed."""
        if self._latest is not None and not self.keeps(step):
            self._latest = step, states

    def after(self, step: int) -> tuple[Var, ...]:
        """The Vars of the states after a step."""
        return self.schedule.new if step < self._free_steps else self.schedule.kept

    def compute(
        self,
        step: int,
        targets: Sequence[Var | External],
        states: Sequence[RawTensor] | None = None,
        *,
        gradients: bool = False,
        given: Mapping[Var, RawTensor] | None = None,
    ) -> Sequence[RawTensor]:
        """Recomputes the values `targets` of a step, from the states before it or from `states`; those that are `given`
        are not computed.
        """
        if self.origin is not None and step < self.start:
            return self.origin.compute(step, targets, states, gradients=gradients, given=given)
        given = {**self.bindings.given.get(step, {}), **(given or {})}
        key = *_names(targets), None, *_names(given)
        compiled = self._compiled.pop(key, None) or compile_step(self.step, self.bindings, targets, [*given])
        self._compiled[key] = compiled
        if len(self._compiled) > COMPILED:
            self._compiled.pop(next(iter(self._compiled)))
        states = self.states_before(step) if states is None else states
        with self.backend.modes(self.modes, gradients=gradients), listening(None):
            return compiled.run(step, *states, *[frames[step] for frames in self.bindings.frames], *given.values())

    def over_steps(self, targets: Sequence[Var | External], steps: int) -> Iterator[Sequence[object]]:
        """Values at each step. Each step runs only once, even if the states before it are not kept."""
        states: Sequence[RawTensor] | None = None
        for step in range(steps):
            after = () if self.keeps(step + 1) else self.after(step)
            results = self.compute(step, [*targets, *after], states or None)
            states = results[len(targets) :]
            yield results[: len(targets)]

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

    def storages(self) -> dict[object, int]:
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

    def _storage_holders(self, frames: Sequence[RawTensor]) -> Sequence[object]:
        """The frames that hold separate storages: one if all are of one tensor, none if frames are made on access."""
        if not len(frames):
            return ()
        shared = self.backend.storage_raw(frames[0]) == self.backend.storage_raw(frames[-1])
        return frames[:1] if shared else frames


def _names(variables: Iterable[Var | External]) -> list[tuple[type, int]]:
    """Keys of values; a Var equals the External of the same number."""
    return [(type(var), var.number) for var in variables]


def _without_graph(backend: type[Backend], frames: Sequence[RawTensor]) -> Sequence[object]:
    """The frames without their autograd graph. Either all frames of a tensor need gradients or none does."""
    return detached(backend, frames) if len(frames) and backend.needs_gradient_raw(frames[0]) else frames


def _snapshot_externals(backend: type[Backend], externals: Sequence[RawTensor]) -> tuple[list[object], set[int]]:
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
        self._taken: dict[int, weakref.ref[RawTensor]] = {}  # by id of the parameter

    def take(self, backend: type[Backend], raw: RawTensor) -> RawTensor:
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


class Replay(RecordedSteps):
    """Recorded steps in terms of the user's code; a Run reads everything it shows from here."""

    fork_with = fork.fork_with
    locked_states = fork.locked_states
    since = fork.since
    fork = fork.fork
    gradients = gradients.gradients
    begun = property(steps_begun)
    ends = reasons_of_ends

    def explain(self) -> Explanation:
        """Explains where the ops of the body were computed."""
        return Explanation(self.step.name, self.step.explanation_data)

    # -- states and values

    def state_names(self) -> list[str]:
        """The names of the states."""
        return list(self.places)

    def state(self, name: str, step: int) -> Any:
        """The value of a state before `step`; for an axis that grows, its size."""
        position = self.places[name]
        template, raw = self.templates[position], self.states_before(step)[position]
        return raw if isinstance(template, Dim) else self._tensor(name, raw, template.sig, template.lengths, step)

    def values(self, step: int) -> tuple[list[StepValue], str]:
        """The values that the body computed at `step`, in order, and whether the replay agrees with the run."""
        if self.origin is not None and step < self.start:
            return self.origin.values(step)
        named = self._computable(self._named(), step)
        after = self.after(step) if step < self.steps else ()
        sources = [*[self.step.vars[value.number] for value in named], *after]
        results = self.compute(step, sources)
        rows = []
        for value, raw in zip(named, results, strict=False):
            node = value.node
            signature, lengths = self.recorder.templates[value.number]
            tensor = self._tensor(self.name_of(value), raw, signature, lengths, step)
            assert node is not None
            rows.append(StepValue(tensor.name, node.op, node.line or 0, tensor, node.kind == "loop"))
        states = results[len(named) :]
        self._reached(step + 1, states)
        return rows, self._check(states, step)

    def lines(self, step: int) -> StepLines | None:
        """Not known."""
        return None

    def texts(self, step: int) -> list[StepText]:
        """None: values of a body are tensors."""
        return []

    def computed(self, step: int, only: Collection[int] | None = None) -> list[tuple[Value, Tensor]]:
        """All inputs and computed values of a step, also inside of modules and branches, in order.

        only: the numbers of the wanted values.
        """
        if self.origin is not None and step < self.start:
            return self.origin.computed(step, only)
        recorder, of_loop = self.recorder, self.step
        values = recorder.graph.values[: recorder.graph.body_values]
        if only is not None:
            values = [value for value in values if value.number in only]
        computable = self._computable(values, step)
        inspection = Inspection(wanted=set(of_loop.in_branches.values()))
        with inspecting(inspection):
            raws = self.compute(step, [of_loop.vars[value.number] for value in computable])
        raws_by_number = {value.number: raw for value, raw in zip(computable, raws, strict=True)}
        inner = inspection.values
        raws_by_number |= {number: inner[var] for number, var in of_loop.in_branches.items() if var in inner}
        return [
            (value, self._tensor(self.name_of(value), raws_by_number[number], *recorder.templates[number], step))
            for value in values
            if (number := value.number) in raws_by_number
        ]

    def _computable(self, values: Sequence[Value], step: int) -> list[Value]:
        """Leaves out values that are not on the tape, and those that a failed step has not computed."""
        failed, later = self.failed, set[Var | External]()
        if failed is not None and step == failed.step and failed.position is not None:
            later = {Var(number) for call in self.program.calls[failed.position :] for number in call.made}
        pairs = [(value, self.step.vars.get(value.number)) for value in values]
        return [value for value, var in pairs if var is not None and not (type(var) is Var and var in later)]

    def _named(self) -> list[Value]:
        """The values that the lines of the body compute or assign."""
        graph = self.recorder.graph
        return [value for value in graph.values[: graph.body_values] if self.recorder.in_body(value)]

    def _tensor(self, name: str, raw: RawTensor, signature: align.Sig, lengths: Lengths, step: int) -> Tensor:
        grown = [dim for dim in self.templates if isinstance(dim, Dim)]
        if grown:
            sizes = dict(zip(self.templates, self.states_before(step), strict=True))
            lengths = lengths.bind({dim: Size([], sizes[dim]) for dim in grown})
            shape = zip(signature.dims, self.backend.get_shape_tuple_raw(raw), strict=True)
            extents = {
                dim: Size([], n) for dim, n in shape if set(dim.roots) == {dim.serial} and _differs(lengths, dim, n)
            }
            lengths = lengths.bind(extents)
        tensor = tensor_of(self.backend.alias_raw(raw), signature, lengths)
        tensor.name = name
        return tensor

    def _check(self, states: Sequence[RawTensor], step: int) -> str:
        if step >= self.steps:
            return "failed in this step"
        expected = self.states_before(step + 1) if self.keeps(step + 1) else states
        agrees = all(
            a == b if isinstance(b, int | None) else self.backend.same_raw(a, b)
            for a, b in zip(states, expected, strict=True)
        )
        if agrees:
            return AGREES
        changed = self.version_now() != self.version
        if self.step.changes is not None:
            return f"replay differs: {self.step.changes}"
        return "with today's weights" if changed else "replay differs"

    def value(self, name: str) -> tuple[Var | External, tuple[align.Sig, Lengths]]:
        """The last value of the body with this name, and its dims."""
        values = (v for v in reversed(self.recorder.graph.values) if v.number in self.step.vars)
        value = next((v for v in values if self.name_of(v) == name), None)
        if value is None:
            names = list(dict.fromkeys(self.name_of(v) for v in self._named()))
            raise LoopError(f"{self.recorder.name}: the body has no value {name!r}", expected=", ".join(names))
        return self.step.vars[value.number], self.recorder.templates[value.number]

    def stack(self, name: str, resolve: bool = True) -> Tensor:
        """A value of the body over all steps; that of a search by final hypothesis, if `resolve`. → {axis, …}"""
        var, (signature, lengths) = self.value(name)
        if not self.steps:
            raise LoopError(f"{self.step.name}: the loop has run no steps", got=f"stack({name!r})")
        steps = min(self.steps, max(self.size.max, 1))
        raws = [self.backend.alias_raw(raw) for [raw] in self.over_steps([var], steps)]
        if len(shapes := {self.backend.get_shape_tuple_raw(raw) for raw in raws}) > 1:
            raise LoopError(
                f"{self.step.name}: {name!r} cannot be stacked: its size differs from step to step",
                got=f"shapes from {min(shapes)} to {max(shapes)}",
                hint=f"run[i][{name!r}] for one step; or stack an expression without that axis: "
                "run.stack('rf.reduce_sum(…)')",
            )
        raw, dims = self.backend.stack_raw(raws)[: self.size.max], signature.dims
        if self.step.search is not None and resolve:
            beams = self.step.search.beams
            raw = beams.resolved(self.backend, raw, tensor_of(raws[0], signature, lengths), self.parents)
            dims = tuple(beams.final(dims))
        out = align.sig([self.axis, *dims], signature.sparse_dim, signature.feature_dim)
        result = tensor_of(raw, out, lengths.bind({self.axis: self.size}))
        result.name = name
        return result

    @property
    def is_search(self) -> bool:
        """Whether the steps choose hypotheses."""
        return self.step.search is not None

    @cached_property
    def search_steps(self) -> Sequence[object]:
        """What a search keeps of its steps, in the order of its `SearchPlan`, [steps, …]; nothing for other loops."""
        search, alias = self.step.search, self.backend.alias_raw
        if search is None or not self.steps:
            return []
        steps = [[alias(raw) for raw in raws] for raws in self.over_steps(search.vars, self.steps)]
        return [self.backend.stack_raw(list(values)) for values in zip(*steps, strict=True)]

    @cached_property
    def parents(self) -> list[np.ndarray]:
        """For each choice of a search, which hypothesis each one extends. [steps, …, beam]"""
        count = 0 if self.step.search is None else len(self.step.search.parents)
        return [self.backend.to_numpy_raw(raw) for raw in self.search_steps[:count]]

    @cached_property
    def lineages(self) -> list[Lineage]:
        """Where the final hypotheses of a search are at each step."""
        if self.step.search is None or not self.steps:
            return []
        beams = self.step.search.beams
        return [
            Lineage(beam, beams.dims[-1], beams.dims[:-1], beams.places(beam, self.parents))
            for beam in (beams.dims[-1], *beams.after)
        ]

    def found(self, run: Run) -> Any:
        """What a search found in these steps; None for other loops."""
        search, place = self.step.search, place_of(self.step.carried, "ended")
        if search is None:
            return None
        raws = dict(zip(search.kept, self.search_steps[len(search.parents) :], strict=False))
        ended = None if place is None else self.final[place]
        nan_finder = partial(first_nan, self)
        return search.found(
            Searched(raws, ended, self.size, self.step.include_eos, self.bindings.limit, nan_finder, run)
        )

    def of_hypothesis(self, step: int, sequence: int | None, place: int) -> dict[Dim, int]:
        """The position of a hypothesis along each beam of the values of a step; of its parent along the first beam.

        place: its place in the beam after the step.
        """
        search, (owner, _) = self.step.search, self.sequences
        if search is None:
            return {}
        dims = search.beams.dims[:-1]
        if any(dim is not owner for dim in dims) or (dims and sequence is None):
            raise LoopError(
                f"{self.step.name}: a hypothesis belongs to one sequence", got=f"place {place} of sequence {sequence}"
            )
        return search.beams.along(self.parents, (step, *([sequence or 0] if dims else [])), place)

    # -- the run

    def rerun(self, run: Run, fn: Callable[[], object] | None) -> Run:
        """Repeats the call with current code, and returns the run of the loop of the same name."""
        if self.origin is not None:
            raise LoopError(f"{run.name}: a fork cannot be run again", hint="run.parent.rerun()")
        call = self.bindings.call
        function = fn or _current_function(run, call)

        def repeat() -> None:
            with _as_in_run(self, call):
                function()

        return run_again(run, repeat)

    def run(self, **origin: Any) -> Run:
        """The Run that shows these steps."""
        step = self.step
        return Run(
            name=step.name,
            place="" if step.source is None else step.source.place(),
            source=step.block,
            size=self.size,
            replay=self,
            steps=self.steps,
            axis=self.axis,
            graph=self.recorder.graph,
            failed=self.failed,
            **origin,
        )

    @property
    def flags(self) -> list[str]:
        """Short descriptions of problems with the run: "failed: …", "not finite", sequences that did not end."""
        flags = [] if self.failed is None else [f"failed: {self.failed.kind} in step {self.failed.step}"]
        finals = [s for s, carry in zip(self.final, self.step.carried, strict=True) if carry.kind != "search"]
        if not all(isinstance(s, int | None) or self.backend.is_finite_raw(s) for s in finals):
            flags.append("not finite")
        scores = place_of(self.step.carried, "search")
        if scores is not None:
            dead = np.isneginf(self.backend.to_numpy_raw(self.final[scores])).all(axis=-1)
            flags += [f"no hypothesis left: {int(dead.sum())} of {dead.size}"] if dead.any() else []
        has_ended = place_of(self.step.carried, "ended")
        if has_ended is not None and self.failed is None and not self.goes_on:
            flag = not_ended(self.backend.to_numpy_raw(self.final[has_ended]), self.templates[has_ended])
            flags += [flag] if flag else []
        return flags

    def loops(self, step: int) -> list[Run]:
        """The runs of the loops inside of `step`, including one that failed."""
        runs: list[Run] = []
        with inspecting(Inspection(runs=runs)), nullcontext() if step < self.steps else suppress(Exception):
            self.compute(step, list(self.step.vars.values()))
        return runs

    @property
    def sequences(self) -> tuple[Dim | None, Size | None]:
        """The dim that counts the sequences, and its size with their tags; None for both if there is none.

        Hypotheses are not sequences, though each takes a number of steps of its own.
        """
        search = self.step.search
        beams = set() if search is None else {search.beams.dims[-1], *search.beams.after}
        sized = [
            (dim, lengths.size(dim))
            for signature, lengths in self.recorder.templates.values()
            for dim in signature.dims
            if dim not in beams
        ]
        counted = [(dim, size) for dim, size in sized if size and (dim in self.size.dims or dim.is_batch_dim())]
        tagged = [(dim, size) for dim, size in counted if size.tags is not None]
        pairs = tagged or counted
        return pairs[0] if pairs else (None, None)


def _differs(lengths: Lengths, dim: Dim, n: int) -> bool:
    """Whether a dim has another known size than `n`, the same for all sequences: it depends on a growing axis."""
    size = lengths.size(dim)
    return size is not None and not size.dims and size.max != n


def completed(replay: Replay, search_steps: Sequence[object]) -> Replay:
    """The replay of a loop that has ended. Also releases the autograd graph that the program holds.

    search_steps: what a search kept of its steps, so that they need not run again for it.
    """
    if search_steps:
        replay.search_steps = detached(replay.backend, search_steps)
    replay.program.detach(replay.backend.alias_raw)
    return replay


def probed(
    run: Run | None, states: Sequence[RawTensor], stacked: Sequence[RawTensor]
) -> tuple[list[RawTensor], list[RawTensor]]:
    """The results of a loop with probes for their gradients, which `run.gradients(loss)` reads."""
    assert run is not None and isinstance(run.replay, Replay)
    backend = run.replay.backend
    if not any(not isinstance(raw, int | None) and backend.needs_gradient_raw(raw) for raw in (*states, *stacked)):
        return list(states), list(stacked)
    probe = run.replay.probe = backend.new_probe()
    return (
        [raw if isinstance(raw, int | None) else probe(raw, ("state", i)) for i, raw in enumerate(states)],
        [probe(raw, ("output", i)) for i, raw in enumerate(stacked)],
    )


# -- `run.rerun()`: the call that a loop ran in, once more, with current code but the same inputs and seed


@dataclass(frozen=True)
class EnclosingCall:
    """The call of the user's function that a loop ran in.

    module, code: the function; `lasti` is the position of the `with` in its bytecode. given: its arguments when the
    loop began; tensors are detached. dims: sizes of the Dims among them. ctx: the run context of the call.
    """

    module: str
    code: CodeType
    lasti: int
    given: Mapping[str, object]
    dims: tuple[tuple[Dim, Lengths], ...]
    ctx: RunCtx

    @property
    def raws(self) -> list[RawTensor]:
        """The raw tensors of the arguments."""
        tensors = [leaf for leaf in leaves(list(self.given.values())) if type(leaf) is Tensor]
        return [x._raw for x in tensors if x.raw_tensor is not None]


def current_call() -> EnclosingCall | None:
    """The current call of the user's innermost function."""
    frame = user_frame()
    if frame is None:
        return None
    code, parameters = frame.f_code, _parameters(frame.f_code)
    names = locals_of(frame) if parameters else {}
    values = {name: map_leaves(_leaf_without_graph, names[name]) for name in parameters if name in names}
    dims = tuple((leaf, current_lengths([leaf])) for leaf in leaves(list(values.values())) if isinstance(leaf, Dim))
    return EnclosingCall(frame.f_globals.get("__name__", ""), code, frame.f_lasti, values, dims, get_run_ctx().again())


def _parameters(code: CodeType) -> tuple[str, ...]:
    """The names of all parameters of a function, starred ones last; empty for a module or a class."""
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + starred]


def _leaf_without_graph(leaf: object) -> object:
    if type(leaf) is not Tensor or leaf.raw_tensor is None:
        return leaf
    backend = backend_of_raw(leaf._raw)
    keeps_graph = backend.needs_gradient_raw(leaf._raw) and not backend.is_leaf_raw(leaf._raw)
    return leaf.like(backend.alias_raw(leaf._raw)).with_name(leaf.name) if keeps_graph else leaf


def _current_function(run: Run, call: EnclosingCall | None) -> Callable[[], object]:
    """The current version of the function, bound to the original arguments."""
    if call is None or not call.module or call.code.co_qualname.startswith("<"):
        raise LoopError(
            f"{run.name}: the loop did not run in a function that can be called again",
            got=run.place,
            hint="put the loop into a function; or pass one that runs it, run.rerun(lambda: …)",
        )
    name, code = call.code.co_qualname, call.code
    function = _function_named(call.module, name)
    if function is None:
        raise LoopError(
            f"{run.name}: {call.module} no longer has {name}, in which the loop ran",
            hint="pass a function that runs the loop: run.rerun(lambda: …)",
        )
    if lost := _overwritten_parameters(code, call.lasti):
        raise LoopError(
            f"{run.name}: {name} sets its argument `{lost[0]}` before the loop, so its original value is not known",
            hint=f"give the new value of `{lost[0]}` another name; or run.rerun(lambda: {name.split('.')[-1]}(…))",
        )
    args, kwargs = _arguments(code, call.given)
    return partial(function, *args, **kwargs)


def _arguments(code: CodeType, values: Mapping[str, Any]) -> tuple[list[object], dict[str, object]]:
    names = iter(_parameters(code))
    args = [values[name] for name in islice(names, code.co_argcount)]
    kwargs = {name: values[name] for name in islice(names, code.co_kwonlyargcount)}
    args += values[next(names)] if code.co_flags & inspect.CO_VARARGS else ()
    kwargs |= values[next(names)] if code.co_flags & inspect.CO_VARKEYWORDS else {}
    return args, kwargs


def _function_named(module: str, qualname: str) -> Callable[..., object] | None:
    """The function that has this name now; for methods, the plain function that takes all arguments."""
    value: Any = sys.modules.get(module)
    for name in qualname.split("."):
        value = inspect.getattr_static(value, name, None)
    if isinstance(value, property):
        value = value.fget
    value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
    return value if callable(value) else None


def _overwritten_parameters(code: CodeType, lasti: int) -> list[str]:
    """Parameters that the function may have set before the instruction at `lasti`."""
    steps = list(dis.get_instructions(code))
    parameters = set(_parameters(code))
    repeated = any("JUMP_BACKWARD" in step.opname and step.argval <= lasti < step.offset for step in steps)
    stores = [
        step for step in steps if step.opname.startswith(("STORE_", "DELETE_")) and (repeated or step.offset < lasti)
    ]
    names = [name for step in stores for name in (step.argval if isinstance(step.argval, tuple) else [step.argval])]
    return [name for name in names if name in parameters]


# -- the modes and sizes of the run


@contextmanager
def _as_in_run(replay: Replay, call: EnclosingCall | None) -> Iterator[None]:
    """Restores the modes, run context and lengths of the run inside the block."""
    with ExitStack() as stack:
        stack.enter_context(replay.backend.modes(replay.modes))
        if call is not None:
            stack.enter_context(entered(call.ctx.again()))
            stack.enter_context(_sizes_bound(call))
        yield


@contextmanager
def _sizes_bound(call: EnclosingCall) -> Iterator[None]:
    """Binds Dims to the sizes of that call's batch inside the block."""
    tensors = tensors_in(list(call.given.values()))
    bindings = [*((dim, x.lengths) for x in tensors for dim in x.dims), *call.dims]
    before = {root: root.bound for dim, _ in bindings for root in dim.roots.values()}
    for dim, lengths in bindings:
        bind_again([dim], lengths)
    try:
        yield
    finally:
        for root, bound in before.items():
            root.bound = bound
