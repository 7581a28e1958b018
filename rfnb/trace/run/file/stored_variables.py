"""A run of plain Python from a file: variables keep their values until they are assigned again."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import RunFileError
from rfnb.trace.run.axis_names import AxisNames, is_unnamed
from rfnb.trace.run.file.fields import chosen, count, get, list_of
from rfnb.trace.run.file.stored import StoredReplay
from rfnb.trace.run.file.variables import ABSENT, FROM
from rfnb.trace.run.names import LostValue, NoValue
from rfnb.trace.run.step import StepText

KINDS: dict[str, Any] = {"list": list, "tuple": tuple}
NUMBERS = ("bool", "int", "float")


@dataclass
class StoredVariables(StoredReplay):
    """The same for loops of plain Python, whose variables keep their values until they are assigned again.

    codes: by variable, its values after steps that JSON has. rows: texts of steps. initial: what had a value before.
    forgotten: how many steps the run no longer had. kept_from: the first step that has all of its values.
    """

    codes: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
    rows: Mapping[int, list[StepText]] = field(default_factory=dict)
    initial: list[str] = field(default_factory=list)
    forgotten: int = 0
    kept_from: int = 0

    def __post_init__(self) -> None:
        self._steps: dict[str, list[int]] = {}
        self.names = AxisNames()

    def name_axes(self, name: str, axes: Sequence[str | Dim] | None) -> None:
        """Names the axes of a variable at all steps. Raises LoopError if they fit none of its values."""
        states = (series for state in self.states for series in state.series)
        all_series = [series for series in (*self.series, *states) if series.name == name]

        def named() -> Iterator[Tensor]:
            for series in all_series:
                if len({*series.shapes}) == 1:  # else only statistics are in the file, or lengths that differ
                    forms = [self.names.form(name, tuple(raw.shape), raw) for raw in series.raws]
                    series.sig = next((sig for sig, _ in forms if sig.sparse_dim is None), forms[0][0])
                    series.lengths = [lengths for _, lengths in forms]
                    yield series.tensor(next(iter(series.steps)))

        before = [(series, series.sig, series.lengths) for series in all_series]
        try:
            self.names.rename(name, axes, named())
            deque(named(), maxlen=0)  # also those after the first that fits
        except Exception:
            for series, sig, lengths in before:
                series.sig, series.lengths = sig, lengths
            raise

    def texts(self, step: int) -> list[StepText]:
        """What a step assigned that is neither a tensor nor a number, in words."""
        return self.rows.get(step, [])

    def variable_names(self) -> list[str]:
        """The variables."""
        return list(self.codes)

    def odd_names(self, step: int) -> list[str]:
        """The variables that a step assigned, and that are neither tensors nor numbers after it."""
        return [name for name, codes in self.codes.items() if step in codes]

    def initial_names(self) -> list[str]:
        """The variables that had a value before the first step."""
        return self.initial

    def growing(self, name: str, step: int) -> tuple[Grown | None, int]:
        """Of a list that grows, what its values share, and how many parts it has after a step."""
        code = self.codes[name].get(step)
        return code if isinstance(code, First) else (None, 0)

    def parts(self, name: str, shared: Grown, start: int, end: int) -> list[Any]:
        """Parts of a list that grows."""
        return shared.parts[start:end]

    def state(self, name: str, step: int) -> Any:
        """A state or another variable before `step`."""
        return super().state(name, step) if name in self.state_names() else self.shown(name, step)

    def shown(self, name: str, step: int, *, after: bool = False) -> Any:
        """A variable before or after `step`, with numbers as Tensors. Raises KeyError if there is none."""
        return self._shown(name, step if after else step - 1)[0]

    def _shown(self, name: str, last: int) -> tuple[Any, str]:
        """A variable after a step, and its kind if it is a Tensor."""
        if name not in self._steps:
            steps = {at for series in self.series if series.name == name for at in series.steps}
            self._steps[name] = sorted(steps | {*self.codes[name]})
        number = bisect_right(self._steps[name], last)
        if not number:
            if name in self.state_names():
                value = self.state(name, 0)
                if value is not None:
                    return value, next((series.op for series in reversed(self.series) if series.name == name), "")
            if name in self.initial:
                raise NoValue(f"`{name}` before step 0 {ABSENT}")
            raise KeyError(name)
        at = self._steps[name][number - 1]
        code = self.codes[name].get(at, ABSENT)
        if isinstance(code, dict) and "lost" in code:
            state = super().state(name, last + 1) if name in self.state_names() and last < self.steps else None
            if state is not None:
                return state, ""
            raise LostValue(f"`{name}` has no value at this step: {code['lost']}")
        if at in self.codes[name]:
            return _decoded(code), ""
        series = [series for series in self.series_at(at) if series.name == name][-1]
        return series.tensor(at), series.op

    def variable(self, name: str, step: int, *, after: bool = False) -> Any:
        """The same, as code has it."""
        value, op = self._shown(name, step if after else step - 1)
        if not hasattr(value, "dims"):
            return value
        raw = value._raw
        if op in (*NUMBERS, *KINDS) and not value.dims[1:]:
            numbers = backend_of_raw(raw).to_numpy_raw(raw).tolist()
            return KINDS[op](numbers) if op in KINDS else numbers
        if not all(map(is_unnamed, value.dims)):
            return value
        return np.asarray(backend_of_raw(raw).to_numpy_raw(raw)) if op == "ndarray" else raw


@dataclass(eq=False)
class Grown:
    """The parts of a list that grows."""

    parts: list[Any]


class First(NamedTuple):
    """The value of a list that grows: its first parts."""

    grown: Grown
    length: int


def read_variables(data: Any, steps: int) -> dict[str, Any]:
    """The fields of `StoredVariables`."""
    lists = [Grown([_decoded(code) for code in codes]) for codes in data.get("lists", ())]
    table = [_row(row) for row in data.get("rows", ())]
    codes: dict[str, dict[int, Any]] = {}
    for name, values in get(data, "values", dict).items():
        codes[name] = {count({"step": step}, "step", steps): code for step, code in values}
        for step, code in codes[name].items():
            if isinstance(code, dict) and "first" in code:
                number, length = code["first"]
                grown: Grown = chosen(lists, number, "lists")
                codes[name][step] = First(grown, count({"length": length}, "length", len(grown.parts)))
            elif not (isinstance(code, dict) and isinstance(code.get("lost"), str)):
                _decoded(code)
    rows = {
        count({"step": step}, "step", steps): [chosen(table, row, "rows") if table else _row(row) for row in texts]
        for step, texts in get(data, "texts", list)
    }
    first = {name: count(data, name, steps) for name in FROM if name in data}
    return {"codes": codes, "rows": rows, "initial": list_of(data, "initial", str), **first}


def _row(row: Any) -> StepText:
    name, kind, line, text = row
    if not all(isinstance(part, str) for part in (name, kind, text)) or type(line) is not int:
        raise RunFileError("a text of a step in the file is no text")
    return StepText(name, kind, line, text)


def _decoded(code: Any) -> Any:
    if isinstance(code, First):
        return code.grown.parts[: code.length]
    if not isinstance(code, dict):
        if isinstance(code, list):
            raise RunFileError("a value of a variable in the file is of no known kind")
        return code
    [(kind, parts)] = code.items()
    if kind == "dict":
        return {key: _decoded(item) for key, item in parts}
    return KINDS[kind](_decoded(item) for item in parts)
