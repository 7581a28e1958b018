"""Places in the user's code, and the names that it gives to values."""

from __future__ import annotations

import contextlib
import gc
import weakref

from rfnb import Dim
from rfnb.core.ground.source import PerPlace, Source, with_block


def test_the_target_of_an_assignment_is_the_name():
    att = Dim(1)
    one, two = pair = [Dim(1), Dim(2)]
    (walrus := Dim(1))
    assert att.made.names() == ("att",)
    assert one.made.names() == ("one",)
    assert walrus.made.names() == ("walrus",)
    assert two is pair[1]


def test_a_call_that_is_part_of_an_expression_has_no_name():
    inside = [Dim(1) + 2]
    assert inside[0].expr.dims[0].made.names() == ()


def test_the_with_block_around_a_place():
    with contextlib.nullcontext():
        found = Dim(1)
    block = with_block(found.made)
    assert [line.strip() for line in block.lines] == ["with contextlib.nullcontext():", "found = Dim(1)"]
    assert found.made.place().startswith("test_source.py:")


def test_text_that_is_gone_leaves_the_place():
    namespace = {"Dim": Dim}
    exec(compile("x = Dim(1)", "<gone>", "exec"), namespace)
    assert namespace["x"].made.names() == ()
    assert with_block(namespace["x"].made).lines == ()


class Made:
    """Made for a place."""


def test_something_for_each_place_goes_with_the_code():
    per_place = PerPlace(lambda source: Made())
    cells = [compile("x = 1", "cell", "exec") for _ in range(2)]
    assert cells[0] == cells[1]
    first, other, again = (per_place[Source(cell, at)] for cell, at in ((cells[0], 2), (cells[0], 4), (cells[1], 2)))
    assert len({first, other, again}) == 3
    assert per_place[Source(cells[0], 2)] is first
    gone, stays = weakref.ref(first), weakref.ref(again)
    del first, again, cells[0]
    gc.collect()
    assert gone() is None
    assert stays() is per_place[Source(cells[0], 2)]
