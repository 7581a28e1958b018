"""Answers to the messages of the front end. No kernel is needed here: `Dispatcher.handle` maps data to data.

Messages arrive in another thread while a cell runs. What is known already is told at once, and so are steps of finished
runs that can be computed from copies; all else that touches tensors is given to the main thread by `later`, which says
"queued" or "busy", and its answer goes out as an event.
"""

from __future__ import annotations

import contextvars
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import current_thread, main_thread
from typing import Any, Literal, Protocol

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.tensor.tensor import Tensor
from rfnb.display import comparison as comparison_view
from rfnb.display.attention import view as attention_view
from rfnb.display.beam.schema import NodeAt
from rfnb.display.beam.view import PRUNED, tree_of
from rfnb.display.comparison import ComparisonView
from rfnb.display.kit.blocks import reason
from rfnb.display.kit.data import Data, read, to_numpy
from rfnb.display.panel.paused import PAUSING, conditions_of, edited
from rfnb.display.panel.schema import PROTOCOL, Event, FoundView, Hello, Reply, RowsView, RunAtView, Where
from rfnb.display.run import gradients_view, list_view as runs_view, step as step_view, view as history_view
from rfnb.display.run.gradients_view import curves_of
from rfnb.display.run.schema import GradientsView, OtherFunction, RunItem, RunView, StepView
from rfnb.display.run.step import choose, describe_ops, of_sequence
from rfnb.display.tensor import view as tensor_view
from rfnb.display.tensor.schema import TensorView
from rfnb.display.tensor.value import axis_of_weights, one_entry, valid_weights
from rfnb.display.tensor.view import index_of
from rfnb.errors import ExpressionError, ViewError
from rfnb.trace.compare.compare import compare as compare_runs
from rfnb.trace.plain.cells import cells
from rfnb.trace.plain.record import add_file_of
from rfnb.trace.run.find import of_step, steps_begun
from rfnb.trace.run.names import beside
from rfnb.trace.run.run import Run
from rfnb.trace.run.step import RunStep

SESSION = uuid.uuid4().hex
"""Id of this process, which changes when the kernel restarts, unlike the kernel's id."""

INNER = 64 * 2**20
"""Bytes of runs outside of the list, such as inner loops, that can still be queried."""

Later = Callable[[Callable[[], None]], Literal["queued", "busy"]]


class RunList(Protocol):
    """The part of `rf.runs` that the panel uses."""

    def __iter__(self) -> Iterator[Run]:
        """The runs, newest first."""

    def by_serial(self, serial: int) -> Run:
        """The run with this number."""

    def pin(self, serial: int, pinned: bool = True) -> None:
        """Pins a run, or unpins it."""

    def forget(self, serial: int) -> None:
        """Removes a run."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Calls `callback` when the list changes."""


