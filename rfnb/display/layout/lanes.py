"""Lanes of links that go back: beside the boxes that they pass, shorter links inside of longer ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

from rfnb.display.layout.link import Link

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
