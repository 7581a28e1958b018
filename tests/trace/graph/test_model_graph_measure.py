"""What is measured of a graph is what hooks, hands and clocks find, and measuring leaves no traces."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import ParameterError
from rfnb.trace.graph.meters import TimeMeter
from tests.examples import examples
from tests.trace.graph.test_model_graph import find, holds_tensors

batch = rf.batch_dim
feat, hidden = rf.Dim(4, name="feat"), rf.Dim(6, name="hidden")


def measure_of(graph, name, op=None):
    return graph.measured.nodes[find(graph, name, op).number]


def sleeping(seconds):
    """An identity that takes some time."""

    def fn(x):
        time.sleep(seconds)
        return x * 1

    return lambda x: rf.raw_call(fn, x, out_dims=x.dims)


class Slow(rf.Module):
    """A slow part and a quick one."""

    def __init__(self, seconds=0.02):
        super().__init__()
        self.slow, self.quick = rf.Functional(sleeping(seconds)), rf.Linear(feat, feat)

    def __call__(self, x):
        return self.quick(self.slow(x))


def ragged(lengths, padding=0.0, seed=0):
    time_dim = rf.Dim(rf.convert_to_tensor(lengths, dims=[batch]), name="time")
    raw = torch.randn(len(lengths), max([*lengths, 0]), 4, generator=torch.Generator().manual_seed(seed))
    for row, length in zip(raw, lengths, strict=True):
        row[length:] = padding
    return rf.convert_to_tensor(raw, dims=[batch, time_dim, feat], name="x"), time_dim


# -- time


def test_a_sleeping_node_takes_the_time():
    graph = rf.model_graph(Slow(), rf.zeros([batch_of(3), feat]), show="time", calls=3)
    slow, quick = measure_of(graph, "slow"), measure_of(graph, "quick")
    assert slow.amount > 0.02 and slow.amount > 5 * quick.amount
    measured = graph.measured
    assert (measured.show, measured.calls) == ("time", 3)
    assert 0.02 < sum(measured.nodes[node.number].amount for node in graph.nodes) <= 1.05 * measured.total
    assert measured.plain > 0.02 and measured.overhead > 0


def batch_of(count):
    return rf.Dim(count, name="batch", kind="batch")


def test_parts_add_up_to_what_is_around_them():
    x = rf.random_normal([batch_of(50), feat])
    graph = rf.model_graph(rf.Sequential(Slow(0.01), Slow(0.005)), x, show="time", calls=3)
    for node in graph.nodes:
        inside = sum(graph.measured.nodes[child.number].amount for child in node.body)
        assert (
            0.8 * graph.measured.nodes[node.number].amount < inside <= 1.05 * graph.measured.nodes[node.number].amount
        )
    wall = min(timed(Slow(0.01), x) + timed(Slow(0.005), x) for _ in range(3))
    assert wall == pytest.approx(graph.measured.total, rel=0.5)


def timed(model, x):
    began = time.perf_counter()
    model(x)
    return time.perf_counter() - began


def test_what_the_recorder_does_is_not_counted():
    def many(x):
        for _ in range(300):
            x = x + 1
        return x

    graph = rf.model_graph(many, rf.zeros([feat]), show="time", calls=5)
    measured = graph.measured
    inside = sum(measured.nodes[node.number].amount for node in graph.nodes)
    assert inside <= measured.total < measured.overhead  # recording takes several times as long as such ops
    assert measured.overhead > inside / 3


def test_a_call_takes_no_less_time_than_its_parts(monkeypatch):
    whole = TimeMeter.whole

    def with_too_high_an_overhead(meter, call):
        result = whole(meter, call)
        meter.total = -1.0
        return result

    monkeypatch.setattr(TimeMeter, "whole", with_too_high_an_overhead)
    graph = rf.model_graph(Slow(0.01), rf.zeros([feat]), show="time", calls=1)
    assert graph.measured.total == sum(graph.measured.nodes[node.number].amount for node in graph.nodes) > 0.01


@pytest.mark.slow
def test_torch_modules_are_timed():
    class Sleep(torch.nn.Module):
        def forward(self, x):
            time.sleep(0.01)
            return x + 1

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), Sleep())
    graph = rf.model_graph(model, torch.zeros(2, 4), show="time", calls=2)
    assert measure_of(graph, "1").amount > 0.01 > measure_of(graph, "0").amount


def test_attention_by_a_kernel_is_one_node():
    attention = rf.SelfAttention(feat, key_dim_total=feat, value_dim_total=feat, num_heads=2, proj_dim=None)
    x, axis = ragged([5, 3])
    timed = rf.model_graph(attention, x, axis=axis, show="time", calls=1)
    [kernel] = [node for _, node in timed.walk() if node.op == "dot_attention"]
    assert timed.measured.nodes[kernel.number].amount > 0 and timed.values[kernel.outputs[0]].node is kernel
    assert "softmax" not in [node.op for _, node in timed.walk()]
    shown = rf.model_graph(attention, x, axis=axis, show="activation")
    assert "softmax" in [node.op for _, node in shown.walk()]  # so that its weights have a number


def test_a_module_that_is_called_twice_has_a_number_for_each_call():
    slow = rf.Functional(sleeping(0.005))
    graph = rf.model_graph(lambda x: slow(slow(x)), rf.zeros([feat]), show="time", calls=1)
    assert all(graph.measured.nodes[node.number].amount > 0.005 for node in graph.nodes)


# -- memory


def test_bytes_are_those_of_new_results():
    x = rf.zeros([batch_of(5), feat])

    def model(x):
        flat, dim = rf.merge_dims(x, dims=x.dims)  # a view
        return rf.split_dims(rf.exp(flat), axis=dim, dims=x.dims) + x

    graph = rf.model_graph(model, x, show="memory")
    found = {node.op: graph.measured.nodes[node.number].amount for node in graph.nodes}
    assert found == {"merge_dims": 0, "exp": 80, "split_dims": 0, "add": 80}


def test_bytes_of_modules_are_the_sum_of_their_parts():
    linear, x = rf.Linear(feat, hidden), rf.zeros([batch_of(3), feat])
    graph = rf.model_graph(rf.Sequential(linear, rf.tanh), x, show="memory", calls=2)
    assert [graph.measured.nodes[node.number].amount for node in graph.nodes] == [72, 72]
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(inplace=True), torch.nn.Flatten())
    graph = rf.model_graph(model, torch.zeros(3, 4), show="memory")
    assert [graph.measured.nodes[node.number].amount for node in graph.nodes] == [72, 0, 0]


# -- activations and gradients


def rms(values):
    values = np.asarray(values, dtype=np.float64)
    return float(np.sqrt((values**2).mean()))


def test_activations_are_those_that_hooks_of_torch_see():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.LSTM(6, 3))
    seen = {}
    for name, module in model.named_children():
        module.register_forward_hook(lambda _, given, result, name=name: seen.setdefault(name, result))
    x = torch.randn(5, 4)
    model(x)
    graph = rf.model_graph(model, x, show="activation")
    for name in ("0", "1"):
        assert measure_of(graph, name).amount == pytest.approx(rms(seen[name].detach()), rel=1e-5)
        assert measure_of(graph, name).most == pytest.approx(float(seen[name].detach().abs().max()))
    states = torch.cat([seen["2"][0].reshape(-1), *(s.reshape(-1) for s in seen["2"][1])])
    assert measure_of(graph, "lstm").amount == pytest.approx(rms(states.detach()), rel=1e-5)
    inside = [graph.measured.nodes[n.number].amount for n in find(graph, "2").body if n.number in graph.measured.nodes]
    assert measure_of(graph, "2").amount == max(inside)  # of a folded box: the largest


def test_gradients_are_those_that_hooks_of_torch_see():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.Tanh(), torch.nn.Linear(6, 3))
    seen = {}
    for name, module in model.named_children():
        module.register_forward_hook(
            lambda _, given, result, name=name: result.register_hook(lambda g: seen.setdefault(name, g)) and None
        )
    x = torch.randn(5, 4)
    (model(x) ** 2).sum().backward()
    before = {name: p.grad.clone() for name, p in model.named_parameters()}
    graph = rf.model_graph(model, x, show="gradient", loss=lambda y: (y**2).sum())
    for name in "012":
        assert measure_of(graph, name).amount == pytest.approx(rms(seen[name]), rel=1e-5)
    assert all(torch.equal(p.grad, before[name]) for name, p in model.named_parameters())
    assert "loss" in graph.measured.loss


@given(lengths=st.lists(st.integers(0, 4), min_size=1, max_size=4))
@examples(25)
def test_padding_does_not_count(lengths):
    model = rf.Sequential(rf.Linear(feat, hidden), rf.tanh)
    (x, _), (other, _) = ragged(lengths), ragged(lengths, padding=1e3)
    for show in ("activation", "gradient"):
        ones, others = (rf.model_graph(model, given, show=show).measured.nodes for given in (x, other))
        assert ones.keys() == others.keys()
        assert [each.amount for each in ones.values()] == pytest.approx(
            [each.amount for each in others.values()], rel=1e-4
        )
    values = [model(x).raw_tensor[i, :n].detach().reshape(-1) for i, n in enumerate(lengths)]
    flat = torch.cat(values)
    graph = rf.model_graph(model, x, show="activation")
    assert measure_of(graph, "1").amount == pytest.approx(rms(flat) if flat.numel() else 0.0, rel=1e-4)


def test_several_calls_see_several_masks_of_dropout():
    x = rf.ones([batch_of(4), feat])
    with rf.get_run_ctx().train_flag_ctx(True):
        graphs = [rf.model_graph(lambda x: rf.dropout(x, 0.5), x, show="activation", calls=n) for n in (1, 50)]
    assert measure_of(graphs[1], "dropout").amount == pytest.approx(2**0.5, rel=0.15)


# -- NaN and infinities


def test_the_first_nan_is_marked():
    def model(x):
        y = rf.exp(x)
        z = rf.log(y - 1)
        return rf.reduce_sum(z * 0, axis=feat)

    graph = rf.model_graph(model, rf.zeros([batch_of(2), feat]), show="activation")
    bad = {node.op: graph.measured.nodes[node.number].bad for node in graph.nodes}
    assert bad == {"exp": "", "sub": "", "log": "infinity", "mul": "NaN", "reduce_sum": "NaN"}
    assert graph.measured.first_bad == find(graph, "log").number


def test_masks_of_minus_infinity_are_no_alarm():
    x, _ = ragged([3, 2])

    def masked(x):
        return rf.softmax(rf.where(x >= rf.reduce_max(x, axis=feat), x, float("-inf")) + 1, axis=feat)

    graph = rf.model_graph(masked, x, show="activation")
    assert graph.measured.first_bad is None
    model = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(3)
    graph = rf.model_graph(lambda x: model(x, src_mask=mask), torch.randn(2, 3, 4), show="activation")
    assert graph.measured.first_bad is None


def test_a_gradient_that_is_not_finite_is_marked():
    weight = rf.Parameter([feat], initial=0.0)
    graph = rf.model_graph(lambda x: rf.sqrt(weight * x) * 2, rf.ones([feat]), show="gradient")
    assert graph.measured.nodes[graph.nodes[0].number].bad
    assert graph.measured.first_bad == graph.nodes[0].number


# -- loops


class Rnn(rf.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.rec, self.out = rf.Linear(feat, hidden), rf.Linear(hidden, hidden), rf.Linear(hidden, feat)

    def __call__(self, x, axis):
        loop = rf.Loop(axis=axis, name="rnn")
        loop.state.h = rf.zeros([batch, hidden])
        with loop:
            x_t = self.inp(loop.unstack(x))
            loop.state.h = rf.tanh(self.rec(loop.state.h) + x_t)
            ys = loop.stack(self.out(loop.state.h))
        return ys


def by_hand(model, x, lengths):
    """The values of all steps, sequence by sequence, with their gradients of the sum of the outputs."""
    found = {"inp": [], "rec": [], "add": [], "tanh": [], "out": []}
    total = 0.0
    weights = {
        name: (getattr(model, name).weight.raw_tensor, getattr(model, name).bias.raw_tensor)
        for name in ("inp", "rec", "out")
    }

    def linear(name, h):
        weight, bias = weights[name]
        return h @ weight + bias

    for b, length in enumerate(lengths):
        h = torch.zeros(6)
        for t in range(length):
            values = {"inp": linear("inp", x.raw_tensor[b, t]), "rec": linear("rec", h)}
            values["add"] = values["rec"] + values["inp"]
            values["tanh"] = h = torch.tanh(values["add"])
            values["out"] = linear("out", h)
            for name, value in values.items():
                value.retain_grad()
                found[name].append(value)
            total = total + values["out"].sum()
    if lengths and max(lengths):
        total.backward()
    for parameter in model.parameters():
        parameter.raw_tensor.grad = None
    return found


@given(lengths=st.lists(st.integers(0, 7), min_size=1, max_size=3))
@examples(20)
def test_numbers_of_a_loop_are_those_of_plain_loops_over_each_sequence(lengths):
    x, axis = ragged(lengths, padding=7.0)
    torch.manual_seed(0)
    model = Rnn()
    if not max(lengths):
        return
    found = by_hand(model, x, lengths)
    activation = rf.model_graph(model, x, axis, show="activation")
    gradient = rf.model_graph(model, x, axis, show="gradient")
    for name, values in found.items():
        numbers = torch.stack(values).detach()
        assert measure_of(activation, name).amount == pytest.approx(rms(numbers), rel=1e-4)
        assert measure_of(activation, name).most == pytest.approx(float(numbers.abs().max()), rel=1e-4)
        slopes = torch.stack([value.grad for value in values])
        assert measure_of(gradient, name).amount == pytest.approx(rms(slopes), rel=1e-4)


def test_bytes_of_a_loop_are_those_of_all_its_steps():
    x, axis = ragged([5, 3])
    graph = rf.model_graph(Rnn(), x, axis, show="memory")
    found = {name: measure_of(graph, name).amount for name in ("inp", "rec", "add", "tanh", "out")}
    assert found == {"inp": 240, "rec": 240, "add": 240, "tanh": 240, "out": 160}
    assert measure_of(graph, "rnn").amount == sum(found.values())


def test_a_loop_has_the_time_of_all_steps_and_what_hoisting_saves():
    slow = sleeping(0.002)
    x, axis = ragged([6, 4])

    def model(x):
        loop = rf.Loop(axis=axis, name="slow")
        loop.state.h = rf.zeros([batch, feat])
        with loop:
            loop.state.h = loop.state.h + slow(loop.state.h) + rf.exp(loop.unstack(x))
            out = loop.stack(loop.state.h)
        return out

    graph = rf.model_graph(model, x, show="time", calls=2)
    call, exp, loop = (measure_of(graph, *name) for name in (("raw_call",), ("exp",), ("slow",)))
    assert call.place == "steps" and call.calls == 6 and 0.012 < call.amount < loop.amount <= graph.measured.total
    assert exp.place == "frames" and exp.calls == 1 and exp.saved is not None and loop.saved == pytest.approx(exp.saved)


def test_loops_inside_of_loops_are_measured():
    x, axis = ragged([4, 2])

    def model(x):
        outer = rf.Loop(axis=axis, name="outer")
        outer.state.h = rf.ones([batch, feat])
        with outer:
            inner = rf.Loop(max_seq_len=3, name="inner")
            inner.state.k = outer.state.h
            with inner:
                inner.state.k = rf.tanh(inner.state.k)
            outer.state.h = inner.state.k + outer.unstack(x)
        return outer.state.h

    timed = rf.model_graph(model, x, show="time", calls=1)
    tanh, inner = measure_of(timed, "tanh"), measure_of(timed, "inner")
    assert tanh.calls == 12 and 0 < tanh.amount < inner.amount < measure_of(timed, "outer").amount
    values, each = [], [row[:n] for row, n in zip(x.raw_tensor, [4, 2], strict=True)]
    for frames in each:
        h = torch.ones(4)
        for frame in frames:
            for _ in range(3):
                h = torch.tanh(h)
                values.append(h)
            h = h + frame
    sized = rf.model_graph(model, x, show="activation")
    assert measure_of(sized, "tanh").amount == pytest.approx(rms(torch.stack(values)), rel=1e-5)


# -- nothing is left behind


def test_measuring_leaves_no_traces():
    model = rf.Sequential(rf.Linear(feat, hidden), rf.BatchNorm(hidden), rf.Functional(lambda x: rf.dropout(x, 0.5)))
    plain = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.BatchNorm1d(6), torch.nn.Dropout())
    x = rf.random_normal([batch_of(8), feat])
    parameters = {name: p.raw_tensor.detach().clone() for name, p in model.named_parameters()}
    buffers = {name: value.clone() for name, value in plain.state_dict().items()}
    runs = len(rf.runs)
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()
    with rf.get_run_ctx().train_flag_ctx(True):
        for show in ("time", "memory", "activation", "gradient"):
            graph = rf.model_graph(model, x, show=show, calls=3)
            assert graph.failure is None and holds_tensors(graph) is None
            graph = rf.model_graph(plain, x.raw_tensor, show=show, calls=3)
            assert graph.failure is None and holds_tensors(graph) is None
    assert all(torch.equal(p.raw_tensor, parameters[name]) for name, p in model.named_parameters())
    assert all(torch.equal(value, buffers[name]) for name, value in plain.state_dict().items())
    assert all(p.raw_tensor.grad is None for _, p in model.named_parameters())
    assert all(p.grad is None for p in plain.parameters()) and plain.training
    assert torch.equal(torch.get_rng_state(), states[0]) and random.getstate() == states[1]
    assert np.random.get_state()[1].tolist() == states[2]
    assert len(rf.runs) == runs


@pytest.mark.parametrize("show", ["time", "memory", "activation", "gradient"])
def test_losses_of_the_step_stay_those_that_are_marked(show):
    ctx = rf.init_train_step_run_ctx(step=3)
    feat = rf.Dim(3, name="feat")
    x, linear = rf.ones([feat]), rf.Linear(feat, feat)

    def model(x):
        rf.reduce_mean(x, axis=feat).mark_as_loss("mean")
        return linear(x)

    model(x)
    before = ctx.losses["mean"]
    graph = rf.model_graph(model, x, show=show, calls=2)
    assert graph.failure is None and graph.measured.calls == 2
    assert list(ctx.losses) == ["mean"] and ctx.losses["mean"] is before
    rf.init_forward_step_run_ctx()


def test_a_call_that_fails_is_shown_with_what_was_measured_before():
    def model(x):
        return rf.exp(x) + rf.zeros([rf.Dim(5, name="feat")])

    graph = rf.model_graph(model, rf.zeros([feat]), show="activation")
    assert graph.failure is not None and graph.measured.calls == 1


# -- bad input


@pytest.mark.parametrize(
    "wrong", [
        {"show": "speed"}, {"show": "time", "calls": 0}, {"show": "time", "calls": True},
        {"show": "time", "meta": True},
        {"show": "time", "loss": rf.reduce_sum}, {"show": "gradient", "loss": 3},
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(wrong):
    with pytest.raises(ParameterError, match="model_graph"):
        rf.model_graph(rf.exp, rf.zeros([feat]), **wrong)


def test_gradients_need_something_to_train():
    with pytest.raises(ParameterError, match="no gradients flow"):
        rf.model_graph(rf.exp, rf.zeros([feat]), show="gradient")
    with torch.no_grad(), pytest.raises(ParameterError, match="no gradients flow"):
        rf.model_graph(rf.Linear(feat, hidden), rf.zeros([feat]), show="gradient")


def test_without_show_these_arguments_belong_to_the_model():
    graph = rf.model_graph(lambda x, loss: x + loss, rf.zeros([feat]), loss=rf.ones([feat]))
    assert [graph.values[number].name for number in graph.inputs] == ["x", "loss"]
