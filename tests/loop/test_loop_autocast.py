"""Autocast around a loop holds for all of it; autocast inside of a body for the lines that it is around."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim

feat, time = rf.Dim(4, name="feat"), rf.Dim(3, name="time")
WAYS = {"moved": {}, "in steps": {"optimize_move_layers_out": False}, "recorded": {"debug": True}}


def autocast(dtype=torch.bfloat16, enabled=True):
    return torch.autocast("cpu", dtype=dtype, enabled=enabled)


class Setting:
    def __init__(self):
        torch.manual_seed(0)
        self.w = rf.Linear(feat, feat)
        self.x = rf.convert_to_tensor(torch.randn(3, 2, 4), dims=[time, batch_dim, feat])
        self.h = rf.zeros([batch_dim, feat])

    def linear(self, x):
        return torch.nn.functional.linear(x, self.w.weight.raw_tensor.T, self.w.bias.raw_tensor)


def step(s, loop):
    """Of a frame, of a state, and without autocast again."""
    x = loop.unstack(s.x)
    with autocast():
        of_frame, of_state = s.w(x), s.w(loop.state.h)
        with autocast(enabled=False):
            exact = s.w(x)
    h = rf.cast(of_frame, "float32") + rf.cast(of_state, "float32") + exact
    return h, of_frame


def by_hand(s):
    h, rows = s.h.raw_tensor, []
    for x in s.x.raw_tensor:
        with autocast():
            of_frame, of_state = s.linear(x), s.linear(h)
        h = of_frame.float() + of_state.float() + s.linear(x)
        rows.append(of_frame)
    return h, torch.stack(rows)


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("in_a_branch", [False, True])
@pytest.mark.parametrize("in_a_loop", [False, True])
def test_autocast_in_the_body(options, in_a_branch, in_a_loop):
    s = Setting()
    h, rows = by_hand(s)
    expected = torch.autograd.grad(h.sum(), s.w.weight.raw_tensor)
    loop = rf.Loop(axis=time, **options)
    loop.state.h = s.h
    with loop:
        if in_a_loop:
            x, old = loop.unstack(s.x), loop.state.h
            inner = rf.Loop(max_seq_len=1)
            inner.state.h, inner.state.of_frame = s.h, rf.zeros([batch_dim, feat], dtype="bfloat16")
            with autocast(), inner:  # what is inside is under it
                of_frame, of_state = s.w(x), s.w(old)
                with autocast(enabled=False):
                    inner.state.h = rf.cast(of_frame, "float32") + rf.cast(of_state, "float32") + s.w(x) + inner.state.h
                inner.state.of_frame = of_frame + inner.state.of_frame
            new, of_frame = inner.state.h, inner.state.of_frame
        elif in_a_branch:
            new, of_frame = rf.cond(loop.iter_idx >= 0, lambda: step(s, loop), lambda: step(s, loop))
        else:
            new, of_frame = step(s, loop)
        loop.state.h = new
        out = loop.stack(of_frame)
    assert out.dtype == "bfloat16"
    torch.testing.assert_close(out.raw_tensor, rows, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(loop.state.h.raw_tensor, h, rtol=1e-5, atol=1e-5)
    found = torch.autograd.grad(loop.state.h.raw_tensor.sum(), s.w.weight.raw_tensor)
    torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
    if loop.run is not None:
        assert [loop.run[i].check for i in range(3)] == ["replay agrees"] * 3


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_autocast_around_the_loop(options):
    s = Setting()
    h, rows = s.h.raw_tensor, []
    with autocast():
        for x in s.x.raw_tensor:
            new = s.linear(x) + s.linear(h)
            h = new.float()
            rows.append(new)
        loop = rf.Loop(axis=time, **options)
        loop.state.h = s.h
        with loop:
            new = s.w(loop.unstack(s.x)) + s.w(loop.state.h)
            loop.state.h = rf.cast(new, "float32")
            out = loop.stack(new)
    assert out.dtype == "bfloat16" and out.dims[0] is time
    torch.testing.assert_close(loop.state.h.raw_tensor, h, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(out.raw_tensor, torch.stack(rows), rtol=1e-2, atol=1e-2)
    if loop.run is not None:  # a replay is as the run was, also outside of autocast
        assert [loop.run[i].check for i in range(3)] == ["replay agrees"] * 3
        assert loop.run[1].new.dtype == "bfloat16"


def test_only_the_lines_that_autocast_is_around():
    s = Setting()
    loop = rf.Loop(axis=time)
    loop.state.h = s.h
    with loop:
        x = loop.unstack(s.x)
        with autocast():
            torch.mm(torch.ones(2, 2), torch.ones(2, 2))  # of torch itself, on nothing of the body
            under = s.w(x)
        exact = s.w(x)
        loop.state.h = exact + loop.state.h
        outputs = loop.stack(under), loop.stack(exact)
    assert [out.dtype for out in outputs] == ["bfloat16", "float32"]
    assert [row.node.op for row in loop.explain().rows if row.place == "steps"] == ["add"], "the rest is moved"
    torch.testing.assert_close(outputs[1].raw_tensor, s.linear(s.x.raw_tensor))
