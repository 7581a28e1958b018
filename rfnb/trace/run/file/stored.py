"""A run from a file, in place of a replay: nothing is computed, and missing values raise RunFileError."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.graph import BodyGraph, Node, Value
from rfnb.core.ground.backends import backend_of_raw, selected
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import LoopError, LoopNameError, RunFileError
from rfnb.printable import printable
from rfnb.trace.run.axis_names import AxisNames
from rfnb.trace.run.entries import Entries
from rfnb.trace.run.file.fields import Text, chosen, conform, count, get, within
from rfnb.trace.run.file.save import FROM
from rfnb.trace.run.file.series import Series
from rfnb.trace.run.file.store import Reader
from rfnb.trace.run.session import run_again
from rfnb.trace.run.stacked import Lineage, by_hypothesis, over_steps, stacked_variable
from rfnb.trace.run.step import GrownRows, Row, StepText, StepValue, is_lost
from rfnb.trace.run.variables import (
    ABSENT,
    NUMBERS,
    NUMPY,
    SEQUENCES,
    SHOWN_PARTS,
    Container,
    Growing,
    Grown,
    KeptSteps,
    Leaf,
    Lost,
    LostValue,
    VariableSteps,
    array_of,
    as_code,
)

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

    def at(self, step: int) -> Entries:
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


@dataclass(kw_only=True)
class StoredReplay(KeptSteps):
    """A `Replayable` that only reads stored values.

    seed, every: as in the run. begun, why: how many steps each sequence started, and why it ended. checks: for
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
    begun: Size
    why: list[str] | None = None
    lineages: Sequence[Lineage] = ()
    searched: Any = None
    order: Mapping[int, Sequence[Assigned]] = field(default_factory=dict)

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

    def state(self, name: str, step: int) -> object:
        """The value of a state before `step`.

        Raises LoopNameError after a step that failed, and RunFileError if the state is not in the file.
        """
        if step > self.steps:
            raise LoopNameError(f"there is no state after step {step - 1}, which failed")
        return next(state for state in self.states if state.name == name).at(step)

    def values(self, step: int) -> tuple[list[StepValue], str]:
        """The values that the body computed at `step`, and the result of the replay check at the time of saving."""
        rows = [row for row in self.series_at(step) if isinstance(row, Series)]
        return [StepValue(row.name, row.op, row.line, row.tensor(step)) for row in rows], self.check(step)

    def check(self, step: int) -> str:
        """The result of the replay check at the time of saving."""
        return self.checks[step] if step < len(self.checks) else "not in the file"

    def series_at(self, step: int) -> Sequence[Assigned]:
        """The series that have a value at a step, in the order in which it computed them."""
        return self.order[step] if step in self.order else self._by_step.get(step, [])

    @cached_property
    def _by_step(self) -> dict[int, list[Series]]:
        by_step: dict[int, list[Series]] = {}
        for series in self.series:
            for step in series.steps:
                by_step.setdefault(step, []).append(series)
        return by_step

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

    def gradients(self, run: Run, loss: object) -> NoReturn:
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


def _taken(values: list[StepValue], value: Value, node: Node) -> Tensor | None:
    """Removes and returns the first value in the file that matches this value of the graph; None if there is none."""
    if node.source != node.at and value.name == node.op:
        return None  # computed in a function that the body calls
    form = value.name, node.op, node.line or 0, value.sparse_dim
    for at, entry in enumerate(values):
        entry_form = entry.name, entry.op, entry.line, entry.tensor.sparse_dim
        if entry_form == form and entry.tensor.dims_set == {*value.dims}:
            return values.pop(at).tensor
    return None


FORGOTTEN = Lost("no longer kept", "no longer kept")


class GrownSeries(NamedTuple):
    """What steps have as values of a list that grows: its length at each step, and the rows of its parts, as JSON."""

    name: str
    op: str
    line: int
    grown: Grown
    lengths: dict[int, int]
    parts: Sequence[Sequence[tuple[str, str, object]]] | None


Assigned = Series | GrownSeries | StepText
"""What a step assigned."""


