"""A Replay gives a Run its recorded steps: states and values by their names in the user's code, forks and gradients."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import nullcontext, suppress
from functools import cached_property, partial
from typing import Any

import numpy as np

from rfnb.backend.base.tape import External, Var
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths, Size
from rfnb.core.graph.graph import Value
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import LoopError
from rfnb.loop.body import rerun
from rfnb.loop.body.warnings import not_ended
from rfnb.loop.replay import ended, first_nan, fork, gradients
from rfnb.loop.replay.recorded import RecordedSteps
from rfnb.loop.step import place_of
from rfnb.loop.steps.beams import Searched
from rfnb.loop.steps.execute import Inspection, detached, inspecting
from rfnb.loop.steps.explain import Explanation
from rfnb.trace.run.run import Run
from rfnb.trace.run.stacked import Lineage
from rfnb.trace.run.step import AGREES, StepLines, StepText, StepValue


class Replay(RecordedSteps):
    """Recorded steps in terms of the user's code; a Run reads everything it shows from here."""

    fork_with = fork.fork_with
    locked_states = fork.locked_states
    fork = fork.fork
    rerun = rerun.rerun
    gradients = gradients.gradients
    begun = property(ended.begun)
    ends = ended.reasons

    def explain(self) -> Explanation:
        """Explains where the ops of the body were computed."""
        return Explanation(self.plan.name, self.plan.explanation_data)

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
        sources = [*[self.plan.vars[value.number] for value in named], *after]
        results = self.step(step, sources)
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
        recorder, plan = self.recorder, self.plan
        values = recorder.graph.values[: recorder.graph.body_values]
        if only is not None:
            values = [value for value in values if value.number in only]
        computable = self._computable(values, step)
        inspection = Inspection(wanted=set(plan.in_branches.values()))
        with inspecting(inspection):
            raws = self.step(step, [plan.vars[value.number] for value in computable])
        raws_by_number = {value.number: raw for value, raw in zip(computable, raws, strict=True)}
        raws_by_number |= {n: inspection.values[var] for n, var in plan.in_branches.items() if var in inspection.values}
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
        pairs = [(value, self.plan.vars.get(value.number)) for value in values]
        return [value for value, var in pairs if var is not None and not (type(var) is Var and var in later)]

    def _named(self) -> list[Value]:
        """The values that the lines of the body compute or assign."""
        graph = self.recorder.graph
        return [value for value in graph.values[: graph.body_values] if self.recorder.in_body(value)]

    def _tensor(self, name: str, raw: Any, signature: align.Sig, lengths: Lengths, step: int) -> Tensor:
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

    def _check(self, states: Sequence[Any], step: int) -> str:
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
        if self.plan.changes is not None:
            return f"replay differs: {self.plan.changes}"
        return "with today's weights" if changed else "replay differs"

    def value(self, name: str) -> tuple[Var | External, tuple[align.Sig, Lengths]]:
        """The last value of the body with this name, and its dims."""
        values = (v for v in reversed(self.recorder.graph.values) if v.number in self.plan.vars)
        value = next((v for v in values if self.name_of(v) == name), None)
        if value is None:
            names = list(dict.fromkeys(self.name_of(v) for v in self._named()))
            raise LoopError(f"{self.recorder.name}: the body has no value {name!r}", expected=", ".join(names))
        return self.plan.vars[value.number], self.recorder.templates[value.number]

    def stack(self, name: str, resolve: bool = True) -> Tensor:
        """A value of the body over all steps; that of a search by final hypothesis, if `resolve`. → {axis, …}"""
        var, (signature, lengths) = self.value(name)
        if not self.steps:
            raise LoopError(f"{self.plan.name}: the loop has run no steps", got=f"stack({name!r})")
        steps = min(self.steps, max(self.size.max, 1))
        raws = [self.backend.alias_raw(raw) for [raw] in self.over_steps([var], steps)]
        if len(shapes := {self.backend.get_shape_tuple_raw(raw) for raw in raws}) > 1:
            raise LoopError(
                f"{self.plan.name}: {name!r} cannot be stacked: its size differs from step to step",
                got=f"shapes from {min(shapes)} to {max(shapes)}",
                hint=f"run[i][{name!r}] for one step; or stack an expression without that axis: "
                "run.stack('rf.reduce_sum(…)')",
            )
        raw, dims = self.backend.stack_raw(raws)[: self.size.max], signature.dims
        if self.plan.search is not None and resolve:
            beams = self.plan.search.beams
            raw = beams.resolved(self.backend, raw, tensor_of(raws[0], signature, lengths), self.parents)
            dims = tuple(beams.final(dims))
        out = align.sig([self.axis, *dims], signature.sparse_dim, signature.feature_dim)
        result = tensor_of(raw, out, lengths.bind({self.axis: self.size}))
        result.name = name
        return result

    @property
    def is_search(self) -> bool:
        """Whether the steps choose hypotheses."""
        return self.plan.search is not None

    @cached_property
    def search_steps(self) -> Sequence[Any]:
        """What a search keeps of its steps, in the order of its plan, [steps, …]; nothing for other loops."""
        search, alias = self.plan.search, self.backend.alias_raw
        if search is None or not self.steps:
            return []
        steps = [[alias(raw) for raw in raws] for raws in self.over_steps(search.vars, self.steps)]
        return [self.backend.stack_raw(list(values)) for values in zip(*steps, strict=True)]

    @cached_property
    def parents(self) -> list[np.ndarray]:
        """For each choice of a search, which hypothesis each one extends. [steps, …, beam]"""
        count = 0 if self.plan.search is None else len(self.plan.search.parents)
        return [self.backend.to_numpy_raw(raw) for raw in self.search_steps[:count]]

    @cached_property
    def lineages(self) -> list[Lineage]:
        """Where the final hypotheses of a search are at each step."""
        if self.plan.search is None or not self.steps:
            return []
        beams = self.plan.search.beams
        return [
            Lineage(beam, beams.dims[-1], beams.dims[:-1], beams.places(beam, self.parents))
            for beam in (beams.dims[-1], *beams.after)
        ]

    def found(self, run: Run) -> Any:
        """What a search found in these steps; None for other loops."""
        search, place = self.plan.search, place_of(self.plan.carried, "ended")
        if search is None:
            return None
        raws = dict(zip(search.kept, self.search_steps[len(search.parents) :], strict=False))
        ended = None if place is None else self.final[place]
        nan_finder = partial(first_nan.first_nan, self)
        return search.found(Searched(raws, ended, self.size, self.plan.include_eos, self.plan.limit, nan_finder, run))

    def of_hypothesis(self, step: int, sequence: int | None, place: int) -> dict[Dim, int]:
        """The position of a hypothesis along each beam of the values of a step; of its parent along the first beam.

        place: its place in the beam after the step.
        """
        search, (owner, _) = self.plan.search, self.sequences
        if search is None:
            return {}
        dims = search.beams.dims[:-1]
        if any(dim is not owner for dim in dims) or (dims and sequence is None):
            raise LoopError(
                f"{self.plan.name}: a hypothesis belongs to one sequence", got=f"place {place} of sequence {sequence}"
            )
        return search.beams.along(self.parents, (step, *([sequence or 0] if dims else [])), place)

    # -- the run

    def run(self, **origin: Any) -> Run:
        """The Run that shows these steps."""
        plan = self.plan
        return Run(
            name=plan.name,
            place="" if plan.source is None else plan.source.place(),
            source=plan.block,
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
        finals = [s for s, carry in zip(self.final, self.plan.carried, strict=True) if carry.kind != "search"]
        if not all(isinstance(s, int | None) or self.backend.is_finite_raw(s) for s in finals):
            flags.append("not finite")
        scores = place_of(self.plan.carried, "search")
        if scores is not None:
            dead = np.isneginf(self.backend.to_numpy_raw(self.final[scores])).all(axis=-1)
            flags += [f"no hypothesis left: {int(dead.sum())} of {dead.size}"] if dead.any() else []
        has_ended = place_of(self.plan.carried, "ended")
        if has_ended is not None and self.failed is None and not self.goes_on:
            flag = not_ended(self.backend.to_numpy_raw(self.final[has_ended]), self.templates[has_ended])
            flags += [flag] if flag else []
        return flags

    def loops(self, step: int) -> list[Run]:
        """The runs of the loops inside of `step`, including one that failed."""
        runs: list[Run] = []
        with inspecting(Inspection(runs=runs)), nullcontext() if step < self.steps else suppress(Exception):
            self.step(step, list(self.plan.vars.values()))
        return runs

    @property
    def sequences(self) -> tuple[Dim | None, Size | None]:
        """The dim that counts the sequences, and its size with their tags; None for both if there is none.

        Hypotheses are no sequences, though each takes a number of steps of its own.
        """
        search = self.plan.search
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


def completed(replay: Replay, search_steps: Sequence[Any]) -> Replay:
    """The replay of a loop that has ended. Also releases the autograd graph that the program holds.

    search_steps: what a search kept of its steps, so that they need not run again for it.
    """
    if search_steps:
        replay.search_steps = detached(replay.backend, search_steps)
    replay.program.detach(replay.backend.alias_raw)
    return replay


def probed(run: Run | None, states: Sequence[Any], stacked: Sequence[Any]) -> tuple[list[Any], list[Any]]:
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
