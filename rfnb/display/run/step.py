"""One step of a loop: each state before and after it, and the values of the body's lines."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np

from rfnb.core.dims.entries import going_on
from rfnb.display.kit import options
from rfnb.display.kit.data import Data, to_numpy
from rfnb.display.kit.degrade import Notes, reason
from rfnb.display.markup.numbers import plain, short
from rfnb.display.markup.schema import Number
from rfnb.display.run.schema import LineValue, StateRow, StepView, WatchRow
from rfnb.display.tensor.schema import ValueView
from rfnb.display.tensor.value import describe_value, in_words, magnitude, one_sequence, sampled
from rfnb.trace.run.step import AGREES

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.trace.run.run import Run
    from rfnb.trace.run.step import RunStep


Magnitudes = tuple[list[Number], bool]
Describe = Callable[[str, Any, int], ValueView]

_magnitudes_by_run: WeakKeyDictionary[Any, dict[tuple[str, int | None], Magnitudes]] = WeakKeyDictionary()


def describe_step(
    run: Run, step: int, sequence: int | None = None, *, pictures: bool = True, watch: Sequence[str] = ()
) -> StepView:
    """The JSON of a step, computed again by replay; must run on the thread that owns the tensors."""
    at = run[step]

    def described(name: str, value: Any, begun: int) -> ValueView:
        """The JSON of a value; entries count for sequences that reach the step `begun`."""
        live = live_at(run, value, begun)
        return describe_value(name, value, sequences=run.sequence_dim, sequence=sequence, pictures=pictures, live=live)

    values: list[LineValue] = [
        {"line": each.line, "op": each.op, "is_loop": each.is_loop, "value": described(each.name, each.tensor, step)}
        for each in at.values()
    ]
    return {
        "kind": "step",
        "run": run.serial,
        "step": step,
        "sequence": sequence,
        "states": [_state(run, at, step, name, sequence, described) for name in run.states],
        "values": values,
        "ended": None if run.lengths is None else [min(step, run.steps - 1) >= int(n) for n in run.lengths],
        "check": str(at.check),
        "agrees": at.check == AGREES,
        "watches": [describe_watch(at, text, run.sequence_dim, sequence) for text in watch],
        "ops": None,
    }


def _state(run: Run, at: Any, step: int, name: str, sequence: int | None, described: Describe) -> StateRow:
    """The JSON of a state before and after a step; a step that failed has no state after it."""
    notes, done = Notes(), step < run.steps
    before = at.before[name]
    after = at.after[name] if done else None
    told = described(name, before, step - 1)
    unknown: Magnitudes = ([], True)
    spark, moves = notes.attempt("magnitudes", lambda: _magnitudes(run, name, sequence), unknown)
    return {
        "name": name,
        "before": told,
        "after": described(name, after, step) if done else _not_reached(told),
        "change": notes.attempt("change", lambda: _change(run, step, before, after, sequence), None),
        "spark": spark,
        "flags": [] if moves else ["never changes"],
    }


def _not_reached(before: ValueView) -> ValueView:
    return {**before, "text": "not reached", "stats": None, "picture": None, "flags": [], "alarms": []}


def _change(run: Run, step: int, before: Any, after: Any, sequence: int | None) -> Number | None:
    if after is None:
        return None
    first, second = (
        one_sequence(value, run.sequence_dim, sequence, live_at(run, value, step)) for value in (before, after)
    )
    if first.sparse is not None or {a.dim for a in first.axes} != {a.dim for a in second.axes}:
        return None
    if first.entries != second.entries:  # an axis that grows
        return None
    difference = np.abs(_aligned(second, first) - _aligned(first, first))
    mask = first.mask()
    if mask is not None:
        difference = difference[np.broadcast_to(mask, difference.shape)]
    return plain(float(difference.max())) if difference.size else None


def _aligned(data: Data, like: Data) -> np.ndarray:
    values = to_numpy(data.raw).astype(np.float64)
    order = [data.position(axis.dim) for axis in like.axes]
    return values.transpose([p for p in order if p is not None])


def _magnitudes(run: Run, name: str, sequence: int | None) -> Magnitudes:
    """The magnitude of the state after sampled steps, and whether it ever changes; empty for labels."""
    known = _magnitudes_by_run.setdefault(run, {})
    if (name, sequence) not in known:
        known[name, sequence] = _follow(run, name, sequence)
    return known[name, sequence]


def spark_steps(run: Run) -> list[int]:
    """The steps sampled for the sparklines of a run."""
    every = run.replay.every
    ends = range(every - 1, run.steps, every) or range(run.steps - 1, run.steps)  # behind these, states are kept
    return spread(ends, options.SPARK_STEPS) if run.steps else []


def _follow(run: Run, name: str, sequence: int | None) -> Magnitudes:
    steps = spark_steps(run)
    spark: list[Number] = []
    start, moves, labels = None, False, False
    for step in steps:
        if start is None:
            start = one_sequence(run[0].before[name], run.sequence_dim, sequence)
        value = run[step].after[name]
        live = live_at(run, value, step) if sequence is None else None  # alone, it stays as it was in the end
        data = one_sequence(value, run.sequence_dim, sequence, live)
        labels = data.sparse is not None
        spark.append(plain(magnitude(data)))
        moves = moves or _moved(start, data)
    return [] if labels else spark, moves or not steps


def _moved(start: Data, now: Data) -> bool:
    """Whether an entry that counts differs from its initial value."""
    live = now.live if len(now.axes) == len(start.axes) else None
    return not np.array_equal(sampled(replace(start, live=live)), sampled(now), equal_nan=True)


def spread(steps: Sequence[int], most: int) -> list[int]:
    """At most `most` of the steps, evenly spaced, with the first and the last.

    >>> spread(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(steps) <= most:
        return list(steps)
    return [steps[round(i * (len(steps) - 1) / (most - 1))] for i in range(most)]


def describe_watch(at: RunStep, text: str, sequences: Dim | None, sequence: int | None) -> WatchRow:
    """The JSON of a watched expression: its value, or one line that says why it has none."""
    try:
        found = at.eval(text)
        value = _described(text, found, sequences, sequence, live_at(at.run, found, at.step))
    except Exception as error:
        return {"text": text, "value": None, "error": reason(error)}
    return {"text": text, "value": value, "error": None}


def _described(
    text: str, value: Any, sequences: Dim | None, sequence: int | None, live: np.ndarray | None
) -> ValueView:
    if isinstance(value, bool | float | str):
        return in_words(text, short(value), type(value).__name__)
    return describe_value(text, value, sequences=sequences, sequence=sequence, pictures=True, live=live)


def live_at(run: Run, value: Any, step: int) -> np.ndarray | None:
    """Which entries belong to sequences that reach the step; None for numbers and other values without dims."""
    if value is None or not hasattr(value, "dims"):
        return None
    return going_on(value.dims, run.begun, step)
