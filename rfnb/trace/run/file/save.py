"""`run.save("x.rfrun")` writes a run to one file."""

from __future__ import annotations

import json
import math
import os
import platform
import sys
from collections.abc import Callable
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
from rfnb.trace.run.file.values import SavedValues, fit
from rfnb.trace.run.file.variables import SavedVariables
from rfnb.trace.run.names import variable_names

if TYPE_CHECKING:
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.stacked import Lineage

FORMAT, LOOPS = 4, 2
"""Version of the format, increased when the meaning of an entry changes; `earlier_formats.py` reads all before it. Runs
of an `rf.Loop` are as they were in format 2, and are written so that earlier versions of rfnb can read them."""

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
    has_variables = any(described["variables"] is not None for described in runs)
    data = {"format": FORMAT if has_variables else LOOPS, "versions": versions(), **dims.json(), "runs": runs}
    with replacing(path) as unfinished:
        raws.write(unfinished, {KEY: json.dumps(data)})
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


def _describe(run: Run, dims: DimWriter, raws: RawWriter, limit: int, states_limit: float) -> dict[str, object]:
    source, replay, failed = run.source, run.replay, run.failed
    is_plain = bool(variable_names(run.replay))
    values = SavedVariables(run, limit) if is_plain else SavedValues(run, limit)
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
        "variables": values.json(dims, raws) if isinstance(values, SavedVariables) else None,
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


def _write_state(state: SavedState, dims: DimWriter, raws: RawWriter, steps: int) -> dict[str, Any]:
    written = [series.write(dims, raws, steps + 1) for series in state.series.values()]
    fields = {"name": state.name, "series": written[0] if written else None, "sizes": state.sizes, "empty": state.empty}
    return {**fields, "more": written[1:]} if written[1:] else fields
