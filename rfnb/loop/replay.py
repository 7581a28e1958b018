"""Recorded steps, and how to compute any value of any step again from them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.tape import External, Var
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.graph.graph import Value
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import LoopError
from rfnb.loop.body import ENDED, LENGTHS, Body
from rfnb.loop.ended import begun, reasons
from rfnb.loop.execute import Outcome, stepped
from rfnb.loop.explain import Explanation
from rfnb.loop.fork import fork
from rfnb.loop.gradients import Gradients, gradients
from rfnb.loop.nested_runs import Inner, asking
from rfnb.loop.recorded_plan import Plan, plan_of
from rfnb.loop.rerun import rerun
from rfnb.loop.state_history import detached, held_bytes
from rfnb.loop.warnings import not_ended
from rfnb.trace.run.run import Run
from rfnb.trace.run.step import AGREES, StepValue

if TYPE_CHECKING:
    from rfnb.loop.end_of_step import Closed

SNAPSHOT_BUDGET = 64 * 2**20
"""Bytes of parameters that a run copies, so that later training does not change what it shows."""


COMPILED = 32
"""So many ways to do a step are kept compiled: those used last."""


class Replay:
    """A Plan with the inputs of a run: gives states as they were, and computes the rest again."""

    def __init__(
        self, plan: Plan, outcome: Outcome, frames: Sequence[Sequence[Any]], externals: Sequence[Any], seed: int
    ):
        backend = self.backend = plan.backend
        self.plan, self.program, self.schedule, self.recorder = plan, plan.program, plan.schedule, plan.recorder
        self.names, self.templates, self.axis = plan.names, plan.templates, plan.axis
        self.seed = seed
        self.origin: Replay | None = None  # of a fork: whose steps come before its own
        self.frames = [_without_graph(backend, each) for each in frames]
        self.modes = backend.get_modes()
        self.probe: Any = None
        self.externals, self.lent = _of_outside(backend, externals)
        self.version = self._version()
        self._begin(0, outcome)

    def _begin(self, start: int, outcome: Outcome) -> None:
        """The steps from `start` on are those of `outcome`."""
        assert outcome.kept is not None
        self.start, self.steps, self.failed = start, outcome.steps, outcome.failure
        self.kept, self.every, self.kept_bytes = outcome.kept.states, outcome.kept.every, outcome.kept.bytes
        self.final = tuple(s if isinstance(s, int | None) else self.backend.alias_raw(s) for s in outcome.states)
        self.size = self._axis_size(self.plan.size)
        self._compiled: dict[Any, Any] = {}

    def _version(self) -> list[Any]:
        """Another one when something has changed that is read from outside."""
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

    # -- what a Run asks for

    def state_names(self) -> list[str]:
        """The states of the user."""
        return [name for name in self.names if not name.startswith("#")]

    def state(self, name: str, step: int) -> Any:
        """A state before `step`; a size, for an axis that grows."""
        position = self.names.index(name)
        template, raw = self.templates[position], self.states_before(step)[position]
        return raw if isinstance(template, Dim) else self._tensor(name, raw, template.sig, template.lengths, step)

    def values(self, step: int) -> tuple[list[StepValue], str]:
        """What the body computed at `step`, in order, and whether the replay agrees with the run."""
        if self.origin is not None and step < self.start:
            return self.origin.values(step)
        named = self._computable(self._named(), step)
        after = self.after(step) if step < self.steps else ()
        wanted = [*[self.plan.vars[value.number] for value in named], *after]
        results = self.step(step, wanted)
        found = []
        for value, raw in zip(named, results, strict=False):
            node = value.node
            signature, lengths = self.recorder.templates[value.number]
            tensor = self._tensor(self.recorder.name_of(value), raw, signature, lengths, step)
            assert node is not None
            found.append(StepValue(tensor.name, node.op, node.line or 0, tensor))
        return found, self._check(results[len(named) :], step)

    def computed(self, step: int, only: Collection[int] | None = None) -> list[tuple[Value, Tensor]]:
        """All that the step was given and computed, also inside of modules and branches, in order.

        only: the numbers of the values that are wanted.
        """
        if self.origin is not None and step < self.start:
            return self.origin.computed(step, only)
        recorder, plan = self.recorder, self.plan
        values = recorder.graph.values[: recorder.graph.body_values]
        if only is not None:
            values = [value for value in values if value.number in only]
        known = self._computable(values, step)
        inner = Inner(wanted=set(plan.in_branches.values()))
        with asking(inner):
            raws = self.step(step, [plan.vars[value.number] for value in known])
        found = {value.number: raw for value, raw in zip(known, raws, strict=True)}
        found |= {n: inner.values[var] for n, var in plan.in_branches.items() if var in inner.values}
        return [
            (value, self._tensor(recorder.name_of(value), found[number], *recorder.templates[number], step))
            for value in values
            if (number := value.number) in found
        ]

    def _computable(self, values: Sequence[Value], step: int) -> list[Value]:
        """Those that there are; of a step that failed, what was computed before the call that failed."""
        failed, later = self.failed, set[Var | External]()
        if failed is not None and step == failed.step and failed.position is not None:
            later = {Var(number) for call in self.program.calls[failed.position :] for number in call.made()}
        found = [(value, self.plan.vars.get(value.number)) for value in values]
        return [value for value, var in found if var is not None and not (type(var) is Var and var in later)]

    def _named(self) -> list[Value]:
        """The values that lines of the body made or keep."""
        graph = self.recorder.graph
        return [value for value in graph.values[: graph.body_values] if self.recorder.in_body(value)]

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

    def _tensor(self, name: str, raw: Any, signature: align.Sig, lengths: Lengths, step: int) -> Tensor:
        grown = [dim for dim in self.templates if isinstance(dim, Dim)]
        if grown:
            sizes = dict(zip(self.templates, self.states_before(step), strict=True))
            lengths = lengths.bind({dim: Size([], sizes[dim]) for dim in grown})
            shape = zip(signature.dims, self.backend.get_shape_tuple_raw(raw), strict=True)
            made = {dim: Size([], n) for dim, n in shape if set(dim.roots) == {dim.serial} and _other(lengths, dim, n)}
            lengths = lengths.bind(made)
        tensor = tensor_of(self.backend.alias_raw(raw), signature, lengths)
        tensor.name = name
        return tensor

    def _check(self, states: Sequence[Any], step: int) -> str:
        if step >= self.steps:
            return "failed in this step"
        expected = self.states_before(step + 1) if self._keeps(step + 1) else states
        agrees = all(
            a == b if isinstance(b, int | None) else self.backend.same_raw(a, b)
            for a, b in zip(states, expected, strict=True)
        )
        if agrees:
            return AGREES
        changed = self._version() != self.version
        if self.plan.changes is not None:
            return f"replay differs: {self.plan.changes}"
        return "with today's weights" if changed else "replay differs"

    def name_of(self, value: Value) -> str:
        """What the user's line calls a value."""
        return self.recorder.name_of(value)

    def value(self, name: str) -> tuple[Var | External, tuple[align.Sig, Lengths]]:
        """The last value of the body that is called so, and its dims."""
        values = (v for v in reversed(self.recorder.graph.values) if v.number in self.plan.vars)
        value = next((v for v in values if self.recorder.name_of(v) == name), None)
        if value is None:
            known = list(dict.fromkeys(self.recorder.name_of(v) for v in self._named()))
            raise LoopError(f"{self.recorder.name}: the body has no value {name!r}", expected=", ".join(known))
        return self.plan.vars[value.number], self.recorder.templates[value.number]

    def _over_steps(self, var: Var | External, steps: int) -> Iterator[Any]:
        """A value at each step. A step is done once, whether the states before it are kept or not."""
        states: Sequence[Any] | None = None
        for step in range(steps):
            after = () if self._keeps(step + 1) else self.after(step)
            [raw, *states] = self.step(step, [var, *after], states or None)
            yield raw

    def _keeps(self, step: int) -> bool:
        """Whether the states before `step` need not be computed."""
        if self.origin is not None and step < self.start:
            return self.origin._keeps(step)
        return (step - self.start) % self.every == 0 or step == self.steps

    def stack(self, name: str) -> Tensor:
        """A value of the body over all steps. → {axis, …}"""
        var, (signature, lengths) = self.value(name)
        if not self.steps:
            raise LoopError(f"{self.plan.name}: there was no step", got=f"stack({name!r})")
        raws = [self.backend.alias_raw(raw) for raw in self._over_steps(var, min(self.steps, max(self.size.max, 1)))]
        if len(shapes := {self.backend.get_shape_tuple_raw(raw) for raw in raws}) > 1:
            raise LoopError(
                f"{self.plan.name}: {name!r} cannot be stacked: its size differs from step to step",
                got=f"shapes from {min(shapes)} to {max(shapes)}",
                hint=f"run[i][{name!r}] at one step; or an expression without that axis: run.stack('rf.reduce_sum(…)')",
            )
        raw = self.backend.stack_raw(raws)[: self.size.max]
        out = align.sig([self.axis, *signature.dims], signature.sparse_dim, signature.feature_dim)
        result = tensor_of(raw, out, lengths.bind({self.axis: self.size}))
        result.name = name
        return result

    # -- other runs

    def run(self, **origin: Any) -> Run:
        """The Run that shows this."""
        plan = self.plan
        return Run(
            name=plan.name,
            place=plan.place,
            source=plan.source,
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
        """What is wrong with the run, if anything."""
        flags = [] if self.failed is None else [f"failed: {self.failed.kind} in step {self.failed.step}"]
        if not all(isinstance(s, int | None) or self.backend.is_finite_raw(s) for s in self.final):
            flags.append("not finite")
        if self.plan.ends and self.failed is None:
            position = self.names.index(ENDED)
            flag = not_ended(self.backend.to_numpy_raw(self.final[position]), self.templates[position])
            flags += [flag] if flag else []
        return flags

    def continued(self, start: int, outcome: Outcome, seed: int) -> Replay:
        """What goes on from other states before `start`; the steps before are those of this one."""
        other = copy(self)
        other.origin, other.seed, other.probe = self, seed, None
        other._begin(start, outcome)
        return other

    def loops(self, step: int) -> list[Run]:
        """The runs of the loops inside of `step`; of one that failed as well."""
        found: list[Run] = []
        with asking(Inner(runs=found)), nullcontext() if step < self.steps else suppress(Exception):
            self.step(step, list(self.plan.vars.values()))
        return found

    def rerun(self, run: Run, fn: Callable[[], Any] | None) -> Run:
        """The run of the same call, made again with the code as it is now."""
        return rerun(self, run, fn)

    def gradients(self, run: Run, loss: Any) -> Gradients:
        """How the gradient of a loss goes back through the steps."""
        return gradients(self, run, loss)

    def fork(self, run: Run, step: int, seed: int | None, states: Mapping[str, Any]) -> Run:
        """The run that goes on from edited states before `step`."""
        return fork(self, run, step, seed, states)

    @property
    def begun(self) -> Size:
        """How many steps each sequence began."""
        return begun(self)

    def ends(self) -> list[str] | None:
        """Of each sequence, why it ended."""
        return reasons(self)

    def explain(self) -> Explanation:
        """Where the ops of the body were done."""
        return Explanation(self.plan.name, self.plan.told)

    def _axis_size(self, known: Size | None) -> Size:
        """How many steps each sequence took."""
        if LENGTHS in self.names:
            position = self.names.index(LENGTHS)
            return Size(self.templates[position].dims, self.backend.to_numpy_raw(self.final[position]))
        if known is None or known.max == self.steps:
            return known or Size([], self.steps)
        return Size(known.dims, np.minimum(known.values, self.steps), tags=known.tags)

    @property
    def sequences(self) -> tuple[Dim | None, Size | None]:
        """What counts the sequences, and how many there are, with their tags."""
        sized = [
            (dim, lengths.size(dim))
            for signature, lengths in self.recorder.templates.values()
            for dim in signature.dims
        ]
        counted = [(dim, size) for dim, size in sized if size and (dim in self.size.dims or dim.is_batch_dim())]
        tagged = [(dim, size) for dim, size in counted if size.tags is not None]
        found = tagged or counted
        return found[0] if found else (None, None)

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


def _other(lengths: Lengths, dim: Dim, n: int) -> bool:
    """Whether a dim that has one size has another one than is known: it came into being with an axis that grows."""
    known = lengths.size(dim)
    return known is not None and not known.dims and known.max != n


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


def recorded(body: Body, closed: Closed, outcome: Outcome, frames: Sequence[Sequence[Any]]) -> Run:
    """The Run of a loop."""
    replay = Replay(plan_of(body, closed), outcome, frames, closed.program.externals, int(body.seed or 0))
    closed.program.detach(body.backend.alias_raw)
    return replay.run()


def followed(run: Run | None, states: Sequence[Any], stacked: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """What the loop gives, so that `run.gradients(loss)` sees what arrives there."""
    assert run is not None and isinstance(run.replay, Replay)
    backend = run.replay.backend
    if not any(not isinstance(raw, int | None) and backend.needs_gradient_raw(raw) for raw in (*states, *stacked)):
        return list(states), list(stacked)
    probe = run.replay.probe = backend.new_probe()
    return (
        [raw if isinstance(raw, int | None) else probe(raw, ("state", i)) for i, raw in enumerate(states)],
        [probe(raw, ("output", i)) for i, raw in enumerate(stacked)],
    )
