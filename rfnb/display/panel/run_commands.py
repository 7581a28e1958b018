"""Queries of the panel about a recorded run besides its steps: search, edits, gradients, comparisons."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.display import comparison as comparison_view
from rfnb.display.beam.schema import NodeAt
from rfnb.display.beam.view import PRUNED, tree_of
from rfnb.display.comparison import ComparisonView
from rfnb.display.markup.numbers import plain
from rfnb.display.panel.axes import axes_typed
from rfnb.display.panel.conditions import conditions_of
from rfnb.display.panel.edit import edited
from rfnb.display.panel.rows import describe_rows
from rfnb.display.panel.schema import FoundView, RowsView, RunAtView, Where
from rfnb.display.run import (
    gradients_view as gradients_view,
    list_view as runs_view,
    step as step_view,
    view as history_view,
)
from rfnb.display.run.schema import Curve, GradientsView, OtherFunction, RunItem, RunView
from rfnb.display.run.step import choose
from rfnb.errors import ViewError
from rfnb.trace.compare.compare import compare as compare_runs
from rfnb.trace.plain.skipped_functions import add_file_of
from rfnb.trace.run.find import of_step, steps_begun

if TYPE_CHECKING:
    from rfnb.display.panel.commands import Dispatcher

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


def _curve(state: str, norms: Any) -> Curve:
    return {"state": state, "norms": [plain(float(norm)) for norm in norms]}


TRAVEL: dict[str, Any] = {
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
