"""Cuts tall drawings between ranks and continues them in further columns, like text."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.display.layout.link import Link

MOST = 6
"""Largest number of columns."""
WORTH = 0.8
"""Factor by which another column must reduce the height."""


def cut(
    rank: Sequence[int], links: Sequence[Link], back: set[int], heights: Sequence[float], tall: float, most: int = MOST
) -> list[int]:
    """The first rank of each column. heights: of the ranks, gaps included. tall: what one column should not exceed."""
    places = _places(rank, links, back)
    starts = [0]
    for columns in range(2, most + 1):
        if _tallest(starts, heights) <= tall:
            break
        tried = _even(places, heights, columns)
        if _tallest(tried, heights) <= WORTH * _tallest(starts, heights):
            starts = tried
    return starts


def _places(rank: Sequence[int], links: Sequence[Link], back: set[int]) -> set[int]:
    """Ranks that may start a column: at most one value crosses, and nothing goes back."""
    crossing: dict[int, set[tuple[int, int]]] = {}
    closed: set[int] = set()
    for i, link in enumerate(links):
        first, last = sorted((rank[link.source], rank[link.target]))
        if i in back:
            closed.update(range(first + 1, last + 1))
        else:
            for r in range(first + 1, last + 1):
                crossing.setdefault(r, set()).add((link.source, link.value))
    return {r for r in range(1, max(rank, default=0) + 1) if len(crossing.get(r, ())) <= 1} - closed


def _even(places: set[int], heights: Sequence[float], columns: int) -> list[int]:
    """The cuts for a number of columns that minimize the height of the tallest."""
    low, high = 0.0, sum(heights)
    while high - low > 2.0:
        middle = (low + high) / 2
        starts = _filled(places, heights, middle)
        if len(starts) <= columns and _tallest(starts, heights) <= middle:
            high = middle
        else:
            low = middle
    return _filled(places, heights, high)


def _filled(places: set[int], heights: Sequence[float], most: float) -> list[int]:
    """The cuts into columns of at most this height, where cuts are allowed."""
    starts, last, filled, since = [0], 0, 0.0, 0.0  # since: the last place where it may be cut
    for r, height in enumerate(heights):
        if r in places:
            last, since = r, 0.0
        if filled + height > most and last > starts[-1]:
            starts.append(last)
            filled = since
        filled += height
        since += height
    return starts


def _tallest(starts: Sequence[int], heights: Sequence[float]) -> float:
    ends = [*starts[1:], len(heights)]
    return max(sum(heights[a:b]) for a, b in zip(starts, ends, strict=True))
