"""Orders each rank so that few links cross: sweeps by the mean place of neighbours, then swaps of two spots."""

from __future__ import annotations

from bisect import bisect_right, insort

from rfnb.display.layout.layers import Layers

SWEEPS = 8
SWAPS = 600
"""Number of spots above which no swaps are tried."""


def order(made: Layers) -> None:
    """Sorts the rows; keeps the first order with the fewest crossings."""
    best, fewest = [list(row) for row in made.rows], crossings(made)
    for sweep in range(SWEEPS):
        if not fewest:
            break
        _sweep(made, down=sweep % 2 == 0)
        if len(made.rank) <= SWAPS:
            _swap(made)
        count = crossings(made)
        if count < fewest:
            best, fewest = [list(row) for row in made.rows], count
    made.rows = best


def crossings(made: Layers) -> int:
    """Number of pairs of links that cross."""
    place = _places(made)
    total = 0
    for row in made.rows:
        targets: list[int] = []
        for spot in row:
            ends = sorted(place[b] for b in made.below[spot])
            total += sum(len(targets) - bisect_right(targets, end) for end in ends)
            for end in ends:
                insort(targets, end)
    return total


def _places(made: Layers) -> list[int]:
    place = [0] * len(made.rank)
    for row in made.rows:
        for i, spot in enumerate(row):
            place[spot] = i
    return place


def _sweep(made: Layers, *, down: bool) -> None:
    place: list[float] = [float(p) for p in _places(made)]
    beside = made.above if down else made.below
    for row in made.rows if down else reversed(made.rows):
        for i, spot in enumerate(row):
            near = beside[spot]
            place[spot] = sum(place[n] for n in near) / len(near) if near else i
        row.sort(key=place.__getitem__)
        for i, spot in enumerate(row):
            place[spot] = i


def _swap(made: Layers) -> None:
    """Swaps neighbours whose links then cross less."""
    place = _places(made)
    for row in made.rows:
        for i in range(len(row) - 1):
            left, right = row[i], row[i + 1]
            if _between(made, place, left, right) > _between(made, place, right, left):
                row[i], row[i + 1] = right, left
                place[left], place[right] = i + 1, i


def _between(made: Layers, place: list[int], left: int, right: int) -> int:
    """Number of crossings between the links of two neighbours."""
    return sum(place[a] > place[b] for beside in (made.above, made.below) for a in beside[left] for b in beside[right])
