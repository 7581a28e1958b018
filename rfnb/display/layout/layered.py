"""Lays out boxes and links: boxes are below those that they depend on, and lines cross no box.

Tall drawings are cut between ranks and continue in further columns, like text.
"""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.display.layout.layers import BoxSize, Layers, Link, layers, order, places, ranks, turned
from rfnb.display.layout.route import LANE, Box, Drawing, LaneGrid, Lanes, Router, lanes

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
    starts, end, filled, since = [0], 0, 0.0, 0.0  # since: the last place where it may be cut
    for r, height in enumerate(heights):
        if r in places:
            end, since = r, 0.0
        if filled + height > most and end > starts[-1]:
            starts.append(end)
            filled = since
        filled += height
        since += height
    return starts


def _tallest(starts: Sequence[int], heights: Sequence[float]) -> float:
    ends = [*starts[1:], len(heights)]
    return max(sum(heights[a:b]) for a, b in zip(starts, ends, strict=True))


BESIDE = 22.0
"""Distance of two boxes."""
LINES = 12.0
"""Distance of two lines, or of a line and a box."""
BELOW = 25.0
"""Distance of two ranks."""
BETWEEN = 44.0
"""Distance of two columns."""
MARGIN = 3.0
"""Margin around the drawing."""


def draw(sizes: Sequence[BoxSize], links: Sequence[Link], *, width: float = 900.0, tall: float = 640.0) -> Drawing:
    """The drawing of boxes of these sizes. If higher than `tall`, it continues in further columns within `width`."""
    if not sizes:
        return Drawing()
    plan = _Plan(sizes, links)
    for columns in range(MOST, 0, -1):
        starts = cut(plan.made.rank[: len(sizes)], links, plan.back, plan.steps(), tall, columns)
        drawing = plan.drawn(starts)
        if drawing.width <= width or len(starts) == 1:
            break
    return drawing


class _Plan:
    """A layout before it is divided into columns."""

    def __init__(self, sizes: Sequence[BoxSize], links: Sequence[Link]):
        self.sizes, self.links = sizes, links
        self.back = turned(len(sizes), links)
        forward = [link for i, link in enumerate(links) if i not in self.back]
        self.made = layers(ranks(len(sizes), forward), forward)
        order(self.made)
        self.x = places(self.made, self._gap)
        self.heights = [max((self._size(s).height for s in row), default=0.0) for row in self.made.rows]
        self.gaps = _gaps(self.made, self.x)
        self.spans = [self._span(row) for row in self.made.rows]
        self.lanes = lanes(self.made.rank, links, self.back, self.x, self.spans)

    def _size(self, spot: int) -> BoxSize:
        return self.sizes[spot] if self.made.is_box(spot) else BoxSize(0.0, 0.0)

    def _gap(self, left: int, right: int) -> float:
        """The smallest distance between the middles of two neighbours."""
        boxes = self.made.is_box(left) and self.made.is_box(right)
        return self._size(left).right + self._size(right).left + (BESIDE if boxes else LINES)

    def _span(self, row: list[int]) -> tuple[float, float]:
        """Left and right end of a rank."""
        return min(self.x[s] - self._size(s).left for s in row), max(self.x[s] + self._size(s).right for s in row)

    def steps(self) -> list[float]:
        """Height from each rank to the next."""
        return [height + gap for height, gap in zip(self.heights, self.gaps, strict=True)]

    def drawn(self, starts: Sequence[int]) -> Drawing:
        """The drawing in columns that start with these ranks."""
        ends = [*starts[1:], len(self.heights)]
        spans = [range(a, b) for a, b in zip(starts, ends, strict=True)]
        column = [c for c, span in enumerate(spans) for _ in span]
        grid = LaneGrid(column, list(self.x), [0.0] * len(column), [0.0] * len(column), [], [], [])
        ways = self.lanes
        right = 0.0
        for c, span in enumerate(spans):
            right = self._across(grid, ways, span, right + (BETWEEN if c else 0.0))
            self._down(grid, ways, span, 18.0 if len(spans) > 1 else 0.0)
        boxes = [self._box(grid, s) for s in range(len(self.sizes))]
        height = max(grid.ends) + (1.6 * LANE if len(spans) > 1 else 0.0) + MARGIN
        lines = Router(grid, self.made, self.links, ways, boxes).lines()
        return Drawing(right + MARGIN, height, boxes, lines, _borders(grid, right + MARGIN))

    def _across(self, grid: LaneGrid, ways: Lanes, span: range, left: float) -> float:
        """Places a column right of `left`; returns its right end."""
        spots = [s for r in span for s in self.made.rows[r]]
        ends = [self.spans[r] for r in span] + [(x, x) for x in ways.within(span)]
        first, last = min(left for left, _ in ends), max(right for _, right in ends)
        start = left + MARGIN
        for s in spots:
            grid.x[s] = self.x[s] - first + start
        grid.columns.append((start, start + last - first))
        grid.shift.append(start - first)
        return start + last - first

    def _down(self, grid: LaneGrid, ways: Lanes, span: range, head: float) -> None:
        """Places the ranks of a column below each other."""
        y = MARGIN + head
        for r in span:
            y += LANE * ways.entering[r]
            grid.top[r], grid.bottom[r] = y, y + self.heights[r]
            y = grid.bottom[r] + self.gaps[r] + LANE * ways.leaving[r]
        grid.ends.append(grid.bottom[span[-1]] + LANE * ways.leaving[span[-1]])

    def _box(self, grid: LaneGrid, spot: int) -> Box:
        rank, size = self.made.rank[spot], self.sizes[spot]
        y = grid.top[rank] + (self.heights[rank] - size.height) / 2
        x = grid.x[spot]
        return Box(x - size.left, y, size.width, size.height, size.tail, rank, grid.column[rank], x)


def _gaps(made: Layers, x: Sequence[float]) -> list[float]:
    """Gap below each rank, larger where lines go far to the side."""
    far = [max((abs(x[s] - x[b]) for s in row for b in made.below[s]), default=0.0) for row in made.rows]
    return [BELOW + min(28.0, f * 0.06) for f in far]


def _borders(grid: LaneGrid, width: float) -> list[tuple[float, float]]:
    """Borders of the columns, in the middle of the gaps between them."""
    middles = [(a[1] + b[0]) / 2 for a, b in zip(grid.columns, grid.columns[1:], strict=False)]
    return list(zip([0.0, *middles], [*middles, width], strict=True))
