"""Loops inside of a step: their runs are made when somebody looks into the step."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.loop.replay import replay

key = Dim(4, name="key")


@pytest.fixture(autouse=True)
def _no_runs():
    rf.runs.clear()
    yield
    rf.runs.clear()


def weights():
    return rf.convert_to_tensor([1.0, 2.0, 3.0, 4.0], dims=[key])


def outer(inside, debug=True):
    """s goes through `inside(s, x_t)` at each step."""
    time = Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0, 3.0], [4.0, 5.0], [6.0]], dims=[batch_dim, time])
    loop = rf.Loop(axis=time, name="outer", debug=debug)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        loop.state.s = inside(loop.state.s, loop.unstack(x))
    return loop


def along_keys(s, x_t, name="inner"):
    loop = rf.Loop(axis=key, name=name)
    loop.state.t = s
    with loop:
        w = loop.unstack(weights())
        noise = rf.random_normal([batch_dim])
        loop.state.t = loop.state.t + w * x_t + noise
    return loop.state.t


def in_levels(s, x_t):
    loop = rf.Loop(max_seq_len=2, name="middle")
    loop.state.m = s
    with loop:
        loop.state.m = along_keys(loop.state.m, x_t)
    return loop.state.m


def in_branch(s, x_t):
    return rf.cond(rf.reduce_sum(s, axis=batch_dim) > 0.0, lambda: along_keys(s, x_t, "yes"), lambda: s + 1.0)


def test_steps_of_a_nested_run_lead_from_state_to_state():
    run = outer(along_keys).run
    assert [r.name for r in rf.runs] == ["outer"]
    for i, length in enumerate([3, 2, 1]):
        [inner] = run[i].loops()
        assert (inner.name, inner.steps, inner.axis) == ("inner", 4, key)
        assert inner.place.startswith("test_step_nested_runs.py:")
        assert "with loop:" in inner.source.lines[0]
        assert [step.check for step in inner] == ["replay agrees"] * 4
        assert torch.equal(inner[0].before.t.raw_tensor, run[i].before.s.raw_tensor)
        assert torch.equal(inner[3].after.t.raw_tensor[:length], run[i].after.s.raw_tensor[:length])
        assert inner.stack("w").raw_tensor.tolist() == [1, 2, 3, 4]
        expected = inner[1].before.t + 2.0 * run[i].unstack + inner[1].noise
        torch.testing.assert_close(inner[1].after.t.raw_tensor, expected.raw_tensor)
    assert [r.name for r in rf.runs] == ["outer"]


def test_each_step_has_its_own_draws_and_the_same_each_time():
    run = outer(along_keys).run
    first, again, later = (run[i].loops()[0].stack("noise").raw_tensor for i in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, later)


def test_loops_in_loops_in_loops():
    run = outer(in_levels).run
    [middle] = run[1].loops()
    assert (middle.name, middle.steps) == ("middle", 2)
    [inner] = middle[1].loops()
    assert inner.name == "inner"
    assert torch.equal(inner[3].after.t.raw_tensor, middle[1].after.m.raw_tensor)
    assert torch.equal(middle[1].after.m.raw_tensor[:2], run[1].after.s.raw_tensor[:2])
    assert inner[0].loops() == []


def test_several_in_one_step_in_their_order():
    run = outer(lambda s, x_t: along_keys(along_keys(s, x_t, "first"), x_t, "second")).run
    first, second = run[2].loops()
    assert (first.name, second.name) == ("first", "second")
    assert torch.equal(first[3].after.t.raw_tensor, second[0].before.t.raw_tensor)


def test_in_the_side_of_a_branch_that_was_taken():
    run = outer(in_branch).run
    assert run[0].loops() == []
    assert [r.name for r in run[1].loops()] == ["yes"]


def test_an_inner_run_is_a_run():
    [inner] = outer(along_keys).run[1].loops()
    fork = inner.fork(2, t=0.0)
    assert fork.parent is inner
    assert torch.equal(fork[2].noise.raw_tensor, inner[2].noise.raw_tensor)
    assert inner.gradients("t").norm["t"].shape == (4,)
    with pytest.raises(rf.errors.LoopError, match="did not run in a function"):
        inner.rerun()


def test_forks_of_the_outer_run_have_theirs():
    run = outer(along_keys).run
    fork = run.fork(1, s=100.0)
    [inner] = fork[1].loops()
    assert inner[0].before.t.raw_tensor.tolist() == [100.0] * 3
    [same] = fork[0].loops()
    assert torch.equal(same[3].after.t.raw_tensor, run[0].loops()[0][3].after.t.raw_tensor)


def test_of_a_step_that_failed_the_inner_run_up_to_there():
    def inside(s, x_t):
        loop = rf.Loop(axis=key, name="inner")
        loop.state.t = s
        with loop:
            w = loop.unstack(weights())
            rf.assert_(rf.reduce_all((loop.state.t + w) < 60.0, axis=batch_dim), "large")
            found = rf.gather(weights(), indices=rf.cast(loop.state.t * 0.1, "int64"), axis=key)
            loop.state.t = loop.state.t + found * 0.0 + w * x_t
        return loop.state.t

    with pytest.raises((AssertionError, IndexError)):
        outer(inside)
    run = rf.runs["outer"]
    assert run.failed is not None
    [inner] = run[run.failed.step].loops()
    assert inner.failed is not None
    assert inner.failed.step < 4


def test_without_recording_nothing_is_kept(monkeypatch):
    made = []
    monkeypatch.setattr(
        "rfnb.loop.run_body.recorded_step", lambda *args: made.append(replay.recorded_step(*args)) or made[-1]
    )
    assert outer(along_keys, debug=False).run is None
    assert not made
    outer(along_keys)
    assert [plan.name for plan in made] == ["inner", "outer"]
