"""The boxes of each rank, and points where links pass a rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rfnb.display.layout.link import Link


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
