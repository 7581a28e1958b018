"""The boxes of each rank: below all boxes that they depend on, in an order in which few links cross, and in place.

Each is near those that it is linked to, in straight lines if there is room.
"""

from __future__ import annotations

import math
from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass(frozen=True, slots=True)
class Link:
    """A link from box to box.

    Args:
        value: links of one source with the same value share their way as far as they go together.
        leave: where the line starts, right of the axis of the source.
        back: against the direction of the drawing, around the other boxes.
    """

    source: int
    target: int
    value: int = 0
    leave: float = 0.0
    back: bool = False


@dataclass(frozen=True, slots=True)
class BoxSize:
    """The size of a box. tail: height at its lower end that lines pass through.

    axis: distance from its left end to where lines enter and leave; the middle by default.
    """

    width: float
    height: float
    tail: float = 0.0
    axis: float | None = None

    @property
    def left(self) -> float:
        """Width left of the axis."""
        return self.width / 2 if self.axis is None else self.axis

    @property
    def right(self) -> float:
        """Width right of the axis."""
        return self.width - self.left


def turned(count: int, links: Sequence[Link]) -> set[int]:
    """Positions of the links that close a cycle, or are marked as going back."""
    targets: list[list[int]] = [[] for _ in range(count)]
    back = {i for i, link in enumerate(links) if link.back or link.source == link.target}
    for i, link in enumerate(links):
        if i not in back:
            targets[link.source].append(i)
    finished, active = [False] * count, [False] * count
    for start in range(count):
        if finished[start]:
            continue
        active[start] = True
        stack = [(start, iter(targets[start]))]
        while stack:
            box, pending = stack[-1]
            i = next(pending, -1)
            if i < 0:
                stack.pop()
                active[box], finished[box] = False, True
            elif active[links[i].target]:
                back.add(i)
            elif not finished[links[i].target]:
                active[links[i].target] = True
                stack.append((links[i].target, iter(targets[links[i].target])))
    return back


def ranks(count: int, links: Sequence[Link]) -> list[int]:
    """Ranks by the longest path from above; a box that feeds one place only is just above it. Needs acyclic links."""
    sources: list[list[int]] = [[] for _ in range(count)]
    targets: list[list[int]] = [[] for _ in range(count)]
    for link in links:
        sources[link.target].append(link.source)
        targets[link.source].append(link.target)
    order = _sorted(sources, targets)
    rank = [0] * count
    exclusive = [False] * count  # nothing above it is used by others
    for box in order:
        rank[box] = max((rank[a] + 1 for a in sources[box]), default=0)
        exclusive[box] = all(exclusive[a] and len(targets[a]) == 1 for a in sources[box])
    for box in reversed(order):
        if targets[box] and (exclusive[box] or len(sources[box]) < len(targets[box]) == 1):
            rank[box] = min(rank[b] for b in targets[box]) - 1
    return rank


def _sorted(above: list[list[int]], below: list[list[int]]) -> list[int]:
    """The boxes in topological order."""
    missing = [len(boxes) for boxes in above]
    order = [box for box, count in enumerate(missing) if not count]
    for box in order:
        for target in below[box]:
            missing[target] -= 1
            if not missing[target]:
                order.append(target)
    return order


@dataclass
class Layers:
    """Spots by number: the boxes first, then the points where links pass.

    rows: spots of each rank, left to right. ways: of each link, the spots that it visits. above, below: neighbours.
    """

    count: int
    rows: list[list[int]]
    rank: list[int]
    ways: list[list[int]]
    above: list[list[int]] = field(default_factory=list)
    below: list[list[int]] = field(default_factory=list)

    def is_box(self, spot: int) -> bool:
        """Whether a spot is a box, not a point of a link."""
        return spot < self.count


def layers(rank: list[int], links: Sequence[Link]) -> Layers:
    """The layers, with rows in the order of the boxes. Links go from lower to higher rank."""
    count = len(rank)
    result = Layers(count, [[] for _ in range(max(rank, default=-1) + 1)], list(rank), [])
    for box, r in enumerate(rank):
        result.rows[r].append(box)
    passes: dict[tuple[int, int, int], int] = {}  # by source, value and rank
    steps: dict[tuple[int, int], None] = {}
    for link in links:
        way = [link.source]
        for r in range(rank[link.source] + 1, rank[link.target]):
            spot = passes.setdefault((link.source, link.value, r), len(result.rank))
            if spot == len(result.rank):
                result.rank.append(r)
                result.rows[r].append(spot)
            way.append(spot)
        way.append(link.target)
        result.ways.append(way)
        steps |= dict.fromkeys(pairwise(way))
    result.above = [[] for _ in result.rank]
    result.below = [[] for _ in result.rank]
    for upper, lower in steps:
        result.above[lower].append(upper)
        result.below[upper].append(lower)
    return result


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
            total, heavy, many = pools.pop()
            mean = (mean * weight + total * heavy) / (weight + heavy)
            weight, count = weight + heavy, count + many
        pools.append((mean, weight, count))
    return [mean for mean, _, count in pools for _ in range(count)]


# -- straight lines: spots that follow each other become threads, which are moved as one


def _straight(made: Layers, x: list[float], gap: Callable[[int, int], float]) -> list[float]:
    thread = _threads(made, x)
    members: dict[int, list[int]] = {}
    for spot, t in enumerate(thread):
        members.setdefault(t, []).append(spot)
    gaps: dict[int, dict[int, float]] = {t: {} for t in members}  # what is left of a thread, and how far
    right: dict[int, dict[int, float]] = {t: {} for t in members}
    for row in made.rows:
        for a, b in pairwise(row):
            s, t = thread[a], thread[b]
            far = max(gap(a, b), gaps[t].get(s, 0.0))
            gaps[t][s] = right[s][t] = far
    links = {
        t: [(_weight(made, s, n), thread[n]) for s in spots for n in (*made.above[s], *made.below[s]) if thread[n] != t]
        for t, spots in members.items()
    }
    at = {t: sum(x[s] for s in spots) / len(spots) for t, spots in members.items()}
    ordered = _left_to_right(gaps, right)
    for t in ordered:
        at[t] = max([at[t], *(at[s] + far for s, far in gaps[t].items())])
    for turn in range(STRAIGHTEN):
        for t in ordered if turn % 2 else reversed(ordered):
            if links[t]:
                wish = sum(w * at[n] for w, n in links[t]) / sum(w for w, _ in links[t])
                low = max((at[s] + far for s, far in gaps[t].items()), default=-math.inf)
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
