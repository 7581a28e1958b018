"""A tensor sequence by sequence: how long each is, and what is in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.display.kit import options
from rfnb.display.kit.data import Data
from rfnb.display.markup.numbers import plain
from rfnb.display.schema import LengthsView, SequenceRow
from rfnb.display.tensor.stats import Measured


def describe_sequences(data: Data, found: Measured | None) -> list[SequenceRow] | None:
    """A row for each sequence; None if no axis counts them, or they are too many."""
    at = data.sequence_axis()
    if at is None or data.axes[at].size > options.LENGTHS:
        return None
    count = data.axes[at].size
    empty: SequenceRow = {
        "tag": None, "length": None, "mean": None, "min": None, "max": None, "nan": None, "inf": None
    }  # fmt: skip
    rows: list[SequenceRow] = [{**empty} for _ in range(count)]
    _put(rows, "tag", data.axes[at].tags)
    _put(rows, "length", _lengths(data, at))
    if found is not None and found.frames.mean.shape[at] == count:
        for key, values in _numbers(found, at).items():
            _put(rows, key, values)
    return rows


def describe_lengths(data: Data) -> list[LengthsView]:
    """In short, of each axis whose sequences differ or may differ."""
    return [_in_short(i, axis.lengths, axis.size) for i, axis in enumerate(data.axes) if axis.lengths is not None]


def _in_short(axis: int, lengths: np.ndarray, size: int) -> LengthsView:
    low, high = (int(lengths.min()), int(lengths.max())) if lengths.size else (0, 0)
    many = lengths.size > options.BARS and low < high
    counts = np.histogram(lengths, bins=options.HISTOGRAM_BINS, range=(low, high))[0] if many else None
    return {
        "axis": axis,
        "median": float(np.median(lengths)) if lengths.size else 0.0,
        "padding": 1 - float(lengths.sum()) / max(1, size * lengths.size) if size else 0.0,
        "empty": int((lengths == 0).sum()),
        "histogram": None if counts is None else [int(n) for n in counts],
    }


def _lengths(data: Data, at: int) -> list[int] | None:
    """Of the first axis that has some for each sequence."""
    dim = data.axes[at].dim
    found = next((axis.lengths for axis in data.axes if axis.lengths is not None and axis.over == (dim,)), None)
    return None if found is None else [int(n) for n in found]


def _numbers(found: Measured, at: int) -> dict[str, Sequence[Any]]:
    frames = found.frames
    others = tuple(i for i in range(frames.mean.ndim) if i != at)
    seen = frames.weights > 0
    total = frames.weights.sum(axis=others)
    with np.errstate(all="ignore"):
        mean = (np.where(seen, frames.mean, 0) * frames.weights).sum(axis=others) / total
    low = np.where(seen, frames.low, np.inf).min(axis=others, initial=np.inf)
    high = np.where(seen, frames.high, -np.inf).max(axis=others, initial=-np.inf)
    moments = {"mean": mean, "min": low, "max": high}
    some: dict[str, Sequence[Any]] = {key: _where(total > 0, values) for key, values in moments.items()}
    return some if found.where is not None else {**some, **_wrong(found, at, others)}


def _wrong(found: Measured, at: int, others: tuple[int, ...]) -> dict[str, Sequence[Any]]:
    def count(*words: str) -> list[int]:
        none = np.zeros(found.data.axes[at].size, np.int64)
        parts = [found.frames.wrong[word].sum(axis=others) for word in words if word in found.bad]
        return sum(parts, none).tolist()

    return {"nan": count("NaN"), "inf": count("+Inf", "−Inf")}


def _where(some: np.ndarray, values: np.ndarray) -> list[Any]:
    return [plain(float(value)) if there else None for there, value in zip(some, values, strict=True)]


def _put(rows: list[SequenceRow], key: Any, values: Sequence[Any] | None) -> None:
    for row, value in zip(rows, values or (), strict=False):
        row[key] = value  # type: ignore[literal-required]
