"""All heads: their small pictures, their faults, and their measures, which are from 0 to 1 where rows sum to 1.

- entropy: −Σ p ln p of a row, divided by that of a row that sees as many columns alike, on average: 0 is one column
  each, 1 is flat. Used to tell heads apart by Ghader & Monz 2017 and by Clark et al. 2019.
- monotonicity: the share of steps from a row to the next in which the strongest column does not go back, as in
  monotonic attention (Raffel et al. 2017).
- coverage: Σ min(weight that a column gets, rows / columns) over all columns, divided by the number of rows: 1 if no
  column is left out. For as many rows as columns it is the mean of min(Σ weights, 1), as in the coverage penalty of
  Wu et al. 2016, after the coverage of Tu et al. 2016.
- diagonal: 1 minus the guided-attention loss of Tachibana et al. 2018, with g = 0.1: how near the weight is to the
  straight line from the first row and column to the last.
- previous, itself, next: the weight of the column one before, of the same number, one behind, on average; for as many
  rows as columns (positional heads: Voita et al. 2019, Clark et al. 2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.display.attention import drawing
from rfnb.display.attention.schema import AttentionHead
from rfnb.display.attention.weights import Weights
from rfnb.display.kit import options
from rfnb.display.kit.note import Notes
from rfnb.display.markup.numbers import plain, real, short
from rfnb.display.markup.png import pooled

NEAR = 0.1
"""Tachibana's g: the width of the diagonal, as a share of the columns."""


@dataclass(frozen=True)
class Measures:
    """Measures of shape [heads]; measures of neighbours are None unless rows and columns are equal in number."""

    entropy: np.ndarray
    monotonicity: np.ndarray
    coverage: np.ndarray
    diagonal: np.ndarray
    previous: np.ndarray | None
    itself: np.ndarray | None
    next: np.ndarray | None
    first: np.ndarray

    def role(self, head: int) -> str:
        """One word for a head: what receives at least half of its weight, or how the weight is spread."""
        neighbours = {"previous": self.previous, "itself": self.itself, "next": self.next}
        shares = {word: share for word, share in neighbours.items() if share is not None}
        for word, share in (shares | {"first": self.first}).items():
            if share[head] >= 0.5:
                return word
        if self.entropy[head] >= 0.95:
            return "flat"
        if self.diagonal[head] >= 0.8 and self.monotonicity[head] >= 0.8:
            return "diagonal"
        return "peaked" if self.entropy[head] <= 0.05 else ""


def measure(weights: np.ndarray, *, causal: bool) -> Measures:
    """The measures of all heads of a layer. [heads, rows, columns] with at least one row and column"""
    _, rows, cols = weights.shape
    counts = np.arange(1, rows + 1) if causal else np.full(rows, cols)  # columns that a row may attend to
    with np.errstate(all="ignore"):
        return Measures(
            entropy=_entropy(weights, counts),
            monotonicity=_monotonicity(weights),
            coverage=np.minimum(weights.sum(axis=1), rows / cols).sum(axis=1) / rows,
            diagonal=np.einsum("hrc,rc->h", weights, _near(rows, cols)) / rows,
            previous=_at(weights, -1) if rows == cols and rows > 1 else None,
            itself=_at(weights, 0) if rows == cols and rows > 1 else None,
            next=_at(weights, 1) if rows == cols and rows > 1 and not causal else None,
            first=weights[:, 1:, 0].mean(axis=1) if rows > 1 and cols > 2 else np.zeros(len(weights)),
        )


def is_causal(weights: np.ndarray) -> bool:
    """Whether no row of any head attends to a later column. [heads, rows, columns]"""
    _, rows, cols = weights.shape
    if rows != cols or rows < 2:
        return False
    behind = np.triu(np.ones((rows, cols), bool), 1)
    return not weights[:, behind].any() and bool((weights[:, 1:, 0] > 0).any() or (_at(weights, 0) > 0).any())


def sums(weights: np.ndarray) -> tuple[float, float]:
    """The smallest and the largest sum of a row. [rows, columns]"""
    totals = weights.sum(axis=-1, dtype=np.float64)
    return float(totals.min(initial=np.inf)), float(totals.max(initial=-np.inf))


