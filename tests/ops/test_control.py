"""Branches and assertions."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError

time = rf.Dim(None, name="time")


def test_only_one_branch_is_called():
    called = []
    for holds in (True, False):
        for pred in (holds, rf.convert_to_tensor(holds)):
            rf.cond(pred, lambda: called.append("yes"), lambda: called.append("no"))
    assert called == ["yes", "yes", "no", "no"]


def test_a_condition_for_each_sequence_is_no_branch():
    with pytest.raises(DimError, match="`pred` has dims"):
        rf.cond(rf.zeros([rf.Dim(2, name="x")], dtype="bool"), lambda: 1, lambda: 2)


def test_a_branch_in_a_loop_is_taken_at_every_step():
    loop = rf.Loop(max_seq_len=5)
    loop.state.n = rf.convert_to_tensor(0)
    with loop:
        loop.state.n = rf.cond(loop.state.n > 2, lambda: loop.state.n, lambda: loop.state.n + 1)
    assert loop.state.n.item() == 3


def test_assertions_look_at_frames_only():
    x = rf.convert_to_tensor([np.ones(3), np.ones(1)], dims=[batch_dim, time])
    rf.assert_(x > 0.5, "all ones")  # padding is 0
    rf.assert_(True, "fine")
    with pytest.raises(AssertionError, match="too small"):
        rf.assert_(x > 2.0, "too small")
    with pytest.warns(UserWarning, match="too small"):
        rf.assert_(x > 2.0, "too small", stop=False)
    with pytest.raises(AssertionError, match="no"):
        rf.assert_(False, "no")


def test_an_assertion_in_a_loop_names_the_step():
    loop = rf.Loop(max_seq_len=5, name="counting")
    loop.state.n = rf.convert_to_tensor(0)
    with pytest.raises(AssertionError, match="three") as caught, loop:
        rf.assert_(loop.state.n < 3, "three is too much")
        loop.state.n = loop.state.n + 1
    assert "step 3 of counting" in caught.value.__notes__[0]


def test_control_flow_context():
    assert rf.get_current_control_flow_ctx() is None
    with rf.control_flow_ctx("branch") as ctx:
        assert rf.get_current_control_flow_ctx() == ctx == "branch"
    assert rf.get_current_control_flow_ctx() is None


def test_static_traceable_is_a_flag_that_counts():
    assert not rf.is_static_traceable()
    before = rf.static_traceable_generation()
    with rf.set_static_traceable_ctx():
        assert rf.is_static_traceable()
        rf.set_static_traceable(True)
    assert not rf.is_static_traceable()
    assert rf.static_traceable_generation() == before + 1
