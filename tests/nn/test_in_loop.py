"""Modules in the body of a loop compute what they compute on whole sequences."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

pytestmark = pytest.mark.usefixtures("inference")

BATCH = rf.batch_dim
LETTER = rf.Dim(5, name="letter", vocab=list("abcde"))
INP, OUT = rf.Dim(4, name="in"), rf.Dim(6, name="out")
WORDS = ["abcde", "ab", "edc"]


class Model(rf.Module):
    """An embedding, an LSTM, and two layers that keep their dim."""

    def __init__(self):
        self.embedding = rf.Embedding(LETTER, INP)
        self.lstm = rf.LSTM(INP, OUT)
        self.norm = rf.LayerNorm(OUT)
        self.dropout = rf.Dropout(0.5)
        self.out = rf.Linear(OUT, OUT)

    def __call__(self, letters, *, state, spatial_dim):
        x, state.lstm = self.lstm(self.embedding(letters), state=state.lstm, spatial_dim=spatial_dim)
        return self.out(self.dropout(self.norm(x))), state


def whole(model, letters, time):
    return model(letters, state=model.default_initial_state(batch_dims=[BATCH]), spatial_dim=time)


def step_by_step(model, letters, time):
    loop = rf.Loop(axis=time)
    loop.state.model = model.default_initial_state(batch_dims=[BATCH])
    with loop:
        y, loop.state.model = model(loop.unstack(letters), state=loop.state.model, spatial_dim=rf.single_step_dim)
        out = loop.stack(y)
    return out, loop.state.model


def outcome(model, run, letters, time):
    """Outputs, final cell, gradients."""
    y, state = run(model, letters, time)
    loss = rf.reduce_sum(rf.square(y), axis=[BATCH, time, OUT]) + rf.reduce_sum(state.lstm.c, axis=[BATCH, OUT])
    grads = torch.autograd.grad(loss.raw_tensor, rf.torch_parameters(model))
    return y.copy_transpose([BATCH, time, OUT]).raw_tensor, state.lstm.c.copy_transpose([BATCH, OUT]).raw_tensor, grads


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


def test_the_same_values_and_gradients(time):
    model = Model()
    letters = rf.convert_to_tensor(WORDS, dims=[BATCH, time], sparse_dim=LETTER)
    expected, found = (outcome(model, run, letters, time) for run in (whole, step_by_step))
    for i, word in enumerate(WORDS):
        assert torch.allclose(found[0][i, : len(word)], expected[0][i, : len(word)], atol=1e-5)
    assert torch.allclose(found[1], expected[1], atol=1e-6)
    for a, b in zip(found[2], expected[2], strict=True):
        assert torch.allclose(a, b, rtol=1e-4, atol=1e-4)