class Dispatcher:
    """Answers messages about `runs`.

    Args:
        runs: the list of runs.
        later: has something done by the main thread, soon ("queued") or when the running cell is over ("busy").
        emit: sends an event to all front ends.
        is_busy: whether a cell runs that does not wait for the panel.
    """

    def __init__(
        self,
        runs: RunList,
        *,
        later: Later | None = None,
        emit: Callable[[Event], object] | None = None,
        is_busy: Callable[[], bool] = lambda: False,
    ):
        self.runs = runs
        self.later = later
        self.emit = emit or (lambda event: None)
        self.is_busy = is_busy
        self.inner: dict[int, Run] = {}

    def handle(self, message: object, answer: Callable[[Reply], None] | None = None) -> Reply:
        """The answer to a message; never raises. `answer` receives a late answer, instead of an event."""
        message = message if isinstance(message, dict) else {}
        number = message.get("id")
        if not isinstance(number, int):
            return _error(-1, "a message is {id, command, args}")
        command, args = message.get("command"), message.get("args") or {}
        if not isinstance(command, str) or command not in COMMANDS or not isinstance(args, dict):
            return _error(
                number, f"unknown command {str(command)[:40]!r}; the kernel's rfnb may be older than the panel"
            )
        waits = command not in NO_TENSORS and not self._is_gone(args)
        if waits and current_thread() is not main_thread() and (later := self.later) is not None:
            beside = self._do_beside(number, command, args) if self.is_busy() else None
            return beside or self._hand_over(later, number, command, args, answer or self._emit_reply)
        return self._do(number, command, args)

    def _hand_over(
        self, later: Later, number: int, command: str, args: dict[str, object], answer: Callable[[Reply], None]
    ) -> Reply:
        try:
            status = later(lambda: answer(self._do(number, command, args)))
        except Exception as error:
            return _error(number, reason(error))
        return {"id": number, "status": status, "data": None, "error": None}

    def _do_beside(self, number: int, command: str, args: dict[str, Any]) -> Reply | None:
        """The answer beside the running cell; None if only the main thread can give it."""
        try:
            if command not in BESIDE or not self.run_of(args["run"]).replay.is_isolated:
                return None
            context = contextvars.Context()
            context.run(beside.set, True)
            reply = context.run(self._do, number, command, args)
        except Exception:  # wrong arguments: the main thread answers with the error
            return None
        return reply if reply["status"] == "ok" else None

    def _do(self, number: int, command: str, args: dict[str, object]) -> Reply:
        try:
            return {"id": number, "status": "ok", "data": COMMANDS[command](self, **args), "error": None}
        except TypeError as error:
            return _error(number, f"{command}: {reason(error)}")
        except Exception as error:
            return _error(number, reason(error), "gone" if self._is_gone(args) else "error")

    def _is_gone(self, args: dict[str, Any]) -> bool:
        """Whether a message is about a run that is no longer kept."""
        serial = args.get("run")
        return isinstance(serial, int) and serial not in self.inner and all(run.serial != serial for run in self.runs)

    def _emit_reply(self, reply: Reply) -> None:
        self.emit({"event": "reply", "data": reply})

    def run_of(self, serial: int) -> Run:
        """The run with this number. Raises what `runs` raises if it was removed."""
        inner = self.inner.get(int(serial))
        return self.runs.by_serial(int(serial)) if inner is None else inner

    def remember(self, runs: Iterable[Run]) -> None:
        """Keeps runs that are not in the list open to queries, until their limit of bytes is reached."""
        listed = {run.serial for run in self.runs}
        new = {run.serial: run for run in runs if run.serial not in listed}
        room = INNER - sum(run.bytes for run in new.values())
        while self.inner and sum(run.bytes for run in self.inner.values()) > room:
            del self.inner[next(iter(self.inner))]
        self.inner |= new


def hello(dispatcher: Dispatcher, protocol: int = 0, version: str = "?") -> Hello:
    """The versions of the kernel; the front end compares `protocol` with its own."""
    return {"protocol": PROTOCOL, "version": getattr(sys.modules.get("rfnb"), "__version__", "0"), "session": SESSION}


def list_runs(dispatcher: Dispatcher) -> list[RunItem]:
    """All runs, newest first."""
    return runs_view.describe(dispatcher.runs)["runs"]


def run_view(dispatcher: Dispatcher, run: int) -> RunView:
    """Facts about a run that are the same for all steps; also opens the run it was forked from."""
    loop_run = dispatcher.run_of(run)
    if loop_run.parent is not None:
        dispatcher.remember([loop_run.parent])
    return history_view.describe_run(loop_run)


