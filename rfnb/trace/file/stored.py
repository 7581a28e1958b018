"""What a file knows of a run, in the place of a replay: nothing is computed, what was not kept is said."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from rfnb.core import align
from rfnb.core.dim import Dim
from rfnb.core.graph import Graph, Value
from rfnb.core.lengths import Size
from rfnb.core.raw import backend_of_raw, selected
from rfnb.core.tensor import Tensor, tensor_of
from rfnb.errors import LoopError, RunFileError
from rfnb.trace.file.series import Missing, Series
from rfnb.trace.step import StepValue

if TYPE_CHECKING:
    from rfnb.trace.run import Run

CURE = "loaded.rerun(fn) computes the steps again, with the model"


RERUN: list[Callable[[Any, Run, Callable[[], Any]], Run]] = []
"""How a function is called with the seed of a run; the loops register it."""


@dataclass
class StoredState:
    """A state over the steps: tensors, sizes of an axis that grows, or None where it was None."""

    name: str
    series: Series | None = None
    sizes: dict[int, int] = field(default_factory=dict)
    empty: set[int] = field(default_factory=set)

    def at(self, step: int) -> Any:
        """The state before a step. Raises RunFileError if it is not in the file."""
        if step in self.empty:
            return None
        if step in self.sizes:
            return self.sizes[step]
        if self.series is None or step not in self.series.steps:
            raise RunFileError(f"{self.name} before step {step} is not in the file", got=self._kept(), hint=CURE)
        return self.series.tensor(step)

    def _kept(self) -> str:
        steps = sorted({*self.sizes, *self.empty, *(self.series.steps if self.series else ())})
        every = f", every {steps[1] - steps[0]}th" if len(steps) > 2 and steps[1] > steps[0] + 1 else ""
        return f"the states before {len(steps)} steps{every}"


@dataclass
class Stored:
    """A `Replayable` that only reads.

    seed, every: of the run. checks: of each step, whether the replay agreed when it was saved. versions: of rfnb, torch
    and Python then.
    """

    axis: Dim
    size: Size
    steps: int
    seed: int
    every: int
    states: list[StoredState]
    series: list[Series]
    checks: list[str]
    graph: Graph
    versions: dict[str, str]
    note: str | None = None

    def storages(self) -> dict[Any, int]:
        """The memory that it keeps alive."""
        kept = [*self.series, *(state.series for state in self.states if state.series is not None)]
        raws = [raw for each in kept for raw in each.raws or ()]
        return dict(backend_of_raw(raw).storage_raw(raw) for raw in raws)

    def rerun(self, run: Run, fn: Callable[[], Any] | None) -> Run:
        """The run of the loop of this name in `fn`, with the same seed."""
        if fn is None or not RERUN or run.parent is not None:
            raise NotInFile(f"{run.name} was loaded from a file, which does not hold the code", hint=CURE)
        return RERUN[0](self, run, fn)

    @property
    def origin(self) -> None:
        """It goes on from no other run."""

    @property
    def plan(self) -> SimpleNamespace:
        """Nothing is known of the call."""
        return SimpleNamespace(call=None)

    @property
    def backend(self) -> Any:
        """The one of this process."""
        return selected()

    @property
    def modes(self) -> Any:
        """Autocast as it is now."""
        return selected().get_modes()

    def state_names(self) -> list[str]:
        """The states of the user."""
        return [state.name for state in self.states]

    def state(self, name: str, step: int) -> Any:
        """A state before `step`."""
        return next(state for state in self.states if state.name == name).at(step)

    def values(self, step: int) -> tuple[list[StepValue], str]:
        """What the body computed at `step`, and what the check said when the run was saved."""
        found = [each for each in self.series if step in each.steps]
        check = self.checks[step] if step < len(self.checks) else "not in the file"
        return [StepValue(each.name, each.op, each.line, each.tensor(step)) for each in found], check

    def computed(self, step: int) -> list[tuple[Value, Tensor]]:
        """Of the values of the graph those that are in the file: states, and what lines of the body made."""
        given = {state.name: state.at(step) for state in self.states}
        made = {(name, line): tensor for name, _, line, tensor in self.values(step)[0]}
        found = []
        for value in self.graph.values[: self.graph.body_values]:
            tensor = given.get(value.name) if value.node is None else made.get((value.name, value.node.line or 0))
            if isinstance(tensor, Tensor):
                found.append((value, tensor))
        return found

    def stack(self, name: str) -> Tensor:
        """A value of the body over all steps. → {axis, …}"""
        series = next((each for each in reversed(self.series) if each.name == name), None)
        if series is None:
            known = ", ".join(dict.fromkeys(each.name for each in self.series))
            raise LoopError(f"the body has no value {name!r}", expected=known or None)
        if series.raws is None:
            return _refuse(series.tensor(series.steps[0]))
        steps = [step for step in range(min(self.steps, self.size.max)) if step in series.steps]
        shapes = {series.raws[series.steps.index(step)].shape for step in steps}
        if len(steps) < min(self.steps, self.size.max) or len(shapes) != 1:
            raise RunFileError(f"{name} cannot be stacked: it is not the same at all steps", hint="loaded[i] has it")
        raws = [series.raws[series.steps.index(step)] for step in steps]
        raw = backend_of_raw(raws[0]).stack_raw(raws)
        sig = align.sig([self.axis, *series.sig.dims], series.sig.sparse_dim, series.sig.feature_dim)
        result = tensor_of(raw, sig, series.lengths[0].bind({self.axis: self.size}))
        result.name = name
        return result

    def name_of(self, value: Value) -> str:
        """What the user's line called it."""
        return value.name

    def fork(self, run: Run, step: int, seed: int | None, states: Mapping[str, Any]) -> Run:
        """Refused."""
        raise NotInFile(f"{run.name} was loaded from a file: there is nothing to compute other steps with", hint=CURE)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise NotInFile(f"a run that was loaded from a file has no {name}: nothing is computed", hint=CURE)


class NotInFile(RunFileError, AttributeError):
    """What only a run in memory has."""


def _refuse(missing: Tensor) -> Tensor:
    """Raises RunFileError."""
    assert isinstance(missing, Missing)
    return missing._raw
