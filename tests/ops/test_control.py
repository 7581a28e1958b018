"""Branches and assertions."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, DtypeError

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


step, feat = rf.Dim(3, name="step"), rf.Dim(4, name="feat")


def test_a_raw_call_gives_several_tensors():
    x = rf.convert_to_tensor(torch.randn(3, 4), dims=[step, feat])
    found = rf.raw_call(lambda raw: raw.sort(-1), x, out_dims=[[step, feat], [step, feat]])
    for result, expected in zip(found, x.raw_tensor.sort(-1), strict=True):
        assert result.dims == (step, feat) and torch.equal(result.raw_tensor, expected)


def test_a_raw_call_gives_several_tensors_at_each_step():
    x, loop = rf.convert_to_tensor(torch.randn(3, 4), dims=[step, feat]), rf.Loop(axis=step, debug=True)
    loop.state.s = rf.zeros([feat])
    with loop:
        largest, order = rf.raw_call(
            lambda raw: (raw.max(), raw.argsort()), loop.unstack(x) + loop.state.s, out_dims=[[], [feat]]
        )
        loop.state.s = loop.state.s + largest
        orders = loop.stack(order)
    total = torch.zeros(())
    for number in range(3):
        assert torch.equal(orders.raw_tensor[number], (x.raw_tensor[number] + total).argsort())
        total = total + (x.raw_tensor[number] + total).max()
    torch.testing.assert_close(loop.state.s.raw_tensor, total.expand(4))
    assert loop.run[1].order.dims == (feat,)


@pytest.mark.parametrize(
    ("fn", "out_dims", "got"),
    [
        (lambda raw: (raw, raw), [step, feat], "tuple of Tensor, Tensor"),
        (lambda raw: raw, [[step, feat], [step, feat]], "Tensor of Tensor"),
        (lambda raw: (raw, raw, raw), [[step, feat], [step, feat]], "tuple of Tensor, Tensor, Tensor"),
        (lambda raw: 2.0, [], "float"),
        (lambda raw: None, [step, feat], "NoneType"),
    ],
)
def test_a_raw_call_needs_dims_for_each_result(fn, out_dims, got):
    with pytest.raises(DtypeError, match=f"what `out_dims` describes\n.*got *{got}"):
        rf.raw_call(fn, rf.zeros([step, feat]), out_dims=out_dims)


def test_errors_of_the_own_function_stay_as_they_are():
    with pytest.raises(ZeroDivisionError):
        rf.raw_call(lambda raw: 1 / 0, rf.zeros([step, feat]), out_dims=[step, feat])
    with pytest.raises(KeyError):
        rf.cond(True, lambda: {}["missing"], lambda: 1)


@pytest.mark.parametrize("pred", [None, "yes", [True]])
def test_a_condition_is_a_bool_or_a_tensor(pred):
    with pytest.raises(DtypeError, match="cond: `pred`"):
        rf.cond(pred, lambda: 1, lambda: 2)
