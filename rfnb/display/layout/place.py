"""Places the spots of each rank: near the spots that they are linked to, in straight lines if there is room."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise

from rfnb.display.layout.layers import Layers

SWEEPS = 8
STRAIGHTEN = 12
LINE = 8.0
"""Weight of keeping lines through several ranks straight, relative to a link of two boxes."""


def places(made: Layers, gap: Callable[[int, int], float]) -> list[float]:
    """The middle of each spot. gap: smallest distance between the middles of two neighbours."""
    x = [0.0] * len(made.rank)
    for row in made.rows:
        for left, right in pairwise(row):
            x[right] = x[left] + gap(left, right)
    for sweep in range(SWEEPS):
        down, two_way = sweep % 2 == 0, sweep >= SWEEPS - 2
        for row in made.rows if down else reversed(made.rows):
            _settle(made, row, x, gap, up=down or two_way, down=not down or two_way)
    return _straight(made, x, gap)


def _weight(made: Layers, a: int, b: int) -> float:
    lines = (not made.is_box(a)) + (not made.is_box(b))
    return (1.0, 2.0, LINE)[lines]


def _settle(made: Layers, row: list[int], x: list[float], gap: Callable, *, up: bool, down: bool) -> None:
    """Moves a row as close as possible to the positions wanted by its links: least squares in a fixed order."""
    offset, offsets, wishes, weights = 0.0, [], [], []
    for i, spot in enumerate(row):
        offset += gap(row[i - 1], spot) if i else 0.0
        near = (made.above[spot] if up else []) + (made.below[spot] if down else [])
        pull = [(_weight(made, spot, n), x[n]) for n in near] or [(0.01, x[spot])]
        total = sum(w for w, _ in pull)
        offsets.append(offset)
        weights.append(total)
        wishes.append(sum(w * at for w, at in pull) / total - offset)
    for spot, at, shift in zip(row, rising(wishes, weights), offsets, strict=True):
        x[spot] = at + shift


def rising(wanted: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The non-decreasing numbers nearest to `wanted`.

    >>> rising([1, 5, 3, 6], [1, 1, 1, 1])
    [1, 4.0, 4.0, 6]
    """
    pools: list[tuple[float, float, int]] = []  # mean, weight, how many
    for mean, weight in zip(wanted, weights, strict=True):
        count = 1
        while pools and pools[-1][0] > mean:
            before, heavy, many = pools.pop()
            mean = (mean * weight + before * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + many
        pools.append((mean, weight, count))
    return [mean for mean, _, count in pools for _ in range(count)]


# -- straight lines: spots that follow each other become threads, which are moved as one


def _straight(made: Layers, x: list[float], gap: Callable[[int, int], float]) -> list[float]:
    thread = _threads(made, x)
    members: dict[int, list[int]] = {}
    for spot, t in enumerate(thread):
        members.setdefault(t, []).append(spot)
    left: dict[int, dict[int, float]] = {t: {} for t in members}  # what is left of a thread, and how far
    right: dict[int, dict[int, float]] = {t: {} for t in members}
    for row in made.rows:
        for a, b in pairwise(row):
            s, t = thread[a], thread[b]
            far = max(gap(a, b), left[t].get(s, 0.0))
            left[t][s] = right[s][t] = far
    links = {
        t: [(_weight(made, s, n), thread[n]) for s in spots for n in (*made.above[s], *made.below[s]) if thread[n] != t]
        for t, spots in members.items()
    }
    at = {t: sum(x[s] for s in spots) / len(spots) for t, spots in members.items()}
    ordered = _left_to_right(left, right)
    for t in ordered:
        at[t] = max([at[t], *(at[s] + far for s, far in left[t].items())])
    for turn in range(STRAIGHTEN):
        for t in ordered if turn % 2 else reversed(ordered):
            if links[t]:
                wish = sum(w * at[n] for w, n in links[t]) / sum(w for w, _ in links[t])
                low = max((at[s] + far for s, far in left[t].items()), default=-math.inf)
                high = min((at[s] - far for s, far in right[t].items()), default=math.inf)
                at[t] = max(low, min(high, wish))
    return [at[t] for t in thread]


def _threads(made: Layers, x: list[float]) -> list[int]:
    """The first spot of the thread of each spot. No two threads cross."""
    thread = list(range(len(made.rank)))
    for upper, lower in zip(made.rows, made.rows[1:], strict=False):
        place = {spot: i for i, spot in enumerate(upper)}
        steps = [
            (-_weight(made, a, b), abs(x[a] - x[b]), place[a], i, a, b)
            for i, b in enumerate(lower)
            for a in made.above[b]
        ]
        joins: list[tuple[int, int]] = []
        for _, _, i, j, a, b in sorted(steps):
            if all((i < u and j < v) or (i > u and j > v) for u, v in joins):
                joins.append((i, j))
                thread[b] = thread[a]
    return thread


def _left_to_right(left: dict[int, dict[int, float]], right: dict[int, dict[int, float]]) -> list[int]:
    missing = {t: len(threads) for t, threads in left.items()}
    order = [t for t, count in missing.items() if not count]
    for t in order:
        for thread in right[t]:
            missing[thread] -= 1
            if not missing[thread]:
                order.append(thread)
    return order
