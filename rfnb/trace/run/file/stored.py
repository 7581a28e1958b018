"""A run from a file, in place of a replay: nothing is computed, and missing values raise RunFileError."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import BodyGraph, Node, Value
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError, LoopNameError, RunFileError
from rfnb.trace.run.file.series import Series
from rfnb.trace.run.rerun import run_again
from rfnb.trace.run.stacked import Lineage, by_hypothesis, over_steps
from rfnb.trace.run.step import StepLines, StepText, StepValue

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

HINT = "loaded.rerun(fn) computes the steps again, with the model"
"""Hint of all errors about values that are not in the file."""


@dataclass
class StoredState:
    """A state over the steps: tensors, sizes of a growing axis, or None, depending on the step."""

    name: str
    series: list[Series] = field(default_factory=list)
    sizes: dict[int, int] = field(default_factory=dict)
    empty: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self._series_at = {step: series for series in self.series for step in series.steps}

    def at(self, step: int) -> Any:
        """The state before a step. Raises RunFileError if it is not in the file."""
        if step in self.empty:
            return None
        if step in self.sizes:
            return self.sizes[step]
        if step not in self._series_at:
            raise RunFileError(f"{self.name} before step {step} is not in the file", got=self._kept(), hint=HINT)
        return self._series_at[step].tensor(step)

    def _kept(self) -> str:
        steps = sorted({*self.sizes, *self.empty, *self._series_at})
        every = f", every {steps[1] - steps[0]}th" if len(steps) > 2 and steps[1] > steps[0] + 1 else ""
        return f"the states before {len(steps)} steps{every}"


@dataclass
class StoredReplay:
    """A `Replayable` that only reads stored values.

    seed, every: as in the run. steps_begun, why: how many steps each sequence started, and why it ended. checks: for
    each step, whether the replay agreed when the run was saved. versions: of rfnb, torch and Python at that time.
    searched: what a search found. order: the series at steps whose values are in another order than that of `series`.
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
    lineages: Sequence[Lineage] = ()
    searched: Any = None
    order: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    _by_step: dict[int, list[Series]] | None = field(default=None, init=False)

    @property
    def is_isolated(self) -> bool:
        """Nothing is computed."""
        return True

    @property
    def begun(self) -> Size:
        """How many steps each sequence started."""
        return self.steps_begun or self.size

    def ends(self) -> list[str] | None:
        """Why each sequence ended."""
        return self.why

    def storages(self) -> dict[object, int]:
        """The storages of the loaded tensors: the size of each in bytes, by storage key."""
        return self.storages_of([*self.series, *(series for state in self.states for series in state.series)])

    def storages_of(self, all_series: Sequence[Series]) -> dict[object, int]:
        """The storages of some series."""
        raws = [raw for entry in all_series if entry.raws is not None for raw in entry.raws[:1]]
        return dict(backend_of_raw(raw).storage_raw(raw) for raw in raws)

    def state_names(self) -> list[str]:
        """The names of the user's states."""
        return [state.name for state in self.states]

    def state(self, name: str, step: int) -> Any:
        """The value of a state before `step`.

        Raises LoopNameError after a step that failed, and RunFileError if the state is not in the file.
        """
        if step > self.steps:
            raise LoopNameError(f"there is no state after step {step - 1}, which failed")
        return next(state for state in self.states if state.name == name).at(step)

    def in_order(self) -> AbstractContextManager[None]:
        """Nothing is computed again."""
        return nullcontext()

    def values(self, step: int) -> tuple[list[StepValue], str]:
        """The values that the body computed at `step`, and the result of the replay check at the time of saving."""
        all_series = self.series_at(step)
        check = self.checks[step] if step < len(self.checks) else "not in the file"
        return [StepValue(series.name, series.op, series.line, series.tensor(step)) for series in all_series], check

    def series_at(self, step: int) -> Sequence[Any]:
        """The series that have a value at a step, in the order in which it computed them."""
        if step in self.order:
            return self.order[step]
        if self._by_step is None:
            self._by_step = {}
            for series in self.series:
                for at in series.steps:
                    self._by_step.setdefault(at, []).append(series)
        return self._by_step.get(step, [])

    def lines(self, step: int) -> StepLines | None:
        """Not known."""
        return None

    def texts(self, step: int) -> list[StepText]:
        """None: those of plain Python are in `StoredVariables`."""
        return []

    def computed(self, step: int, only: Collection[int] | None = None) -> list[tuple[Value, Tensor]]:
        """The values of the graph that are in the file: states, and values of lines of the body."""
        states = {state.name: state.at(step) for state in self.states}
        values = self.values(step)[0]
        pairs = []
        for value in self.graph.values[: self.graph.body_values]:
            if only is not None and value.number not in only:
                continue
            tensor = states.get(value.name) if value.node is None else _taken(values, value, value.node)
            if isinstance(tensor, Tensor):
                pairs.append((value, tensor))
        return pairs

    def found(self, run: Run) -> Any:
        """What a search found; None for other loops."""
        return self.searched

    @property
    def is_search(self) -> bool:
        """Whether the steps choose hypotheses."""
        return self.searched is not None

    def of_hypothesis(self, step: int, sequence: int | None, place: int) -> dict[Dim, int]:
        """The position of a hypothesis along the beams before the first and after the last choice of a step."""
        if not self.lineages:
            return {}
        before, *_, after = self.lineages
        parents = self.searched.trace.parents[step, sequence or 0 if before.dims else 0]
        return {after.beam: place, before.beam: int(parents[place])}

    def stack(self, name: str, resolve: bool = True) -> Tensor:
        """Stacks a value of the body over all steps. → {axis, …}"""
        series = next((entry for entry in reversed(self.series) if entry.name == name), None)
        if series is None:
            names = ", ".join(dict.fromkeys(entry.name for entry in self.series))
            raise LoopError(f"the body has no value {name!r}", expected=names or None)
        steps = range(min(self.steps, self.size.max))
        values = [series.tensor(step) for step in steps if step in series.steps]
        if not values or len(values) < len(steps) or len({*series.shapes}) > 1:
            raise RunFileError(
                f"{name} cannot be stacked: it is missing at some steps, or its shape changes", hint="loaded[i] has it"
            )
        result = over_steps(values, self.axis, self.size)
        return (by_hypothesis(result, self.axis, self.lineages) if resolve else result).with_name(name)

    def name_of(self, value: Value) -> str:
        """The name of a value in the user's code."""
        return value.name

    def rerun(self, run: Run, fn: Callable[[], object] | None) -> Run:
        """Calls `fn` with the same seed, and returns the new run of the loop with this name."""
        if fn is None or run.parent is not None:
            raise _not_in_file(run, "which does not contain the code")
        return run_again(run, fn)

    def fork(self, run: Run, step: int, seed: int | None, only: object, states: Mapping[str, object]) -> Run:
        """Raises RunFileError: the steps cannot be computed without the model."""
        raise _not_in_file(run, "so other steps cannot be computed")

    def locked_states(self, run: Run, step: int) -> Mapping[str, str]:
        """All states."""
        return dict.fromkeys(run.states, "the run is from a file, so other steps cannot be computed")

    def gradients(self, run: Run, loss: object) -> Any:
        """Raises RunFileError: gradients cannot be computed without the model."""
        raise _not_in_file(run, "so gradients cannot be computed")

    def explain(self) -> object:
        """Raises RunFileError: the file does not contain where the ops ran."""
        raise RunFileError("the file does not contain where the ops ran", hint=HINT)

    def loops(self, step: int) -> list[Run]:
        """Raises RunFileError: the file does not contain the runs of inner loops."""
        raise RunFileError("the file does not contain the runs of the loops inside a step", hint=HINT)


def _not_in_file(run: Run, why: str) -> RunFileError:
    return RunFileError(f"{run.name} was loaded from a file, {why}", hint=HINT)


def _taken(made: list[StepValue], value: Value, node: Node) -> Tensor | None:
    """Removes and returns the first value in the file that matches this value of the graph; None if there is none."""
    if node.source != node.at and value.name == node.op:
        return None  # computed in a function that the body calls
    form = value.name, node.op, node.line or 0, value.sparse_dim
    for at, entry in enumerate(made):
        entry_form = entry.name, entry.op, entry.line, entry.tensor.sparse_dim
        if entry_form == form and entry.tensor.dims_set == {*value.dims}:
            return made.pop(at).tensor
    return None
