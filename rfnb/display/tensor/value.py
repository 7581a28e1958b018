"""A value at one step of a loop: one line of text, its statistics, a small picture."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.backend.base.tape import untaped
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.display.kit.blocks import Notes
from rfnb.display.kit.data import Data, describe_axes, read, real_entries, thin_mask, thinned, to_numpy
from rfnb.display.kit.options import LABEL_TOKENS
from rfnb.display.markup.numbers import short
from rfnb.display.tensor.entries import PAD, describe_picture, label_of, line, shown, tokens
from rfnb.display.tensor.schema import StatsView, ValueView
from rfnb.display.tensor.stats import Measured, measure, sample, stats_of

SHOWN = 6
ENDED = "ended"
"""Text of a value for which all sequences have ended."""
NOT_YET = "not assigned yet"
"""Text of a state to which nothing was assigned so far."""
MINUS = "−inf"
"""The flag of a value with entries −∞ whose others are finite."""
MANY = 8
"""From this number of equal entries on, a value is flagged as constant."""
MOST_WEIGHTS = 2**16
"""Larger values are not looked at for weights."""
TOLERANCE = 0.01
"""Tolerance for the sum of weights, which may have half precision."""
PICTURE_CELLS = (24, 96)
PICTURE_PIXELS = (48, 192)


def describe_value(
    name: str,
    value: object,
    *,
    at: Mapping[Dim, int],
    pictures: bool,
    live: np.ndarray | None = None,
) -> ValueView:
    """The JSON of a Tensor or Dim, or of one sequence or hypothesis of it; of a text in its place, or None.

    at: the positions that were chosen, of dims that the value may have.
    live: which entries belong to sequences that have not ended; the others are shown as `·` and not counted.
    """
    if value is None or isinstance(value, str):
        return in_words(name, NOT_YET if value is None else value)
    notes = Notes()
    data = notes.attempt("value", lambda: one_entry(value, at, live), None)
    if data is None:
        text = repr(value) if isinstance(value, Dim) else f"({notes.text()})"
        return in_words(name, text)
    measured = notes.attempt("statistics", lambda: measure(data), None) if data.sparse is None else None
    stats = (
        None if measured is None else notes.attempt("statistics", lambda: stats_of(measured, sample(measured)), None)
    )
    picture = notes.attempt("picture", lambda: _picture(data, stats), None) if pictures else None
    text = notes.attempt("text", lambda: value_text(data), "?")
    alarms = [] if stats is None else [word for word in ("nan", "inf") if stats[word]]
    is_masked = bool(alarms) and notes.attempt("statistics", lambda: _is_mask(measured, stats), False)
    masked, alarms = ([MINUS], []) if is_masked else ([], alarms)
    return {
        **in_words(name, text, data.dtype),
        "flags": [*alarms, *masked, *_calm(stats, data, [*alarms, *masked])],
        "alarms": alarms,
        "dims": describe_axes(data.axes, data.feature),
        "stats": stats,
        "picture": picture,
    }


def one_line(name: str, x: Tensor, live: np.ndarray | None = None) -> str:
    """`att {batch, enc_time} float32  0.12 -0.31 … (3×16)  min -2  max 1.5  nan`, as `rf.watch` prints it."""
    with untaped():
        view = describe_value(name, x, at={}, pictures=False, live=live)
    stats = view["stats"]
    span = f"  min {short(stats['min'])}  max {short(stats['max'])}" if stats and "…" in view["text"] else ""
    flags = "".join(f"  {flag}" for flag in view["flags"])
    return f"{name} {{{', '.join(dim.name for dim in x.dims)}}} {x.dtype}  {view['text']}{span}{flags}"


def one_entry(value: Any, at: Mapping[Dim, int], live: np.ndarray | None = None) -> Data:
    """The data of a value at the chosen positions of its dims; the size of an axis that grows per step is a number."""
    if isinstance(value, int):
        return Data("size", "int64", "cpu", np.asarray(value), ())
    data = replace(read(value), live=live)
    for dim, index in at.items():
        if (axis := data.position(dim)) is not None:
            data = data.pick(axis, index)
    return data


def value_text(data: Data) -> str:
    """`0.12`, `0.12 · … (16)`, `0.12 -0.31 … (3×16)`, or labels; `·` stands for padding and ended sequences."""
    if data.live is not None and not data.live.any():
        return ENDED
    by_entry = len(data.axes) == 1 and data.mask() is not None  # one by one, to show which are left out
    if data.vocab is not None and not by_entry:
        sequences = _sequences(data)
        left_out = sum(map(len, sequences)) < _real_entries(data)
        return " | ".join(map(line, sequences)) + (f" … ({_shape(data)})" if left_out else "")
    if data.entries == 0:
        return f"(empty, {_shape(data)})"
    first, lead, vocab = _first(data), "", data.vocab
    if set(first) == {None} and len(first) < data.entries:
        first, lead = _first(data, _start(data)), "… "
    tell = short if vocab is None else lambda n: shown(label_of(n, vocab))
    bar = "|" if data.dtype.startswith("complex") else ""  # of complex numbers, the data has the absolute values
    text = " ".join(PAD if n is None else f"{bar}{tell(n)}{bar}" for n in first)
    return text if len(first) == data.entries else f"{lead}{text} … ({_shape(data)})"


def magnitude(data: Data) -> float:
    """The mean absolute value of a sample of the real entries; 0 if there are none."""
    values = sampled(data)
    with np.errstate(all="ignore"):
        return float(np.abs(values).mean()) if values.size else 0.0


def sampled(data: Data, most: int = 4096) -> np.ndarray:
    """A fixed sample of the real entries, which depends on shape and lengths only."""
    where = thinned(data.shape, most)
    return real_entries(to_numpy(data.raw[where]).astype(np.float64), thin_mask(data.mask(), where))


def axis_of_weights(data: Data, least: int = 2) -> int | None:
    """The axis along which the entries of a value are weights: from 0 to 1, with the sum 1; None if there is none.

    least: how many entries it has at least.
    """
    if not data.axes or data.entries > MOST_WEIGHTS or not data.dtype.startswith(("float", "bfloat")):
        return None
    weights = valid_weights(data)
    if not weights.size or not (weights.min() >= 0 and weights.max() <= 1 + TOLERANCE):
        return None
    for axis in reversed(range(weights.ndim)):
        sums = weights.sum(axis)
        live = sums[sums > 0]
        if weights.shape[axis] >= least and live.size and np.abs(live - 1).max() <= TOLERANCE:
            return axis
    return None


def valid_weights(data: Data) -> np.ndarray:
    """The entries, with 0 in padding."""
    weights, mask = to_numpy(data.raw).astype(np.float32), data.mask()
    return weights if mask is None else np.where(np.broadcast_to(mask, weights.shape), weights, 0)


def in_words(name: str, text: str, dtype: str = "") -> ValueView:
    """The JSON of a value without dims and statistics."""
    return {
        "name": name,
        "text": text,
        "dims": [],
        "dtype": dtype,
        "stats": None,
        "picture": None,
        "flags": [],
        "alarms": [],
    }


def _picture(data: Data, stats: StatsView | None) -> str | None:
    """A picture; None where it would show nothing: for few entries, for labels, or for equal entries."""
    if data.entries < MANY or data.sparse is not None:
        return None
    if stats is not None and stats["min"] == stats["max"] and not stats["nan"] + stats["inf"]:
        return None
    picture = describe_picture(data, PICTURE_CELLS, PICTURE_PIXELS)
    return None if picture is None else picture[0]


def _is_mask(measured: Measured | None, stats: StatsView | None) -> bool:
    """Whether entries are −∞ and all others finite, as in masked energies: no error, as for `rf.when.not_finite()`."""
    if measured is None or stats is None or {*measured.bad} != {"−Inf"}:
        return False
    if measured.where is None:
        return stats["min"] != "nan"
    return math.isfinite(measured.data.raw.max())  # of large tensors, only the first bad frames are in `bad`


def _calm(stats: StatsView | None, data: Data, alarms: list[str]) -> list[str]:
    """Flags that are not errors."""
    if stats is None or alarms or stats["count"] < MANY or data.dtype == "bool":
        return []
    return ["constant"] if stats["min"] == stats["max"] else []


def _start(data: Data) -> tuple[int, ...]:
    """The index of the first entry that counts."""
    mask = data.mask()
    return (0,) * len(data.axes) if mask is None else tuple(map(int, np.unravel_index(mask.argmax(), mask.shape)))


def _first(data: Data, start: tuple[int, ...] | None = None) -> list[object]:
    """The first numbers, with None for entries that do not count."""
    complete = data.entries <= SHOWN + 2
    corner = tuple(slice(None) if complete else slice(at, at + SHOWN) for at in start or (0,) * len(data.axes))
    values, mask = to_numpy(data.raw[corner]), data.mask()
    counts = np.broadcast_to(True if mask is None else mask, data.shape)[corner]
    numbers = [n.item() if real else None for n, real in zip(values.reshape(-1), counts.reshape(-1), strict=True)]
    return numbers if complete else numbers[:SHOWN]


def _sequences(data: Data) -> list[list[str]]:
    """The first labels, sequence by sequence."""
    at, room = data.sequence_axis(), LABEL_TOKENS
    if at is None or len(data.axes) == 1:
        return [tokens(data)]
    rows: list[list[str]] = []
    for i in range(data.axes[at].size):
        if room <= 0:
            break
        rows.append(tokens(data.pick(at, i), room))
        room -= len(rows[-1])
    return rows


def _real_entries(data: Data) -> int:
    mask = data.mask()
    return data.entries if mask is None else int(np.broadcast_to(mask, data.shape).sum())


def _shape(data: Data) -> str:
    return "×".join(str(n) for n in data.shape)
