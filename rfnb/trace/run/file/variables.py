"""Writes the variables of plain Python code: the values of lines, and those that are neither tensors nor numbers."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.trace.run.axis_names import is_unnamed
from rfnb.trace.run.file.dims import DimWriter
from rfnb.trace.run.file.raws import RawWriter, memory_of
from rfnb.trace.run.file.series import Series, form_of
from rfnb.trace.run.file.values import SavedValues, fit
from rfnb.trace.run.names import variable_names
from rfnb.trace.run.step import StepText
from rfnb.trace.run.variables import (
    ABSENT,
    NUMBERS,
    NUMPY,
    SHOWN_PARTS,
    Container,
    Growing,
    Grown,
    GrownRows,
    Leaf,
    Lost,
    array_of,
)

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run

LIMIT = 2**23
"""Characters of the values that a file has as JSON."""
KEYS = frozenset((str, bool, int, float, type(None)))
FROM = ("forgotten", "kept_from")
"""How many steps were forgotten, and the first that has all of its values."""


class SavedVariables(SavedValues):
    """Collects the variables of plain Python: of each step what its lines assigned, and the values before the first.

    Rows of a step that are no values of a series have negative numbers, for the entries of a table: texts, and lists
    that grow. Of such a list, the file has the parts once, and its length at each step.
    """

    def __init__(self, run: Run, limit: float):
        super().__init__(run, limit, run.states)
        self._replay: Any = run.replay
        self._table: dict[Any, int] = {}
        self._rows_of: list[Any] = []  # of the table: a text, or the number of a list that grows
        self._grown: list[dict[str, Any]] = []
        self._growing: list[GrownRows] = []
        self._lists: dict[Grown, int] = {}
        self._parts: list[list[Any]] = []
        self._codes: dict[str, list[object]] = {name: [] for name in variable_names(self._replay)}
        self._kept: dict[Any, Series] = {}  # tensors that no line assigned as they are
        self._places: dict[Any, tuple[int, int]] | None = None
        self._size = self._size_of_texts = 0

    def collect(self) -> list[str]:
        """Collects all steps, and all values of variables that the series do not have."""
        checks = super().collect()
        first = self._replay.forgotten
        for name in self._codes:
            self._add_code(name, first, after=False)
        for step in range(first, len(checks)):
            for name in self._replay.odd_names(step):
                self._add_code(name, step, after=True)
        for entry, row in zip(self._grown, self._growing, strict=True):
            self._code(row.name, row.growing)
            entry["rows"] = self._rows_of_parts(row)
        self._bytes += sum(series.bytes for series in self._kept.values())
        if self._bytes > self._limit:
            fit(self._limited(), self._limit)
        return checks

    def _rows(self, step: int) -> tuple[Sequence[Any], str]:
        rows, check = self._replay.rows(step)
        if self._size_of_texts < LIMIT:
            return rows, check
        self._failed = self._failed or f"no texts from step {step} on"
        return [row for row in rows if not isinstance(row, StepText)], check

    def _limited(self) -> list[Series]:
        return [*super()._limited(), *self._kept.values()]

    def _add(self, step: int, row: object, counts: Counter[tuple[object, ...]]) -> int:
        if isinstance(row, StepText):
            key: Any = row
            self._size_of_texts += 8 if key in self._table else len(row.name) + len(row.text) + 28
        elif isinstance(row, GrownRows):
            form = row.growing.grown, row.name, row.kind, row.line
            counts[form] += 1
            key = *form, counts[form]
        else:
            return super()._add(step, row, counts)
        number = self._table.setdefault(key, len(self._table))
        if number == len(self._rows_of):
            self._rows_of.append(len(self._grown) if isinstance(row, GrownRows) else row)
            if isinstance(row, GrownRows):
                names = {"name": row.name, "kind": row.kind, "line": row.line}
                self._grown.append({**names, "list": self._list(row.growing.grown), "lengths": []})
                self._growing.append(row)
        if isinstance(row, GrownRows):
            grown = self._rows_of[number]
            self._grown[grown]["lengths"].append([step, row.growing.length])
            if row.growing.length > self._growing[grown].growing.length:
                self._growing[grown] = row
        return -1 - number

    def json(self, dims: DimWriter, raws: RawWriter) -> dict[str, object]:
        """All but the series."""
        return {
            "values": self._codes,
            "rows": self._rows_of,
            "grown": self._grown,
            "lists": self._parts,
            "kept": [_whole(series, dims, raws) for series in self._kept.values()],
            **{name: getattr(self._replay, name) for name in FROM},
        }

    # -- values as JSON

    def _add_code(self, name: str, step: int, after: bool) -> None:
        """Adds the value of a variable before or after a step; nothing if there is none."""
        try:
            value = self._replay.kept_value(name, step, after=after)
        except KeyError:
            return
        code = {"lost": ABSENT} if self._size >= LIMIT else self._code(name, value, is_part=False)
        self._codes[name].append([step if after else step - 1, code])
        self._size += len(json.dumps(code))

    def _code(self, name: str, value: Any, is_part: bool = True) -> Any:
        kind = type(value)
        if kind in KEYS:
            return value
        if isinstance(value, np.generic) and value.dtype.char in NUMPY:
            return {"numpy": [value.dtype.name, value.item()]}
        if kind is complex:
            return {"complex": [value.real, value.imag]}
        if kind is Leaf:
            return {"tensor": [*self._place(name, value.tensor, is_part), value.kind]}
        if kind is Lost:
            fields = {} if value.finite is None else {"finite": value.finite, "largest": value.largest}
            text = {} if value.text == value.words else {"text": value.text}
            return {"known" if value.is_known else "lost": value.words, **text, **fields}
        if kind is Growing:
            codes = self._parts[self._list(value.grown)]
            for number in range(len(codes), value.length):
                part = value.part(number)
                is_kept = self._size < LIMIT or isinstance(part, NUMBERS)
                codes.append(self._code(f"{name}.{number}", part) if is_kept else {"lost": ABSENT})
                self._size += len(json.dumps(codes[-1]))
            return {"first": [self._list(value.grown), value.length]}
        if kind is Container:
            return {**self._code(name, value.parts), "kind": value.kind, "is_sequence": value.is_sequence}
        if kind in (list, tuple):
            return {kind.__name__: [self._code(f"{name}.{number}", part) for number, part in enumerate(value)]}
        if kind is dict:
            return {"dict": [[self._key(key), self._code(f"{name}.{key}", part)] for key, part in value.items()]}
        return {"lost": ABSENT}

    def _key(self, key: object) -> Any:
        """The key of a dict; a tuple as a list."""
        if type(key) is tuple:
            return [self._key(part) for part in key]
        return key if type(key) in KEYS else str(key)

    def _list(self, grown: Grown) -> int:
        """The number of a list that grows."""
        number = self._lists.setdefault(grown, len(self._lists))
        if number == len(self._parts):
            self._parts.append([])
        return number

    def _place(self, name: str, tensor: Tensor, is_part: bool = True) -> tuple[int, int]:
        """The series that has a tensor, negative for one of those that no line assigned, and the place in it.

        A part of a container may be in a series of another variable, as its dims do not matter.
        """
        if self._places is None:
            self._places = {}
            for number, series in enumerate(self.series.values()):
                self._find(number, series)
        is_part = is_part and all(map(is_unnamed, tensor.dims))
        key = memory_of(tensor._raw), None if is_part else tensor.sig
        if key not in self._places:
            if is_part:
                sig, lengths = self._replay.names.form("", tuple(tensor._raw.shape), tensor._raw)
                name, tensor = "", tensor_of(tensor._raw, sig, lengths)
            form = name, *form_of(tensor)
            series = self._kept.setdefault(form, Series.like(tensor, name))
            series.add(len(series.steps), tensor)
            self._find(-1 - [*self._kept].index(form), series, len(series.steps) - 1)
        return self._places[key]

    def _find(self, number: int, series: Series, start: int = 0) -> None:
        """Remembers where tensors of a series are."""
        assert self._places is not None
        is_plain = all(map(is_unnamed, series.sig.dims)) and not series.sig.sparse_dim
        for place in range(start, 0 if series.raws is None else len(series.raws)):
            raw = series.raws[place]
            if not isinstance(raw, bool | int | float):
                for sig in (series.sig, None) if is_plain else (series.sig,):
                    self._places.setdefault((memory_of(raw), sig), (number, place))

    def _rows_of_parts(self, row: GrownRows) -> list[list[object]] | None:
        """The rows of each part of a list that grows; None if there is one row of all, as they are numbers."""
        numbers = row.growing.grown.numbers(row.growing.length)
        if numbers is not None and array_of(numbers) is not None:
            return None
        return [[*map(self._part_row, row.rows(n))] for n in range(min(row.growing.length, SHOWN_PARTS))]

    def _part_row(self, row: Any) -> list[object]:
        name, kind, _, value = row[:4]
        if isinstance(row, StepText):
            return [name, kind, {"text": value}]
        if isinstance(value, Tensor):
            value = Leaf(value, kind).as_code() if kind in ("bool", "int", "float") else value
        return [name, kind, {"tensor": [*self._place(name, value), kind]} if isinstance(value, Tensor) else value]


def _whole(series: Series, dims: DimWriter, raws: RawWriter) -> dict[str, Any]:
    """A series of tensors that belong to no steps."""
    return {**series.write(dims, raws, len(series.steps)), "count": len(series.steps)}
