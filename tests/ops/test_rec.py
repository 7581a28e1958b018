"""The fused LSTM, against one step after the other."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from tests.examples import examples

inp, out = rf.Dim(3, name="in"), rf.Dim(4, name="out")
GENERATOR = torch.Generator().manual_seed(1)
FF, REC, BIAS = (torch.randn(*shape, generator=GENERATOR) for shape in [(16, 3), (16, 4), (16,)])


def lstm(source, state, spatial_dim, bias=True):
    return rf.lstm(
        source,
        state_h=state[0],
        state_c=state[1],
        ff_weight=rf.convert_to_tensor(FF, dims=[4 * out, inp]),
        rec_weight=rf.convert_to_tensor(REC, dims=[4 * out, out]),
        bias=rf.convert_to_tensor(BIAS, dims=[4 * out]) if bias else None,
        spatial_dim=spatial_dim,
        in_dim=inp,
        out_dim=out,
    )


def states(batch):
    return [rf.convert_to_tensor(torch.randn(batch, 4, generator=GENERATOR), dims=[batch_dim, out]) for _ in "hc"]


@examples(30)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4), bias=st.booleans())
def test_the_state_is_that_at_the_end_of_each_sequence(lengths, bias):
    time = rf.Dim(None, name="time")
    raw = torch.randn(len(lengths), max(lengths), 3, generator=GENERATOR)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, inp], lengths=lengths)
    initial = states(len(lengths))
    y, (h, c) = lstm(x, initial, time, bias)
    y = y.copy_transpose([batch_dim, time, out]).raw_tensor
    state, steps = initial, []
    for t in range(max(lengths)):
        _, state = lstm(rf.gather(x, indices=t, axis=time), state, rf.single_step_dim, bias)
        steps.append(state)
    for i, n in enumerate(lengths):
        last = steps[n - 1] if n else initial
        for found, wanted in zip((h, c), last, strict=True):
            assert torch.allclose(found.raw_tensor[i], wanted.raw_tensor[i], atol=1e-5)
        for t in range(n):
            assert torch.allclose(y[i, t], steps[t][0].raw_tensor[i], atol=1e-5)


def test_it_is_torch_s_lstm():
    time = rf.Dim(5, name="time")
    torchs = torch.nn.LSTM(3, 4)
    with torch.no_grad():
        for name, value in {
            "weight_ih_l0": FF,
            "weight_hh_l0": REC,
            "bias_ih_l0": BIAS,
            "bias_hh_l0": 0 * BIAS,
        }.items():
            getattr(torchs, name).copy_(value)
    raw, (h, c) = torch.randn(5, 2, 3), states(2)
    y, (h2, c2) = lstm(rf.convert_to_tensor(raw, dims=[time, batch_dim, inp]), (h, c), time)
    expected, (h3, c3) = torchs(raw, (h.raw_tensor[None], c.raw_tensor[None]))
    for a, b in ((y, expected), (h2, h3[0]), (c2, c3[0])):
        assert torch.allclose(a.raw_tensor, b, atol=1e-6)


@pytest.mark.parametrize("lengths", [[4, 4], [4, 2], [0, 4]])
def test_more_dims_and_states_without_some(lengths):
    time, beam = rf.Dim(None, name="time"), rf.Dim(2, name="beam")
    raw = torch.randn(2, 2, 4, 3)
    rf.convert_to_tensor(raw[:, 0], dims=[batch_dim, time, inp], lengths=lengths)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, beam, time, inp])
    y, (h, c) = lstm(x, states(2), time)
    assert set(y.dims) == {batch_dim, beam, time, out} and set(h.dims) == set(c.dims) == {batch_dim, beam, out}
    y2, (h2, _) = lstm(x.copy_transpose([inp, time, beam, batch_dim]), states(2), time)
    assert set(y2.dims) == set(y.dims) and set(h2.dims) == set(h.dims)


def test_nan_in_padding_reaches_nothing():
    time = rf.Dim(None, name="time")
    weights = []
    for filling in (0.0, float("nan")):
        raw = torch.ones(2, 4, 3)
        x = rf.convert_to_tensor(raw, dims=[batch_dim, time, inp], lengths=[4, 0])
        x.raw_tensor[1] = filling
        weight = rf.convert_to_tensor(FF.clone().requires_grad_(), dims=[4 * out, inp])
        y, (_, c) = rf.lstm(
            x, state_h=rf.zeros([batch_dim, out]), state_c=rf.ones([batch_dim, out]), ff_weight=weight,
            rec_weight=rf.convert_to_tensor(REC, dims=[4 * out, out]), bias=None,
            spatial_dim=time, in_dim=inp, out_dim=out,
        )  # fmt: skip
        (rf.reduce_sum(y, axis=y.dims) + rf.reduce_sum(c, axis=c.dims)).raw_tensor.backward()
        weights.append(weight.raw_tensor.grad)
        assert torch.equal(c.raw_tensor[1], torch.ones(4))
    assert torch.equal(*weights)