@dataclass(kw_only=True)
class StoredVariables(StoredReplay, VariableSteps):
    """The same for loops of plain Python, whose variables keep their values until they are assigned again.

    codes: by variable, its values as JSON after steps, where they are not those of a series; -1 is before the first
    step. lists, grown: those that grow, and the rows of such lists. kept: the tensors of `codes` that are in no series.
    forgotten: how many steps the run no longer had. kept_from: the first step that has all of its values.
    """

    codes: Mapping[str, Mapping[int, object]] = field(default_factory=dict)
    lists: Sequence[Grown] = ()
    grown: Sequence[GrownSeries] = ()
    kept: Sequence[Series] = ()
    forgotten: int = 0
    kept_from: int = 0

    def __post_init__(self) -> None:
        self._steps: dict[str, list[int]] = {}
        self.names = AxisNames()
        for series in (*self.series, *self.kept):
            self.names.adopt(series.name, series.sig.dims)
        self._check()

    def _check(self) -> None:
        """Reads all values once, as they are untrusted: later, no reader gets an error. Raises RunFileError."""
        for codes in (*(codes.values() for codes in self.codes.values()), *(grown.parts for grown in self.lists)):
            for code in codes:
                self._value(code)
        for series in self.grown:
            length = max(series.lengths.values(), default=0)
            if series.parts is None:
                numbers = series.grown.numbers(length)
                if numbers is None or array_of(numbers) is None:
                    raise RunFileError("a list in the file has no rows")
            elif len(series.parts) < min(length, SHOWN_PARTS):
                raise RunFileError("rows of a list are missing in the file")
            for number in range(len(series.parts or ())):
                self._rows_of(series, number)

    def name_axes(self, name: str, axes: Sequence[str | Dim] | None) -> None:
        """Names the axes of a variable at all steps. Raises LoopError if they fit none of its values."""
        all_series = [series for series in (*self.series, *self.kept) if series.name == name]
        rows = [row for row in self.grown if row.name == name and row.parts is None]
        inputs = [code for step, code in self.codes.get(name, {}).items() if step == -1]

        def named() -> Iterator[Tensor]:
            for series in all_series:
                if len({*series.shapes}) == 1:  # else only statistics are in the file, or lengths that differ
                    assert series.raws is not None
                    forms = [self.names.form(name, tuple(raw.shape), raw) for raw in series.raws]
                    series.sig = next((sig for sig, _ in forms if sig.sparse_dim is None), forms[0][0])
                    series.lengths = [lengths for _, lengths in forms]
                    yield series.at(0)
            values = [self._tensor(name, row.grown.numbers(length)) for row in rows for length in row.lengths.values()]
            values += [self._shown_tensor(name, self._value(code)) for code in inputs]
            yield from (value for value in values if value is not None)

        originals = [(series, series.sig, series.lengths) for series in all_series]
        try:
            self.names.rename(name, axes, named())
            deque(named(), maxlen=0)  # also those after the first that fits
        except Exception:
            for series, sig, lengths in originals:
                series.sig, series.lengths = sig, lengths
            raise

    # -- of steps

    def values(self, step: int) -> tuple[list[StepValue], str]:
        """The tensors and numbers that the lines of a step assigned, in order."""
        rows, check = self.rows(step)
        return [row for row in self._opened(rows) if isinstance(row, StepValue)], check

    def texts(self, step: int) -> list[StepText]:
        """What a step assigned that is neither a tensor nor a number, in words."""
        return [row for row in self._opened(self.rows(step)[0]) if isinstance(row, StepText)]

    def rows(self, step: int) -> tuple[list[Row], str]:
        """All that a step assigned, in order, and its check."""
        rows: list[Row] = []
        for row in self.series_at(step):
            if isinstance(row, Series):
                rows.append(StepValue(row.name, row.op, row.line, row.tensor(step)))
            elif isinstance(row, GrownSeries):
                growing = self._growing(row.grown, row.lengths[step])
                rows.append(GrownRows(row.name, row.op, row.line, growing, partial(self._rows_of, row)))
            else:
                rows.append(row)
        return rows, self.check(step)

    def _opened(self, rows: list[Row]) -> Iterator[StepValue | StepText]:
        for row in rows:
            if not isinstance(row, GrownRows):
                yield row
                continue
            numbers = row.growing.grown.numbers(row.growing.length)
            tensor = None if numbers is None else self._tensor(row.name, numbers)
            if tensor is not None:
                yield StepValue(row.name, row.kind, row.line, tensor)
            else:
                for number in range(min(row.growing.length, SHOWN_PARTS)):
                    yield from row.rows(number)

    def _rows_of(self, series: GrownSeries, number: int) -> list[StepValue | StepText]:
        """The rows of a part of a list that grows."""
        return [self._row(series.line, *row) for row in (series.parts or ())[number]]

    def _row(self, line: int, name: str, kind: str, code: object) -> StepValue | StepText:
        if isinstance(code, dict) and "text" in code:
            return _text([name, kind, line, code["text"]])
        conform([name, kind], list[Text], "rows")
        value = self._value(code)
        tensor = value.tensor.with_name(name) if isinstance(value, Leaf) else self._tensor(name, value)
        if tensor is None:
            raise RunFileError("a row of a list in the file is of no known kind")
        return StepValue(name, kind, line, tensor)

    def lost(self, step: int) -> list[LostValue]:
        """The values that a step assigned, and that were no longer kept."""
        if step < self.forgotten:
            return [LostValue(f"step {step} is {FORGOTTEN.words}")]
        values = [self._value(codes[step]) for codes in self.codes.values() if step in codes]
        errors = [value.error("") for value in values if isinstance(value, Lost) and value.words != ABSENT]
        texts = [LostValue(row.text) for row in self.texts(step) if is_lost(row.text)]
        return [error for error in [*errors, *texts] if isinstance(error, LostValue)]

    computed = KeptSteps.computed

    def storages(self) -> dict[object, int]:
        """The storages of the loaded tensors: the size of each in bytes, by storage key."""
        return super().storages() | self.storages_of(self.kept)

    # -- of variables

    def variable_names(self) -> list[str]:
        """The variables."""
        return list(self.codes)

    def odd_names(self, step: int) -> list[str]:
        """The variables whose value after a step that assigned them is not that of a series."""
        return [name for name, codes in self.codes.items() if step in codes]

    def kept_value(self, name: str, step: int, *, after: bool = False) -> object:
        """A variable before or after a step, as `run/variables.py` says. Raises KeyError if there is none."""
        end = step if after else step - 1
        if end < self.forgotten - 1:
            return FORGOTTEN
        if name not in self._steps:
            steps = {at for series in self.series if series.name == name for at in series.steps}
            self._steps[name] = sorted(steps | {*self.codes[name]})
        number = bisect_right(self._steps[name], end)
        if not number:
            raise KeyError(name)
        at = self._steps[name][number - 1]
        if at in self.codes[name]:
            return self._value(self.codes[name][at])
        series = [row for row in self.series_at(at) if isinstance(row, Series) and row.name == name][-1]
        return Leaf(series.tensor(at), series.op)

    def variable(self, name: str, step: int, *, after: bool = False) -> object:
        """The same, as code has it. Raises KeyError if there is none, and NoValue if it was not kept."""
        value = self.kept_value(name, step, after=after)
        named = self._shown_tensor(name, value) if name in self.names.of else None
        return as_code(name, value) if named is None else named

    def shown(self, name: str, step: int, *, after: bool = False) -> object:
        """As code has it, but tensors, arrays, numbers and lists of numbers as Tensors; words for what was not kept.

        Raises KeyError if there is none, and NoValue if it is not in the file.
        """
        value = self.kept_value(name, step, after=after)
        is_absent = isinstance(value, Lost) and value.words == ABSENT
        shown = None if is_absent else self._tensor_or_words(name, value)
        return as_code(name, value) if shown is None else shown

    def state(self, name: str, step: int) -> object:
        """A variable before `step`: a Tensor, or else words; None if nothing was assigned to it yet."""
        if name not in self.codes:
            raise LoopNameError(f"there is no variable {name!r}", expected=", ".join(self.codes))
        try:
            value = self.kept_value(name, step)
        except KeyError:
            return None
        if (shown := self._tensor_or_words(name, value)) is not None:
            return shown
        kind, parts = (value.kind, value.parts) if isinstance(value, Container) else (type(value).__name__, value)
        if isinstance(value, Growing):
            return f"list of {value.length} parts"
        words = f"{kind} of {len(parts)} parts" if isinstance(parts, list | tuple | dict) else repr(value)
        return printable(words)

    def stack(self, name: str, resolve: bool = True) -> Tensor:
        """A variable after each step, stacked. → {axis, …}"""
        return stacked_variable(self, name, self.begun.max)

    def _tensor_or_words(self, name: str, value: object) -> Tensor | str | None:
        """The Tensor of a value, or words for one that was not kept; None for other values."""
        return printable(value.text) if isinstance(value, Lost) else self._shown_tensor(name, value)

    def _shown_tensor(self, name: str, value: object) -> Tensor | None:
        """The Tensor of a tensor, array, number or list of numbers; None for other values."""
        if isinstance(value, Leaf):
            return value.tensor.with_name(name)
        if isinstance(value, Growing):
            value = value.grown.numbers(value.length)
        if isinstance(value, Container) and value.is_sequence:
            value = [*(value.parts.values() if isinstance(value.parts, dict) else value.parts)]
        return self._tensor(name, value)

    def _tensor(self, name: str, value: object) -> Tensor | None:
        """The Tensor of a number or list of numbers; None for other values."""
        array = array_of(value)
        if array is None:
            return None
        raw = selected().from_numpy_raw(array, None)
        return tensor_of(raw, *self.names.form(name, array.shape, raw)).with_name(name)

    def _growing(self, grown: Grown, length: object) -> Growing:
        parts = within(length, len(grown.parts), "lengths")
        return Growing(grown, parts, lambda number: self._value(grown.parts[number]))

    def _value(self, code: object) -> object:
        """The value that JSON stands for."""
        if not isinstance(code, dict):
            if isinstance(code, list):
                raise RunFileError("a value of a variable in the file is of no known kind")
            return code
        if "kind" in code:
            parts = self._value({name: part for name, part in code.items() if name not in ("kind", "is_sequence")})
            if not isinstance(parts, list | tuple | dict):
                raise RunFileError("a container in the file has no parts")
            return Container(get(code, "kind", str), parts, bool(code.get("is_sequence")))
        if "tensor" in code:
            number, place, kind = code["tensor"]
            table, number = (self.series, number) if number >= 0 else (self.kept, -1 - number)
            series = chosen(table, number, "tensor")
            return Leaf(series.at(within(place, len(series.lengths) - 1, "tensor")), conform(kind, str, "tensor"))
        if "first" in code:
            number, length = code["first"]
            return self._growing(chosen(self.lists, number, "lists"), length)
        if "dict" in code:
            return {_key(key): self._value(part) for key, part in code["dict"]}
        if "numpy" in code:
            return _of_numpy(code)
        if "complex" in code:
            return complex(*code["complex"])
        for name, kind in SEQUENCES.items():
            if name in code:
                return kind(self._value(part) for part in code[name])
        words = get(code, "known" if "known" in code else "lost", str)
        text = get({"text": words, **code}, "text", str)
        return Lost(words, text, "known" in code, code.get("finite"), code.get("largest"))


