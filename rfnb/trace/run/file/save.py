"""`run.save("x.rfrun")` writes a run to one file."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.align import Sig
from rfnb.core.ground.atomic import replacing, unwritable
from rfnb.core.ground.show import make_page
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import RunFileError
from rfnb.trace.run.file.dims import DimWriter
from rfnb.trace.run.file.found import write_found
from rfnb.trace.run.file.graph import write_graph
from rfnb.trace.run.file.raws import RawWriter
from rfnb.trace.run.file.series import Series, form_of
from rfnb.trace.run.file.variables import write_variables

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.stacked import Lineage

FORMAT = 4
"""Version of the format, increased when the meaning of an entry changes. `earlier_formats.py` reads all before it. Each
file has the first format that can say all that it has: 4 for values in another order at some steps, 3 for lists that
grow, else 2; earlier versions of rfnb read those that they know, and refuse the others."""

KEY = "rfnb.run"
"""Key of the JSON in the metadata of the file."""

LIMIT = 64 * 2**20
"""Default limit for the values of the body, in bytes."""


def write_run_file(run: Run, path: Path, limit: int | None, states: float = math.inf) -> Path:
    """Writes the run, and the runs that it was forked from.

    limit: for the values of the body, in bytes. states: the same for the states, which are all kept otherwise.
    """
    dims, raws = DimWriter(), RawWriter()
    family = [run]
    while (parent := family[-1].parent) is not None:
        family.append(parent)
    share = (LIMIT if limit is None else limit) // len(family)
    runs = [_describe(member, dims, raws, share, states / len(family)) for member in family]
    data = {"format": max(map(_format, runs)), "versions": versions(), **dims.json(), "runs": runs}
    with replacing(path) as unfinished:
        raws.write(unfinished, {KEY: json.dumps(data)})
    return path


def write_page(run: Run, path: Path, limit: int | None) -> Path:
    """Writes an HTML page for stepping through the run."""
    return make_page(run, path, limit)


WRITERS = {".rfrun": write_run_file, ".html": write_page}
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
    if not path.parent.is_dir():
        raise RunFileError(f"save: there is no folder {path.parent}")
    from safetensors import SafetensorError

    try:
        return writer(run, path, limit)
    except (OSError, SafetensorError) as error:
        raise unwritable(path, error, RunFileError) from error


def versions() -> dict[str, str]:
    """The versions of rfnb, torch and Python."""
    return {
        "rfnb": str(getattr(sys.modules.get("rfnb"), "__version__", "0")),
        "torch": str(getattr(sys.modules.get("torch"), "__version__", "0")),
        "python": platform.python_version(),
    }


def _format(described: dict[str, Any]) -> int:
    """The first format that can say what there is to say about a run."""
    if "order" in described:
        return 4
    return 3 if (described["variables"] or {}).get("lists") else 2


def _describe(run: Run, dims: DimWriter, raws: RawWriter, limit: int, states_limit: float) -> dict[str, Any]:
    source, replay, failed = run.source, run.replay, run.failed
    values = SavedValues(limit)
    checks = values.collect(run)
    states = [_state(run, name) for name in run.states]
    left_out = fit([series for state in states for series in state.series.values()], states_limit)
    order = {} if not values.order else {"orders": [*values.orders], "order": [*values.order.items()]}
    return {
        "name": run.name,
        "place": run.place,
        "source": [source.file, source.cell_id, source.cell_text, source.first_line, list(source.lines)],
        "steps": run.steps,
        "flags": list(run.flags),
        "failed": None if failed is None else failed._asdict(),
        "seed": replay.seed,
        "every": replay.every,
        "axis": dims.dim(run.axis),
        "size": dims.size(run.size),
        "begun": dims.size(run.begun),
        "ends": run.ends,
        "sequence_dim": dims.dim(run.sequence_dim),
        "sequences": dims.size(run.sequences),
        "forked_at": run.forked_at,
        "training": None if run.training is None else run.training.step,
        "checks": raws.numbers(np.array([values.words.index(check) for check in checks])[:, None]),
        "words": values.words,
        "note": values.note(left_out),
        "states": [_write_state(state, dims, raws, run.steps) for state in states],
        "values": [series.write(dims, raws, run.steps) for series in values.series.values()],
        "graph": write_graph(run.graph, replay.name_of, dims),
        "lineages": [_lineage(lineage, dims, raws) for lineage in replay.lineages],
        "found": _found(run, raws),
        "variables": write_variables(run),
        **order,
    }


def _lineage(lineage: Lineage, dims: DimWriter, raws: RawWriter) -> dict[str, Any]:
    numbers = {name: dims.dim(getattr(lineage, name)) for name in ("beam", "final")}
    return {**numbers, "dims": [dims.dim(dim) for dim in lineage.dims], "places": raws.array(lineage.places)}


def _found(run: Run, raws: RawWriter) -> dict[str, Any] | None:
    if run.found is None:
        return None
    facts, arrays = write_found(run.found)
    return {"facts": facts, "arrays": {name: raws.array(array) for name, array in arrays.items()}}


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
    record, state_of = SavedState(name), getattr(run.replay, "number_or_state", run.replay.state)
    kinds: Any = (Tensor, bool, int, float) if hasattr(run.replay, "number_or_state") else Tensor
    for step in sorted({*range(0, run.steps, run.replay.every), run.steps}):
        state = state_of(name, step)
        if isinstance(state, kinds):
            if (series := record.series.get(form_of(state))) is None:
                series = record.series[form_of(state)] = Series.like(state, name)
            series.add(step, state)
        elif isinstance(state, int):
            record.sizes.append([step, state])
        else:
            record.empty.append(step)
    return record


def _write_state(state: SavedState, dims: DimWriter, raws: RawWriter, steps: int) -> dict[str, Any]:
    written = [series.write(dims, raws, steps + 1) for series in state.series.values()]
    fields = {"name": state.name, "series": written[0] if written else None, "sizes": state.sizes, "empty": state.empty}
    return {**fields, "more": written[1:]} if written[1:] else fields


def fit(series: Collection[Series], limit: float) -> list[Series]:
    """Drops the tensors of the largest until all use at most `limit` bytes; returns those that were dropped now."""
    queue = sorted((entry for entry in series if entry.raws is not None), key=lambda entry: entry.bytes)
    size, dropped = sum(entry.bytes for entry in queue), []
    while size > limit:
        dropped.append(queue.pop())
        dropped[-1].raws = None
        size -= dropped[-1].bytes
    return dropped


class SavedValues:
    """Collects the values of the body, step by step. Above `limit` bytes, only statistics of the largest are kept.

    order: by step, which of `orders` its values have, if it is not that of the series. orders: numbers of series.
    """

    def __init__(self, limit: int):
        self.series: dict[tuple[Any, ...], Series] = {}
        self.order: dict[int, int] = {}
        self.orders: dict[tuple[int, ...], int] = {}
        self._numbers: dict[tuple[Any, ...], int] = {}
        self.words: list[str] = []
        self._limit, self._bytes = limit, 0
        self._failed: str | None = None

    def collect(self, run: Run) -> list[str]:
        """Collects all steps, including one that failed. Returns the result of the replay check for each."""
        values_of = getattr(run.replay, "numbers_and_values", run.replay.values)
        with run.replay.in_order():
            checks = [self._step(values_of, step) for step in range(run.steps + (run.failed is not None))]
        self.words = list(dict.fromkeys(checks))
        return checks

    def _step(self, values_of: Callable[[int], tuple[list[Any], str]], step: int) -> str:
        try:
            values, check = values_of(step)
        except Exception as error:
            self._failed = self._failed or f"step {step} could not be computed again: {type(error).__name__}"
            return "not in the file"
        counts: Counter[tuple[Any, ...]] = Counter()
        numbers = []
        for name, op, line, tensor, *_ in values:
            form = (name, op, line, *form_of(tensor))
            counts[form] += 1
            key = *form, counts[form]
            numbers.append(self._numbers.setdefault(key, len(self._numbers)))
            if numbers[-1] == len(self.series):
                self.series[key] = Series.like(tensor, name, op, line)
            series = self.series[key]
            n_bytes = series.add(step, tensor)
            self._bytes += n_bytes if series.raws is not None else 0
        if numbers != sorted(numbers):
            self.order[step] = self.orders.setdefault(tuple(numbers), len(self.orders))
        if self._bytes > self._limit:
            self._bytes -= sum(entry.bytes for entry in fit(self.series.values(), self._limit))
        return check

    def note(self, states: Sequence[Series]) -> str | None:
        """A note on what the file does not contain, or None. states: those that were left out."""
        out = [series for series in self.series.values() if series.raws is None]
        names = [f"{series.name} ({series.bytes / 2**20:.1f} MiB)" for series in [*states, *out]]
        parts = [f"only statistics of {', '.join(names)}"] if names else []
        return "; ".join([*parts, *([self._failed] if self._failed else [])]) or None
