"""Measures of how a head attends, of [heads, rows, columns] without padding; from 0 to 1 where rows sum to 1.

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

from dataclasses import dataclass

import numpy as np

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
