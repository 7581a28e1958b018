"""What is there before an axis grows: a prompt of another length for each sequence."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import LoopError

feat = rf.Dim(2, name="feat")
LENGTHS = (3, 1, 0)
WAYS = {"moved": {}, "in steps": {"optimize_move_layers_out": False}, "recorded": {"debug": True}}


def prompts():
    torch.manual_seed(0)
    axis = rf.Dim(None, name="prompt")
    x = rf.convert_to_tensor([torch.randn(n, 2) for n in LENGTHS], dims=[batch_dim, axis, feat])
    rf.set_requires_gradient(x)
    return x, axis


def by_hand(x):
    rows = []
    for b, n in enumerate(LENGTHS):
        h, keys, found = torch.ones(2), x.raw_tensor[b, :n], []
        for _ in range(4):
            keys = torch.cat([keys, h[None]])
            found.append(torch.softmax(keys @ h, 0) @ keys)
            h = torch.tanh(found[-1])
        rows.append(torch.stack(found))
    return torch.stack(rows, 1)


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_attention_over_a_prompt_and_what_has_come(options):
    x, prompt = prompts()
    loop, grown = rf.Loop(max_seq_len=4, **options), rf.Dim(0, name="grown")
    loop.state.grown, loop.state.keys = grown, rf.zeros([batch_dim, grown, feat])
    loop.state.h = rf.ones([batch_dim, feat])
    with loop:
        h = loop.state.h
        loop.state.keys, loop.state.grown = rf.cum_concat_step(h, prev_accum=loop.state.keys, axis=loop.state.grown)
        both, axis = rf.concat((x, prompt), (loop.state.keys, loop.state.grown))
        weights = rf.softmax(rf.matmul(both, h, reduce=feat), axis=axis)
        att = rf.matmul(weights, both, reduce=axis)
        loop.state.h = rf.tanh(att)
        out = loop.stack(att)
    expected = by_hand(x)
    torch.testing.assert_close(out.copy_transpose([loop.axis, batch_dim, feat]).raw_tensor, expected)
    found = torch.autograd.grad(out.raw_tensor.sum(), x.raw_tensor)
    torch.testing.assert_close(found, torch.autograd.grad(expected.sum(), x.raw_tensor), rtol=1e-4, atol=1e-6)
    if loop.run is not None:
        assert [loop.run[i].check for i in range(4)] == ["replay agrees"] * 4


def test_an_axis_with_lengths_that_grows_says_what_to_write():
    x, prompt = prompts()
    loop = rf.Loop(max_seq_len=4)
    loop.state.prompt, loop.state.keys = prompt, x
    with pytest.raises(LoopError, match=r"rf.concat\(\(x, prompt\)"), loop:
        pass
    assert loop.state.prompt is prompt and loop.state.keys is x


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_a_slice_whose_length_differs_by_sequence_and_step(options):
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([torch.randn(n, 2) for n in (4, 3, 0)], dims=[batch_dim, time, feat])
    taken = rf.convert_to_tensor([[0, 2, 1, 3], [1, 1, 0, 0], [0, 0, 0, 0]], dims=[batch_dim, rf.Dim(4, name="step")])
    loop, grown = rf.Loop(axis=time, **options), rf.Dim(0, name="grown")
    loop.state.grown, loop.state.frames = grown, rf.zeros([batch_dim, grown, feat])
    with loop:
        loop.state.frames, loop.state.grown = rf.cum_concat_step(
            loop.unstack(x), prev_accum=loop.state.frames, axis=loop.state.grown
        )
        count = rf.gather(taken, indices=loop.iter_idx, axis=taken.dims[1])
        some, axis = rf.slice(loop.state.frames, axis=loop.state.grown, end=count)
        found = loop.stack(rf.reduce_sum(some, axis=axis))
    for b, n in enumerate((4, 3, 0)):
        for t in range(n):
            expected = x.raw_tensor[b, : min(t + 1, int(taken.raw_tensor[b, t]))].sum(0)
            torch.testing.assert_close(found.raw_tensor[t, b], expected)
    if loop.run is not None:
        assert [loop.run[i].check for i in range(4)] == ["replay agrees"] * 4
