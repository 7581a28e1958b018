"""Recorded steps, and how to compute any value of any step again from them."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import External, Var
from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.graph import Value
from rfnb.core.lengths import Lengths, Size
from rfnb.core.op import listening
from rfnb.core.source import with_block
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import LoopError
from rfnb.loop.body import ENDED, LENGTHS, Body
from rfnb.loop.execute import Outcome, stepped
from rfnb.trace.run import Run, StepValue

if TYPE_CHECKING:
    from rfnb.loop.close import Closed

SNAPSHOT_BUDGET = 64 * 2**20
"""Bytes of parameters that a run copies, so that later training does not change what it shows."""


class Replay:
    """A Program with the inputs of a run: gives states as they were, and computes the rest again."""

    def __init__(self, body: Body, closed: Closed, outcome: Outcome, frames: Sequence[Sequence[Any]]):
        backend = self.backend = body.backend
        self.program, self.schedule = closed.program, closed.schedule
        self.seed = int(body.seed or 0)
        assert outcome.kept is not None
        self.kept, self.every = outcome.kept.states, outcome.kept.every
        self.final = tuple(s if isinstance(s, int) else backend.alias_raw(s) for s in outcome.states)
        self.frames = [
            [backend.alias_raw(frame) for frame in each] if isinstance(each, list | tuple) else each for each in frames
        ]
        self.modes = backend.get_modes()
        self.names = body.names
        self.templates = body.before
        self.recorder = body.recorder
        self.steps = outcome.steps
        self.axis = body.axis
        self.size = self._axis_size(body.size)
        self.live = [backend.alias_raw(raw) for raw in closed.program.externals]
        self.versions = [backend.version_raw(raw) for raw in self.live]
        self.externals = self._snapshot(closed.program.externals)
        closed.program.detach(backend.alias_raw)
        self._vars = {value.number: var for value, var in self._value_vars(body)}
        self._compiled: dict[tuple[Var | External, ...], Any] = {}

    def _snapshot(self, externals: Sequence[Any]) -> list[Any]:
        """What the steps read from outside; of parameters a copy, if the budget allows."""
        backend = self.backend
        leaves = [raw for raw in externals if backend.is_leaf_raw(raw)]
        fits = sum(backend.nbytes_raw(raw) for raw in leaves) <= SNAPSHOT_BUDGET
        return [
            _snapshots.take(backend, raw) if fits and backend.is_leaf_raw(raw) else live
            for raw, live in zip(externals, self.live, strict=True)
        ]

    def _value_vars(self, body: Body) -> list[tuple[Value, Var | External]]:
        found = []
        for traced in body.recorder.traced():
            var = body.tape.find(traced.plain._raw)
            if isinstance(var, Var | External):
                found.append((traced.value, var))
        body.recorder.templates = {t.value.number: (t.plain.sig, t.plain.lengths) for t in body.recorder.traced()}
        return found

    def states_before(self, step: int) -> tuple[Any, ...]:
        """All states before a step: kept, or computed from the nearest that is."""
        if step == self.steps:
            return self.final
        nearest, rest = divmod(step, self.every)
        states = self.kept[nearest]
        for done in range(step - rest, step):
            states = tuple(self._step(done, self._after(done), states))
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
        named = [value for value in self._named() if value.number in self._vars]
        wanted = [*[self._vars[value.number] for value in named], *self._after(step)]
        results = self._step(step, wanted)
        found = []
        for value, raw in zip(named, results, strict=False):
            node = value.node
            signature, lengths = self.recorder.templates[value.number]
            tensor = self._tensor(self.recorder.name_of(value), raw, signature, lengths, step)
            assert node is not None
            found.append(StepValue(tensor.name, node.op, node.line or 0, tensor))
        return found, self._check(results[len(named) :], step)

    def computed(self, step: int) -> list[tuple[Value, Tensor]]:
        """All that the step was given and computed, also inside of modules, in order."""
        graph = self.recorder.graph
        known = [value for value in graph.values[: graph.body_values] if value.number in self._vars]
        raws = self._step(step, [self._vars[value.number] for value in known])
        templates = [self.recorder.templates[value.number] for value in known]
        return [
            (value, self._tensor(self.recorder.name_of(value), raw, *template, step))
            for value, raw, template in zip(known, raws, templates, strict=True)
        ]

    def _named(self) -> list[Value]:
        """The values that lines of the body made or keep."""
        graph = self.recorder.graph
        return [value for value in graph.values[: graph.body_values] if self.recorder.in_body(value)]

    def _after(self, step: int) -> tuple[Var, ...]:
        return self.schedule.new if step < self.schedule.free_steps else self.schedule.kept

    def _step(self, step: int, wanted: Sequence[Var | External], states: Sequence[Any] | None = None) -> Sequence[Any]:
        key = tuple(wanted)
        compiled = self._compiled.get(key)
        if compiled is None:
            compiled = self._compiled[key] = stepped(
                self.program, self.schedule, key, self.backend, self.seed, self.externals
            )
        with self.backend.modes(self.modes), listening(None):
            states = self.states_before(step) if states is None else states
            return compiled.step(step, *states, *[frames[step] for frames in self.frames])

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
        expected = self.states_before(step + 1) if (step + 1) % self.every == 0 or step + 1 == self.steps else states
        agrees = all(
            a == b if isinstance(b, int) else self.backend.same_raw(a, b) for a, b in zip(states, expected, strict=True)
        )
        if agrees:
            return "replay agrees"
        changed = any(self.backend.version_raw(raw) != v for raw, v in zip(self.live, self.versions, strict=True))
        return "with today's weights" if changed else "replay differs"

    def stack(self, name: str) -> Tensor:
        """A value of the body over all steps. → {axis, …}"""
        value = next((v for v in reversed(self.recorder.graph.values) if self.recorder.name_of(v) == name), None)
        if value is None or value.number not in self._vars:
            known = list(dict.fromkeys(self.recorder.name_of(v) for v in self._named()))
            raise LoopError(f"{self.recorder.name}: the body has no value {name!r}", expected=", ".join(known))
        signature, lengths = self.recorder.templates[value.number]
        raws = [self._step(step, [self._vars[value.number]])[0] for step in range(min(self.steps, self.size.max))]
        raw = self.backend.stack_raw([self.backend.alias_raw(raw) for raw in raws])
        out = align.sig([self.axis, *signature.dims], signature.sparse_dim, signature.feature_dim)
        result = tensor_of(raw, out, lengths.bind({self.axis: self.size}))
        result.name = name
        return result

    def _axis_size(self, known: Size | None) -> Size:
        """How many steps each sequence took."""
        if LENGTHS in self.names:
            position = self.names.index(LENGTHS)
            return Size(self.templates[position].dims, self.backend.to_numpy_raw(self.final[position]))
        return known if known is not None and known.max == self.steps else Size([], self.steps)

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

    @property
    def bytes(self) -> int:
        """What the record holds, in bytes."""
        raws = [raw for states in self.kept for raw in states if not isinstance(raw, int)]
        raws += [frame for frames in self.frames if isinstance(frames, list) for frame in frames]
        return sum(self.backend.nbytes_raw(raw) for raw in raws)


def _other(lengths: Lengths, dim: Dim, n: int) -> bool:
    """Whether a dim that has one size has another one than is known: it came into being with an axis that grows."""
    known = lengths.size(dim)
    return known is not None and not known.dims and known.max != n


class _Snapshots:
    """Copies of parameters, shared by the runs between two changes. The runs keep them alive, nothing else does."""

    def __init__(self) -> None:
        self._taken: dict[int, tuple[weakref.ref[Any], int, weakref.ref[Any]]] = {}

    def take(self, backend: Any, raw: Any) -> Any:
        """A copy as it is now."""
        version = backend.version_raw(raw)
        found = self._taken.get(id(raw))
        if found is not None and found[0]() is raw and found[1] == version and (copy := found[2]()) is not None:
            return copy
        if len(self._taken) > 1024:
            self._taken = {key: entry for key, entry in self._taken.items() if entry[2]() is not None}
        copy = backend.snapshot_raw(raw)
        self._taken[id(raw)] = (weakref.ref(raw), version, weakref.ref(copy))
        return copy


_snapshots = _Snapshots()


def recorded(body: Body, closed: Closed, outcome: Outcome, frames: Sequence[Sequence[Any]]) -> Run:
    """The Run of a loop."""
    replay = Replay(body, closed, outcome, frames)
    flags = []
    if outcome.error is not None:
        flags.append(f"failed: {type(outcome.error).__name__} in step {outcome.steps}")
    if not all(isinstance(s, int) or body.backend.is_finite_raw(s) for s in outcome.states):
        flags.append("not finite")
    if body.condition is not None and outcome.error is None:
        ended = outcome.states[body.names.index(ENDED)]
        if not body.backend.all_true_raw(ended):
            flags.append("never ended")
    sequence_dim, sequences = replay.sequences()
    return Run(
        name=body.loop.name,
        place=body.source.place() if body.source is not None else "",
        source=with_block(body.source),
        size=replay.size,
        sequence_dim=sequence_dim,
        sequences=sequences,
        replay=replay,
        steps=outcome.steps,
        flags=flags,
        axis=body.axis,
        graph=body.recorder.graph,
    )
