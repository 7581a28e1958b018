"""The history of states over the steps of a run: events, and a small picture of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.display.kit import options
from rfnb.display.kit.data import Data, thin_mask, thinned, to_numpy
from rfnb.display.markup import png
from rfnb.display.markup.png import block_for, extremes, pooled
from rfnb.display.run.schema import StateStrip
from rfnb.display.run.sequence_choice import live_at, of_sequence
from rfnb.display.run.step import spread
from rfnb.display.tensor.value import one_entry

if TYPE_CHECKING:
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
    every = run.replay.every
    ends = range(every - 1, steps, every) or range(steps - 1, steps)  # behind these, states are kept
    samples = spread(ends, options.PICTURE_CELLS[1])
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
    initial: Any = run.replay.state(name, 0) if samples[0] == 0 else None
    start = None
    if initial is not None and not isinstance(initial, int | str):
        start = one_entry(initial, of_sequence(run, sequence))
    if start is not None and start.shape == states[0].shape:
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
    counted = values[live & np.isfinite(values)]
    top = float(np.abs(counted).max(initial=0)) or 1.0
    scale: png.Scale = "diverging" if (counted < 0).any() else "sequential"
    cell = (max(2, min(8, 64 // len(values))), max(1, min(10, PIXELS // steps)))
    return {
        "state": history.name,
        "picture": png.picture(values / top, valid=None if live.all() else live, scale=scale, cell=cell),
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
