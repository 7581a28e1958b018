"""What a file knows of a run, in the place of a replay: nothing is computed, what was not kept is said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import BodyGraph, Node, Value
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError, RunFileError
from rfnb.trace.run.file.series import Series
from rfnb.trace.run.rerun import run_again
from rfnb.trace.run.stacked import over_steps
from rfnb.trace.run.step import StepValue

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

CURE = "loaded.rerun(fn) computes the steps again, with the model"


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
class StoredReplay:
    """A `Replayable` that only reads.

    seed, every: of the run. steps_begun, why: how many steps each sequence began, and why it ended. checks: of each
    step, whether the replay agreed when it was saved. versions: of rfnb, torch and Python then.
    """

    axis: Dim
    size: Size
    steps: int
    seed: int
    every: int
    states: list[StoredState]
    series: list[Series]
    checks: list[str]
    graph: BodyGraph
    versions: dict[str, str]
    flags: list[str]
    sequences: tuple[Dim | None, Size | None]
    note: str | None = None
    steps_begun: Size | None = None
    why: list[str] | None = None

    @property
    def begun(self) -> Size:
        """How many steps each sequence began."""
        return self.steps_begun or self.size

    def ends(self) -> list[str] | None:
        """Of each sequence, why it ended."""
        return self.why

    def storages(self) -> dict[Any, int]:
        """The memory that it keeps alive."""
        kept = [*self.series, *(state.series for state in self.states if state.series is not None)]
        raws = [raw for each in kept for raw in each.raws or ()]
        return dict(backend_of_raw(raw).storage_raw(raw) for raw in raws)

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

    def computed(self, step: int, only: Collection[int] | None = None) -> list[tuple[Value, Tensor]]:
        """Of the values of the graph those that are in the file: states, and what lines of the body made."""
        given = {state.name: state.at(step) for state in self.states}
        made = self.values(step)[0]
        found = []
        for value in self.graph.values[: self.graph.body_values]:
            if only is not None and value.number not in only:
                continue
            tensor = given.get(value.name) if value.node is None else _taken(made, value, value.node)
            if isinstance(tensor, Tensor):
                found.append((value, tensor))
        return found

    def stack(self, name: str) -> Tensor:
        """A value of the body over all steps. → {axis, …}"""
        series = next((each for each in reversed(self.series) if each.name == name), None)
        if series is None:
            known = ", ".join(dict.fromkeys(each.name for each in self.series))
            raise LoopError(f"the body has no value {name!r}", expected=known or None)
        steps = range(min(self.steps, self.size.max))
        values = [series.tensor(step) for step in steps if step in series.steps]
        shapes = {raw.shape for raw in series.raws or ()}
        if not values or len(values) < len(steps) or len(shapes) > 1:
            raise RunFileError(f"{name} cannot be stacked: it is not the same at all steps", hint="loaded[i] has it")
        return over_steps(values, self.axis, self.size).with_name(name)

    def name_of(self, value: Value) -> str:
        """What the user's line called it."""
        return value.name

    def rerun(self, run: Run, fn: Callable[[], Any] | None) -> Run:
        """The run of the loop of this name in `fn`, with the same seed."""
        if fn is None or run.parent is not None:
            raise _not_in_file(run, "which does not hold the code")
        return run_again(run, fn)

    def fork(self, run: Run, step: int, seed: int | None, states: Mapping[str, Any]) -> Run:
        """Refused."""
        raise _not_in_file(run, "so there is nothing to compute other steps with")

    def gradients(self, run: Run, loss: Any) -> Any:
        """Refused."""
        raise _not_in_file(run, "so there is nothing to compute gradients with")

    def explain(self) -> Any:
        """Refused."""
        raise RunFileError("the file does not hold where the ops were done", hint=CURE)

    def loops(self, step: int) -> list[Run]:
        """Refused."""
        raise RunFileError("the file does not hold the runs of the loops inside of a step", hint=CURE)


def _not_in_file(run: Run, why: str) -> RunFileError:
    return RunFileError(f"{run.name} was loaded from a file, {why}", hint=CURE)


def _taken(made: list[StepValue], value: Value, node: Node) -> Tensor | None:
    """Takes the first of the values in the file that may be this value of the graph, if there is one."""
    if node.source != node.at and value.name == node.op:
        return None  # of a function that the body calls
    wanted = value.name, node.op, node.line or 0, value.sparse_dim
    for at, (name, op, line, tensor) in enumerate(made):
        if (name, op, line, tensor.sparse_dim) == wanted and tensor.dims_set == {*value.dims}:
            return made.pop(at).tensor
    return None
