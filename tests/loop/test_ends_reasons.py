"""When and why the sequences of a recorded loop ended; what is computed for them behind that counts for nothing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim

ROWS = [[1.0, 2.0, 0.0], [4.0]]


@pytest.fixture(autouse=True)
def unrecorded():
    yield
    rf.runs.clear()


def count(*, frames=False, most=None, ends_at=None, include_eos=True, rows=ROWS) -> rf.Run:
    """Counts from 0 in the first sequence, from 2 in the second."""
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(rows, dims=[batch_dim, time], tags=["a", "b"])
    loop = rf.Loop(axis=time if frames else None, max_seq_len=most, debug=True, name="count")
    loop.state.n = rf.convert_to_tensor([0.0, 2.0], dims=[batch_dim])
    with loop:
        if frames:
            loop.unstack(x)
        loop.state.n = loop.state.n + 1.0
        if ends_at is not None:
            loop.end(loop.state.n >= ends_at, include_eos=include_eos)
    return loop.run


@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
@pytest.mark.parametrize(
    "options, begun, ends",
    [
        ({"most": 7, "ends_at": 4}, [4, 2], ["ended at 3: end was true", "ended at 1: end was true"]),
        (
            {"most": 7, "ends_at": 4, "include_eos": False},
            [4, 2],
            ["ended at 3: end was true", "ended at 1: end was true"],
        ),
        ({"frames": True}, [3, 1], ["length 3 reached", "length 1 reached"]),
        ({"frames": True, "ends_at": 4}, [3, 1], ["length 3 reached", "length 1 reached"]),
        ({"frames": True, "ends_at": 2}, [2, 1], ["ended at 1: end was true", "ended at 0: end was true"]),
        ({"frames": True, "most": 2}, [2, 1], ["max steps (2)", "length 1 reached"]),
        ({"most": 3, "ends_at": 100}, [3, 3], ["max steps (3)", "max steps (3)"]),
        ({"most": 3}, 3, ["max steps (3)"]),
        ({"frames": True, "rows": [[1.0], []]}, [1, 0], ["length 1 reached", "length 0 reached"]),
    ],
)
def test_when_and_why(options, begun, ends, tmp_path):
    run = count(**options)
    assert run.begun.values.tolist() == begun
    assert run.ends == ends
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    assert again.begun.values.tolist() == begun
    assert again.ends == ends


def test_a_step_that_fails_was_begun_by_those_that_go_on(tmp_path):
    def fail(raw):
        if (raw == 3.0).any():
            raise ValueError("enough")
        return raw

    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [1.0]], dims=[batch_dim, time])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.n = rf.zeros([batch_dim])
    with pytest.raises(ValueError, match="enough"), loop:
        frame = loop.unstack(x)
        half = frame * 0.5
        loop.state.n = loop.state.n + rf.raw_call(fail, half * 2.0, out_dims=frame.dims)
    for run in (loop.run, rf.load_run(loop.run.save(tmp_path / "x.rfrun"))):
        assert (run.lengths, run.begun.values.tolist()) == ([2, 1], [3, 1])
        assert run.ends == ["failed at 2", "length 1 reached"]
        view = rf.show(run)
        values = {row["value"]["name"]: row["value"]["text"] for row in view.data["steps"][-1]["values"]}
        assert values["half"] == "1.5 ·"  # what was computed in it is shown
        assert view.data["reasons"][-1] == "failed"
        assert "not reached" in view.text


def test_hypotheses_of_a_sequence_end_together():
    beam, label = rf.Dim(2, name="beam"), rf.Dim(3, name="label")
    loop = rf.Loop(max_seq_len=4, debug=True)
    loop.state.score = rf.zeros([batch_dim, beam])
    scores = rf.convert_to_tensor(np.arange(12.0).reshape(2, 2, 3), dims=[batch_dim, beam, label])
    with loop:
        best, (back, _), _ = rf.top_k(loop.state.score + scores, axis=[beam, label], k=2, k_dim=beam)
        loop.reorder(back, beam)
        loop.state.score = best
        loop.end(best > 20.0, include_eos=True)
    assert loop.run.begun.dims == (batch_dim,)
    assert loop.run.ends == ["max steps (4)", "ended at 2: end was true"]
    moved = [value for value in loop.run[0].values() if value.op == "gather"]
    assert [value.name for value in moved] == ["score"]  # what was moved is called after the state
    assert rf.show(loop.run).text


@pytest.mark.slow
@given(st.lists(st.integers(0, 4), min_size=1, max_size=3))
def test_what_is_shown_of_ended_sequences_is_a_dot(lengths):
    time = rf.Dim(None, name="time")
    rows = [np.full(n, 7.0, "float32") for n in lengths]
    x = rf.convert_to_tensor(rows, dims=[batch_dim, time])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        frame = loop.unstack(x)
        half = frame * 0.5
        loop.state.s = loop.state.s + half
    view = rf.show(loop.run)
    steps = view.data["steps"]
    assert len(steps) == max(lengths)
    for step in steps:
        live = [n > step["step"] for n in lengths]
        [half] = [row["value"] for row in step["values"] if row["value"]["name"] == "half"]
        assert half["text"].split() == ["3.5" if goes else "·" for goes in live]
        assert half["stats"]["count"] == sum(live)
        assert [word == "·" for word in step["states"][0]["after"]["text"].split()] == [not goes for goes in live]
    assert view.html
    assert [row["steps"] for row in view.data["sequences"]] == lengths
    assert len(view.table()) == max(lengths)
    for i, n in enumerate(lengths):
        one = rf.show(loop.run, batch=i)
        assert len(one.data["steps"]) == n
        assert ("has no steps" in one.text) == (n == 0)
        assert ("has no steps" in one.html) == (n == 0)
        assert one.text.count("start") >= 1
