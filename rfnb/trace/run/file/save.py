"""`run.save("x.rfrun")` writes a run to one file."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.align import Sig
from rfnb.core.graph.graph import BodyGraph, Node, Value
from rfnb.core.ground.show import make_page
from rfnb.core.ground.source import Source
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.errors import RunFileError
from rfnb.trace.run.axis_names import is_unnamed
from rfnb.trace.run.file.series import Series, form_of
from rfnb.trace.run.file.store import Writer, memory_of, saved, versions, write_found
from rfnb.trace.run.step import GrownRows, Row, StepText, StepValue
from rfnb.trace.run.variables import (
    ABSENT,
    NUMBERS,
    NUMPY,
    SHOWN_PARTS,
    Container,
    Growing,
    Grown,
    Leaf,
    Lost,
    VariableSteps,
    array_of,
)

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.stacked import Lineage


class SavedValues:
    """Collects the values of the body, step by step. Above `limit` bytes, only statistics of the largest are kept.

    unlimited: names of values that do not count. order: by step, which of `orders` its values have, if it is not that
    of the series. orders: numbers of series.
    """

    def __init__(self, run: Run, limit: float, unlimited: Collection[str] = ()):
        self.series: dict[tuple[object, ...], Series] = {}
        self.order: dict[int, int] = {}
        self.orders: dict[tuple[int, ...], int] = {}
        self.words: list[str] = []
        self._run, self._limit, self._bytes = run, limit, 0
        self._unlimited = unlimited
        self._numbers: dict[tuple[object, ...], int] = {}
        self._failed: str | None = None

    def collect(self) -> list[str]:
        """Collects all steps, including one that failed. Returns the result of the replay check for each."""
        with self._run.replay.in_order():
            checks = [self._step(step) for step in range(self._run.steps + (self._run.failed is not None))]
        self.words = list(dict.fromkeys(checks))
        return checks

    def _rows(self, step: int) -> tuple[Sequence[Row], str]:
        """The values of a step, and the result of its replay check."""
        return self._run.replay.values(step)

    def _step(self, step: int) -> str:
        try:
            rows, check = self._rows(step)
        except Exception as error:
            self._failed = self._failed or f"step {step} could not be computed again: {type(error).__name__}"
            return "not in the file"
        counts: Counter[tuple[object, ...]] = Counter()
        numbers = [self._add(step, row, counts) for row in rows]
        if numbers != sorted(numbers) or min(numbers, default=0) < 0:
            self.order[step] = self.orders.setdefault(tuple(numbers), len(self.orders))
        if self._bytes > self._limit:
            self._bytes -= sum(entry.bytes for entry in fit(self._limited(), self._limit))
        return check

    def _add(self, step: int, row: Row, counts: Counter[tuple[object, ...]]) -> int:
        """Adds a value to its series, and returns the number of that."""
        assert isinstance(row, StepValue)
        name, op, line, tensor = row[:4]
        form = (name, op, line, *form_of(tensor))
        counts[form] += 1
        key = *form, counts[form]
        number = self._numbers.setdefault(key, len(self._numbers))
        if number == len(self.series):
            self.series[key] = Series.like(tensor, name, op, line)
        series = self.series[key]
        n_bytes = series.add(step, tensor)
        self._bytes += n_bytes if series.raws is not None and name not in self._unlimited else 0
        return number

    def _limited(self) -> list[Series]:
        """The series whose tensors may be dropped."""
        return [series for series in self.series.values() if series.name not in self._unlimited]

    def note(self, states: Sequence[Series]) -> str | None:
        """A note on what the file does not contain, or None. states: those that were left out."""
        out = [series for series in self._limited() if series.raws is None]
        names = [f"{series.name} ({series.bytes / 2**20:.1f} MiB)" for series in [*states, *out]]
        parts = [f"only statistics of {', '.join(names)}"] if names else []
        return "; ".join([*parts, *([self._failed] if self._failed else [])]) or None


def fit(series: Collection[Series], limit: float) -> list[Series]:
    """Drops the tensors of the largest until all use at most `limit` bytes; returns those that were dropped now."""
    queue = sorted((entry for entry in series if entry.raws is not None), key=lambda entry: entry.bytes)
    size, dropped = sum(entry.bytes for entry in queue), []
    while size > limit:
        dropped.append(queue.pop())
        dropped[-1].raws = None
        size -= dropped[-1].bytes
    return dropped


JSON_LIMIT = 2**23
"""Characters of the values that a file has as JSON."""
KEYS = frozenset((str, bool, int, float, type(None)))
FROM = ("forgotten", "kept_from")
"""How many steps were forgotten, and the first that has all of its values."""


class SavedVariables(SavedValues):
    """Collects the variables of plain Python: of each step what its lines assigned, and the values before the first.

    Rows of a step that are not values of a series have negative numbers, for the entries of a table: texts, and lists
    that grow. Of such a list, the file has the parts once, and its length at each step.
    """

    def __init__(self, run: Run, replay: VariableSteps, limit: float):
        super().__init__(run, limit, run.states)
        self._replay = replay
        self._table: dict[Hashable, int] = {}
        self._rows_of: list[StepText | int] = []  # of the table: a text, or the number of a list that grows
        self._grown: list[dict[str, Any]] = []
        self._growing: list[GrownRows] = []  # of each of them, the row with the most parts
        self._lists: dict[Grown, int] = {}
        self._parts: list[list[object]] = []
        self._codes: dict[str, list[object]] = {name: [] for name in replay.variable_names()}
        self._kept: dict[Hashable, Series] = {}  # tensors that no line assigned as they are
        self._places: dict[Hashable, tuple[int, int]] | None = None
        self._size = self._size_of_texts = 0

    def collect(self) -> list[str]:
        """Collects all steps, and all values of variables that the series do not have."""
        checks = super().collect()
        start = self._replay.forgotten
        for name in self._codes:
            self._add_code(name, start, after=False)
        for step in range(start, len(checks)):
            for name in self._replay.odd_names(step):
                self._add_code(name, step, after=True)
        for entry, row in zip(self._grown, self._growing, strict=True):
            self._code(row.name, row.growing)
            entry["rows"] = self._rows_of_parts(row)
        self._bytes += sum(series.bytes for series in self._kept.values())
        if self._bytes > self._limit:
            fit(self._limited(), self._limit)
        return checks

    def _rows(self, step: int) -> tuple[Sequence[Row], str]:
        rows, check = self._replay.rows(step)
        if self._size_of_texts < JSON_LIMIT:
            return rows, check
        self._failed = self._failed or f"no texts from step {step} on"
        return [row for row in rows if not isinstance(row, StepText)], check

    def _limited(self) -> list[Series]:
        return [*super()._limited(), *self._kept.values()]

    def _add(self, step: int, row: Row, counts: Counter[tuple[object, ...]]) -> int:
        if isinstance(row, StepText):
            key: Hashable = row
            self._size_of_texts += 8 if key in self._table else len(row.name) + len(row.text) + 28
        elif isinstance(row, GrownRows):
            form = row.growing.grown, row.name, row.kind, row.line
            counts[form] += 1
            key = *form, counts[form]
        else:
            return super()._add(step, row, counts)
        number = self._table.setdefault(key, len(self._table))
        if number == len(self._rows_of):
            self._rows_of.append(row if isinstance(row, StepText) else len(self._growing))
            if isinstance(row, GrownRows):
                names = {"name": row.name, "kind": row.kind, "line": row.line}
                self._grown.append({**names, "list": self._list(row.growing.grown), "lengths": []})
                self._growing.append(row)
        grown = self._rows_of[number]
        if isinstance(row, GrownRows) and isinstance(grown, int):
            self._grown[grown]["lengths"].append([step, row.growing.length])
            if row.growing.length > self._growing[grown].growing.length:
                self._growing[grown] = row
        return -1 - number

    def json(self, file: Writer) -> dict[str, object]:
        """All but the series."""
        return {
            "values": self._codes,
            "rows": self._rows_of,
            "grown": self._grown,
            "lists": self._parts,
            "kept": [_whole(series, file) for series in self._kept.values()],
            **{name: getattr(self._replay, name) for name in FROM},
        }

    # -- values as JSON

    def _add_code(self, name: str, step: int, after: bool) -> None:
        """Adds the value of a variable before or after a step; nothing if there is none."""
        try:
            value = self._replay.kept_value(name, step, after=after)
        except KeyError:
            return
        code = {"lost": ABSENT} if self._size >= JSON_LIMIT else self._code(name, value, is_part=False)
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
                is_kept = self._size < JSON_LIMIT or isinstance(part, NUMBERS)
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

    def _key(self, key: object) -> object:
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
        raws = [] if series.raws is None else series.raws
        for place in range(start, len(raws)):
            raw = raws[place]
            if not isinstance(raw, bool | int | float):
                for sig in (series.sig, None) if is_plain else (series.sig,):
                    self._places.setdefault((memory_of(raw), sig), (number, place))

    def _rows_of_parts(self, row: GrownRows) -> list[list[object]] | None:
        """The rows of each part of a list that grows; None if there is one row of all, as they are numbers."""
        numbers = row.growing.grown.numbers(row.growing.length)
        if numbers is not None and array_of(numbers) is not None:
            return None
        return [[*map(self._part_row, row.rows(n))] for n in range(min(row.growing.length, SHOWN_PARTS))]

    def _part_row(self, row: StepValue | StepText) -> list[object]:
        name, kind = row[:2]
        value: object = row[3]
        if isinstance(row, StepText):
            return [name, kind, {"text": value}]
        if isinstance(value, Tensor):
            value = Leaf(value, kind).as_code() if kind in ("bool", "int", "float") else value
        return [name, kind, {"tensor": [*self._place(name, value), kind]} if isinstance(value, Tensor) else value]


def _whole(series: Series, file: Writer) -> dict[str, object]:
    """A series of tensors that belong to no steps."""
    return {**series.write(file, len(series.steps)), "count": len(series.steps)}


FORMAT, LOOPS = 4, 2
"""Version of the format, increased when the meaning of an entry changes; `load.py` reads all before it. Runs
of an `rf.Loop` are as they were in format 2, and are written so that earlier versions of rfnb can read them."""

KEY = "rfnb.run"
"""Key of the JSON in the metadata of the file."""

LIMIT = 64 * 2**20
"""Default limit for the values of the body, in bytes."""


def write_run_file(run: Run, path: Path, limit: int | None, states: float = math.inf) -> Path:
    """Writes the run, and the runs that it was forked from.

    limit: for the values of the body, in bytes. states: the same for the states, which are all kept otherwise.
    """
    file = Writer()
    family = [run]
    while (parent := family[-1].parent) is not None:
        family.append(parent)
    share = (LIMIT if limit is None else limit) // len(family)
    runs = [_describe(member, file, share, states / len(family)) for member in family]
    has_variables = any(described["variables"] is not None for described in runs)
    data = {"format": FORMAT if has_variables else LOOPS, "versions": versions(), "runs": runs}
    file.write(path, KEY, data)
    return path


WRITERS: dict[str, Callable[[Run, Path, int | None], Path]] = {".rfrun": write_run_file, ".html": make_page}
"""The functions that write files, by the ending of the name."""


def write(run: Run, path: str | os.PathLike[str], limit: int | None) -> Path:
    """Writes the file. Raises RunFileError if the ending is unknown, or the folder does not exist."""
    path = Path(path)
    writer = WRITERS.get(path.suffix)
    if writer is None:
        kinds = " or ".join(f'"x{ending}"' for ending in sorted(WRITERS, reverse=True))
        raise RunFileError("save: the ending of the file name chooses the format", got=repr(path.name), expected=kinds)
    if limit is not None and (not isinstance(limit, int) or limit < 0):
        raise RunFileError("save: `limit` must be a number of bytes", got=repr(limit))
    return saved(path, lambda path: writer(run, path, limit))


def _describe(run: Run, file: Writer, limit: int, states_limit: float) -> dict[str, object]:
    replay, failed = run.replay, run.failed
    values = SavedValues(run, limit)
    if isinstance(replay, VariableSteps) and replay.variable_names():
        values = SavedVariables(run, replay, limit)
    is_plain = isinstance(values, SavedVariables)
    checks = values.collect()
    states = [SavedState(name) if is_plain else _state(run, name) for name in run.states]
    of_states = [series for state in states for series in state.series.values()]
    if is_plain:
        of_states = [series for series in values.series.values() if series.name in run.states]
    left_out = fit(of_states, states_limit)
    order = {} if not values.order else {"orders": [*values.orders], "order": [*values.order.items()]}
    return {
        "name": run.name,
        "place": run.place,
        "source": [getattr(run.source, name) for name in run.source.__match_args__],
        "steps": run.steps,
        "flags": list(run.flags),
        "failed": None if failed is None else failed._asdict(),
        "seed": replay.seed,
        "every": replay.every,
        "axis": file.dim(run.axis),
        "size": file.size(run.size),
        "begun": file.size(run.begun),
        "ends": run.ends,
        "sequence_dim": file.dim(run.sequence_dim),
        "sequences": file.size(run.sequences),
        "forked_at": run.forked_at,
        "training": None if run.training is None else run.training.step,
        "checks": file.numbers(np.array([values.words.index(check) for check in checks])[:, None]),
        "words": values.words,
        "note": values.note(left_out),
        "states": [_write_state(state, file, run.steps) for state in states],
        "values": [series.write(file, run.steps) for series in values.series.values()],
        "graph": write_graph(run.graph, replay.name_of, file),
        "lineages": [_lineage(lineage, file) for lineage in replay.lineages],
        "found": _found(run, file),
        "variables": values.json(file) if isinstance(values, SavedVariables) else None,
        **order,
    }


def _lineage(lineage: Lineage, file: Writer) -> dict[str, object]:
    numbers = {name: file.dim(getattr(lineage, name)) for name in ("beam", "final")}
    return {**numbers, "dims": [file.dim(dim) for dim in lineage.dims], "places": file.array(lineage.places)}


def _found(run: Run, file: Writer) -> dict[str, object] | None:
    if run.found is None:
        return None
    facts, arrays = write_found(run.found)
    return {"facts": facts, "arrays": {name: file.array(array) for name, array in arrays.items()}}


@dataclass
class SavedState:
    """A state before the steps at which it is kept: tensors, sizes of a growing axis, or None, also for lost values.

    series: one for each signature and dtype that it has; variables of plain Python may have several.
    """

    name: str
    series: dict[tuple[Sig, str], Series] = field(default_factory=dict)
    sizes: list[list[int]] = field(default_factory=list)
    empty: list[int] = field(default_factory=list)


def _state(run: Run, name: str) -> SavedState:
    record = SavedState(name)
    for step in sorted({*range(0, run.steps, run.replay.every), run.steps}):
        state = run.replay.state(name, step)
        if isinstance(state, Tensor):
            if (series := record.series.get(form_of(state))) is None:
                series = record.series[form_of(state)] = Series.like(state, name)
            series.add(step, state)
        elif isinstance(state, int):
            record.sizes.append([step, state])
        else:
            record.empty.append(step)
    return record


def _write_state(state: SavedState, file: Writer, steps: int) -> dict[str, object]:
    written = [series.write(file, steps + 1) for series in state.series.values()]
    fields: dict[str, object] = {"name": state.name, "series": written[0] if written else None}
    fields |= {"sizes": state.sizes, "empty": state.empty}
    return fields | ({"more": written[1:]} if written[1:] else {})


def write_graph(graph: BodyGraph, name_of: Callable[[Value], str], dims: Writer) -> dict[str, object]:
    """The graph as JSON."""
    places: dict[tuple[object, ...], int] = {}
    numbers = {id(node): number for number, node in enumerate(graph.all_nodes())}

    def place(source: Source | None) -> int | None:
        return None if source is None else places.setdefault(_words(source), len(places))

    def node(entry: Node) -> dict[str, object]:
        plain = {"number": entry.number, "op": entry.op, "kind": entry.kind, "path": entry.path}
        ends = {"inputs": list(entry.inputs), "outputs": list(entry.outputs)}
        where = {"source": place(entry.source), "at": place(entry.at)}
        return {**plain, **ends, **where, "body": [node(inner) for inner in entry.body]}

    def value(entry: Value) -> dict[str, object]:
        index = None if entry.node is None else numbers.get(id(entry.node))
        plain = {"name": name_of(entry), "node": index, "output": entry.output}
        return {**plain, "dims": [dims.dim(dim) for dim in entry.dims], "sparse": dims.dim(entry.sparse_dim)}

    nodes, values = [node(item) for item in graph.nodes], [value(item) for item in graph.values]
    return {"nodes": nodes, "values": values, "body_values": graph.body_values, "places": [list(p) for p in places]}


def _words(source: Source) -> tuple[object, ...]:
    return source.file, source.line, source.place(), source.text(), source.names()
