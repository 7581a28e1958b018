"""The LSTM against torch.nn, against itself step by step, and one sequence at a time."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb.errors import DimError, ParameterError

BATCH = rf.batch_dim
LENGTHS = [5, 2, 3]


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


@pytest.fixture
def inp():
    return rf.Dim(4, name="in")


@pytest.fixture
def out():
    return rf.Dim(6, name="out")


@pytest.fixture
def x(time, inp):
    return rf.convert_to_tensor(torch.randn(3, 5, 4), dims=[BATCH, time, inp], lengths=LENGTHS)


@pytest.fixture
def lstm(inp, out):
    lstm = rf.LSTM(inp, out)
    lstm.bias.initial = rf.init.Normal(1.0)
    return lstm


def twin(lstm):
    """The same by torch.nn, whose second bias is zero."""
    same = torch.nn.LSTM(lstm.in_dim.dimension, lstm.out_dim.dimension, batch_first=True)
    with torch.no_grad():
        same.weight_ih_l0.copy_(lstm.ff_weight.raw_tensor)
        same.weight_hh_l0.copy_(lstm.rec_weight.raw_tensor)
        same.bias_ih_l0.copy_(lstm.bias.raw_tensor)
        same.bias_hh_l0.zero_()
    return same


def run(lstm, x, time, **state):
    initial = lstm.default_initial_state(batch_dims=[d for d in x.dims if d not in (time, lstm.in_dim)])
    return lstm(x, state=rf.State({**initial, **state}), spatial_dim=time)


def test_parameters_have_the_names_and_dims_of_the_reference(inp, out):
    found = {name: p.dims for name, p in rf.LSTM(inp, out).named_parameters()}
    assert found == {"ff_weight": (4 * out, inp), "rec_weight": (4 * out, out), "bias": (4 * out,)}
    assert "bias" not in dict(rf.LSTM(inp, out, with_bias=False).named_parameters())


def test_initial_state_is_zero(lstm, out):
    rf.convert_to_tensor(torch.zeros(3), dims=[BATCH])
    state = lstm.default_initial_state(batch_dims=[BATCH])
    assert isinstance(state, rf.LstmState)
    assert state.h.dims == state.c.dims == (BATCH, out)
    assert (state.c.raw_tensor == 0).all()


def test_as_torch_with_gradients(lstm, x, time, out):
    y, state = run(lstm, x, time)
    same = twin(lstm)
    packed = torch.nn.utils.rnn.pack_padded_sequence(x.raw_tensor, LENGTHS, batch_first=True, enforce_sorted=False)
    raw, (h, c) = same(packed)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(raw, batch_first=True)
    mine = y.copy_transpose([BATCH, time, out]).raw_tensor
    for b, length in enumerate(LENGTHS):
        assert torch.allclose(mine[b, :length], expected[b, :length], atol=1e-6)
    assert torch.allclose(state.h.copy_transpose([BATCH, out]).raw_tensor, h[0], atol=1e-6)
    assert torch.allclose(state.c.copy_transpose([BATCH, out]).raw_tensor, c[0], atol=1e-6)

    total = rf.reduce_sum(rf.square(y), axis=[BATCH, time, out]) + rf.reduce_sum(state.c, axis=[BATCH, out])
    total.raw_tensor.backward()
    (raw.data.square().sum() + c.sum()).backward()
    assert torch.allclose(lstm.ff_weight.raw_tensor.grad, same.weight_ih_l0.grad, rtol=1e-4, atol=1e-5)
    assert torch.allclose(lstm.rec_weight.raw_tensor.grad, same.weight_hh_l0.grad, rtol=1e-4, atol=1e-5)
    assert torch.allclose(lstm.bias.raw_tensor.grad, same.bias_ih_l0.grad, rtol=1e-4, atol=1e-5)


def test_step_by_step_is_the_same(lstm, x, time, out):
    y, _ = run(lstm, x, time)
    y = y.copy_transpose([BATCH, time, out]).raw_tensor
    state = lstm.default_initial_state(batch_dims=[BATCH])
    for t in range(5):
        frame = rf.convert_to_tensor(x.raw_tensor[:, t], dims=[BATCH, lstm.in_dim])
        step, state = lstm(frame, state=state, spatial_dim=rf.single_step_dim)
        assert isinstance(state, rf.LstmState)
        assert set(step.dims) == {BATCH, out}
        valid = [b for b, length in enumerate(LENGTHS) if t < length]
        assert torch.allclose(step.copy_transpose([BATCH, out]).raw_tensor[valid], y[valid, t], atol=1e-6)


def test_batched_as_one_by_one(lstm, x, time, out):
    y, state = run(lstm, x, time)
    y = y.copy_transpose([BATCH, time, out]).raw_tensor
    for b, length in enumerate(LENGTHS):
        own = rf.Dim(length, name="own")
        alone = rf.convert_to_tensor(x.raw_tensor[b, :length], dims=[own, lstm.in_dim])
        y_alone, state_alone = run(lstm, alone, own)
        assert torch.allclose(y_alone.copy_transpose([own, out]).raw_tensor, y[b, :length], atol=1e-6)
        assert torch.allclose(state_alone.h.raw_tensor, state.h.copy_transpose([BATCH, out]).raw_tensor[b], atol=1e-6)


def test_the_order_of_dims_does_not_matter(lstm, x, time, inp, out):
    y, _ = run(lstm, x, time)
    other, _ = run(lstm, x.copy_transpose([inp, time, BATCH]), time)
    order = [BATCH, time, out]
    assert torch.allclose(y.copy_transpose(order).raw_tensor[0], other.copy_transpose(order).raw_tensor[0], atol=1e-6)


def test_the_order_of_the_dims_of_weights_does_not_matter(lstm, x, time, inp, out):
    y, _ = run(lstm, x, time)
    for name in ("ff_weight", "rec_weight"):
        weight = getattr(lstm, name)
        turned = rf.Parameter(list(reversed(weight.dims)))
        turned.initial = weight.copy_transpose(turned.dims)
        setattr(lstm, name, turned)
    other, _ = run(lstm, x, time)
    assert torch.allclose(y.raw_tensor, other.copy_transpose(y.dims).raw_tensor, atol=1e-6)


@pytest.mark.parametrize("garbage", [torch.nan, torch.inf, 1e30])
def test_padding_changes_nothing(lstm, x, time, out, garbage):
    def outcome():
        lstm.ff_weight.raw_tensor.grad = None
        y, state = run(lstm, x, time)
        total = rf.reduce_sum(rf.square(y), axis=[BATCH, time, out]) + rf.reduce_sum(state.h, axis=[BATCH, out])
        total.raw_tensor.backward()
        return total.raw_tensor.detach(), lstm.ff_weight.raw_tensor.grad.clone()

    clean = outcome()
    with torch.no_grad():
        x.raw_tensor[1, 2:] = garbage
        x.raw_tensor[2, 3:] = garbage
    for a, b in zip(clean, outcome(), strict=True):
        assert torch.allclose(a, b)


def test_a_state_goes_on(lstm, inp, out):
    first, second = rf.Dim(2, name="first"), rf.Dim(3, name="second")
    raw = torch.randn(5, 4)
    whole = rf.Dim(5, name="whole")
    y, end = run(lstm, rf.convert_to_tensor(raw, dims=[whole, inp]), whole)
    y1, state = run(lstm, rf.convert_to_tensor(raw[:2], dims=[first, inp]), first)
    y2, state = lstm(rf.convert_to_tensor(raw[2:], dims=[second, inp]), state=state, spatial_dim=second)
    assert torch.allclose(torch.cat([y1.raw_tensor, y2.raw_tensor]), y.raw_tensor, atol=1e-6)
    assert torch.allclose(state.c.raw_tensor, end.c.raw_tensor, atol=1e-6)


def test_sequences_of_length_zero_keep_their_state(lstm, inp, out, time):
    x = rf.convert_to_tensor(torch.randn(2, 3, 4), dims=[BATCH, time, inp], lengths=[0, 3])
    h = rf.random_normal([BATCH, out], seed=1)
    _, state = run(lstm, x, time, h=h)
    assert torch.allclose(state.h.copy_transpose([BATCH, out]).raw_tensor[0], h.raw_tensor[0])


def test_into_the_same_dim(inp):
    lstm = rf.LSTM(inp, inp)
    time = rf.Dim(2, name="time")
    y, _ = run(lstm, rf.random_normal([time, inp], seed=1), time)
    assert y.dims == (time, inp)
    wide = rf.LSTM(4 * inp, inp)
    y, _ = run(wide, rf.random_normal([time, 4 * inp], seed=1), time)
    assert y.dims == (time, inp)


def test_twice_shares_the_parameters(lstm, x, time, out):
    y, _ = run(lstm, x, time)
    z, _ = run(lstm, x, time)
    assert torch.equal(y.raw_tensor, z.raw_tensor)
    assert len(list(lstm.parameters())) == 3


def test_a_backward_lstm_reads_each_sequence_from_its_end(lstm, x, time, out):
    if not hasattr(rf, "reverse_sequence"):
        pytest.skip("no reverse_sequence yet")
    y, _ = run(lstm, rf.reverse_sequence(x, axis=time), time)
    y = rf.reverse_sequence(y, axis=time).copy_transpose([BATCH, time, out]).raw_tensor
    own = rf.Dim(2, name="own")
    alone = rf.convert_to_tensor(x.raw_tensor[1, :2].flip(0), dims=[own, lstm.in_dim])
    assert torch.allclose(run(lstm, alone, own)[0].raw_tensor.flip(0), y[1, :2], atol=1e-6)


@pytest.mark.parametrize("module", [rf.LSTM, rf.GRU, rf.BasicRNN, rf.ZoneoutLSTM])
def test_sizes_instead_of_dims_and_a_forgotten_state_are_explained(module):
    with pytest.raises(DimError, match=f"{module.__name__}: 20 is not a Dim"):
        module(20, 30)
    inp, out, time = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(5, name="time")
    for state in (None, rf.zeros([out])):
        with pytest.raises(ParameterError, match=f"{module.__name__}: `state` is not an rf.State") as error:
            module(inp, out)(rf.zeros([time, inp]), state=state, spatial_dim=time)
        assert "default_initial_state" in str(error.value)
