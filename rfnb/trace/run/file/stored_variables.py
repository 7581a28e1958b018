"""A run of plain Python from a file: variables keep their values until they are assigned again."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.graph.graph import Value
from rfnb.core.ground.raw import selected
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import LoopNameError, RunFileError
from rfnb.printable import printable
from rfnb.trace.run.axis_names import AxisNames
from rfnb.trace.run.file.dims import DimReader
from rfnb.trace.run.file.fields import chosen, count, get, list_of
from rfnb.trace.run.file.raws import RawReader
from rfnb.trace.run.file.series import Series
from rfnb.trace.run.file.stored import StoredReplay
from rfnb.trace.run.file.variables import FROM
from rfnb.trace.run.names import LostValue
from rfnb.trace.run.stacked import stacked_variable
from rfnb.trace.run.step import StepText, StepValue, is_lost
from rfnb.trace.run.variables import (
    ABSENT,
    NUMBERS,
    NUMPY,
    SEQUENCES,
    SHOWN_PARTS,
    Container,
    Growing,
    Grown,
    GrownRows,
    Leaf,
    Lost,
    array_of,
    as_code,
)

FORGOTTEN = Lost("no longer kept", "no longer kept")


class GrownSeries(NamedTuple):
    """What steps have as values of a list that grows: its length at each step, and the rows of its parts, as JSON."""

    name: str
    op: str
    line: int
    grown: Grown
    lengths: dict[int, int]
    parts: Sequence[Any] | None


@dataclass
class StoredVariables(StoredReplay):
    """The same for loops of plain Python, whose variables keep their values until they are assigned again.

    codes: by variable, its values as JSON after steps, where they are not those of a series; -1 is before the first
    step. lists, grown: those that grow, and the rows of such lists. kept: the tensors of `codes` that are in no series.
    forgotten: how many steps the run no longer had. kept_from: the first step that has all of its values.
    """

    codes: Mapping[str, Mapping[int, Any]] = field(default_factory=dict)
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

    def name_axes(self, name: str, axes: Sequence[str | Dim] | None) -> None:
        """Names the axes of a variable at all steps. Raises LoopError if they fit none of its values."""
        all_series = [series for series in (*self.series, *self.kept) if series.name == name]
        rows = [row for row in self.grown if row.name == name and row.parts is None]
        inputs = [code for step, code in self.codes.get(name, {}).items() if step == -1]

        def named() -> Iterator[Tensor]:
            for series in all_series:
                if len({*series.shapes}) == 1:  # else only statistics are in the file, or lengths that differ
                    forms = [self.names.form(name, tuple(raw.shape), raw) for raw in series.raws]
                    series.sig = next((sig for sig, _ in forms if sig.sparse_dim is None), forms[0][0])
                    series.lengths = [lengths for _, lengths in forms]
                    yield series.at(0)
            values = [self._tensor(name, row.grown.numbers(length)) for row in rows for length in row.lengths.values()]
            values += [self._shown_tensor(name, self._value(code)) for code in inputs]
            yield from (value for value in values if value is not None)

        before = [(series, series.sig, series.lengths) for series in all_series]
        try:
            self.names.rename(name, axes, named())
            deque(named(), maxlen=0)  # also those after the first that fits
        except Exception:
            for series, sig, lengths in before:
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

    def rows(self, step: int) -> tuple[list[StepValue | StepText | GrownRows], str]:
        """All that a step assigned, in order, and its check."""
        rows: list[Any] = []
        for row in self.series_at(step):
            if isinstance(row, Series):
                rows.append(StepValue(row.name, row.op, row.line, row.tensor(step)))
            elif isinstance(row, GrownSeries):
                growing = self._growing(row.grown, row.lengths[step])
                rows.append(GrownRows(row.name, row.op, row.line, growing, self._part_rows(row)))
            else:
                rows.append(row)
        return rows, self.checks[step] if step < len(self.checks) else "not in the file"

    def _opened(self, rows: list[Any]) -> Iterator[StepValue | StepText]:
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

    def _part_rows(self, series: GrownSeries) -> Any:
        def rows(number: int) -> list[StepValue | StepText]:
            return [self._part_row(series.line, *row) for row in (series.parts or ())[number]]

        return rows

    def _part_row(self, line: int, name: str, kind: str, code: object) -> StepValue | StepText:
        if isinstance(code, dict) and "text" in code:
            return StepText(name, kind, line, code["text"])
        value = self._value(code)
        tensor = value.tensor.with_name(name) if isinstance(value, Leaf) else self._tensor(name, value)
        assert tensor is not None
        return StepValue(name, kind, line, tensor)

    def lost(self, step: int) -> list[LostValue]:
        """The values that a step assigned, and that were no longer kept."""
        if step < self.forgotten:
            return [LostValue(f"step {step} is {FORGOTTEN.words}")]
        values = [self._value(codes[step]) for codes in self.codes.values() if step in codes]
        errors = [value.error("") for value in values if isinstance(value, Lost) and value.words != ABSENT]
        texts = [LostValue(row.text) for row in self.texts(step) if is_lost(row.text)]
        return [error for error in [*errors, *texts] if isinstance(error, LostValue)]

    def computed(self, step: int, only: object = None) -> list[tuple[Value, Tensor]]:
        """No ops were recorded."""
        return []

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

    def kept_value(self, name: str, step: int, *, after: bool = False) -> Any:
        """A variable before or after a step, as `run/variables.py` says. Raises KeyError if there is none."""
        last = step if after else step - 1
        if last < self.forgotten - 1:
            return FORGOTTEN
        if name not in self._steps:
            steps = {at for series in self.series if series.name == name for at in series.steps}
            self._steps[name] = sorted(steps | {*self.codes[name]})
        number = bisect_right(self._steps[name], last)
        if not number:
            raise KeyError(name)
        at = self._steps[name][number - 1]
        if at in self.codes[name]:
            return self._value(self.codes[name][at])
        series = [row for row in self.series_at(at) if isinstance(row, Series) and row.name == name][-1]
        return Leaf(series.tensor(at), series.op)

    def variable(self, name: str, step: int, *, after: bool = False) -> Any:
        """The same, as code has it. Raises KeyError if there is none, and NoValue if it was not kept."""
        value = self.kept_value(name, step, after=after)
        named = self._shown_tensor(name, value) if name in self.names.of else None
        return as_code(name, value) if named is None else named

    def shown(self, name: str, step: int, *, after: bool = False) -> object:
        """As code has it, but tensors, arrays, numbers and lists of numbers as Tensors; words for what was not kept.

        Raises KeyError if there is none, and NoValue if it is not in the file.
        """
        value = self.kept_value(name, step, after=after)
        tensor = self._shown_tensor(name, value)
        if tensor is not None:
            return tensor
        is_text = isinstance(value, Lost) and value.words != ABSENT
        return printable(value.text) if is_text else as_code(name, value)

    def state(self, name: str, step: int) -> Any:
        """A variable before `step`: a Tensor, or else words; None if nothing was assigned to it yet."""
        if name not in self.codes:
            raise LoopNameError(f"there is no variable {name!r}", expected=", ".join(self.codes))
        try:
            value = self.kept_value(name, step)
        except KeyError:
            return None
        tensor = self._shown_tensor(name, value)
        if tensor is not None:
            return tensor
        if isinstance(value, Lost):
            return printable(value.text)
        kind, parts = (value.kind, value.parts) if isinstance(value, Container) else (type(value).__name__, value)
        if isinstance(value, Growing):
            return f"list of {value.length} parts"
        is_container = isinstance(parts, list | tuple | dict)
        return printable(f"{kind} of {len(parts)} parts" if is_container else repr(value))

    def stack(self, name: str, resolve: bool = True) -> Tensor:
        """A variable after each step, stacked. → {axis, …}"""
        return stacked_variable(self, name)

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

    def _growing(self, grown: Grown, length: int) -> Growing:
        return Growing(grown, length, lambda number: self._value(grown.parts[number]))

    def _value(self, code: object) -> Any:
        """The value that JSON stands for."""
        if not isinstance(code, dict):
            return code
        if "kind" in code:
            parts = {name: part for name, part in code.items() if name not in ("kind", "is_sequence")}
            return Container(code["kind"], self._value(parts), bool(code.get("is_sequence")))
        if "tensor" in code:
            number, place, kind = code["tensor"]
            series = self.series[number] if number >= 0 else self.kept[-1 - number]
            return Leaf(series.at(place), kind)
        if "first" in code:
            number, length = code["first"]
            return self._growing(self.lists[number], length)
        if "dict" in code:
            return {_key(key): self._value(part) for key, part in code["dict"]}
        if "numpy" in code:
            return _of_numpy(code)
        if "complex" in code:
            return complex(*code["complex"])
        for name, kind in SEQUENCES.items():
            if name in code:
                return kind(self._value(part) for part in code[name])
        words: str = code["known" if "known" in code else "lost"]
        return Lost(words, code.get("text", words), "known" in code, code.get("finite"), code.get("largest"))


def read_variables(data: object, series: list[Series], dims: DimReader, raws: RawReader, steps: int) -> dict[str, Any]:
    """The fields of `StoredVariables`, and the `table` of rows that are no values of series."""
    kept = [Series.read(entry, dims, raws, count(entry, "count")) for entry in get(data, "kept", list)]
    lists = [Grown(map(_of_numpy, codes)) for codes in list_of(data, "lists", list)]
    checked = _Checked(series, kept, lists)
    for grown in lists:
        checked.all(grown.parts)
    codes: dict[str, dict[int, Any]] = {}
    for name, values in get(data, "values", dict).items():
        codes[name] = {count({"step": step + 1}, "step", steps) - 1: code for step, code in values}
        checked.all(codes[name].values())
    grown_series = [checked.grown(entry, steps) for entry in list_of(data, "grown", dict)]
    table = [chosen(grown_series, row, "grown") if type(row) is int else _text(row) for row in get(data, "rows", list)]
    first = {name: count(data, name, steps) for name in FROM}
    return {"codes": codes, "lists": lists, "grown": grown_series, "kept": kept, "table": table, **first}


class _Checked(NamedTuple):
    """Checks JSON of values, which is untrusted: `StoredVariables._value` reads it without an error then."""

    series: list[Series]
    kept: list[Series]
    lists: list[Grown]

    def all(self, codes: Any) -> None:
        """Checks several values."""
        for code in codes:
            self.one(code)

    def one(self, code: object) -> None:
        """Checks a value. Raises RunFileError, or another error."""
        if not isinstance(code, dict):
            if isinstance(code, list):
                raise RunFileError("a value of a variable in the file is of no known kind")
            return
        if "tensor" in code:
            number, place, kind = code["tensor"]
            of = chosen(self.series, number, "tensor") if number >= 0 else chosen(self.kept, -1 - number, "tensor")
            chosen(of.lengths, place, "tensor")
            if not isinstance(kind, str):
                raise RunFileError("the kind of a tensor in the file is no text")
        elif "first" in code:
            number, length = code["first"]
            count({"length": length}, "length", len(chosen(self.lists, number, "lists").parts))
        elif "dict" in code:
            self.all(part for _, part in code["dict"])
            hash(tuple(_key(key) for key, _ in code["dict"]))
        elif "numpy" in code:
            _of_numpy(code)
        elif "complex" in code:
            complex(*code["complex"])
        elif kinds := code.keys() & SEQUENCES.keys():
            self.all(code[kinds.pop()])
        else:
            get(code, "known" if "known" in code else "lost", str)
        for name in ("text", "kind"):
            get({name: "", **code}, name, str)

    def grown(self, entry: Any, steps: int) -> GrownSeries:
        """Reads the lengths of a list that grows."""
        grown: Grown = chosen(self.lists, get(entry, "list", int), "lists")
        lengths = {
            count({"step": step}, "step", steps): count({"length": length}, "length", len(grown.parts))
            for step, length in get(entry, "lengths", list)
        }
        rows = entry.get("rows")
        numbers = grown.numbers(max(lengths.values(), default=0))
        if rows is None and (numbers is None or array_of(numbers) is None):
            raise RunFileError("a list in the file has no rows")
        for part in rows or ():
            for name, kind, code in part:
                if not isinstance(name, str) or not isinstance(kind, str):
                    raise RunFileError("a row of a list in the file has no name")
                self._row(code)
        if rows is not None and len(rows) < min(max(lengths.values(), default=0), SHOWN_PARTS):
            raise RunFileError("rows of a list are missing in the file")
        return GrownSeries(get(entry, "name", str), get(entry, "kind", str), count(entry, "line"), grown, lengths, rows)

    def _row(self, code: object) -> None:
        if isinstance(code, dict) and "text" in code:
            get(code, "text", str)
        elif isinstance(code, dict):
            get(code, "tensor", list)
            self.one(code)
        elif array_of(code) is None:
            raise RunFileError("a row of a list in the file is of no known kind")


def _text(row: Any) -> StepText:
    name, kind, line, text = row
    if not all(isinstance(part, str) for part in (name, kind, text)) or type(line) is not int:
        raise RunFileError("a text of a step in the file is no text")
    return StepText(name, kind, line, text)


def _of_numpy(code: object) -> object:
    """A number of numpy, if JSON stands for one. Raises RunFileError for other types."""
    if not isinstance(code, dict) or "numpy" not in code:
        return code
    name, number = code["numpy"]
    dtype = np.dtype(name) if isinstance(name, str) else None
    if dtype is None or dtype.char not in NUMPY or not isinstance(number, NUMBERS):
        raise RunFileError("a number of numpy in the file is of no known kind")
    return dtype.type(number)


def _key(key: object) -> Any:
    """The key of a dict, of which lists are tuples."""
    return tuple(map(_key, key)) if isinstance(key, list) else key