def read_variables(data: object, file: Reader, steps: int) -> dict[str, Any]:
    """The fields of `StoredVariables`, and the `table` of rows that are not values of series."""
    lists = [Grown(map(_of_numpy, codes)) for codes in get(data, "lists", list[list])]
    codes = {
        name: {within(step + 1, steps, "step") - 1: code for step, code in values}
        for name, values in get(data, "values", dict).items()
    }
    grown = [_grown(entry, lists, steps) for entry in get(data, "grown", list)]
    table = [chosen(grown, row, "grown") if type(row) is int else _text(row) for row in get(data, "rows", list)]
    tensors = [Series.read(entry, file, count(entry, "count")) for entry in get(data, "kept", list)]
    numbers = {name: count(data, name, steps) for name in FROM}
    return {"codes": codes, "lists": lists, "grown": grown, "kept": tensors, "table": table, **numbers}


def _grown(entry: object, lists: list[Grown], steps: int) -> GrownSeries:
    """What steps have as values of a list that grows."""
    grown = chosen(lists, get(entry, "list", int), "lists")
    size, pairs = len(grown.parts), get(entry, "lengths", list)
    lengths = {within(step, steps, "step"): within(length, size, "lengths") for step, length in pairs}
    names = get(entry, "name", str), get(entry, "kind", str), count(entry, "line")
    return GrownSeries(*names, grown, lengths, get(entry, "rows", list | None))


def _text(row: Iterable[object]) -> StepText:
    name, kind, line, text = row
    name, kind, text = conform([name, kind, text], list[Text], "rows")
    return StepText(name, kind, conform(line, int, "rows"), text)


def _of_numpy(code: object) -> object:
    """A number of numpy, if JSON stands for one. Raises RunFileError for other types."""
    if not isinstance(code, dict) or "numpy" not in code:
        return code
    name, number = code["numpy"]
    dtype = np.dtype(name) if isinstance(name, str) else None
    if dtype is None or dtype.char not in NUMPY or not isinstance(number, NUMBERS):
        raise RunFileError("a number of numpy in the file is of no known kind")
    return dtype.type(number)


def _key(key: object) -> Hashable:
    """The key of a dict, of which lists are tuples."""
    return tuple(map(_key, key)) if isinstance(key, list) else key
