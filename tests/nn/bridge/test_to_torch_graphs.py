"""`torch.compile` and `torch.export` of bridged models: one graph for batches of all sizes, and the same numbers."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.testing import assert_close

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.source import user_source

time, feat, hidden = Dim(None, name="time"), Dim(8, name="feat"), Dim(6, name="hidden")


class FeedForward(rf.Module):
    """Linear, norm, relu, linear."""

    def __init__(self):
        self.inner, self.norm, self.outer = rf.Linear(feat, hidden), rf.LayerNorm(hidden), rf.Linear(hidden, feat)

    def __call__(self, x):
        return x + self.outer(rf.relu(self.norm(self.inner(x))))


class Conv(rf.Module):
    """A convolution with stride 2 in time, whose lengths are new."""

    def __init__(self):
        self.conv = rf.Conv1d(feat, hidden, 3, padding="valid", strides=2)
        self.norm = rf.BatchNorm(hidden)

    def __call__(self, x):
        y, out_time = self.conv(x, in_spatial_dim=time)
        return rf.relu(self.norm(y)), out_time


class Pooled(rf.Module):
    """The mean over time, which must leave out padding."""

    def __init__(self):
        self.linear = rf.Linear(feat, hidden)

    def __call__(self, x):
        return rf.reduce_mean(self.linear(x), axis=time)


class Attention(rf.Module):
    """A Transformer encoder layer."""

    def __init__(self):
        self.layer = rf.TransformerEncoderLayer(feat, ff_dim=hidden, num_heads=2, dropout=0.0)

    def __call__(self, x):
        return self.layer(x, spatial_dim=time)


MODELS = [FeedForward, Conv, Pooled, Attention]


def bridged(model):
    torch.manual_seed(0)
    return rf.to_torch(model(), in_dims=[[batch_dim, time, feat]]).eval()


def batches():
    draw = torch.Generator().manual_seed(1)
    for lengths in [[7, 4, 5], [5, 3], [4, 9, 3, 6]]:
        yield torch.randn(len(lengths), max(lengths), 8, generator=draw), torch.tensor(lengths)


def valid(outputs):
    """What a net gives, without padding."""
    if not isinstance(outputs, tuple):
        return outputs
    y, lengths = outputs
    return y * (torch.arange(y.shape[1]) < lengths[:, None])[..., None], lengths


def all_agree(graph, net):
    for x, lengths in batches():
        got, expected = graph(x, lengths), net(x, lengths)
        assert_close(valid(got), valid(expected), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_exported_with_sizes_that_are_open(model):
    net = bridged(model)
    auto = torch.export.Dim.DYNAMIC
    program = torch.export.export(net, next(batches()), dynamic_shapes=(({0: auto, 1: auto}, {0: auto}),))
    assert set(program.state_dict) == set(net.state_dict())
    all_agree(program.module(), net)


@pytest.mark.parametrize(
    "model", [Conv, *(pytest.param(model, marks=pytest.mark.slow) for model in (Pooled, Attention))]
)
def test_compiled_once_for_all_sizes(model):
    torch._dynamo.reset()
    net = bridged(model)
    counter = CompileCounterWithBackend("aot_eager")
    all_agree(torch.compile(net, fullgraph=True, dynamic=True, backend=counter), net)
    assert counter.frame_count == 1


@pytest.mark.slow
def test_compiled_training_moves_parameters_and_statistics():
    torch._dynamo.reset()
    net, other = bridged(Conv), bridged(Conv)
    compiled = torch.compile(net, fullgraph=True, dynamic=True, backend="aot_eager")
    assert_close(valid(compiled(*next(batches()))), valid(other(*next(batches()))))  # train and eval are two graphs
    net.train(), other.train()
    for x, lengths in batches():
        for step in (compiled, other):
            valid(step(x, lengths))[0].square().sum().backward()
    found, wanted = net.state_dict(keep_vars=True), other.state_dict(keep_vars=True)
    for name, got in found.items():
        expected = wanted[name]
        assert_close(got, expected, msg=name)
        assert got.grad is None or torch.allclose(got.grad, expected.grad, atol=1e-5)
    assert net.state_dict()["norm.running_mean"].ne(0).all()


class Recurrent(rf.Module):
    """A part that can be compiled, and one that goes step by step."""

    def __init__(self, part=None):
        self.part = FeedForward() if part is None else part
        self.lstm = rf.LSTM(feat, hidden)

    def __call__(self, x):
        state = self.lstm.default_initial_state(batch_dims=[batch_dim])
        return self.lstm(self.part(x), state=state, spatial_dim=time)[0]


def test_a_part_is_compiled_on_its_own():
    torch._dynamo.reset()
    part, counter = bridged(FeedForward), CompileCounterWithBackend("eager")
    compiled = torch.compile(part, fullgraph=True, dynamic=True, backend=counter)
    quick = Recurrent(rf.from_torch(compiled, *2 * [[batch_dim, time, feat]], lengths="lengths"))
    plain = Recurrent(part.rf_module)
    plain.lstm = quick.lstm
    all_agree(
        *(
            rf.to_torch(model, in_dims=[[batch_dim, time, feat]], out_dims=[batch_dim, time, hidden]).eval()
            for model in (quick, plain)
        )
    )
    assert counter.frame_count == 1


def test_nothing_that_was_traced_is_left_behind():
    net = bridged(FeedForward)
    x, lengths = next(batches())
    expected = net(x, lengths)
    size = time.size
    torch.export.export(net, (x[:2], lengths[:2]))
    assert time.size is size
    assert_close(net(x, lengths), expected)


class Counts(rf.Module):
    """Asks for the number of frames."""

    def __call__(self, x):
        return x * float(time.size.values.sum())


def test_what_needs_numbers_says_so():
    x, lengths = next(batches())
    net = rf.to_torch(Counts(), in_dims=[[batch_dim, time, feat]])
    with pytest.raises(rf.errors.BackendError, match=r"the model is traced.*but needs"):
        torch.export.export(net, (x, lengths))
    assert net(x, lengths).shape == x.shape


def test_without_in_dims_a_model_stays_outside_of_the_graph():
    torch._dynamo.reset()
    net = rf.to_torch(FeedForward())
    x = rf.zeros([feat])
    assert torch.compile(net, backend="eager")(x).shape == (8,)
    torch._dynamo.reset()
    with pytest.raises(Exception, match="in_dims"):
        torch.compile(net, fullgraph=True, backend="eager")(x)


def test_lengths_that_a_compiled_function_gets_as_a_list():
    torch._dynamo.reset()
    made = user_source()

    def padded(raw, lengths):
        return raw.new_zeros(Size([batch_dim], lengths, made=made).max)

    assert torch.compile(padded, backend="eager")(torch.ones(2), [3, 1]).shape == (3,)
