"""Tests that the states of a recorded loop are kept without their graph and, until they are counted, in the budget."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb.backend.torch.backend import TorchBackend
from rfnb.loop.step import StateHistory


@pytest.mark.parametrize("power", [0, 1, 2])
def test_states_that_grow_stay_in_the_budget_until_they_are_counted(power, monkeypatch):
    budget = 2**24
    monkeypatch.setattr(rf.options, "trace_budget", budget)
    history, steps, takes = StateHistory(TorchBackend, [torch.zeros(1)]), 0, 0
    while steps < 120:
        room = history.room
        fresh = [torch.zeros(8 * (steps + i) ** power) for i in range(1, room + 1)]
        for state in fresh:
            history.keep((state,))
        kept = [state for [state] in history.states]
        assert sum(state.nbytes for state in (*kept, *fresh)) <= budget
        steps, takes = steps + room, takes + 1
        history.take(steps)
        assert len(history.states) == 1 + steps // history.every
    assert takes < 4 or power > 0


@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("changes", [True, False])
def test_states_are_kept_without_a_graph(gradients, changes):
    feat = rf.Dim(3, name="feat")
    for initial in (torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True) * 1, torch.ones(3)):
        loop = rf.Loop(max_seq_len=6, debug=True)
        loop.state.h = rf.convert_to_tensor(initial, dims=[feat])
        with torch.set_grad_enabled(gradients), loop:
            loop.state.h = loop.state.h * 2.0 if changes else loop.state.h
        states = [state for [state] in loop.run.replay.kept]
        assert len(states) == 7 and not any(state.requires_grad for state in states)
