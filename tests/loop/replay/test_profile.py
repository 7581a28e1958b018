"""The time of each line of a loop: what is slow dominates, parts add up, and the run stays as it was."""

from __future__ import annotations

import time

import pytest
import torch

import rfnb as rf
from rfnb.errors import LoopError, ParameterError

batch = rf.batch_dim
feat = rf.Dim(3, name="feat")


def slow(x):
    time.sleep(0.002)
    return x * 1


def ran(steps=5, *, debug=True, **options):
    axis = rf.Dim(steps, name="time")
    x = rf.random_normal([axis, feat])
    loop = rf.Loop(axis=axis, name="slow", debug=debug, **options)
    loop.state.h = rf.zeros([feat])
    with loop:
        h = rf.raw_call(slow, loop.state.h, out_dims=[feat])
        loop.state.h = rf.tanh(h + rf.exp(loop.unstack(x)))
        loop.stack(rf.log(loop.state.h + 2))
    return loop


def times(explanation):
    return {row.node.op: row.time for row in explanation.rows}


def test_the_slow_line_dominates():
    found = rf.profile(ran().run, calls=2)
    each = times(found)
    assert each["raw_call"].seconds > 0.01 and each["raw_call"].calls == 5
    assert each["raw_call"].seconds > 5 * (each["tanh"].seconds + each["add"].seconds)
    profile = found.profile
    in_steps = sum(row.time.seconds for row in found.rows if row.place == "steps" and row.time is not None)
    assert in_steps <= profile.seconds and profile.seconds - in_steps < 0.5 * profile.seconds
    assert profile.plain > 0.01 and profile.steps == 5 and profile.calls == 2


def test_ops_outside_of_the_steps_have_their_own_time():
    each = times(rf.profile(ran().run, calls=1))
    assert each["exp"].calls == each["log"].calls == 1 and each["exp"].seconds > 0 and each["log"].seconds > 0


def test_all_ops_in_the_steps():
    found = rf.profile(ran(optimize_move_layers_out=False).run, calls=1)
    assert all(row.time is None or row.time.calls == 5 for row in found.rows)
    assert times(found)["exp"].calls == 5


def test_it_is_loop_explain_with_times():
    loop = ran()
    found = loop.explain(time=True)
    assert [row.node.op for row in found.rows] == [row.node.op for row in loop.explain().rows]
    assert found.profile is not None and loop.explain().profile is None


def test_profiling_changes_nothing():
    loop = ran()
    run, state = loop.run, torch.get_rng_state()
    before = run.stack("h").raw_tensor.clone()
    rf.profile(run, calls=2)
    assert torch.equal(run.stack("h").raw_tensor, before) and torch.equal(torch.get_rng_state(), state)


def test_effects_of_the_body_do_not_happen_again():
    axis, calls = rf.Dim(3, name="time"), rf.Parameter([], initial=0.0, auxiliary=True)
    loop = rf.Loop(axis=axis, name="counting", debug=True)
    loop.state.h = rf.zeros([])
    with loop:
        calls.assign_add(rf.ones([]))
        loop.state.h = loop.state.h + 1
    assert calls.raw_tensor.item() == 3
    rf.profile(loop.run, calls=2)
    assert calls.raw_tensor.item() == 3


def test_a_fork_has_the_times_of_its_own_steps():
    fork = ran().run.fork(2, h=rf.zeros([feat]))
    assert rf.profile(fork, calls=1).profile.steps == 3


def test_a_loop_that_ends_early_is_timed_up_to_its_end():
    loop = rf.Loop(max_seq_len=50, name="until", debug=True)
    loop.state.n = rf.convert_to_tensor([3, 5], dims=[batch])
    with loop:
        loop.state.n = loop.state.n - 1
        loop.end(loop.state.n <= 0, include_eos=True)
    found = rf.profile(loop.run, calls=1)
    assert found.profile.steps == 5 and times(found)["sub"].calls == 5


def test_a_loop_inside_counts_as_one_op():
    axis = rf.Dim(3, name="time")
    loop = rf.Loop(axis=axis, name="outer", debug=True)
    loop.state.h = rf.ones([feat])
    with loop:
        inner = rf.Loop(max_seq_len=2, name="inner")
        inner.state.k = loop.state.h
        with inner:
            inner.state.k = rf.tanh(inner.state.k)
        loop.state.h = inner.state.k
    each = times(rf.profile(loop.run, calls=1))
    assert each["Loop"].calls == 3 and each["Loop"].seconds > 0


@pytest.mark.parametrize("wrong", [0, -1, True, 2.0, "3"])
def test_the_number_of_calls_is_checked(wrong):
    with pytest.raises(ParameterError, match="profile: `calls`"):
        rf.profile(ran().run, calls=wrong)


def test_what_cannot_be_timed_says_so(tmp_path):
    with pytest.raises(LoopError, match="only a recorded loop can be timed"):
        ran(debug=False).explain(time=True)
    with pytest.raises(LoopError, match="only a recorded loop"):
        rf.Loop(max_seq_len=3).explain(time=True)
    path = ran().run.save(tmp_path / "slow.rfrun")
    with pytest.raises(LoopError, match="run of this session"):
        rf.profile(rf.load_run(path))
    with pytest.raises(LoopError, match="run of this session"):
        rf.profile(3)