def best_path(weights: np.ndarray) -> list[int]:
    """The column of each row on the monotonic path with the largest product of weights (Viterbi 1967)."""
    rows, cols = weights.shape
    if not rows or not cols:
        return []
    logs = np.log(np.clip(np.nan_to_num(weights.astype(np.float64)), 1e-8, None))
    scores, came = logs[0], np.zeros((rows, cols), np.int64)
    for row in range(1, rows):
        best = np.maximum.accumulate(scores)
        came[row] = np.maximum.accumulate(np.where(scores >= best, np.arange(cols), 0))
        scores = best + logs[row]
    path = [int(scores.argmax())]
    for row in range(rows - 1, 0, -1):
        path.append(int(came[row, path[-1]]))
    return path[::-1]


def _entropy(weights: np.ndarray, seen: np.ndarray) -> np.ndarray:
    mask = seen > 1
    if not mask.any():
        return np.zeros(len(weights))
    logs = np.log(np.maximum(weights, np.float32(1e-30)))
    nats = -np.einsum("hrc,hrc->hr", weights, logs)
    return (nats[:, mask] / np.log(seen[mask])).mean(axis=1)


def _monotonicity(weights: np.ndarray) -> np.ndarray:
    peaks = weights.argmax(axis=2)
    return np.ones(len(weights)) if weights.shape[1] < 2 else (np.diff(peaks, axis=1) >= 0).mean(axis=1)


def _near(rows: int, cols: int) -> np.ndarray:
    down = np.arange(rows)[:, None] / max(1, rows - 1)
    across = np.arange(cols)[None, :] / max(1, cols - 1)
    return np.exp(-((down - across) ** 2) / (2 * NEAR**2)).astype(np.float32)


def _at(weights: np.ndarray, offset: int) -> np.ndarray:
    """The mean weight on one of the diagonals."""
    diagonal = np.diagonal(weights, offset, axis1=1, axis2=2)
    return diagonal.mean(axis=1)


TOLERANCE = 0.01
"""Tolerance for the sum of a row, as weights may have half precision."""


@dataclass(frozen=True)
class Heads:
    """Heads in the order of layers. pictures: empty for a single head. pool: entries per pixel of a picture."""

    heads: list[AttentionHead]
    pictures: list[str]
    causal: bool
    pool: tuple[int, int]

    def sorted_by(self, name: str, *, largest_first: bool) -> Heads:
        """Heads sorted by a measure, with NaN last."""
        sign = -1 if largest_first else 1
        values = [sign * real(head[name]) for head in self.heads]  # type: ignore[literal-required]
        order = sorted(range(len(values)), key=lambda i: (math.isnan(values[i]), values[i]))
        pictures = [self.pictures[i] for i in order] if self.pictures else []
        return Heads([self.heads[i] for i in order], pictures, self.causal, self.pool)


def describe_heads(every: Weights, labels: list[str] | None, notes: Notes) -> Heads:
    """Describes all heads, one layer at a time to save memory. labels: labels of the columns."""
    count, layers = every.count, range(len(every.layers))
    largest = [max(sizes) for sizes in zip(*map(every.shape, layers), strict=True)]
    pool = drawing.head_pool((largest[0], largest[1]) if largest else (0, 0), count)
    cells = sum(len(every.heads[i]) * math.prod(every.shape(i)) for i in layers)
    coarse = cells / math.prod(pool) > options.ATTENTION_FINE
    heads: list[AttentionHead] = []
    pictures: list[str] = []
    causal = count > 0
    for place in layers if count else ():
        true, full = every.shape(place), np.stack([every.matrix(place, i) for i in range(len(every.heads[place]))])
        valid = full[:, : true[0], : true[1]]
        triangular = bool(valid.size) and is_causal(valid)
        causal = causal and triangular
        new = list(_of_layer(every, place, full, triangular, labels))
        heads += new
        if count > 1:
            padding = drawing.margin(true, every.full(place), pool)
            frame: Any = {"pool": pool, "causal": triangular, "padding": padding, "few": coarse}
            small = zip(pooled(valid, pool), new, strict=True)
            pictures += [drawing.sprite(matrix, real(head["scale"]), **frame) for matrix, head in small]
    if max(pool) > 1 and pictures:
        notes.add(_how_drawn(every, pool))
    return Heads(heads, pictures, causal, pool)


