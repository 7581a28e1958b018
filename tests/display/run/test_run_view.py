"""The views of a run: list, history, one step, one value."""

from __future__ import annotations

import json
import re
from html import unescape

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rfnb.display.kit.view import View
from rfnb.display.run import list_view, states, step, view as history_view
from rfnb.display.run.step import spread
from rfnb.errors import ViewError
from tests.display.printed import to_html, to_text
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


def test_the_history_of_a_state_is_computed_once():
    run = a_run()
    step.describe_step(run, 0)
    run.asked.clear()
    view = step.describe_step(run, 1)
    assert run.asked == [1]
    means = [float(np.abs(run.sums[run.alive[:, i], i + 1]).mean()) for i in range(5)]  # of those that go on
    assert view["states"][0]["spark"] == pytest.approx(means)


def test_a_long_run_is_looked_at_in_part():
    run = a_run(500)
    view = history_view.describe(run)
    assert len(view["steps"]) == 12
    assert [view["steps"][i]["step"] for i in (0, -1)] == [0, 499]
    assert view["note"].startswith("12 of 500 steps")
    assert len(view["steps"][0]["states"][0]["spark"]) == 64
    assert len(set(run.asked)) < 80


def test_the_history_reads_only_kept_states():
    run = a_run(100)
    run.replay.every = 10
    view = step.describe_step(run, 3)
    assert set(run.asked) == {3, 0, *range(9, 100, 10)}
    assert len(view["states"][0]["spark"]) == 10
    run = a_run(5)
    run.replay.every = 10
    assert len(step.describe_step(run, 0)["states"][0]["spark"]) == 1


def test_the_sparkline_of_a_loop_that_goes_on_goes_on():
    run = SumRun(numbers(2, 4), [4, 4])
    run.steps = 1
    assert len(step.describe_step(run, 0)["states"][0]["spark"]) == 1
    run.steps = 4
    assert len(step.describe_step(run, 0)["states"][0]["spark"]) == 4


def test_spread_keeps_the_ends():
    assert spread(range(3), 5) == [0, 1, 2]
    assert spread(range(100), 3) == [0, 50, 99]
    assert spread(range(0), 3) == []


@pytest.mark.parametrize("batch", [1, "banana"])
def test_one_sequence_ends_where_it_ends(batch):
    view = history_view.describe(a_run(), batch)
    assert [s["step"] for s in view["steps"]] == [0, 1]
    assert "sequence 1 ('banana')" in to_text(view)
    with pytest.raises(ViewError):
        history_view.describe(a_run(), "cherry")


@pytest.mark.parametrize("steps", [0, 1, 5])
@pytest.mark.parametrize("batch", [None, 0])
def test_text_and_html_name_the_same_facts(steps: int, batch: int | None):
    run = a_run(steps)
    run.flags = ["not finite"]
    view = history_view.describe(run, batch)
    html = "".join(unescape(re.sub(r"<[^>]*>", "", to_html(view))).split())
    for word in to_text(view).split():
        if fact := word.strip("{},█"):  # the bars of sequences, and what is around dims, are drawn
            assert fact in html, fact


def test_hostile_names_show_as_text():
    run = a_run()
    run.name, run.flags = HOSTILE, [HOSTILE]
    assert "<script" not in to_html(history_view.describe(run, 2))
    assert "<script" not in View(list_view.describe([run])).html


def test_a_step_that_cannot_be_had_is_named():
    class Broken(SumRun):
        def __getitem__(self, i):
            if i == 2:
                raise RuntimeError("weights are gone")
            return super().__getitem__(i)

    view = history_view.describe(Broken(numbers(1, 4), [4]))
    assert [s["step"] for s in view["steps"]] == [0, 1, 3]
    assert "no step 2: RuntimeError: weights are gone" in view["note"]


def test_the_list():
    run = a_run()
    run.pinned = True
    assert View(list_view.describe([run])).text == "7  sum  cell 3, line 2  5 steps  3 sequences  pinned"
    nothing = View(list_view.describe([]))
    assert nothing.text == "no runs yet" and ">no runs yet<" in nothing.html


def test_golden(golden):
    view = history_view.describe(SumRun(np.array([[1.0, 2, 4], [3, np.nan, 0]], np.float32), [3, 2], ["a", "b"]))
    told = [row[k] for one in view["steps"] for row in one["states"] for k in ("before", "after")]
    told += [row["value"] for one in view["steps"] for row in one["values"]]
    for dim in [dim for value in (*told, *view["start"]) for dim in value["dims"]]:
        dim["serial"] = 0
    golden("run.json", json.dumps(view, indent=1, ensure_ascii=False) + "\n")
    golden("run.txt", to_text(view) + "\n")


def long_run(lens=(40, 7, 20, 20), steps: int = 40, at=None) -> SumRun:
    values = np.ones((len(lens), steps), np.float32)
    for place, value in (at or {}).items():
        values[place] = value
    return SumRun(values, list(lens), ["a", "b", "c", "d"][: len(lens)])


def reasons(view) -> dict[int, str]:
    return {s["step"]: why for s, why in zip(view["steps"], view["reasons"], strict=True) if why}


