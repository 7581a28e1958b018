"""The views of a run: list, history, one step, one value."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest

from rfnb.display.views import loop, runs, step
from rfnb.display.views.step import spread
from rfnb.errors import ViewError
from tests.display.standins import SumRun, numbers

HOSTILE = "<script>alert(1)</script>"


def a_run(steps: int = 5) -> SumRun:
    return SumRun(numbers(3, steps), [steps, 2, min(3, steps)], ["apple", "banana", HOSTILE])


def test_a_step_tells_the_states_before_and_after():
    run = a_run()
    view = step.describe_step(run, 1, sequence=0)
    total, offset = view["states"]
    assert total["before"]["text"] == f"{run.sums[0, 1]:.3g}"
    assert total["change"] == pytest.approx(abs(run.sums[0, 2] - run.sums[0, 1]))
    assert total["flags"] == []
    assert offset["flags"] == ["never changes"]
    assert [row["line"] for row in view["values"]] == [3, 4]
    assert view["check"] == "replay agrees"
    assert json.dumps(view, allow_nan=False)


def test_sequences_that_have_ended_are_marked():
    assert step.describe_step(a_run(), 2)["ended"] == [False, True, False]


def test_the_course_of_a_state_is_asked_for_once():
    run = a_run()
    step.describe_step(run, 0)
    run.asked.clear()
    view = step.describe_step(run, 1)
    assert run.asked == [1]
    assert view["states"][0]["spark"] == pytest.approx([float(np.abs(run.sums[:, i + 1]).mean()) for i in range(5)])


def test_a_long_run_is_looked_at_in_part():
    run = a_run(500)
    view = loop.describe(run)
    assert len(view["steps"]) == 12
    assert [view["steps"][i]["step"] for i in (0, -1)] == [0, 499]
    assert view["note"].startswith("12 of 500 steps")
    assert len(view["steps"][0]["states"][0]["spark"]) == 64
    assert len(set(run.asked)) < 80


def test_the_course_asks_only_for_kept_states():
    run = a_run(100)
    run.replay.every = 10
    view = step.describe_step(run, 3)
    assert set(run.asked) == {3, 0, *range(9, 100, 10)}
    assert len(view["states"][0]["spark"]) == 10
    run = a_run(5)
    run.replay.every = 10
    assert len(step.describe_step(run, 0)["states"][0]["spark"]) == 1


def test_spread_keeps_the_ends():
    assert spread(range(3), 5) == [0, 1, 2]
    assert spread(range(100), 3) == [0, 50, 99]
    assert spread(range(0), 3) == []


@pytest.mark.parametrize("batch", [1, "banana"])
def test_one_sequence_ends_where_it_ends(batch):
    view = loop.describe(a_run(), batch)
    assert [s["step"] for s in view["steps"]] == [0, 1]
    assert "sequence 1 ('banana')" in loop.to_text(view)
    with pytest.raises(ViewError):
        loop.describe(a_run(), "cherry")


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("batch", [None, 0])
def test_text_and_html_name_the_same_facts(steps: int, batch: int | None):
    run = a_run(steps)
    run.flags = ["not finite"]
    view = loop.describe(run, batch)
    html = "".join(unescape(re.sub(r"<[^>]*>", "", loop.to_html(view))).split())
    for word in loop.to_text(view).split():
        assert word in html, word


def test_hostile_names_show_as_text():
    run = a_run()
    run.name, run.flags = HOSTILE, [HOSTILE]
    assert "<script" not in loop.to_html(loop.describe(run, 2))
    assert "<script" not in runs.to_html(runs.describe([run]))


def test_a_step_that_cannot_be_had_is_named():
    class Broken(SumRun):
        def __getitem__(self, i):
            if i == 2:
                raise RuntimeError("weights are gone")
            return super().__getitem__(i)

    view = loop.describe(Broken(numbers(1, 4), [4]))
    assert [s["step"] for s in view["steps"]] == [0, 1, 3]
    assert "no step 2: RuntimeError: weights are gone" in view["note"]


def test_the_list():
    run = a_run()
    run.pinned = True
    assert runs.to_text(runs.describe([run])) == "7  sum  cell 3, line 2  5 steps  3 sequences  pinned"
    assert runs.to_text(runs.describe([])) == runs.to_html(runs.describe([])).partition(">")[2].partition("<")[0]


def test_golden(golden):
    view = loop.describe(SumRun(np.array([[1.0, 2, 4], [3, np.nan, 0]], np.float32), [3, 2], ["a", "b"]))
    for one in view["steps"]:
        for row in [r[k] for r in one["states"] for k in ("before", "after")] + [v["value"] for v in one["values"]]:
            for dim in row["dims"]:
                dim["serial"] = 0
    golden("history.json", json.dumps(view, indent=1, ensure_ascii=False) + "\n")
    golden("history.txt", loop.to_text(view) + "\n")
    golden("history.html", loop.to_html(view) + "\n")
