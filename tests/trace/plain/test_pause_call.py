# ruff: noqa: B007
"""`rf.pause()` in plain Python code."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb.errors import LoopError, LoopWarning
from rfnb.trace.pause import Resume
from tests.display.training.test_progress_pauses import train
from tests.trace.holding import no_pauses as no_pauses, user
from tests.trace.plain.test_pause import Looks, line_of
from tests.trace.plain.test_record import run_text


def test_pause_alone_shows_the_variables_at_its_line():
    shown = []
    with user(lambda paused: (shown.append([v.name for v in paused.run[paused.step].values()]), Resume())[1]) as seen:
        train(bad=None, pause_at=1)
    [(_, why)] = seen
    assert why.startswith("rf.pause() in test_progress_pauses.py:")
    assert {"i", "x", "y", "loss"} <= set(shown[0])


def test_what_needs_a_loop_of_rfnb_says_so():
    def look(paused):
        for ask in (lambda: paused.run.fork(0), lambda: paused.run.rerun(), lambda: paused.run.gradients("loss")):
            with pytest.raises(LoopError, match="plain Python code"):
                ask()
        return Resume()

    with user(look) as seen:
        train(bad=None, pause_at=0)
    assert len(seen) == 1


def loop_of(items):
    total = 0
    for t in items:
        total = total + t
        if t > 1:
            rf.pause()
    return total


def test_in_a_loop_that_is_recorded_all_its_iterations_are_there():
    looks, line = Looks(), line_of(loop_of, "rf.pause()")
    with user(looks), rf.record_loops(loop_of):
        loop_of(range(4))
    assert looks.seen == [("loop_of", 2, line, ["t", "total"]), ("loop_of", 3, line, ["t", "total"])]
    assert rf.runs["loop_of"].steps == 4


def test_elsewhere_each_pause_at_a_line_is_a_step():
    totals = []

    def look(paused):
        totals.append([at.total.item() for at in paused.run])
        return Resume()

    with user(look) as seen:
        loop_of(range(4))
    assert totals == [[3], [3, 6]] and [step for step, _ in seen] == [0, 1]
    assert "rf.pause() in test_pause_call.py:" in seen[0][1]


def no_loop(x):
    h = x * 2
    rf.pause()
    return h + 1


def test_in_a_function_without_a_loop_its_variables_are_shown_and_edited():
    names = []

    def look(paused):
        names.append([value.name for value in paused.run[paused.step].values()])
        paused.edit({"h": "x * 10"})
        return Resume()

    with user(look):
        assert no_loop(torch.tensor(3.0)).item() == 31.0
    assert names == [["x", "h"]]


def test_in_a_cell_its_variables_are_shown(tmp_path):
    looks = Looks()
    with user(looks):
        run_text("h = 3\nrf.pause()\ng = h", tmp_path / "cell.py")
    assert [(name, names) for name, _, _, names in looks.seen] == [("cell", ["h"])]


def test_where_nobody_can_look_one_step_is_written_and_no_more_are_kept():
    with pytest.warns(LoopWarning, match="no panel is connected") as told:
        for t in range(100):
            no_loop(torch.ones(3))
    assert len(told) == 1 and len([*rf.options.pause_folder.glob("*.rfrun")]) == 1
