"""Cells run steps that they have kept, with the results and gradients of a copy, which keeps none."""

from __future__ import annotations

import warnings
from copy import deepcopy

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.loop.loop import Loop

pytestmark = pytest.mark.usefixtures("inference")

INP, OUT, TIME = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(None, name="time")
CELLS = {
    "basic": lambda: rf.BasicRNN(INP, OUT),
    "gru": lambda: rf.GRU(INP, OUT),
    "gru, reset after": lambda: rf.GRU(INP, OUT, reset_after=True),
    "rhn": lambda: rf.RHN(INP, OUT),
    "zoneout": lambda: rf.ZoneoutLSTM(INP, OUT, zoneout_factor_cell=0.3, zoneout_factor_output=0.2),
    "norms": lambda: rf.LayerNormVariantsLSTM(INP, OUT),
    "norms of gates": lambda: rf.LayerNormVariantsLSTM(INP, OUT, global_norm=False, per_gate_norm=True),
}


@pytest.fixture
def traced(monkeypatch):
    """The names of the loops whose bodies have run."""
    names, enter = [], Loop.__enter__
    monkeypatch.setattr(Loop, "__enter__", lambda loop: names.append(loop.name) or enter(loop))
    return names


def batch_of(lengths, seed=0):
    x = torch.randn(len(lengths), max(lengths), 3, generator=torch.Generator().manual_seed(seed))
    return rf.convert_to_tensor(x, dims=[batch_dim, TIME, INP], lengths=lengths)


def called(cell, x, backward=True):
    """The outputs, the last state, and the gradients of the parameters."""
    out, state = cell(x, state=cell.default_initial_state(batch_dims=[batch_dim]), spatial_dim=TIME)
    parameters = rf.torch_parameters(cell)
    found = [out.copy_masked(0).raw_tensor, *(part.raw_tensor for part in state.values())]
    if backward:
        found += torch.autograd.grad(sum(x.square().sum() for x in found), parameters)
    return found


def assert_equal(found, expected):
    assert all(a.equal(b) for a, b in zip(found, expected, strict=True))


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_traced_twice_and_gives_what_a_copy_gives(name, traced):
    cell = CELLS[name]()
    optimizer = torch.optim.SGD(rf.torch_parameters(cell), lr=0.5)
    for seed, lengths in enumerate([[5, 3], [5, 3], [7, 2], [4, 1]]):
        x = batch_of(lengths, seed)
        expected = called(deepcopy(cell), x)
        traced.clear()
        assert_equal(called(cell, x), expected)
        assert len(traced) == (seed < 2)
        for parameter in rf.torch_parameters(cell):
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()


def test_each_batch_size_mode_and_cell_has_a_step_of_its_own(traced):
    first, second = rf.GRU(INP, OUT), rf.GRU(INP, OUT)
    for _ in range(3):
        for cell in (first, second):
            for lengths in ([5, 3], [4, 4, 2]):
                expected = called(deepcopy(cell), batch_of(lengths))
                assert_equal(called(cell, batch_of(lengths)), expected)
                with torch.no_grad():
                    assert_equal(called(cell, batch_of(lengths), backward=False), expected[:2])
    traced.clear()
    called(first, batch_of([9, 1]))
    called(second, batch_of([9, 1, 1]))
    assert not traced


def other_weight(cell):
    cell.rec_weight.raw_tensor = torch.nn.Parameter(torch.randn_like(cell.rec_weight.raw_tensor))


def other_parameter(cell):
    cell.rec_weight = rf.Parameter(cell.rec_weight.dims)
    cell.rec_weight.initial = 0.25


def other_activation(cell):
    cell.activation = rf.sigmoid


@pytest.mark.parametrize("change", [other_weight, other_parameter, other_activation], ids=lambda f: f.__name__)
def test_a_cell_that_is_changed_is_traced_again(change):
    cell, x = rf.BasicRNN(INP, OUT), batch_of([5, 3])
    before = [called(cell, x) for _ in range(3)][-1]
    change(cell)
    for _ in range(3):
        assert_equal(found := called(cell, x), called(deepcopy(cell), x))
    assert not found[0].equal(before[0])


def test_zoneout_draws_anew_in_training_and_nothing_is_told():
    cell, x = CELLS["zoneout"](), batch_of([5, 3])
    with warnings.catch_warnings(), rf.get_run_ctx().train_flag_ctx(True):
        warnings.simplefilter("error")
        for seed in (1, 2, 3, 4):
            torch.manual_seed(seed)
            found = called(cell, x)
            torch.manual_seed(seed)
            assert_equal(found, called(deepcopy(cell), x))
            assert not found[0].equal(called(cell, x)[0])


def test_code_of_the_user_runs_in_each_call():
    """Hooks on parts of a cell, activations, and steps that are not marked."""
    x, calls = batch_of([5, 3]), np.zeros(1, int)

    class Own(rf.BasicRNN):
        def step(self, x, state):
            calls[0] += 1
            return super().step(x, state)

    def count(*given):
        calls[0] += 1

    hooked = rf.LayerNormVariantsLSTM(INP, OUT)
    hooked.cell_norm.register_forward_hook(count)
    for cell in (Own(INP, OUT), rf.BasicRNN(INP, OUT, activation=lambda x: count() or rf.tanh(x)), hooked):
        calls[0] = 0
        for _ in range(4):
            called(cell, x)
        assert calls[0] == 4


def test_a_class_of_the_user_is_kept_if_its_step_is_marked(traced):
    class Sum(rf.RecCell):
        def __init__(self):
            super().__init__(INP, INP)
            self.scale = rf.Parameter([INP])
            self.scale.initial = 0.5

        @rf.pure
        def step(self, x, state):
            h = state.h * self.scale + x
            return h, rf.State(h=h)

    cell = Sum()
    batches = [batch_of([5, 3], seed) for seed in range(4)]
    expected = [called(deepcopy(cell), x) for x in batches]
    traced.clear()
    for x, results in zip(batches, expected, strict=True):
        assert_equal(called(cell, x), results)
    assert len(traced) == 2


def test_recorded_calls_have_their_steps():
    cell, x = rf.GRU(INP, OUT), batch_of([5, 3])
    for _ in range(3):
        expected = called(cell, x)
    with rf.recording("last"):
        assert_equal(called(cell, x), expected)
    run = rf.runs[cell.get_default_name()]
    assert run.steps == 5
    assert run[2].h.raw_tensor.equal(expected[0][2])
    rf.runs.clear()
