"""What the panel asks of a recorded run besides its steps: search, ops, edits, gradients, comparisons."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rfnb.display.conditions import conditions_of
from rfnb.display.edit import edited
from rfnb.display.numbers import plain
from rfnb.display.schema import (
    ComparisonView,
    Curve,
    FoundView,
    GradientsView,
    OpsView,
    OpView,
    RunItem,
    RunView,
    Where,
)
from rfnb.display.views import comparison, gradients as gradients_view, loop, ops as ops_view, runs as runs_view
from rfnb.errors import ViewError
from rfnb.trace.compare import compare as compare_runs

if TYPE_CHECKING:
    from rfnb.display.commands import Dispatcher

SLICE = 0.05
"""Seconds that one part of a search may take: between two of them the kernel does other work."""


def find(
    dispatcher: Dispatcher, run: int, where: list[Where], start: int, stop: int, sequence: int | None = None
) -> FoundView:
    """The steps from `start` up to before `stop`, or down to behind it, where a condition holds: as far as it comes."""
    found = dispatcher.run_of(run)
    tests = [test for each in where for test in conditions_of(each, found, sequence)]
    way = 1 if stop >= start else -1
    steps = range(start, stop, way)
    hits: list[int] = []
    end = time.monotonic() + SLICE
    for done, step in enumerate(steps, 1):
        at = found[step]
        hits += [step] * any(test(at) for test in tests)
        if time.monotonic() >= end and done < len(steps):
            return {"hits": hits, "next": step + way}
    return {"hits": hits, "next": None}


def ops(dispatcher: Dispatcher, run: int, step: int) -> OpsView:
    """All ops of a step, without their values."""
    return ops_view.describe(dispatcher.run_of(run), int(step))


def op(dispatcher: Dispatcher, run: int, step: int, number: int, sequence: int | None = None) -> OpView:
    """What one op of a step took and gave."""
    return ops_view.describe_one(dispatcher.run_of(run), int(step), int(number), sequence)


def fork(dispatcher: Dispatcher, run: int, step: int, states: dict[str, str], sequence: int | None = None) -> RunView:
    """The new run that goes on from edited states."""
    found = dispatcher.run_of(run)
    unknown = set(states) - set(found.states)
    if unknown:
        raise ViewError(f"fork: no state {min(unknown)!r}", expected=", ".join(found.states))
    before = found[int(step)].before
    new = {name: edited(before[name], text, found.sequence_dim, sequence) for name, text in states.items()}
    forked = found.fork(int(step), **new)
    dispatcher.remember([forked])
    return loop.describe_run(forked)


def loops(dispatcher: Dispatcher, run: int, step: int) -> list[RunItem]:
    """The runs of the loops inside of a step; they can be opened like others, for a while."""
    inner = list(dispatcher.run_of(run)[int(step)].loops())
    dispatcher.remember(inner)
    return [runs_view.describe_item(each) for each in inner]


def gradients(dispatcher: Dispatcher, run: int, loss: str, sequence: int | None = None) -> GradientsView:
    """The norm of the gradient of the sum of `loss` by each state, step by step; of one sequence if one was chosen."""
    found = dispatcher.run_of(run).gradients(loss)
    view = gradients_view.describe(found)
    if sequence is not None:
        view["curves"] = [_curve(name, norms[:, sequence]) for name, norms in found.per_sequence.items()]
    return view


def compare(dispatcher: Dispatcher, run: int, other: int) -> ComparisonView:
    """What differs between two runs."""
    return comparison.describe(compare_runs(dispatcher.run_of(run), dispatcher.run_of(other)))


def _curve(state: str, norms: Any) -> Curve:
    return {"state": state, "norms": [plain(float(norm)) for norm in norms]}  # type: ignore[misc]


TRAVEL: dict[str, Any] = {
    "find": find,
    "ops": ops,
    "op": op,
    "fork": fork,
    "loops": loops,
    "gradients": gradients,
    "compare": compare,
}
