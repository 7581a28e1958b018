"""Routes lines: between ranks a line may move sideways, beside boxes it goes straight down; back in lanes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rfnb.display.layout.layers import Layers, Link

Point = tuple[float, float]


@dataclass(slots=True)
class Box:
    """A placed box: its upper left corner, size, rank and column."""

    x: float
    y: float
    width: float
    height: float
    tail: float
    rank: int
    column: int
    axis: float  # across: where lines come in and go out

    @property
    def leave(self) -> float:
        """The height at which lines leave."""
        return self.y + self.height - self.tail


@dataclass(slots=True)
class Stroke:
    """The points of a link. smooth: slanted pieces are curves; otherwise all pieces are vertical or horizontal."""

    points: list[Point]
    smooth: bool
    back: bool = False


@dataclass
class Drawing:
    """Boxes and lines in the given order. columns: left and right end of each column, which nothing crosses."""

    width: float = 0.0
    height: float = 0.0
    boxes: list[Box] = field(default_factory=list)
    lines: list[Stroke] = field(default_factory=list)
    columns: list[tuple[float, float]] = field(default_factory=list)


LANE = 11.0
"""Distance of two lanes."""


@dataclass(slots=True)
class Lane:
    """The lane of a link: its ranks, side (-1 left, 1 right) and horizontal position.

    out, into: its place among the lanes that leave below its source, and that enter above its target.
    """

    first: int
    last: int
    side: int
    x: float
    out: int
    into: int


@dataclass
class Lanes:
    """The lanes by link. leaving, entering: their number by rank."""

    by_link: dict[int, Lane] = field(default_factory=dict)
    leaving: Counter[int] = field(default_factory=Counter)
    entering: Counter[int] = field(default_factory=Counter)

    def within(self, ranks: Collection[int]) -> Iterator[float]:
        """Horizontal positions of the lanes at these ranks."""
        return (lane.x for lane in self.by_link.values() if lane.first in ranks)


def lanes(
    rank: Sequence[int], links: Sequence[Link], back: set[int], x: Sequence[float], spans: Sequence[tuple[float, float]]
) -> Lanes:
    """Places each lane on the nearer side. spans: left and right end of each rank."""
    ways = Lanes()
    for i in sorted(back, key=lambda i: (abs(rank[links[i].source] - rank[links[i].target]), i)):
        source, target = links[i].source, links[i].target
        first, last = sorted((rank[source], rank[target]))
        left = min(spans[r][0] for r in range(first, last + 1))
        right = max(spans[r][1] for r in range(first, last + 1))
        side = 1 if right - max(x[source], x[target]) <= min(x[source], x[target]) - left else -1
        beside = [
            lane.x for lane in ways.by_link.values() if lane.side == side and lane.first <= last and first <= lane.last
        ]
        edge = max([right, *beside]) + LANE if side > 0 else min([left, *beside]) - LANE
        out, into = ways.leaving[rank[source]], ways.entering[rank[target]]
        ways.by_link[i] = Lane(first, last, side, edge, out, into)
        ways.leaving[rank[source]] += 1
        ways.entering[rank[target]] += 1
    return ways


SPREAD = 16.0
"""Largest distance of two lines that end at one box."""


@dataclass
class LaneGrid:
    """Positions of spots, ranks and columns. x: middle of each spot. columns: left and right end of the boxes."""

    column: list[int]
    x: list[float]
    top: list[float]
    bottom: list[float]
    columns: list[tuple[float, float]]
    ends: list[float]  # the lowest rank's lower end, by column
    shift: list[float]  # how far a column was moved


class Router:
    """Makes lines on a grid."""

    def __init__(self, grid: LaneGrid, made: Layers, links: Sequence[Link], lanes: Lanes, boxes: Sequence[Box]):
        self.grid, self.made, self.links, self.lanes, self.boxes = grid, made, links, lanes, boxes
        self.enter = self._entered()

    def lines(self) -> list[Stroke]:
        """The line of each link."""
        ways = iter(self.made.ways)
        return [
            Stroke(self._back(i), smooth=False, back=True) if i in self.lanes.by_link else self._forward(i, next(ways))
            for i in range(len(self.links))
        ]

    def _forward(self, i: int, way: list[int]) -> Stroke:
        grid, link = self.grid, self.links[i]
        source, target = self.boxes[link.source], self.boxes[link.target]
        x = source.axis + link.leave
        points = [(x, source.leave), (x, grid.bottom[source.rank])]
        for spot in way[1:]:
            rank, is_last = self.made.rank[spot], spot == link.target
            x = grid.x[spot] + (self.enter[i] if is_last else 0.0)
            if grid.column[rank] != grid.column[rank - 1]:
                points += self._over(points[-1][0], x, grid.column[rank])
            points += [(x, grid.top[rank]), (x, target.y if is_last else grid.bottom[rank])]
        points = straightened(points)
        in_column = source.column == target.column
        return Stroke(points if in_column else level(points), smooth=in_column)

    def _over(self, x: float, u: float, column: int) -> list[Point]:
        """The points of a line from the end of a column to the start of the next."""
        low = self.grid.ends[column - 1] + LANE
        gutter = (self.grid.columns[column - 1][1] + self.grid.columns[column][0]) / 2
        high = self.grid.top[self.grid.column.index(column)] - 1.5 * LANE
        return [(x, low), (gutter, low), (gutter, high), (u, high)]

    def _back(self, i: int) -> list[Point]:
        grid, link, lane = self.grid, self.links[i], self.lanes.by_link[i]
        source, target = self.boxes[link.source], self.boxes[link.target]
        edge = lane.x + grid.shift[source.column]
        x = source.axis + link.leave + lane.side * min(SPREAD / 2, source.width / 4)
        u = target.axis + self.enter[i]
        low = grid.bottom[source.rank] + LANE * (lane.out + 1)
        high = grid.top[target.rank] - LANE * (lane.into + 1.2)
        return [(x, source.leave), (x, low), (edge, low), (edge, high), (u, high), (u, target.y)]

    def _entered(self) -> list[float]:
        """The offset of each link's end from the axis of its box; lines end in the order in which they arrive."""
        enter = [0.0] * len(self.links)
        ways = iter(self.made.ways)
        coming: dict[int, dict[tuple[float, int, int], list[int]]] = {}
        for i, link in enumerate(self.links):
            lane = self.lanes.by_link.get(i)
            x = lane.side * 1e6 if lane else self._from(next(ways), link)
            coming.setdefault(link.target, {}).setdefault((x, link.source, link.value), []).append(i)
        for target, lines in coming.items():
            box = self.boxes[target]
            half = 0.8 * min(box.axis - box.x, box.x + box.width - box.axis)
            step = min(SPREAD, 2 * half / len(lines))
            straight = min(enumerate(sorted(lines)), key=lambda pair: abs(pair[1][0]))[0]
            middle = straight if max(straight, len(lines) - 1 - straight) * step <= half else (len(lines) - 1) / 2
            for k, key in enumerate(sorted(lines)):
                for i in lines[key]:
                    enter[i] = (k - middle) * step
        return enter

    def _from(self, way: list[int], link: Link) -> float:
        """Offset of the last piece of a line from the axis of its target."""
        leave = link.leave if way[-2] == link.source else 0.0
        return self.grid.x[way[-2]] + leave - self.grid.x[link.target]


def level(points: list[Point]) -> list[Point]:
    """The points of a line with corners instead of slopes.

    >>> level([(0, 0), (0, 4), (6, 8), (6, 9)])
    [(0, 0), (0, 6.0), (6, 6.0), (6, 9)]
    """
    corners = points[:1]
    for (x, y), (u, v) in pairwise(points):
        if x != u and y != v:
            corners += [(x, (y + v) / 2), (u, (y + v) / 2)]
        corners.append((u, v))
    return straightened(corners)


def straightened(points: list[Point]) -> list[Point]:
    """The points without those in the middle of a straight piece.

    >>> straightened([(0, 0), (0, 5), (0, 9), (4, 12), (4, 12)])
    [(0, 0), (0, 9), (4, 12)]
    """
    ends: list[Point] = []
    for point in points:
        if ends and point == ends[-1]:
            continue
        if len(ends) > 1 and any(ends[-2][a] == ends[-1][a] == point[a] for a in (0, 1)):
            ends[-1] = point
        else:
            ends.append(point)
    return ends
