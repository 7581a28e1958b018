"""The layered layout: nothing overlaps, what depends on something is below it, lines pass no box."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given, strategies as st

from rfnb.display.layout.layered import cut, draw
from rfnb.display.layout.layers import BoxSize, Link, crossings, layers, order, ranks, turned
from rfnb.display.layout.route import Box, Drawing
from tests.examples import examples

CARD = BoxSize(120.0, 46.0)


def chain(count: int) -> list[Link]:
    return [Link(i, i + 1) for i in range(count - 1)]


@st.composite
def graphs(draw_one) -> tuple[list[BoxSize], list[Link]]:
    """Up to 14 boxes of all sizes, with any links between them: cycles, loops at one box, parts that hang together."""
    count = draw_one(st.integers(0, 14))
    sizes = [_size(draw_one) for _ in range(count)]
    if not count:
        return [], []
    ends = st.integers(0, count - 1)
    one = st.builds(Link, ends, ends, st.integers(0, 2), st.sampled_from([0.0, 9.0]), st.booleans())
    return sizes, draw_one(st.lists(one, max_size=24))


def _size(draw_one) -> BoxSize:
    width, height = draw_one(st.sampled_from([30.0, 90.0, 260.0])), draw_one(st.sampled_from([21.0, 46.0, 300.0]))
    return BoxSize(width, height, draw_one(st.sampled_from([0.0, 12.0])), draw_one(st.sampled_from([None, width / 5])))


def overlap(a: Box, b: Box) -> bool:
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


def touches(box: Box, points: list[tuple[float, float]]) -> bool:
    """Whether a line goes through a box. A curve between two points stays in the rectangle that they span."""
    inner = (box.x + 0.5, box.y + 0.5, box.x + box.width - 0.5, box.y + box.height - 0.5)
    return any(
        min(x, u) < inner[2] and max(x, u) > inner[0] and min(y, v) < inner[3] and max(y, v) > inner[1]
        for (x, y), (u, v) in pairwise(points)
    )


def check(drawn: Drawing, sizes: list[BoxSize], links: list[Link]) -> None:
    assert len(drawn.boxes) == len(sizes) and len(drawn.lines) == len(links)
    for box, size in zip(drawn.boxes, sizes, strict=True):
        assert (box.width, box.height) == (size.width, size.height)
        assert box.x >= 0 and box.y >= 0
        assert box.x + box.width <= drawn.width and box.y + box.height <= drawn.height
    assert not any(overlap(a, b) for a, b in combinations(drawn.boxes, 2))
    for link, line in zip(links, drawn.lines, strict=True):
        source, target = drawn.boxes[link.source], drawn.boxes[link.target]
        assert line.back or source.rank < target.rank
        assert line.points[0][1] == pytest.approx(source.leave)
        assert line.points[-1][1] == pytest.approx(target.y)
        assert target.x <= line.points[-1][0] <= target.x + target.width
        assert all(-0.5 <= x <= drawn.width + 0.5 and -0.5 <= y <= drawn.height + 0.5 for x, y in line.points)
        others = [b for i, b in enumerate(drawn.boxes) if i not in (link.source, link.target)]
        assert not any(touches(box, line.points) for box in others)
        if not line.smooth:
            assert all(x == u or y == v for (x, y), (u, v) in pairwise(line.points))


@examples(100)
@given(graphs(), st.sampled_from([90.0, 400.0, 640.0]))
def test_boxes_do_not_overlap_and_lines_pass_no_box(graph, tall):
    sizes, links = graph
    check(draw(sizes, links, tall=tall), sizes, links)


@given(graphs())
def test_the_same_graph_is_drawn_the_same(graph):
    assert draw(*graph) == draw(*graph)


def test_nothing_and_one():
    assert draw([], []) == Drawing()
    one = draw([CARD], [])
    assert one.width < 130 and one.height < 60


def test_a_chain_is_straight():
    drawn = draw([BoxSize(40.0 + 30 * (i % 3), 30.0) for i in range(6)], chain(6))
    assert len({box.axis for box in drawn.boxes}) == 1
    assert all(len(line.points) == 2 for line in drawn.lines)


def test_a_long_chain_goes_on_in_columns():
    sizes = [CARD] * 30
    drawn = draw(sizes, chain(30), width=900.0, tall=640.0)
    assert len(drawn.columns) == 4
    assert drawn.width <= 900 and drawn.height <= 700
    over = [line for line in drawn.lines if not line.smooth]
    assert len(over) == 3
    check(drawn, sizes, chain(30))
    for (left, right), column in zip(drawn.columns, range(4), strict=True):
        inside = [box for box in drawn.boxes if box.column == column]
        assert all(left <= box.x and box.x + box.width <= right for box in inside)


def test_columns_are_no_wider_than_the_cell():
    drawn = draw([CARD] * 30, chain(30), width=300.0, tall=300.0)
    assert drawn.width <= 300 and len(drawn.columns) == 2


def test_300_boxes_in_a_line():
    check(draw([CARD] * 300, chain(300)), [CARD] * 300, chain(300))


def test_a_branch_is_not_cut():
    links = [*chain(8), Link(0, 7, value=1)]  # next to the chain there is always the long line
    assert cut(ranks(8, links), links, set(), [60.0] * 8, tall=200.0) == [0]


def test_lines_of_one_value_go_together():
    links = [*chain(6), Link(0, 4), Link(0, 5)]
    made = layers(ranks(6, links), links)
    assert len(made.rank) == 6 + 4  # one point for both on each rank between
    assert made.ways[-2][:-1] == made.ways[-1][:-2]


def test_a_long_line_is_straight_where_there_is_room():
    links = [*chain(8), Link(0, 7)]
    points = draw([CARD] * 8, links).lines[-1].points
    assert len(points) <= 4 and any(x == u and v - y > 300 for (x, y), (u, v) in pairwise(points))


@pytest.mark.parametrize(
    ("links", "back"),
    [
        ([Link(0, 1), Link(1, 0)], {1}),
        ([Link(0, 0)], {0}),
        ([Link(0, 1), Link(1, 2), Link(2, 0)], {2}),
        ([Link(0, 1, back=True), Link(1, 0)], {0}),
        ([Link(0, 1), Link(0, 2), Link(1, 2)], set()),
    ],
)
def test_links_that_close_a_cycle_go_back(links, back):
    assert turned(3, links) == back


def test_ranks_follow_the_longest_way():
    assert ranks(4, [Link(0, 1), Link(1, 2), Link(0, 3), Link(2, 3)]) == [0, 1, 2, 3]


def test_what_feeds_one_place_is_just_above_it():
    links = [*chain(5), Link(5, 6), Link(6, 4)]  # 5 and 6 are a second input of 4
    assert ranks(7, links) == [0, 1, 2, 3, 4, 2, 3]


def test_crossings_are_taken_away():
    links = [Link(0, 5), Link(1, 4), Link(2, 3)]
    made = layers(ranks(6, links), links)
    assert crossings(made) == 3
    order(made)
    assert crossings(made) == 0


def test_lines_that_go_back_are_side_by_side():
    links = [*chain(4), Link(3, 0, value=9, back=True), Link(2, 1, value=8, back=True)]
    drawn = draw([CARD] * 4, links)
    outer, inner = drawn.lines[3], drawn.lines[4]
    assert outer.back and inner.back
    right = [max(x for x, _ in line.points) for line in (outer, inner)]
    assert right[0] > right[1] > drawn.boxes[0].x + 120
    for line in (outer, inner):
        assert line.points[-1][1] - line.points[-2][1] > 8  # room for the tip of the arrow
