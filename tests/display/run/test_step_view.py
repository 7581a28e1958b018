"""The view of one step."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import rfnb as rf
from rfnb.display.kit.view import View
from rfnb.errors import LoopError, ViewError
from tests.display import hostile


def a_step(word: Callable[[str], str] = hostile.harmless) -> rf.RunStep:
    x, time, letter = hostile.batch(word)
    with rf.recording("last"):
        loop, _ = hostile.written(hostile.LOOP, word)["run_loop"](rf, x, time, letter, rf.batch_dim, word)
    run = loop.run
    rf.runs.clear()
    return run[1]


def hostile_views(word: Callable[[str], str]) -> dict[str, View]:
    """See `tests/display/hostile.py`."""
    step = a_step(word)
    return {"step": rf.show(step), "step, one sequence": rf.show(step, batch=word("fig"))}


def test_a_step_has_its_states_and_the_values_of_its_lines():
    view = rf.show(a_step())
    head, columns, state, *body = view.text.splitlines()
    assert head.startswith("step 1 of loop · ") and head.endswith("replay agrees")
    assert columns.split()[:4] == ["state", "before", "after", "change"] and state.split()[0] == "total"
    assert any("frame = loop.unstack(x)" in line and "frame = " in line.partition("#")[2] for line in body)
    assert view.table().rows[0][0] == "total"
    assert "<table" in view.html and "frame" in view.html
    widths = [int(width) for width in re.findall(r"min-width:(\d+)ch", view.html)]  # on a narrow page
    assert widths[:3] == [min(len(cell), 20) for cell in view.table().rows[0][:3]]


def test_a_step_of_one_sequence():
    assert "sequence 1 ('fig')" in rf.show(a_step(), batch="fig").text
    with pytest.raises(ViewError):
        rf.show(a_step(), batch="plum")


def test_the_result_of_a_cell_is_the_view():
    step = a_step()
    assert step._repr_mimebundle_()["text/html"] == rf.show(step).html
    assert repr(step) == "step 1 of loop: frame, named.0, add"


def test_a_name_that_is_not_there_is_an_attribute_that_is_not_there():
    step = a_step()
    for shown in (step, step.before):
        assert not hasattr(shown, "nothing")
        with pytest.raises(LoopError):
            shown["nothing"]
