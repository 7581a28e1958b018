"""Queries of the panel about a recorded run besides its steps: search, edits, gradients, comparisons."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.tensor import Tensor
from rfnb.display import comparison as comparison_view
from rfnb.display.attention import view as attention_view
from rfnb.display.beam.schema import NodeAt
from rfnb.display.beam.view import PRUNED, tree_of
from rfnb.display.comparison import ComparisonView
from rfnb.display.kit.data import Data, read, to_numpy
from rfnb.display.markup.numbers import plain
from rfnb.display.panel.paused import conditions_of, edited
from rfnb.display.panel.schema import FoundView, RowsView, RunAtView, Where
from rfnb.display.run import (
    gradients_view as gradients_view,
    list_view as runs_view,
    step as step_view,
    view as history_view,
)
from rfnb.display.run.schema import Curve, GradientsView, OtherFunction, RunItem, RunView
from rfnb.display.run.step import choose, of_sequence
from rfnb.display.tensor.value import axis_of_weights, one_entry, valid_weights
from rfnb.errors import ExpressionError, ViewError
from rfnb.trace.compare.compare import compare as compare_runs
from rfnb.trace.plain.record import add_file_of
from rfnb.trace.run.find import of_step, steps_begun

if TYPE_CHECKING:
    from rfnb.display.panel.commands import Dispatcher
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.step import RunStep


SLICE = 0.05
"""Longest part of a search, in seconds; between two parts the kernel does other work."""


def find(
    dispatcher: Dispatcher, run: int, where: Sequence[Where], start: int, stop: int, sequence: int | None = None
) -> FoundView:
    """The steps from `start` towards `stop` (exclusive) where a condition holds, as far as the time allows."""
    loop_run = dispatcher.run_of(run)
    tests = [test for condition in where for test in conditions_of(condition, loop_run, sequence)]
    way = 1 if stop >= start else -1
    steps = range(start, stop, way)
    hits: list[int] = []
    end = time.monotonic() + SLICE
    for number, step in enumerate(steps, 1):
        at = loop_run[step]
        hits += [step] * any(of_step(test, at) for test in tests)
        if time.monotonic() >= end and number < len(steps):
            return {"hits": hits, "next": step + way}
    return {"hits": hits, "next": None}


def fork(
    dispatcher: Dispatcher,
    run: int,
    step: int,
    states: dict[str, str],
    sequence: int | None = None,
    hypothesis: NodeAt | None = None,
) -> RunView:
    """The new run that goes on from edited states: those of all sequences, of one, or of one hypothesis."""
    loop_run = dispatcher.run_of(run)
    unknown = set(states) - set(loop_run.states)
    if unknown:
        raise ViewError(f"fork: no state {min(unknown)!r}", expected=", ".join(loop_run.states))
    before = loop_run[int(step)].before
    where = choose(loop_run, sequence, hypothesis).in_step(int(step))
    new = {name: edited(before[name], text, where) for name, text in states.items()}
    forked = loop_run.fork(int(step), **new)
    dispatcher.remember([forked])
    return history_view.describe_run(forked)


def keep(dispatcher: Dispatcher, run: int, step: int, candidate: int, sequence: int | None = None) -> RunView:
    """The new run in which a pruned candidate has a place: the one at this position among those of a step."""
    loop_run = dispatcher.run_of(run)
    tree = tree_of(loop_run, sequence)
    pruned = [] if tree is None else tree.pruned(int(step), PRUNED)
    if tree is None or not 0 <= candidate < len(pruned):
        raise ViewError(f"keep: step {step} of run {run} has no pruned candidate {candidate}")
    variant = tree.keep(pruned[candidate]).run
    dispatcher.remember([variant])
    return history_view.describe_run(variant)


def name_axes(dispatcher: Dispatcher, run: int, name: str, text: str, step: int) -> RunView:
    """The run, after the axes of a variable got names at all steps: those that were typed at a step; none if empty."""
    loop_run = dispatcher.run_of(run)
    loop_run.name_axes(name, axes_typed(loop_run, name, text, step))
    return history_view.describe_run(loop_run)


def rows(dispatcher: Dispatcher, run: int, name: str, sequence: int | None = None) -> RowsView:
    """A value that is a row of weights at each step, as one picture of all steps."""
    return describe_rows(dispatcher.run_of(run), name, sequence)


def rerun(dispatcher: Dispatcher, run: int) -> list[RunItem]:
    """All runs, with a new one of the same call, made with the current code."""
    dispatcher.run_of(run).rerun()
    return runs_view.describe(dispatcher.runs)["runs"]


def training(
    dispatcher: Dispatcher, run: int, at: int, step: int, sequence: int | None = None, watch: Sequence[str] = ()
) -> RunAtView:
    """The run of a probe at the training step nearest to `at`, and its step with this number, or its last one."""
    shots = dispatcher.run_of(run).training
    if shots is None:
        raise ViewError(f"training: run {run} is not that of a probe")
    loop_run = shots.run(min(shots.steps(), key=lambda shot_step: abs(shot_step - int(at))))  # old shots may be gone
    dispatcher.remember([loop_run])
    view, steps = history_view.describe_run(loop_run), steps_begun(loop_run)
    if not steps or not loop_run.replay.is_isolated:
        return {"run": view, "step": None}
    index = sequence if sequence is not None and sequence < (loop_run.batch or 0) else None
    number = max(0, min(int(step), steps - 1))
    return {"run": view, "step": step_view.describe_step(loop_run, number, index, watch=watch, seen=0, locked=True)}


def loops(dispatcher: Dispatcher, run: int, step: int, line: int | None = None) -> list[RunItem]:
    """The runs of the loops inside of a step, or of those that begin at a line; they can be opened like others, for a
    while."""
    inner = [loop for loop in dispatcher.run_of(run)[int(step)].loops() if line in (None, loop.source.first_line)]
    dispatcher.remember(inner)
    return [runs_view.describe_item(child) for child in inner]


def record_too(dispatcher: Dispatcher, run: int, place: str) -> list[OtherFunction]:
    """From now on, the loops in the file of another function are recorded as well: one that the run lists."""
    loop_run = dispatcher.run_of(run)
    if place not in [function["place"] for function in history_view.describe_others(loop_run)]:
        raise ViewError(f"record_too: run {run} lists no such function")
    add_file_of(place)
    return history_view.describe_others(loop_run)


def gradients(dispatcher: Dispatcher, run: int, loss: str, sequence: int | None = None) -> GradientsView:
    """The norm of the gradient of the sum of `loss` by each state, step by step; of one sequence if one was chosen."""
    result = dispatcher.run_of(run).gradients(loss)
    view = gradients_view.describe(result)
    if sequence is not None:
        view["curves"] = [_curve(name, norms[:, sequence]) for name, norms in result.per_sequence.items()]
    return view


def compare(dispatcher: Dispatcher, run: int, other: int, sequence: int | None = None) -> ComparisonView:
    """The differences between two runs, in all sequences or in one."""
    a, b = dispatcher.run_of(run), dispatcher.run_of(other)
    has_sequence = sequence is not None and None not in (a.sequence_dim, b.sequence_dim)
    return comparison_view.describe(compare_runs(a, b, sequence=sequence if has_sequence else None))


def _curve(state: str, norms: Iterable[float]) -> Curve:
    return {"state": state, "norms": [plain(float(norm)) for norm in norms]}


TRAVEL: dict[str, Callable[..., object]] = {
    "find": find,
    "fork": fork,
    "keep": keep,
    "name_axes": name_axes,
    "rows": rows,
    "rerun": rerun,
    "training": training,
    "loops": loops,
    "record_too": record_too,
    "gradients": gradients,
    "compare": compare,
}


MOST_STEPS = 500
MOST_ROWS = 16
"""At most so many rows of a step, which are shown as heads."""


def describe_rows(run: Run, name: str, sequence: int | None) -> RowsView:
    """The JSON of the rows of a value at all steps. Raises ViewError if it is not a row of weights."""
    sequence = 0 if sequence is None and run.batch else sequence
    columns: Dim | None = None
    rows: dict[int, np.ndarray] = {}
    for step, data in _values(run, name, sequence):
        axis = axis_of_weights(data, least=1)
        if axis is not None:
            columns = columns or data.axes[axis].dim
            weights = np.moveaxis(valid_weights(data), axis, -1)
            rows[step] = weights.reshape(-1, weights.shape[-1])[:MOST_ROWS]
    if columns is None:
        raise ViewError(f"{name} is not a row of weights with the sum 1", got=f"loop {run.name}")
    count, width = (max(row.shape[axis] for row in rows.values()) for axis in (0, 1))
    matrix = np.zeros((count, max(rows) + 1, width), np.float32)
    for step, weights in rows.items():
        matrix[: len(weights), step, : weights.shape[1]] = weights
    side = columns if columns.vocab is not None else None
    view = attention_view.describe(matrix, dims=["head", run.axis.name or "step", _other(columns, run)], cols=side)
    return {
        "name": name,
        "sequence": sequence,
        "pictures": view["pictures"] or [view["picture"]],
        "scripts": attention_view.to_scripts(view),
    }


def _other(columns: Dim, run: Run) -> str:
    return columns.name if columns.name and columns.name != run.axis.name else "column"


def _values(run: Run, name: str, sequence: int | None) -> Iterator[tuple[int, Data]]:
    """The value at each step that has it."""
    steps = run.steps if sequence is None or run.lengths is None else int(run.lengths[sequence])
    for step in range(min(run.steps, steps, MOST_STEPS)):
        at = run[step]
        value = next((entry.tensor for entry in reversed(at.values()) if entry.name == name), None)
        if value is None and name in run.states:
            value = at.after[name]
        if isinstance(value, Tensor):
            yield step, one_entry(value, of_sequence(run, sequence))


BETWEEN = re.compile(r",(?![^()\[\]]*[)\]])")
"""Commas, but those inside of brackets."""


def axes_typed(run: Run, name: str, text: str, step: int) -> list[str | Dim] | None:
    """The axes of a variable, as `Run.name_axes` takes them; None for an empty text.

    After a colon are the lengths of an axis, or its labels: an expression of the step, a variable of the notebook, or
    numbers. One more name, with labels, is what the numbers are labels of. Raises ViewError for what does not fit.
    """
    if not text.strip():
        return None
    parts = [tuple(map(str.strip, part.partition(":")[::2])) for part in BETWEEN.split(text)]
    if not all(word for word, _ in parts):
        raise ViewError("an axis has no name", got=text[:40], expected="names with commas between them")
    value = run[int(step)][name]
    sizes = [axis.size for axis in read(value).axes] if isinstance(value, Tensor) else []
    axes: list[str | Dim] = [word for word, _ in parts]
    for axis, (word, size) in enumerate(parts):
        if size:
            axes[axis] = _dim(run, axes, sizes, axis, word, _value(run[int(step)], size))
    return axes


def _dim(run: Run, axes: list[str | Dim], sizes: list[int], axis: int, word: str, value: object) -> Dim:
    """The dim of an axis with lengths, whose sequences then have a dim too, or with labels."""
    size = sizes[axis] if axis < len(sizes) else None
    numbers = None if isinstance(value, str | dict) else _whole_numbers(value)
    if numbers is None:
        dim = Dim(None, name=word, vocab=list(value) if isinstance(value, str) else value)
        if size not in (None, dim.dimension):
            raise ViewError(f"{word} has {dim.dimension} labels, and its axis {size} entries")
        return dim
    longest = max(numbers, default=0)
    if size is None or longest > size:
        raise ViewError(f"the longest of the lengths of {word} is {longest}", expected=f"at most {size or 0}")
    owner = next((i for i, other in enumerate(sizes) if i != axis and other == len(numbers)), None)
    if owner is None or owner >= len(axes):
        raise ViewError(f"{word} has {len(numbers)} lengths, and no other axis has as many entries")
    axis_of_sequences = axes[owner]
    if isinstance(axis_of_sequences, str):
        axis_of_sequences = axes[owner] = run.replay.names.dim(axis_of_sequences, sizes[owner])  # type: ignore[attr-defined]
    dim = Dim(None, name=word)
    dim.bind(Size([axis_of_sequences], numbers, capacity=size))
    return dim


def _value(at: RunStep, text: str) -> object:
    """The value of what was typed."""
    if all(word.isdigit() for word in text.split()):
        return [int(word) for word in text.split()]
    try:
        return at.eval(text)
    except ExpressionError:
        value = vars(sys.modules["__main__"]).get(text)
        if value is None:
            raise
        return value


def _whole_numbers(value: object) -> list[int] | None:
    """A list of lengths; None for other values."""
    raw = value._raw if isinstance(value, Tensor) else value
    if isinstance(raw, list | tuple) and not all(type(entry) is int for entry in raw):
        return None
    if not isinstance(raw, list | tuple) and not hasattr(raw, "shape"):
        return None
    numbers = to_numpy(raw)
    is_list = numbers.ndim == 1 and numbers.dtype.kind in "iuf" and bool((numbers == numbers.astype(int)).all())
    if not is_list:
        raise ViewError("lengths are whole numbers, one for each sequence", got=f"{numbers.dtype} {numbers.shape}")
    return [int(number) for number in numbers]