def _how_drawn(every: Weights, pool: tuple[int, int]) -> str:
    size = "×".join(str(-(-n // p)) for n, p in zip(every.shape(), pool, strict=True))
    sides = (("layer", every.layers), ("head", every.heads[-1]))  # as the arguments are called
    example = ", ".join(f"{word}={numbers[-1]}" for word, numbers in sides if len(numbers) > 1)
    return f"the small pictures are drawn at {size}; rf.show_attention(…, {example}) shows one exactly"


def _of_layer(
    every: Weights, place: int, full: np.ndarray, causal: bool, labels: list[str] | None
) -> Iterator[AttentionHead]:
    true = every.shape(place)
    valid = full[:, : true[0], : true[1]]
    measures = measure(valid, causal=causal) if valid.size else None
    labels = labels if true[1] == every.shape()[1] else None
    own = {"shape": [*true]} if len(set(map(every.shape, range(len(every.layers))))) > 1 else {}
    for i, head in enumerate(every.heads[place]):
        finite = valid[i] if np.isfinite(valid[i].sum()) else np.where(np.isfinite(valid[i]), valid[i], 0)
        head_view: Any = {
            "layer": every.layers[place],
            "head": head,
            "name": every.names[place],
            **_measured(measures, i),
            "top": [labels[i] if labels is not None else str(i) for i in _largest(finite.sum(axis=0))],
            "flags": faults(full[i], true),
            "scale": _scale(finite),
            **own,
        }
        yield head_view


def _scale(weights: np.ndarray) -> float:
    """The weight of the darkest colour: the largest one, or twice an even one, so that even weights are not dark."""
    largest = float(np.abs(weights).max(initial=0))
    low, high = sums(weights)
    if weights.size and low >= 1 - TOLERANCE and high <= 1 + TOLERANCE:
        largest = max(largest, min(1.0, 2 / weights.shape[1]))
    return round(largest, 6)


def _measured(found: Measures | None, head: int) -> Any:
    """The measures as JSON; zeros if there are no weights."""
    names = ("entropy", "monotonicity", "coverage", "diagonal", "previous", "itself", "next")
    values = {name: getattr(found, name, None) for name in names}
    numbers = {name: None if array is None else plain(round(float(array[head]), 4)) for name, array in values.items()}
    if found is None:
        numbers |= dict.fromkeys(names[:4], 0.0)
    return {**numbers, "role": "" if found is None else found.role(head)}


def _largest(totals: np.ndarray) -> list[int]:
    """The three columns with the largest weight."""
    return [int(i) for i in np.argsort(-totals, kind="stable")[:3]]


def faults(full: np.ndarray, true: tuple[int, int]) -> list[str]:
    """Faults: NaN, rows that do not sum to 1, weight on padding. full: weights with the padding."""
    rows = full[: true[0]]
    if not rows.size:
        return []
    low, high = sums(rows)
    if not np.isfinite(low) or not np.isfinite(high):
        bad = np.argwhere(~np.isfinite(rows))
        row, col = bad[0].tolist()
        return [f"{len(bad)} not finite: the first is {short(plain(rows[row, col]))} at row {row}, column {col}"]
    flags = []
    if low < 1 - TOLERANCE or high > 1 + TOLERANCE:
        flags.append(f"rows sum to {short(round(low, 3))} … {short(round(high, 3))}, not to 1")
    leak = float(rows[:, true[1] :].sum(dtype=np.float64)) / true[0]
    if leak > 1e-6:
        flags.append(f"{short(leak * 100)} % of the weight is on padding")
    if float(rows.min(initial=0)) < 0:
        flags.append("negative weights")
    return flags
