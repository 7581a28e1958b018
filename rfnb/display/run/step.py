"""One step of a loop: each state before and after it, the values of the body's lines, and its ops.

Shown are all sequences, one of them, or one hypothesis of a search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import going_on_mask
from rfnb.display.beam.schema import NodeAt
from rfnb.display.beam.view import describe_beam, line, tree_of
from rfnb.display.kit import options
from rfnb.display.kit.blocks import Notes, reason
from rfnb.display.kit.data import Data, describe_axes, read, real_entries, to_numpy
from rfnb.display.markup.numbers import Number, plain, short
from rfnb.display.run.schema import LineValue, OpRow, OpsView, OpView, StateRow, StepView, WatchRow
from rfnb.display.tensor.schema import ValueView
from rfnb.display.tensor.value import axis_of_weights, describe_value, in_words, magnitude, one_entry, sampled
from rfnb.errors import ViewError
from rfnb.trace.run.names import is_variable, reads_states_after
from rfnb.trace.run.run import Run
from rfnb.trace.run.step import AGREES, KEPT, OpStep, RunStep

T = TypeVar("T")


@dataclass(frozen=True)
class ChosenSequence:
    """One sequence of a run, or one hypothesis of it; all of them by default.

    places: of the hypothesis, in the beam after each step; None after the step at which it was lost.
    copied: at which steps it had ended before, so that what the step computes at its place does not count.
    """

    run: Run
    sequence: int | None = None
    places: Sequence[int | None] = ()
    copied: Sequence[bool] = ()

    def place(self, step: int) -> int | None:
        """The place of the hypothesis after a step; None for all hypotheses."""
        return self.places[min(step, len(self.places) - 1)] if self.places and step < self.run.steps else None

    def in_step(self, step: int) -> dict[Dim, int]:
        """The positions in values that a step computes, and in the states before it."""
        index, place = of_sequence(self.run, self.sequence), self.place(step)
        return index if place is None else {**index, **self.run.replay.of_hypothesis(step, self.sequence, place)}

    def after(self, step: int) -> dict[Dim, int]:
        """The positions in the states after a step."""
        index, place, beams = of_sequence(self.run, self.sequence), self.place(step), self.run.replay.lineages
        return index if place is None or not beams else {**index, beams[0].final: place}

    def live(self, value: object, step: int, begun: int | None = None) -> np.ndarray | None:
        """Which entries belong to sequences that reach the step `begun`, and to hypotheses that have not ended."""
        live = live_at(self.run, value, step if begun is None else begun)
        if live is None or self.place(step) is None or not self.copied[min(step, len(self.copied) - 1)]:
            return live
        dims = set(getattr(value, "dims", ())) - {self.run.sequence_dim}
        return np.zeros_like(live) if self.in_step(step).keys() & dims else live

    def view(self, name: str, value: object, step: int, *, pictures: bool) -> ValueView:
        """The JSON of a value that a step computes."""
        live = self.live(value, step)
        return describe_value(name, value, at=self.in_step(step), pictures=pictures, live=live)


def of_sequence(run: Run, sequence: int | None) -> dict[Dim, int]:
    """The position of a sequence in values."""
    return {} if sequence is None or run.sequence_dim is None else {run.sequence_dim: sequence}


def live_at(run: Run, value: object, step: int) -> np.ndarray | None:
    """Which entries belong to sequences that reach the step; None for numbers and other values without dims."""
    if value is None or not hasattr(value, "dims"):
        return None
    return going_on_mask(value.dims, run.begun, step)


PARTS = 8
"""Number of parts of a list that a watch shows."""
Magnitudes = tuple[list[Number], bool]

_magnitudes_by_run: WeakKeyDictionary[Run, dict[tuple[object, ...], Magnitudes]] = WeakKeyDictionary()


def describe_step(
    run: Run,
    step: int,
    sequence: int | None = None,
    *,
    pictures: bool = True,
    watch: Sequence[str] = (),
    hypothesis: NodeAt | None = None,
    seen: int | None = None,
    locked: bool = False,
) -> StepView:
    """The JSON of a step, computed again by replay; must run on the thread that owns the tensors.

    hypothesis: of a search, to show values of this one only; it may be chosen at any step. seen: how many columns of
    the tree of the search the front end has; None if it shows no tree. locked: say which states no fork can edit.
    """
    at, chosen = run[step], choose(run, sequence, hypothesis)

    def described(name: str, value: object) -> ValueView:
        view = chosen.view(name, value, step, pictures=pictures)
        with suppress(Exception):  # such as of a tensor whose memory is gone, which the view tells
            if locked and axis_of_weights(one_entry(value, chosen.in_step(step))) is not None:
                view["is_row"] = True
        return view

    values: list[LineValue] = [
        {"line": entry.line, "op": entry.op, "is_loop": entry.is_loop, "value": described(entry.name, entry.tensor)}
        for entry in at.values()
    ]
    texts: list[LineValue] = [
        {"line": entry.line, "op": entry.kind, "is_loop": False, "value": in_words(entry.name, entry.text)}
        for entry in at.texts()
    ]
    values = sorted([*values, *texts], key=lambda row: row["line"]) if texts else values
    tree = None if seen is None else tree_of(run, sequence)
    view: StepView = {
        "kind": "step",
        "run": run.serial,
        "step": step,
        "sequence": sequence,
        "states": [_state(chosen, at, step, name, pictures) for name in run.states],
        "values": values,
        "ended": None if run.lengths is None else [min(step, run.steps - 1) >= int(n) for n in run.lengths],
        "check": str(at.check),
        "agrees": at.check in (AGREES, KEPT),
        "watches": [describe_watch(at, text, chosen) for text in watch],
        "ops": None,
        "beam": None if tree is None else describe_beam(tree, step, hypothesis, seen or 0),
    }
    if (lines := at.lines()) is not None:
        view["lines"] = {"skipped": list(lines.skipped), "loops": list(lines.loops)}
    if locked:
        with suppress(Exception):  # such as of an object of the user; then the fork itself says it
            view["locked"] = dict(run.replay.locked_states(run, step))
    return view


def choose(run: Run, sequence: int | None, hypothesis: NodeAt | None) -> ChosenSequence:
    """What a step is shown of. Raises ViewError if there is no such hypothesis."""
    if hypothesis is None:
        return ChosenSequence(run, sequence)
    sequence = 0 if sequence is None and run.batch else sequence
    tree = tree_of(run, sequence)
    if tree is None:
        raise ViewError("the run has no hypotheses to choose from")
    places = line(tree, hypothesis)
    copied = [place is not None and bool(tree.ended[step, place]) for step, place in enumerate(places)]
    return ChosenSequence(run, sequence, places, copied)


def _state(chosen: ChosenSequence, at: RunStep, step: int, name: str, pictures: bool) -> StateRow:
    """The JSON of a state before and after a step; one that failed has it if a line of plain Python assigned it."""
    notes, is_complete = Notes(), step < chosen.run.steps
    assigned = not is_complete and is_variable(at.run.replay, name) and any(value.name == name for value in at.values())

    def described(value: object, begun: int, where: Mapping[Dim, int]) -> ValueView:
        """The JSON of the state; entries count for sequences that reach the step `begun`."""
        return describe_value(name, value, at=where, pictures=pictures, live=chosen.live(value, step, begun))

    before = at.before[name]
    after = at.after[name] if is_complete else at[name] if assigned else None
    view = described(before, step - 1, chosen.in_step(step))
    unknown: Magnitudes = ([], True)
    spark, moves = notes.attempt("magnitudes", lambda: _magnitudes(chosen, name), unknown)
    return {
        "name": name,
        "before": view,
        "after": _not_reached(view) if after is None else described(after, step, chosen.after(step)),
        "change": notes.attempt("change", lambda: _change(chosen, step, before, after), None),
        "spark": spark,
        "flags": [] if moves else ["never changes"],
    }


def _not_reached(before: ValueView) -> ValueView:
    return {**before, "text": "not reached", "stats": None, "picture": None, "flags": [], "alarms": []}


def _change(chosen: ChosenSequence, step: int, before: object, after: object) -> Number | None:
    if after is None:
        return None
    first = one_entry(before, chosen.in_step(step), chosen.live(before, step))
    second = one_entry(after, chosen.after(step), chosen.live(after, step))
    if first.sparse is not None or {a.dim for a in first.axes} != {a.dim for a in second.axes}:
        return None
    if first.entries != second.entries:  # an axis that grows
        return None
    with np.errstate(invalid="ignore"):  # ∞ - ∞
        difference = np.abs(_aligned(second, first) - _aligned(first, first))
    difference = real_entries(difference, first.mask())
    return plain(float(difference.max())) if difference.size else None


def _aligned(data: Data, like: Data) -> np.ndarray:
    values = to_numpy(data.raw).astype(np.float64)
    order = [data.position(axis.dim) for axis in like.axes]
    return values.transpose([p for p in order if p is not None])


def _magnitudes(chosen: ChosenSequence, name: str) -> Magnitudes:
    """The magnitude of the state after sampled steps, and whether it ever changes; empty for labels."""
    cache = _magnitudes_by_run.setdefault(chosen.run, {})
    key = name, chosen.run.steps, chosen.sequence, tuple(chosen.places)  # a loop that was paused goes on
    if key not in cache:
        cache[key] = _follow(chosen, name)
    return cache[key]


def spark_steps(run: Run) -> list[int]:
    """The steps sampled for the sparklines of a run."""
    return spread(kept_steps(run, run.steps), options.SPARK_STEPS)


def kept_steps(run: Run, steps: int) -> range:
    """The steps among the first `steps` after which the states are kept; if they are kept after none, the last step."""
    every = run.replay.every
    return range(every - 1, steps, every) or range(max(steps - 1, 0), steps)


def _follow(chosen: ChosenSequence, name: str) -> Magnitudes:
    run = chosen.run
    steps = [step for step in spark_steps(run) if not chosen.places or chosen.place(step) is not None]
    spark: list[Number] = []
    start, moves, labels = None, False, False
    for step in steps:
        if start is None:
            start = one_entry(run[0].before[name], chosen.in_step(0))
        value = run[step].after[name]
        live = live_at(run, value, step) if chosen.sequence is None else None  # alone, it stays as it was in the end
        data = one_entry(value, chosen.after(step), live)
        labels = data.sparse is not None
        spark.append(plain(magnitude(data)))
        moves = moves or _moved(start, data)
    return [] if labels else spark, moves or not steps


def _moved(start: Data, now: Data) -> bool:
    """Whether an entry that counts differs from its initial value."""
    live = now.live if len(now.axes) == len(start.axes) else None
    return not np.array_equal(sampled(replace(start, live=live)), sampled(now), equal_nan=True)


def spread(entries: Sequence[T], most: int) -> list[T]:
    """At most `most` of the entries, evenly spaced, with the first and the last.

    >>> spread(range(10), 4)
    [0, 3, 6, 9]
    """
    if len(entries) <= most:
        return list(entries)
    return [entries[round(i * (len(entries) - 1) / (most - 1))] for i in range(most)]


def describe_watch(at: RunStep, text: str, chosen: ChosenSequence) -> WatchRow:
    """The JSON of a watched expression: its value, or one line that says why it has none.

    Of a search, the states after the step are those of its hypotheses, all other values those of their parents.
    """
    try:
        result = at.eval(text)
        where = chosen.after(at.step) if reads_states_after(text, at) else chosen.in_step(at.step)
        value = _described(text, result, where, chosen.live(result, at.step))
    except Exception as error:
        return {"text": text, "value": None, "error": reason(error)}
    return {"text": text, "value": value, "error": None}


def _described(text: str, value: object, at: Mapping[Dim, int], live: np.ndarray | None) -> ValueView:
    if isinstance(value, bool | float | str):
        return in_words(text, short(value), type(value).__name__)
    if isinstance(value, tuple | list | dict):
        names = getattr(value, "_fields", value if isinstance(value, dict) else [""] * len(value))
        parts = zip(names, value.values() if isinstance(value, dict) else value, strict=False)
        words = [f"{name} {_described('', part, at, None)['text']}".strip() for name, part in islice(parts, PARTS)]
        listing = ("; " if any(" " in word for word in words) else ", ").join([*words, *["…"] * (len(value) > PARTS)])
        return in_words(text, f"[{listing}]" if isinstance(value, list) else f"({listing})", type(value).__name__)
    if value is None or type(value).__name__ == "dtype":
        return in_words(text, str(value))
    if isinstance(value, Exception):  # a part that was not kept
        return in_words(text, reason(value))
    return describe_value(text, value, at=at, pictures=True, live=live)


def describe_ops(at: RunStep, choice: int | None, chosen: ChosenSequence) -> OpsView:
    """The ops in their order, with the values of the wanted one; -1 is the last."""
    try:
        ops = at.ops()
        number = None if choice is None or not ops else min(choice % len(ops) if choice < 0 else choice, len(ops) - 1)
        rows = [_row(i, op) for i, op in enumerate(ops)]
        op = None if number is None else _op(number, ops[number], at.step, chosen)
    except Exception as error:
        return {"rows": [], "op": None, "error": reason(error)}
    return {"rows": rows, "op": op, "error": None}


def _op(number: int, op: OpStep, step: int, chosen: ChosenSequence) -> OpView:
    inputs, outputs = ([chosen.view(x.name, x, step, pictures=True) for x in side] for side in (op.inputs, op.outputs))
    return {"number": number, "inputs": inputs, "outputs": outputs}


def _row(number: int, op: OpStep) -> OpRow:
    data = read(op.outputs[0]) if op.outputs else None
    return {
        "number": number,
        "op": op.node.op,
        "name": op.name,
        "path": op.node.path,
        "line": op.line,
        "dims": [] if data is None else describe_axes(data.axes, data.feature),
        "dtype": "" if data is None else data.dtype,
        "is_loop": op.node.kind == "loop",
    }
