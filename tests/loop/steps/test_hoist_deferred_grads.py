"""Gradients of weights at the end of a loop: the same as step by step, in one product instead of one for each step."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import rfnb as rf
from rfnb import batch_dim

STEPS = 6
PAIR = rf.Dim(2, name="pair")


class Calls(TorchDispatchMode):
    """Counts the kernels that are called inside."""

    def __init__(self):
        super().__init__()
        self.count = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count[func.overloadpacket.__name__] += 1
        return func(*args, **(kwargs or {}))


def in_the_frames(w, u, frame, h):
    """h·U is added to frames: their gradient is its own."""
    return rf.tanh(w(frame) + u(h))


def two_in_the_frames(w, u, frame, h):
    return rf.tanh(w(frame) + u(h) + u(rf.sin(h)))


def alone(w, u, frame, h):
    """No frames: zeros are added."""
    return rf.tanh(u(h))


def frames_used_twice(w, u, frame, h):
    projected = w(frame)
    return rf.tanh(projected + u(h)) * rf.sigmoid(projected)


def product_used_twice(w, u, frame, h):
    product = u(h)
    return rf.tanh(w(frame) + product) + product * 0.1


def weight_used_twice(w, u, frame, h):
    return rf.tanh(w(frame) + u(u(h)))


def weight_used_otherwise(w, u, frame, h):
    return rf.tanh(w(frame) + u(h)) * rf.reduce_sum(u.weight, axis=u.weight.dims)


def frames_without_batch(w, u, frame, h):
    """What is added is the same for all sequences: its gradient is a sum, and that of h·U is not."""
    return rf.tanh(rf.reduce_mean(frame, axis=batch_dim) + u(h))


BODIES = [in_the_frames, two_in_the_frames, alone, frames_used_twice, product_used_twice, weight_used_twice,
          weight_used_otherwise, frames_without_batch]  # fmt: skip


def run(step, lengths, hoisted=None, *, debug=False):
    """The outputs, the gradients of all that is trained, and the run."""
    torch.manual_seed(1)
    time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")
    with rf.set_default_float_dtype_ctx("float64"):
        w, u = rf.Linear(feat, feat), rf.Linear(feat, feat, with_bias=False)
    raw = torch.randn(len(lengths), max(lengths), 3, dtype=torch.float64, requires_grad=True)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=lengths)
    start = torch.randn(len(lengths), 3, dtype=torch.float64, requires_grad=True)
    loop = rf.Loop(axis=time, optimize_move_layers_out=hoisted, debug=debug)
    loop.state.h = rf.convert_to_tensor(start, dims=[batch_dim, feat])
    with loop:
        loop.state.h = step(w, u, loop.unstack(x), loop.state.h)
        out = loop.stack(loop.state.h)
    weights = torch.linspace(-1, 1, 3, dtype=torch.float64)
    loss = (out.copy_masked(0.0).raw_tensor * weights).sum() + loop.state.h.raw_tensor.square().sum()
    trained = [raw, start, *(p.raw_tensor for m in (w, u) for p in m.parameters())]
    return out, loss, trained, loop.run


@pytest.mark.parametrize("lengths", [[STEPS], [STEPS, STEPS], [STEPS, 2, 4], [1, 5]], ids=str)
@pytest.mark.parametrize("step", BODIES)
def test_gradients_are_those_of_the_steps(step, lengths):
    found, expected = (run(step, lengths, hoisted) for hoisted in (None, False))
    torch.testing.assert_close(found[0].raw_tensor, expected[0].raw_tensor)
    for ours, theirs in zip(
        *[torch.autograd.grad(r[1], r[2], allow_unused=True) for r in (found, expected)], strict=True
    ):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("step", [in_the_frames, two_in_the_frames, alone])
def test_one_product_for_all_steps(step):
    _, loss, trained, _ = run(step, [STEPS, STEPS])
    with Calls() as calls:
        torch.autograd.grad(loss, trained, allow_unused=True)
    products = 2 if step is two_in_the_frames else 1
    around = 0 if step is alone else 2  # of the frames, done for all steps at once
    assert calls.count["mm"] == products * STEPS + products + around


def run_cell(make, lengths, hoisted=None):
    """The outputs of a cell in its own loop, a loss, and what is trained: weights {out, in} of LSTMs, packed."""
    torch.manual_seed(1)
    time, feat, hidden = rf.Dim(None, name="time"), rf.Dim(3, name="feat"), rf.Dim(2, name="hidden")
    cell = make(feat, hidden)
    cell.to(dtype="float64")
    raw = torch.randn(len(lengths), max(lengths), 3, dtype=torch.float64, requires_grad=True)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=lengths)
    loop = rf.Loop(axis=time, optimize_move_layers_out=hoisted)
    loop.state.cell = cell.default_initial_state(batch_dims=[batch_dim])
    with loop:
        h, loop.state.cell = cell(loop.unstack(x) * 2.0, state=loop.state.cell, spatial_dim=rf.single_step_dim)
        out = loop.stack(h)
    weights = torch.linspace(-1, 1, 2, dtype=torch.float64)
    return out, (out.copy_masked(0.0).raw_tensor * weights).sum(), [raw, *(p.raw_tensor for p in cell.parameters())]


CELLS = [rf.LSTM, rf.VanillaLSTM, rf.BasicLSTM, rf.ZoneoutLSTM, rf.LayerNormVariantsLSTM, rf.GRU]


@pytest.mark.parametrize("lengths", [[STEPS, STEPS], [STEPS, 0, 1]], ids=str)
@pytest.mark.parametrize("make", CELLS)
def test_gradients_of_packed_weights(make, lengths):
    found, expected = (run_cell(make, lengths, hoisted) for hoisted in (None, False))
    torch.testing.assert_close(found[0].raw_tensor, expected[0].raw_tensor)
    pairs = zip(*[torch.autograd.grad(loss, trained) for _, loss, trained in (found, expected)], strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("make", [rf.LSTM, rf.VanillaLSTM, rf.BasicLSTM, rf.ZoneoutLSTM])
def test_one_product_for_the_recurrent_weight_of_an_lstm(make):
    _, loss, trained = run_cell(make, [STEPS, STEPS])
    with Calls() as calls:
        torch.autograd.grad(loss, trained)
    assert calls.count["mm"] == STEPS - 1 + 1 + 2  # of all h but the first, of the weight, and of all frames at once


def test_what_draws_numbers_is_joined_as_well():
    def step(w, u, frame, h):
        return rf.dropout(rf.tanh(w(frame) + u(h)), 0.5, on_forward=True)

    with Calls() as calls, torch.no_grad():
        run(step, [STEPS, STEPS])
    assert calls.count["addmm"] >= STEPS - 1


@pytest.mark.parametrize("step", BODIES)
def test_recorded_steps_are_replayed_bit_for_bit(step):
    *_, recorded = run(step, [STEPS, 2], debug=True)
    assert [each.check for each in recorded] == ["replay agrees"] * STEPS


def test_backward_twice():
    _, loss, trained, _ = run(in_the_frames, [STEPS, 3])
    first = torch.autograd.grad(loss, trained, retain_graph=True)
    for a, b in zip(first, torch.autograd.grad(loss, trained), strict=True):
        assert torch.equal(a, b)


def test_gradients_of_gradients_are_to_be_had_of_the_steps_alone():
    _, loss, trained, _ = run(in_the_frames, [STEPS, 2])
    with pytest.raises(rf.errors.BackendError, match="optimize_move_layers_out=False"):
        torch.autograd.grad(loss, trained, create_graph=True)
    _, loss, trained, _ = run(in_the_frames, [STEPS, 2], False)
    first = torch.autograd.grad(loss, trained, create_graph=True)
    assert all(g is not None for g in torch.autograd.grad(sum(g.sum() for g in first), trained))


def test_x_plus_product_is_one_call():
    with Calls() as calls, torch.no_grad():
        run(in_the_frames, [STEPS, STEPS])
    assert calls.count["addmm"] >= STEPS - 1


@pytest.mark.parametrize("weight", [torch.ones(3, 3), torch.ones(3)], ids=["one row", "a vector"])
def test_a_product_that_is_broadcast_is_added_as_it_is(weight):
    @rf.op(name="plus_product")
    def plus_product(x: rf.Tensor, h: rf.Tensor) -> rf.Tensor:
        return x.like(x.raw_tensor + h.raw_tensor @ weight)

    row, feat = rf.Dim(1, name="row"), rf.Dim(3, name="feat")
    loop = rf.Loop(max_seq_len=3)
    loop.state.total = rf.convert_to_tensor(torch.zeros(2, 3), dims=[batch_dim, feat])
    loop.state.h = rf.ones([row, feat])
    with loop:
        loop.state.total = plus_product(loop.state.total, loop.state.h)
        loop.state.h = loop.state.h * 2.0
    assert loop.state.total.tolist() == [[21.0] * 3] * 2


def test_autocast_rounds_as_without_joining():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found, expected = (run(in_the_frames, [STEPS], hoisted, debug=True) for hoisted in (None, False))
    torch.testing.assert_close(found[0].raw_tensor, expected[0].raw_tensor, rtol=2e-2, atol=2e-2)
    assert [each.check for each in found[3]] == ["replay agrees"] * STEPS


def test_a_weight_that_is_written_between_product_and_sum():
    time, feat, out = rf.Dim(None, name="time"), rf.Dim(2, name="feat"), rf.Dim(2, name="out")
    x = rf.convert_to_tensor(torch.ones(1, 3, 2), dims=[batch_dim, time, out], lengths=[3])
    weight = rf.Parameter([feat, out])
    weight.initial = 1.0
    weight.trainable = False
    loop = rf.Loop(axis=time)
    loop.state.h = rf.ones([batch_dim, feat])
    with loop:
        product = rf.matmul(loop.state.h, weight, reduce=feat)
        weight.assign(weight * 2.0)
        total = loop.unstack(x) + product
        loop.state.h = rf.replace_dim_v2(total, in_dim=out, out_dim=feat)
    # h: 1 → 1 + 2·1 = 3 → 1 + 6·2 = 13 → 1 + 26·4 = 105
    assert loop.state.h.raw_tensor.tolist() == [[105.0, 105.0]]


def test_what_is_multiplied_and_then_written_into():
    """As in torch alone, where its gradient would be one of other numbers than were multiplied."""

    def step(w, u, frame, h):
        wave = rf.sin(h)
        product = u(wave)
        torch.nn.functional.relu(wave.plain._raw, inplace=True)
        return rf.tanh(w(frame) + product) + wave

    _, loss, trained, _ = run(step, [STEPS])
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, trained)


def test_torch_func_takes_gradients_of_steps_that_draw_numbers():
    time, feat = rf.Dim(STEPS, name="time"), rf.Dim(3, name="feat")
    u, x = rf.Linear(feat, feat, with_bias=False), rf.random_normal([PAIR, time, feat], seed=1)

    def loss(weight):
        rf.set_random_seed(5)
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([PAIR, feat])
        with loop:
            product = rf.matmul(loop.state.h, u.weight.like(weight), reduce=feat)
            h = loop.unstack(x) + rf.replace_dim_v2(product, in_dim=product.dims[-1], out_dim=feat)
            loop.state.h = rf.dropout(rf.tanh(h), 0.5, on_forward=True)
        return loop.state.h.raw_tensor.sum()

    raw = u.weight.raw_tensor
    torch.testing.assert_close(torch.func.grad(loss)(raw.detach()), torch.autograd.grad(loss(raw), raw)[0])