def step_of(
    dispatcher: Dispatcher,
    run: int,
    step: int,
    sequence: int | None = None,
    watch: Sequence[str] = (),
    ops: bool = False,
    op: int | None = None,
    hypothesis: NodeAt | None = None,
    seen: int | None = None,
) -> StepView:
    """One step, by replay, with the values of the expressions in `watch`; with its `ops`, and the values of one.

    hypothesis: of a search, to show values of this one only. seen: how many columns of its tree the front end has.
    """
    loop_run = dispatcher.run_of(run)
    if not 0 <= int(step) < (steps := steps_begun(loop_run)):
        raise ViewError(f"run {run} has no step {step}", expected=f"0 … {steps - 1}" if steps else "none")
    row = _sequence(loop_run, sequence)
    view = step_view.describe_step(loop_run, int(step), row, watch=watch, hypothesis=hypothesis, seen=seen, locked=True)
    if ops:
        view["ops"] = describe_ops(loop_run[int(step)], op, choose(loop_run, row, hypothesis))
    return view


def value_of(dispatcher: Dispatcher, run: int, step: int, name: str, sequence: int | None = None) -> TensorView:
    """One value of one step, as large as a tensor is shown."""
    loop_run = dispatcher.run_of(run)
    value = _value_at(loop_run, int(step), name)
    if value is None:
        raise ViewError(f"step {step} of run {run} has no value {str(name)[:40]!r}")
    return tensor_view.describe_data(one_entry(value, of_sequence(loop_run, _sequence(loop_run, sequence))))


def _value_at(run: Run, step: int, name: str) -> object:
    """The last value of this name that a step computes, or the state after it; None if there is none."""
    at = run[step]
    value = next((entry.tensor for entry in reversed(list(at.values())) if entry.name == name), None)
    return at.after[name] if value is None and name in run.states else value


def pin(dispatcher: Dispatcher, run: int, pinned: bool) -> list[RunItem]:
    """Pins a run, or lets newer runs replace it."""
    dispatcher.runs.pin(dispatcher.run_of(run).serial, bool(pinned))
    return list_runs(dispatcher)


def forget(dispatcher: Dispatcher, run: int) -> list[RunItem]:
    """Removes a run and what it holds."""
    dispatcher.runs.forget(dispatcher.run_of(run).serial)
    return list_runs(dispatcher)


def record_cells(dispatcher: Dispatcher, on: bool | None = None) -> bool:
    """Whether the plain loops of all cells are recorded. `on` switches that, from the next cell on."""
    if on is not None:
        cells.every = bool(on)
    return cells.every


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
    return list_runs(dispatcher)


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
        view["curves"] = curves_of({name: norms[:, sequence] for name, norms in result.per_sequence.items()})
    return view


def compare(dispatcher: Dispatcher, run: int, other: int, sequence: int | None = None) -> ComparisonView:
    """The differences between two runs, in all sequences or in one."""
    a, b = dispatcher.run_of(run), dispatcher.run_of(other)
    has_sequence = sequence is not None and None not in (a.sequence_dim, b.sequence_dim)
    return comparison_view.describe(compare_runs(a, b, sequence=sequence if has_sequence else None))


COMMANDS: dict[str, Callable[..., object]] = {
    "hello": hello,
    "runs": list_runs,
    "run": run_view,
    "step": step_of,
    "value": value_of,
    "pin": pin,
    "forget": forget,
    "record_cells": record_cells,
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
    **PAUSING,
}

BESIDE = frozenset({"step", "value", "find", "training"})
"""Commands that only read a run; a thread beside the running cell can answer them."""

NO_TENSORS = frozenset({"hello", "runs", "run", "pin", "forget", "record_cells", "paused", "pause", "pause_at"})
"""Commands that any thread may do; all others touch tensors."""


def _sequence(run: Run, sequence: int | None) -> int | None:
    return None if sequence is None or not run.batch else index_of(int(sequence), run.batch, run.tags)


def _error(number: int, words: str, status: Literal["error", "gone"] = "error") -> Reply:
    return {"id": number, "status": status, "data": None, "error": words}


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
        if isinstance(value := _value_at(run, step, name), Tensor):
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
            axes[axis] = _dim(run, axes, sizes, axis, word, _value_typed(run[int(step)], size))
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


def _value_typed(at: RunStep, text: str) -> object:
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
