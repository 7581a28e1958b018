"""Places in the user's code, and the names that it gives to values."""

from __future__ import annotations

import contextlib

from rfnb import Dim
from rfnb.core.source import with_block


def test_the_target_of_an_assignment_is_the_name():
    att = Dim(1)
    one, two = pair = [Dim(1), Dim(2)]
    (walrus := Dim(1))
    assert att.made.targets() == ("att",)
    assert one.made.targets() == ()
    assert walrus.made.targets() == ("walrus",)
    assert two is pair[1]


def test_a_call_that_is_part_of_an_expression_has_no_name():
    inside = [Dim(1) + 2]
    assert inside[0].expr.dims[0].made.targets() == ()


def test_the_with_block_around_a_place():
    with contextlib.nullcontext():
        found = Dim(1)
    block = with_block(found.made)
    assert [line.strip() for line in block.lines] == ["with contextlib.nullcontext():", "found = Dim(1)"]
    assert found.made.place().startswith("test_source.py:")


def test_text_that_is_gone_leaves_the_place():
    namespace = {"Dim": Dim}
    exec(compile("x = Dim(1)", "<gone>", "exec"), namespace)
    assert namespace["x"].made.targets() == ()
    assert with_block(namespace["x"].made).lines == ()
