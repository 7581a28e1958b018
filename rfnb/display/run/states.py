"""The states of a run over its steps: a line and a small picture of each, events, and which steps are shown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from rfnb.core.ground.text import count_of
from rfnb.display.kit import blocks as page, options
from rfnb.display.kit.data import Data, thin_mask, thinned, to_numpy
from rfnb.display.markup import png, style
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import bars, short
from rfnb.display.markup.png import block_for, extremes, pooled
from rfnb.display.run.schema import HistoryView, StateRow, StateStrip
from rfnb.display.run.step import kept_steps, live_at, of_sequence, spread
from rfnb.display.tensor.entries import PAD
from rfnb.display.tensor.schema import ValueView
from rfnb.display.tensor.value import ENDED, one_entry
from rfnb.trace.run.run import Run


@dataclass
class SampledState:
    """A state after several steps, always of the same size.

    values: [steps, …], thinned if large. live: entries that count, with axes of size 1. axes: names of the axes after
    the steps. sequences: which of them counts sequences. jump: the largest change in the first step.
    """

    name: str
    steps: list[int]
    values: np.ndarray
    live: np.ndarray
    axes: list[str]
    sequences: int | None
    jump: float = 0.0

    def since(self, place: int) -> int:
        """The first step of the interval that ends with the sample at `place`; the steps between were skipped."""
        return self.steps[place - 1] + 1 if place else 0

    def not_finite(self) -> int | None:
        """The place of the first step after which the state holds NaN or an infinity."""
        bad = ~np.isfinite(self.values) & self.live
        places = np.flatnonzero(bad.reshape(len(self.steps), -1).any(axis=1))
        return int(places[0]) if len(places) else None

    def largest_change(self) -> tuple[int, bool] | None:
        """The place of the step with the largest change of an entry, and whether the first step changed more.

        The first step is left out, as states usually jump from their initial value. Between sampled steps the change
        is per step. None if there is no change, or all changes are equal.
        """
        if len(self.steps) < 3:
            return None
        moved = _moved(self.values[1:], self.values[:-1], self.live[1:])
        largest = moved.reshape(len(moved), -1).max(axis=1, initial=0) / np.diff(self.steps)
        return (int(largest.argmax()) + 1, self.jump > largest.max()) if largest.max() > largest.min() else None


def _moved(now: np.ndarray, before: np.ndarray, live: np.ndarray) -> np.ndarray:
    """The change of each entry that counts."""
    with np.errstate(all="ignore"):
        moved = np.abs(now - before)
    change: np.ndarray = np.where(live & np.isfinite(moved), moved, 0)
    return change


def follow(run: Run, name: str, sequence: int | None, steps: int) -> SampledState | None:
    """The state after at most 256 of the first `steps`; None for labels, texts, sizes, and states that change size."""
    if not steps:
        return None
    samples = spread(kept_steps(run, steps), options.PICTURE_CELLS[1])
    states: list[Data] = []
    masks: list[np.ndarray] = []
    for step in samples:
        value = run.replay.state(name, step + 1)
        if value is None or isinstance(value, int | str):
            return None
        data = one_entry(value, of_sequence(run, sequence), live_at(run, value, step))
        if data.sparse is not None or (states and data.shape != states[0].shape):
            return None
        states.append(data)
        mask = data.mask()
        masks.append(np.ones([1] * len(data.axes), bool) if mask is None else mask)
    if not states or not states[0].entries:
        return None
    where = thinned(states[0].shape, max(1, options.EXACT_ENTRIES // len(states)))
    wide = np.broadcast_shapes(*map(np.shape, masks))
    full_mask = np.stack([np.broadcast_to(mask, wide) for mask in masks])
    thin = thin_mask(full_mask, (slice(None), *where))
    owner = states[0].position(run.sequence_dim) if run.sequence_dim is not None else None
    values = np.stack([to_numpy(data.raw[where]).astype(np.float32) for data in states])
    live = full_mask if thin is None else thin
    jump = 0.0
    initial = run.replay.state(name, 0) if samples[0] == 0 else None
    if initial is not None and not isinstance(initial, int | str):
        start = one_entry(initial, of_sequence(run, sequence))
        if start.shape == states[0].shape:
            jump = float(_moved(values[0], to_numpy(start.raw[where]).astype(np.float32), live[0]).max(initial=0))
    return SampledState(name, samples, values, live, [axis.dim.name for axis in states[0].axes], owner, jump)


ROWS = 32
PIXELS = 240


def describe_strip(history: SampledState) -> StateStrip:
    """A picture: steps across, sequences or entries down, hatched where a sequence has ended."""
    values, live = _matrix(history)
    rows, steps = values.shape
    block = block_for(values.shape, (ROWS, steps))
    values, live = extremes(values, live, block), pooled(live, block)
    top, scale = png.scale_of(values[live])
    cell = (max(2, min(8, 64 // len(values))), max(1, min(10, PIXELS // steps)))
    return {
        "state": history.name,
        "picture": png.picture(values / (top or 1.0), valid=None if live.all() else live, scale=scale, cell=cell),
        "alt": _words(history, rows, len(values)),
    }


def _matrix(history: SampledState) -> tuple[np.ndarray, np.ndarray]:
    """[rows, steps]: the largest entry of each row, and whether any entry counts."""
    values, live = history.values, np.broadcast_to(history.live, history.values.shape)
    if history.sequences is not None:
        values, live = (np.moveaxis(array, history.sequences + 1, 1) for array in (values, live))
        values, live = (array.reshape(*array.shape[:2], -1) for array in (values, live))
    else:
        values, live = (array.reshape(len(array), -1, 1) for array in (values, live))
    sizes = np.where(live, np.abs(values), -1)
    at = np.argmax(sizes, axis=2)[..., None]  # of several, NaN counts as the largest
    live_rows: np.ndarray = np.asarray(live.any(axis=2)).T
    return np.take_along_axis(values, at, 2)[..., 0].T, live_rows


def _words(history: SampledState, rows: int, drawn: int) -> str:
    owner = history.sequences
    axes = [name for i, name in enumerate(history.axes) if i != owner]
    down = history.axes[owner] if owner is not None else " and ".join(axes) or "one number"
    words = f"{history.name}: {down} down, {len(history.steps)} steps across"
    if owner is not None and axes:
        words += f", the largest over {', '.join(axes)}"
    if drawn < rows:
        words += f", {-(-rows // ROWS)} rows in one"
    return words + (", hatched after the end" if not history.live.all() else "")


BLOCKS = 32
"""Largest number of blocks in a sparkline."""
SHORT = 24
"""Longest value shown both before and after a step, in characters; longer ones are shown after it only."""


def steps_blocks(view: HistoryView) -> list[page.Block]:
    """A row for each step; ended sequences are pale."""
    names = [value["name"] for value in view["start"]]
    if not names:
        return []
    rows = list(_steps(view))
    spans = [[page.Span(_marked(cell), text=cell) for cell in row.cells] for row in rows]
    whys = [[row.why] for row in rows] if any(view["reasons"]) else [[] for _ in rows]
    none = [""] if any(view["reasons"]) else []
    text = page.Grid(
        [[row.step, *why, *row.cells] for row, why in zip(rows, whys, strict=True)], ["step", *none, *names]
    )
    looks = [f"{style.LABEL_CELL};vertical-align:top;padding-top:2px", *looks_of([*row.cells, row.why] for row in rows)]
    html = page.Grid(
        [[row.step, *cells, *map(page.quiet, why)] for row, cells, why in zip(rows, spans, whys, strict=True)],
        ["step", *names, *none],
        looks,
        head=[style.LABEL_CELL, *[style.LEFT_CELL] * (len(names) + 1)],
    )
    words = {word for row in rows for cell in row.cells for word in cell.split()}
    legend = [f"{mark} {meaning}" for mark, meaning in LEGEND.items() if mark in words]
    return [
        page.Only("text", [text]),
        page.Only("html", [html, page.Line(page.quiet(", ".join(legend))) if legend else None]),
    ]


WIDTH = 20


def looks_of(rows: Iterable[Sequence[object]]) -> list[str]:
    """The styles of columns whose cells stay in one line up to WIDTH characters, on a page that is too narrow."""
    widths = (max(len(str(cell)) for cell in column) for column in zip(*rows, strict=True))
    return [f"{style.LEFT_CELL};min-width:{min(width, WIDTH)}ch" for width in widths]


LEGEND = {PAD: "padding, or a sequence that has ended", "Δ": "the largest change of an entry in this step"}


class StepLine(NamedTuple):
    """A step: its label, why it is shown, and each state after it."""

    step: str
    why: str
    cells: list[str]


def to_table(view: HistoryView) -> page.Table:
    """A row for each shown step and state."""
    columns = ["step", "state", "before", "after", "change", "flags", "why"]
    rows = [
        [
            step["step"], row["name"], row["before"]["text"], row["after"]["text"], row["change"],
            ", ".join(row["after"]["flags"]), why,
        ]
        for step, why in zip(view["steps"], view["reasons"], strict=True)
        for row in step["states"]
    ]  # fmt: skip
    return page.Table(columns, rows)


def _steps(view: HistoryView) -> Iterator[StepLine]:
    """Initial states, then each step. Gaps show the range of steps left out."""
    yield StepLine("start", "", [_value(value) for value in view["start"]])
    last = -1
    for step, why in zip(view["steps"], view["reasons"], strict=True):
        gap = step["step"] > last + 1
        yield StepLine(str(step["step"]), why, [_cell(row, gap) for row in step["states"]])
        last = step["step"]


def _cell(row: StateRow, gap: bool) -> str:
    """The state after the step, its anomalies, and its change."""
    before, after = _value(row["before"]), _value(row["after"])
    text = f"{before} → {after}" if gap and before != after and len(before) <= SHORT else after
    return text + ("" if row["change"] in (None, 0) else f"  Δ {short(row['change'])}")


def _value(value: ValueView) -> str:
    """A value with its anomalies, unless the numbers show them."""
    words = value["text"].split()
    return value["text"] + "".join(f"  {flag}" for flag in value["flags"] if flag not in ("constant", *words))


def states_grid(view: HistoryView) -> page.Grid:
    """A row for each state: its dims, a line and a picture of it over the steps, and what is odd."""
    changes = {row["name"]: row for row in view["steps"][-1]["states"]} if view["steps"] else {}
    strips = {strip["state"]: strip for strip in view["strips"]}
    rows: list[list[page.Words]] = []
    for value in view["start"]:
        change, strip = changes.get(value["name"]), strips.get(value["name"])
        odd = change["flags"] if change else []
        sparkline = bars(spread(change["spark"], BLOCKS)) or "labels" if change else ""  # labels have no size
        line = [_picture(strip) if strip else None, page.Span(sparkline, "opacity:0.65;white-space:nowrap", tag="div")]
        chips = page.Span([page.chip(flag, style.WARN) for flag in odd], text="  ".join(odd))
        rows.append([page.bold(value["name"]), page.pills(value["dims"]), page.Span(line, text=sparkline), chips])
    return page.Grid(rows, looks=[f"{style.LEFT_CELL};vertical-align:middle"] * 4)


def _picture(strip: StateStrip) -> Html:
    return el("img", src=strip["picture"], alt=strip["alt"], title=strip["alt"], style=f"display:block;{style.BORDER}")


def _marked(cell: str) -> list[page.Words]:
    """A value with ended sequences paler, and NaN and Inf marked."""
    looks = {PAD: style.QUIET, ENDED: style.QUIET, **dict.fromkeys(("nan", "inf", "-inf"), style.MARKED)}
    pieces = re.split(r"( +)", cell.replace("Δ ", "Δ\u00a0"))
    return [page.Span(piece, looks[piece]) if piece in looks else piece for piece in pieces]


ENDS = 4
"""Largest number of shown steps at which sequences end."""


def chosen_steps(run: Run, sequence: int | None, steps: int, histories: Sequence[SampledState]) -> dict[int, str]:
    """The reason for each shown step; "" for steps that only fill gaps. All steps, if there are few.

    steps: the number of steps, of the sequence if one was chosen; includes a failed step.
    """
    reasons: dict[int, list[str]] = {}
    for step, why in _events(run, sequence, steps, histories):
        if step in reasons or len(reasons) < options.HISTORY_STEPS or steps <= options.HISTORY_STEPS:
            reasons.setdefault(step, []).append(why)
    if steps <= options.HISTORY_STEPS:
        return {step: ", ".join(reasons.get(step, [])) for step in range(steps)}
    while len(reasons) < options.HISTORY_STEPS:
        reasons[_middle(sorted(reasons))] = []
    return {step: ", ".join(reasons[step]) for step in sorted(reasons)}


def _middle(steps: list[int]) -> int:
    """The step in the middle of the widest gap."""
    _, before, after = max((b - a, a, b) for a, b in pairwise(steps))
    return (before + after) // 2


def _events(run: Run, sequence: int | None, steps: int, histories: Sequence[SampledState]) -> Iterator[tuple[int, str]]:
    """Events as (step, reason), the most important first."""
    if steps > options.HISTORY_STEPS:
        yield from [(0, "first"), (steps - 1, "last")]
    if run.failed is not None and run.failed.step < steps:
        yield run.failed.step, "failed"
    yield from ((step, why) for step, why in _fork(run) if step < steps)
    for history in histories:
        if (place := history.not_finite()) is not None:
            step, since = history.steps[place], history.since(place)
            yield step, f"{history.name} is not finite" + (f", first at step {since} or later" if since < step else "")
    if sequence is None:
        yield from _ends(run)
    changes: dict[tuple[int, str], list[str]] = {}
    for history in histories:
        if (change := history.largest_change()) is not None:
            place, jumped = change
            step, since = history.steps[place], history.since(place)
            among = f" from step {since} to here" if since < step else ", except in step 0" if jumped else ""
            changes.setdefault((step, among), []).append(history.name)
    for (step, among), names in changes.items():
        yield step, f"{', '.join(names)} {'change' if names[1:] else 'changes'} most{among}"


def _fork(run: Run) -> Iterator[tuple[int, str]]:
    """The step where a fork begins, and the states edited there, which no step computed."""
    step, parent = run.forked_at, run.parent
    if step is None or parent is None:
        return
    edited = [name for name in run.states if _differs(*(side.replay.state(name, step) for side in (run, parent)))]
    words = ", ".join(edited)
    if edited and step:
        yield step - 1, f"{words} edited after it"
    yield step, "the fork begins" + (f", {words} edited before it" if edited and not step else "")


def _differs(a: object, b: object) -> bool:
    if not (hasattr(a, "dims") and hasattr(b, "dims")):
        return bool(a != b)
    first, second = (to_numpy(one_entry(value, {}).raw) for value in (a, b))
    return not np.array_equal(first, second, equal_nan=True)


def _ends(run: Run) -> Iterator[tuple[int, str]]:
    """The steps at which sequences end while others continue."""
    counts = run.begun.values.reshape(-1).tolist() if run.begun.dims else []
    at = {n: [i for i, count in enumerate(counts) if count == n] for n in sorted({*counts}) if 0 < n < max(counts)}
    for n in spread([*at], ENDS):
        indices = at[n]
        name = repr(run.tags[indices[0]]) if run.tags else f"sequence {indices[0]}"
        yield n - 1, f"{name} ends" if len(indices) == 1 else f"{count_of(len(indices), 'sequence')} end"
