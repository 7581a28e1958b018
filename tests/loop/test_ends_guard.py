"""Sequences that `loop.end` has ended: harmless arguments for them, and for nothing else."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim


def halting(rates: list[float], limit: int = 30) -> tuple[rf.Tensor, torch.Tensor]:
    """Adaptive computation time in short: each sequence loses its rate at each step, as long as there is enough."""
    raw = torch.tensor(rates, requires_grad=True)
    rate = rf.convert_to_tensor(raw, dims=[batch_dim])
    loop = rf.Loop(max_seq_len=limit)
    loop.state.left = rf.zeros([batch_dim]) + 1.0
    loop.state.total = rf.zeros([batch_dim])
    with loop:
        left = loop.state.left - rate
        loop.state.total = loop.state.total + rf.log(left) * rate
        loop.state.left = left
        loop.end(left - rate < 0.05, include_eos=True)
    return loop.state.total, raw


def halting_alone(rate: float, limit: int = 30) -> tuple[float, float]:
    """The total of one sequence by plain torch, and its gradient."""
    raw = torch.tensor(rate, requires_grad=True)
    left, total = torch.ones(()), torch.zeros(())
    for _ in range(limit):
        left = left - raw
        total = total + left.log() * raw
        if left - raw < 0.05:
            break
    total.backward()
    return total.item(), raw.grad.item()


@given(st.lists(st.floats(0.05, 0.9), min_size=1, max_size=5))
def test_a_batch_gives_what_its_sequences_give_alone(rates):
    total, raw = halting(rates)
    total.raw_tensor.sum().backward()
    for i, rate in enumerate(raw.tolist()):
        expected, slope = halting_alone(rate)
        assert total.raw_tensor[i].item() == pytest.approx(expected, abs=1e-4)
        assert raw.grad[i].item() == pytest.approx(slope, rel=1e-3, abs=1e-3)


def test_nothing_is_added_to_a_step_without_end():
    time, h = rf.Dim(None, name="time"), rf.Dim(2, name="h")
    x = rf.convert_to_tensor(torch.ones(2, 3, 2), dims=[batch_dim, time, h])
    with rf.recording("last"):
        loop = rf.Loop(axis=time)
        loop.state.s = rf.zeros([batch_dim, h])
        with loop:
            loop.state.s = rf.log(loop.unstack(x) + loop.state.s)
    expected = torch.zeros(2, 2)
    for _ in range(3):
        expected = torch.log(1 + expected)
    torch.testing.assert_close(loop.state.s.raw_tensor, expected)


@pytest.mark.parametrize("hoist", [None, False])
def test_living_entries_that_take_the_place_of_ended_ones_stay_as_they_are(hoist):
    """log(0) of a living entry is -inf, also in the place of an entry that has ended before they changed places."""
    beam = rf.Dim(2, name="beam")
    stay = rf.convert_to_tensor([0, 1], dims=[beam], sparse_dim=beam)
    swap = rf.convert_to_tensor([1, 0], dims=[beam], sparse_dim=beam)
    loop = rf.Loop(max_seq_len=3, optimize_move_layers_out=hoist)
    loop.state.ends = rf.convert_to_tensor([True, False], dims=[beam])
    loop.state.x = rf.convert_to_tensor([5.0, 0.0], dims=[beam])
    with loop:
        loop.reorder(rf.where(loop.iter_idx == 2, swap, stay), beam)
        y = loop.stack(rf.log(loop.state.x))
        loop.end(rf.logical_or(loop.state.ends, loop.iter_idx == 2), include_eos=True)
    found = y.copy_transpose([loop.axis, beam]).raw_tensor
    assert found[0, 0].item() == pytest.approx(math.log(5))
    assert found[1, 1].item() == found[2, 0].item() == -math.inf  # before and after the change


def test_what_hypotheses_share_is_guarded_once_all_of_them_have_ended():
    beam = rf.Dim(2, name="beam")
    raw = torch.tensor([0.5, 0.3], requires_grad=True)
    rate = rf.convert_to_tensor(raw, dims=[batch_dim])
    ends_at = rf.convert_to_tensor([[0, 1], [2, 2]], dims=[batch_dim, beam])
    loop = rf.Loop(max_seq_len=9)
    loop.state.left = rf.zeros([batch_dim]) + 1.0
    loop.state.total = rf.zeros([batch_dim, beam])
    with loop:
        left = loop.state.left - rate
        loop.state.total = loop.state.total + rf.log(left + 0.05)
        loop.state.left = left
        loop.end(loop.iter_idx >= ends_at, include_eos=True)
    left = [[0.5, 0.0], [0.7, 0.4, 0.1]]
    sums = [[math.log(v + 0.05) for v in row] for row in left]
    expected = [[sums[0][0], sum(sums[0])], [sum(sums[1])] * 2]
    torch.testing.assert_close(loop.state.total.copy_transpose([batch_dim, beam]).raw_tensor, torch.tensor(expected))
    loop.state.total.raw_tensor.sum().backward()
    assert raw.grad.isfinite().all()