def test_the_steps_around_events_are_shown_and_why():
    run = long_run(at={(0, 11): 9.0, (0, 30): np.nan})
    view = history_view.describe(run)
    assert len(view["steps"]) == 12
    assert reasons(view) == {
        0: "first",
        6: "'b' ends",
        11: "total changes most",
        19: "2 sequences end",
        30: "total is not finite",
        39: "last",
    }
    for why in reasons(view).values():
        assert why in to_text(view)
        assert why in unescape(to_html(view))


def test_a_larger_change_from_the_start_is_told_of():
    view = history_view.describe(long_run(lens=(40,), at={(0, 0): 50.0, (0, 11): 9.0}))
    assert reasons(view) == {0: "first", 11: "total changes most, except in step 0", 39: "last"}


def test_where_steps_are_left_out_the_reasons_say_so():
    """256 of 600 steps are sampled."""
    run = long_run(lens=(600,), steps=600, at={(0, 301): 9.0, (0, 401): np.nan})
    told = reasons(history_view.describe(run))
    moved, bad = (next(step for step, why in told.items() if word in why) for word in ("most", "finite"))
    since = [int(re.search(r"(?:from|at) step (\d+)", told[step])[1]) for step in (moved, bad)]
    assert since[0] <= 301 <= moved
    assert since[1] <= 401 <= bad
    assert since[0] < moved


def test_what_happens_behind_the_end_of_a_sequence_is_no_event():
    class Garbage(SumRun):
        def state(self, name, step):
            made = super().state(name, step)
            raw = made.raw_tensor.copy()
            raw[[n < step for n in self.lengths]] = np.nan if step == 9 else 1e9 * step
            return self.tensor(raw, name)

    run = Garbage(np.ones((2, 30), np.float32), [30, 4], ["a", "b"])
    view = history_view.describe(run)
    assert reasons(view) == {0: "first", 3: "'b' ends", 29: "last"}
    assert all(np.isfinite(float(n)) and float(n) < 100 for row in view["steps"][0]["states"] for n in row["spark"])
    assert not [flag for s in view["steps"] for row in s["states"] for flag in row["after"]["flags"]]


def test_of_one_sequence_the_others_say_nothing():
    view = history_view.describe(long_run(), "b")
    assert [s["step"] for s in view["steps"]] == list(range(7))
    assert [row["tag"] for row in view["sequences"]] == ["b"]
    assert "'b': length 7 reached" in to_text(view)
    assert all(len(row["spark"]) == 7 for one in view["steps"] for row in one["states"])


def test_steps_between_are_in_the_widest_gaps():
    view = history_view.describe(long_run([40] * 2))
    steps = [s["step"] for s in view["steps"]]
    assert len(steps) == 12
    assert max(np.diff(steps)) <= 5


@pytest.mark.parametrize("sequences, rows", [(3, 3), (32, 32), (50, 32)])
def test_sequences_are_bars(sequences: int, rows: int):
    run = SumRun(np.ones((sequences, 9), np.float32), [9, *[n % 9 for n in range(1, sequences)]])
    view = history_view.describe(run)
    assert len(view["sequences"]) == sequences
    assert len(re.findall(r"sequence \d+ +█* *length", to_text(view))) == rows
    assert (f"… {sequences - 32} more" in to_text(view)) == (sequences > 32)
    assert (f"… {sequences - 32} more" in to_html(view)) == (sequences > 32)


def test_long_tags_leave_room_for_the_bars():
    run = SumRun(np.ones((2, 9), np.float32), [9, 4], ["kiwi" * 50, "fig"])
    text = to_text(history_view.describe(run))
    assert re.search(r"'(kiwi)+k?i?w?… +█+ +length 9", text) and "kiwi" * 10 not in text


def test_sequences_that_end_alike_are_one_line():
    assert "all 3 sequences: length 5 reached" in to_text(history_view.describe(long_run([5, 5, 5], 5)))


def test_the_picture_of_a_state_is_hatched_behind_the_end():
    followed = states.follow(long_run([4, 2], 4), "total", None, 4)
    values, live = states._matrix(followed)
    assert live.tolist() == [[True] * 4, [True, True, False, False]]
    assert values.tolist() == [[1, 2, 3, 4], [1, 2, 2, 2]]
    assert states.describe_strip(followed)["alt"] == "total: batch down, 4 steps across, hatched after the end"


@given(st.integers(1, 5), st.integers(0, 3), st.integers(1, 70))
def test_pictures_of_states_of_any_size(batch: int, features: int, steps: int):
    live = np.arange(steps)[:, None, None] < np.array([steps, *[1] * (batch - 1)])[None, :, None]
    one = states.SampledState("h", list(range(steps)), numbers(steps, batch, max(features, 1)), live, ["batch", "f"], 0)
    strip = states.describe_strip(one)
    assert strip["picture"].startswith("data:image/png")
    alone = states.SampledState("h", list(range(steps)), one.values[:, 0], live[:, 0], ["f"], None)
    assert states.describe_strip(alone)["picture"].startswith("data:image/png")
    assert one.not_finite() is None


def test_a_table_of_steps_and_states():
    rows = list(View(history_view.describe(a_run(2))).table())
    assert [(row["step"], row["state"]) for row in rows] == [(0, "total"), (0, "offset"), (1, "total"), (1, "offset")]
    assert rows[0]["change"] == pytest.approx(float(np.abs(a_run(2).raw[:, 0]).max()))


def test_lists_and_gradients_have_tables():
    table = View(list_view.describe([a_run()])).table()
    assert [row["name"] for row in table] == ["sum"]
