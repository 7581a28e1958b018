"""All heads: their measures, their faults and their small pictures."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.display.attention import drawing
from rfnb.display.attention.measures import Measures, is_causal, measure, sums
from rfnb.display.attention.schema import AttentionHead
from rfnb.display.attention.weights import Weights
from rfnb.display.kit import options
from rfnb.display.kit.degrade import Notes
from rfnb.display.markup.numbers import plain, real, short
from rfnb.display.markup.png import pooled

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
    true, count = every.shape, len(every.layers) * len(every.heads)
    pool = drawing.head_pool(true, count)
    padding = drawing.margin(true, every.full, pool)
    coarse = count * math.prod(true) / math.prod(pool) > options.ATTENTION_FINE
    heads: list[AttentionHead] = []
    pictures: list[str] = []
    causal = count > 0
    for place in range(len(every.layers) if every.heads else 0):
        full = np.stack([every.matrix(place, i) for i in range(len(every.heads))])
        valid = full[:, : true[0], : true[1]]
        triangular = bool(valid.size) and is_causal(valid)
        causal = causal and triangular
        new = list(_of_layer(every, place, full, triangular, labels))
        heads += new
        if count > 1:
            frame: Any = {"pool": pool, "causal": triangular, "padding": padding, "few": coarse}
            small = zip(pooled(valid, pool), new, strict=True)
            pictures += [drawing.sprite(matrix, real(head["scale"]), **frame) for matrix, head in small]
    if max(pool) > 1 and pictures:
        notes.add(_how_drawn(every, pool))
    return Heads(heads, pictures, causal, pool)


def _how_drawn(every: Weights, pool: tuple[int, int]) -> str:
    size = "×".join(str(-(-n // p)) for n, p in zip(every.shape, pool, strict=True))
    sides = (("layer", every.layers), ("head", every.heads))  # as the arguments are called
    example = ", ".join(f"{word}={numbers[-1]}" for word, numbers in sides if len(numbers) > 1)
    return f"the small pictures are drawn at {size}; rf.show_attention(…, {example}) shows one exactly"


def _of_layer(
    every: Weights, place: int, full: np.ndarray, causal: bool, labels: list[str] | None
) -> Iterator[AttentionHead]:
    valid = full[:, : every.shape[0], : every.shape[1]]
    measures = measure(valid, causal=causal) if valid.size else None
    for i, head in enumerate(every.heads):
        finite = valid[i] if np.isfinite(valid[i].sum()) else np.where(np.isfinite(valid[i]), valid[i], 0)
        head_view: Any = {
            "layer": every.layers[place],
            "head": head,
            "name": every.names[place],
            **_measured(measures, i),
            "top": [labels[i] if labels is not None else str(i) for i in _largest(finite.sum(axis=0))],
            "flags": faults(full[i], every.shape),
            "scale": round(float(np.abs(finite).max(initial=0)), 6),
        }
        yield head_view


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
