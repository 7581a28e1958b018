"""A loop computes what a hand-written Python loop computes: values and gradients, for any lengths."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from tests.examples import examples

feat = rf.Dim(3, name="feat")
hidden = rf.Dim(4, name="hidden")
lengths_lists = st.lists(st.integers(0, 5), min_size=1, max_size=4)


class Rnn(rf.Module):
    """tanh(W x + U h)"""

    def __init__(self):
        self.inp = rf.Linear(feat, hidden)
        self.rec = rf.Linear(hidden, hidden_out, with_bias=False)

    def __call__(self, x, h):
        return rf.tanh(self.inp(x) + rf.replace_dim(self.rec(h), in_dim=hidden_out, out_dim=hidden)[0])


hidden_out = rf.Dim(4, name="hidden_out")


def batch_of(lengths, seed=0, padding=float("nan")):
    """{batch, time, feat} with these lengths; NaN behind the ends."""
    time = rf.Dim(None, name="time")
    raw = torch.randn(len(lengths), max(lengths, default=0), 3, generator=torch.Generator().manual_seed(seed))
    for row, length in zip(raw, lengths, strict=True):
        row[length:] = padding
    raw.requires_grad_()
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=lengths)  # takes NaN out of the padding
    if len(set(lengths)) > 1:
        x = rf.where(rf.sequence_mask(time), x, padding)  # so it is put in again, as log(0) would
    return raw, x, time


def run_rnn(model, x, time, h0=None):
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch_dim, hidden]) if h0 is None else h0
    with loop:
        h = model(loop.unstack(x), loop.state.h)
        loop.state.h = h
        out = loop.stack(h)
        last = loop.last(loop.state.h)
    return out, loop.state.h, last


def rnn_by_hand(model, raw, lengths):
    outs, finals = [], []
    for row, length in zip(raw, lengths, strict=True):
        h, frames = torch.zeros(4), []
        for x in row[:length]:
            h = torch.tanh(
                x @ model.inp.weight.raw_tensor + model.inp.bias.raw_tensor + h @ model.rec.weight.raw_tensor
            )
            frames.append(h)
        outs.append(frames)
        finals.append(h)
    return outs, torch.stack(finals)


@given(lengths_lists)
@examples(25)
def test_values_and_gradients_are_those_of_a_python_loop(lengths):
    model = Rnn()
    raw, x, time = batch_of(lengths)
    out, final, last = run_rnn(model, x, time)
    outs, finals = rnn_by_hand(model, raw, lengths)
    torch.testing.assert_close(final.raw_tensor, finals)
    torch.testing.assert_close(last.raw_tensor, finals)
    by_batch = out.copy_transpose([batch_dim, time, hidden]).raw_tensor
    for row, frames in zip(by_batch, outs, strict=True):
        for got, expected in zip(row, frames, strict=False):
            torch.testing.assert_close(got, expected)
    parameters = [raw, *rf.torch_parameters(model)]
    if max(lengths) == 0:
        return
    weight = torch.randn(finals.shape)
    ours = torch.autograd.grad((final.raw_tensor * weight).sum(), parameters, allow_unused=True)
    theirs = torch.autograd.grad((finals * weight).sum(), parameters, allow_unused=True)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("lengths", [[0], [1], [3], [2, 5], [5, 0, 1]])
def test_batched_equals_one_by_one(lengths):
    model = Rnn()
    raw, x, time = batch_of(lengths)
    _, together, _ = run_rnn(model, x, time)
    for i, length in enumerate(lengths):
        one_time = rf.Dim(None, name="time")
        alone = rf.convert_to_tensor(raw[i : i + 1, :length], dims=[batch_dim, one_time, feat], lengths=[length])
        _, single, _ = run_rnn(model, alone, one_time)
        torch.testing.assert_close(together.raw_tensor[i], single.raw_tensor[0])


@pytest.mark.parametrize("order", ["tbf", "btf", "fbt", "bft"])
def test_the_order_of_dims_changes_nothing(order):
    model = Rnn()
    _, x, time = batch_of([4, 2, 3])
    expected = run_rnn(model, x, time)
    dims = {"t": time, "b": batch_dim, "f": feat}
    h0 = rf.zeros([hidden, batch_dim])
    got = run_rnn(model, x.copy_transpose([dims[d] for d in order]), time, h0)
    assert got[1].dims == (hidden, batch_dim)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a.copy_masked(0).copy_transpose(b.dims).raw_tensor, b.copy_masked(0).raw_tensor)


@pytest.mark.parametrize("padding", [0.0, float("nan"), float("inf")])
def test_padding_changes_no_valid_value_and_no_gradient(padding):
    model = Rnn()
    results = []
    for fill in (padding, 1.0):
        raw, x, time = batch_of([4, 0, 2], padding=fill)
        out, final, _ = run_rnn(model, x, time)
        loss = rf.reduce_sum(rf.square(out), axis=[time, batch_dim, hidden]) + rf.reduce_sum(
            final, axis=[batch_dim, hidden]
        )
        gradients = torch.autograd.grad(loss.raw_tensor, [raw, *rf.torch_parameters(model)])
        results.append((loss.raw_tensor.detach(), *gradients))
    for a, b in zip(*results, strict=True):
        assert torch.isfinite(a).all()
        torch.testing.assert_close(a, b)


def test_a_module_called_twice_in_a_body_shares_its_parameters():
    model = rf.Linear(feat, feat_out := rf.Dim(3, name="feat_out"))
    raw, x, time = batch_of([3, 1], padding=0.0)
    loop = rf.Loop(axis=time)
    loop.state.s = rf.zeros([batch_dim, feat_out])
    with loop:
        frame = loop.unstack(x)
        once = model(frame)
        twice = model(rf.replace_dim(once, in_dim=feat_out, out_dim=feat)[0])
        loop.state.s = loop.state.s + twice
    weight, bias = model.weight.raw_tensor, model.bias.raw_tensor
    f = lambda v: v @ weight + bias  # noqa: E731
    expected = torch.stack([sum(f(f(v)) for v in row[:n]) for row, n in zip(raw, [3, 1], strict=True)])
    torch.testing.assert_close(loop.state.s.raw_tensor, expected)


# -- loops with an end


@pytest.mark.parametrize("include_eos", [True, False])
@pytest.mark.parametrize("ends", [[0], [2, 0, 4], [1, 9]])
def test_end_is_a_while_loop_of_each_sequence(ends, include_eos):
    limit = rf.convert_to_tensor(ends, dims=[batch_dim])
    loop = rf.Loop(max_seq_len=6)
    loop.state.n = rf.zeros([batch_dim], dtype="int64")
    with loop:
        value = loop.state.n * 10
        loop.end(loop.state.n == limit, include_eos=include_eos)
        loop.state.n = loop.state.n + 1
        out = loop.stack(value)
    for i, end in enumerate(ends):
        expected, n = [], 0
        for _ in range(6):
            if n == end and not include_eos:
                break
            expected.append(n * 10)
            n += 1
            if n - 1 == end:
                break
        length = int(out.lengths.size(loop.axis).values[i])
        assert out.raw_tensor[:length, i].tolist() == expected
        assert int(loop.state.n.raw_tensor[i]) == n


def test_max_seq_len_may_differ_per_sequence():
    longest = rf.convert_to_tensor([2, 0, 3], dims=[batch_dim])
    loop = rf.Loop(max_seq_len=longest)
    loop.state.n = rf.zeros([batch_dim])
    with loop:
        loop.state.n = loop.state.n + 1.0
        out = loop.stack(loop.state.n)
    assert loop.state.n.raw_tensor.tolist() == [2.0, 0.0, 3.0]
    assert out.lengths.size(loop.axis).values.tolist() == [2, 0, 3]


def test_reordering_the_states_reorders_ended_and_lengths():
    """Two hypotheses swap places at every step; each ends when its own counter is full."""
    beam = rf.Dim(2, name="beam")
    swap = rf.convert_to_tensor([1, 0], dims=[beam], sparse_dim=beam)
    loop = rf.Loop(max_seq_len=8)
    loop.state.n = rf.convert_to_tensor(torch.tensor([0, 10]), dims=[beam])
    loop.state.limit = rf.convert_to_tensor(torch.tensor([3, 15]), dims=[beam])
    with loop:
        loop.reorder(swap, beam)
        loop.state.n = loop.state.n + 1
        loop.end(loop.state.n == loop.state.limit, include_eos=True)
        counts = loop.stack(loop.state.n)
    assert sorted(loop.state.n.raw_tensor.tolist()) == [3, 15]
    assert sorted(counts.lengths.size(loop.axis).values.tolist()) == [3, 5]


# -- states


def test_nested_states_keep_their_structure():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1.0, 2.0], [3.0]], dims=[batch_dim, time])
    loop = rf.Loop(axis=time)
    loop.state.pair = rf.State(a=rf.zeros([batch_dim]), b=[rf.zeros([batch_dim]), rf.ones([batch_dim])])
    with loop:
        old = loop.state.pair
        loop.state.pair = rf.State(a=old.a + loop.unstack(x), b=[old.a, old.b[1] * 2.0])
    assert loop.state.pair.a.raw_tensor.tolist() == [3.0, 3.0]
    assert loop.state.pair.b[0].raw_tensor.tolist() == [1.0, 0.0]
    assert loop.state.pair.b[1].raw_tensor.tolist() == [4.0, 2.0]


def test_an_axis_that_grows_is_a_state():
    """Each step sees all frames so far: the sum of prefix maxima, as a Python loop computes it."""
    time = rf.Dim(None, name="time")
    rows = [[3.0, 1.0, 5.0], [2.0, 2.0, 4.0]]
    x = rf.convert_to_tensor(torch.tensor(rows, requires_grad=True), dims=[batch_dim, time])
    loop = rf.Loop(axis=time)
    loop.state.axis = rf.Dim(0, name="history")
    loop.state.history = rf.zeros([batch_dim, loop.state.axis])
    loop.state.total = rf.zeros([batch_dim])
    with loop:
        history, axis = rf.cum_concat_step(loop.unstack(x), prev_accum=loop.state.history, axis=loop.state.axis)
        loop.state.history, loop.state.axis = history, axis
        loop.state.total = loop.state.total + rf.reduce_max(history, axis=axis)
    assert loop.state.axis.dimension == 3
    assert loop.state.history.copy_transpose([batch_dim, loop.state.axis]).raw_tensor.tolist() == rows
    expected = [sum(max(row[: i + 1]) for i in range(3)) for row in rows]
    assert loop.state.total.raw_tensor.tolist() == expected
    loop.state.total.raw_tensor.sum().backward()


def test_a_state_is_cast_and_permuted_to_its_initial_value():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(3, 2, 4), dims=[feat, batch_dim, time])
    loop = rf.Loop(axis=time)
    loop.state.s = rf.zeros([batch_dim, feat], dtype="float64")
    with loop:
        loop.state.s = loop.unstack(x) + rf.cast(loop.state.s, "float32")
    assert loop.state.s.dims == (batch_dim, feat)
    assert loop.state.s.dtype == "float64"
    assert loop.state.s.raw_tensor.tolist() == [[4.0] * 3] * 2


# -- loops in loops, random numbers, raw calls


def test_a_loop_inside_a_loop():
    time = rf.Dim(None, name="time")
    rows = [[1.0, 2.0, 3.0], [4.0, 5.0]]
    x = rf.convert_to_tensor(rows, dims=[batch_dim, time])
    factor = torch.tensor(1.5, requires_grad=True)
    f = rf.convert_to_tensor(factor, dims=[])
    outer = rf.Loop(axis=time, name="outer")
    outer.state.s = rf.zeros([batch_dim])
    with outer:
        inner = rf.Loop(max_seq_len=3, name="inner")
        inner.state.v = outer.unstack(x)
        with inner:
            inner.state.v = inner.state.v * f
            inner_out = inner.stack(inner.state.v)
        outer.state.s = outer.state.s + inner.state.v + rf.reduce_sum(inner_out, axis=inner.axis)
    expected = [sum(v * 1.5**3 + sum(v * 1.5**k for k in (1, 2, 3)) for v in row) for row in rows]
    np.testing.assert_allclose(outer.state.s.raw_tensor.detach().numpy(), expected, rtol=1e-6)
    outer.state.s.raw_tensor.sum().backward()
    slope = sum(v * (2 * 3 * 1.5**2 + 2 * 1.5 + 1) for row in rows for v in row)
    np.testing.assert_allclose(factor.grad.item(), slope, rtol=1e-5)


def noise(time, x):
    loop = rf.Loop(axis=time)
    with loop:
        out = loop.stack(loop.unstack(x) * 0.0 + rf.random_normal([batch_dim]))
    return out.raw_tensor


def test_random_numbers_differ_per_step_and_follow_the_seed():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.zeros(2, 4), dims=[batch_dim, time])
    rf.set_random_seed(1)
    first, second = noise(time, x), noise(time, x)
    rf.set_random_seed(1)
    torch.testing.assert_close(noise(time, x), first)
    assert len(set(first.flatten().tolist())) == first.numel()
    assert not torch.equal(first, second)


def test_dropout_in_a_body_draws_anew_at_every_step():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(1, 40), dims=[batch_dim, time])
    loop = rf.Loop(axis=time)
    with rf.get_run_ctx().train_flag_ctx(True), loop:
        out = loop.stack(rf.dropout(loop.unstack(x), 0.5))
    assert set(out.raw_tensor.flatten().tolist()) == {0.0, 2.0}


def test_a_raw_call_is_made_at_every_step():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[3.0, 1.0, 2.0]], dims=[batch_dim, time])
    seen = []

    def look(raw):
        seen.append(raw.item())
        return raw * 2

    loop = rf.Loop(axis=time)
    with loop:
        out = loop.stack(rf.raw_call(look, loop.unstack(x), out_dims=[batch_dim]))
    assert out.raw_tensor.flatten().tolist() == [6.0, 2.0, 4.0]
    assert seen == [3.0, 3.0, 1.0, 2.0]  # once on the traced frame


def test_what_is_the_same_at_every_step_has_its_gradient():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(1, 3), dims=[batch_dim, time])
    scale = torch.tensor(2.0, requires_grad=True)
    s = rf.convert_to_tensor(scale, dims=[])
    loop = rf.Loop(axis=time)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x) * (s * s)
        out = loop.stack(s * 3.0)
    (loop.state.s.raw_tensor.sum() + out.raw_tensor.sum()).backward()
    assert scale.grad.item() == pytest.approx(3 * 2 * 2.0 + 3 * 3.0)


def test_ten_batches_of_different_size_compile_once():
    from rfnb.loop.program import _code

    model = Rnn()
    run_rnn(model, *batch_of([3, 2])[1:])
    before = _code.cache_info().misses
    for n in range(2, 10):
        run_rnn(model, *batch_of([n, n - 1, 1])[1:])
    assert _code.cache_info().misses == before


@pytest.mark.parametrize("name", ["#ended", "#lengths", "#last0", "ended", "lengths", "last", ""])
def test_no_name_of_a_state_collides_with_what_the_loop_carries(name):
    loop = rf.Loop(max_seq_len=9, name="named", debug=True)
    loop.state[name] = rf.convert_to_tensor([1, 5], dims=[rf.batch_dim])
    with loop:
        doubled = loop.state[name] * 2
        loop.state[name] = doubled
        last = loop.last(doubled + 1)
        loop.end(doubled > 15, include_eos=True)
    assert loop.state[name].raw_tensor.tolist() == [16, 20]
    assert last.raw_tensor.tolist() == [17, 21]
    assert loop.run.states == [name] and loop.run.lengths == [4, 2]
    assert loop.run.ends == ["ended at 3: end was true", "ended at 1: end was true"]
    assert loop.run[1].before[name].raw_tensor.tolist() == [2, 10]


def test_variables_named_like_masks_of_the_loop_are_the_users():
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor([[1, 2, 3], [4]], dims=[rf.batch_dim, time])
    loop = rf.Loop(axis=time, debug=True)
    loop.state.s = rf.zeros([rf.batch_dim], dtype="int64")
    with loop:
        active = loop.unstack(x) * 10
        loop.state.s = loop.state.s + active
    assert rf.reduce_sum(loop.run.stack("active"), axis=time).raw_tensor.tolist() == [60, 40]


def test_reserved_states_of_a_nested_loop_are_not_values():
    outer = rf.Loop(max_seq_len=2, debug=True, name="outer")
    outer.state.n = rf.convert_to_tensor([1, 2], dims=[rf.batch_dim])
    with outer:
        inner = rf.Loop(max_seq_len=5, name="inner")
        inner.state.k = outer.state.n
        with inner:
            inner.state.k = inner.state.k + 1
            inner.end(inner.state.k > 3, include_eos=True)
        outer.state.n = inner.state.k
    assert [value.name for value in outer.run[0].values() if value.op == "Loop"] == ["k"]
    assert outer.run[0].k.raw_tensor.tolist() == [4, 4]


@pytest.mark.parametrize("axis_first", [False, True])
@pytest.mark.parametrize("hoist", [False, True])
def test_the_last_value_without_the_batch_is_that_of_each_sequence(axis_first, hoist):
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.arange(8.0).reshape(2, 4), dims=[batch_dim, time], lengths=[2, 4])
    numbers = rf.range_over_dim(time)
    loop = rf.Loop(axis=time, optimize_move_layers_out=None if hoist else False)
    loop.state.steps = rf.zeros([])
    with loop:
        frame = None if axis_first else loop.unstack(x)
        loop.state.steps = loop.state.steps + 1.0
        tenfold = loop.last(loop.state.steps * 10.0)
        steps = loop.last(loop.state.steps)
        number = loop.last(loop.unstack(numbers))
        frame = loop.unstack(x) if frame is None else frame
        both = loop.last(frame + loop.state.steps)
    for value, expected in ((tenfold, [20, 40]), (steps, [2, 4]), (number, [1, 3]), (both, [3, 11])):
        assert value.dims == (batch_dim,) and value.raw_tensor.tolist() == expected
    assert (tenfold.name, number.name) == ("tenfold", "number")
    assert loop.state.steps.raw_tensor.tolist() == 4
