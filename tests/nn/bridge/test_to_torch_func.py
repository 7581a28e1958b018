"""`torch.func` with bridged models and lengths: the gradients of `backward`, and one sequence at a time."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, grad, jacrev, vmap
from torch.testing import assert_close

import rfnb as rf
from rfnb import Dim, batch_dim

time, feat, hidden = Dim(None, name="time"), Dim(4, name="feat"), Dim(4, name="hidden")
LENGTHS = torch.tensor([5, 1, 3])

pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop")


class Mean(rf.Module):
    """The mean over all frames of what a part gives."""

    def __init__(self, part):
        self.part = part

    def __call__(self, x):
        y = self.part(x)
        return rf.reduce_mean(rf.tanh(y), axis=y.dims)


class Cell(rf.Module):
    """Over time."""

    def __init__(self, kind):
        self.cell = kind(feat, hidden)

    def __call__(self, x):
        y, _ = self.cell(x, state=self.cell.default_initial_state(batch_dims=[batch_dim]), spatial_dim=time)
        return y


class Layer(rf.Module):
    """Attention, which must not see padding."""

    def __init__(self):
        self.layer = rf.TransformerEncoderLayer(feat, num_heads=2, ff_dim=8)

    def __call__(self, x):
        return self.layer(x, spatial_dim=time)


PARTS = {
    "frames": lambda: rf.Sequential(rf.Linear(feat, hidden), rf.LayerNorm(hidden)),
    "attention": Layer,
    "LSTM": lambda: Cell(rf.LSTM),
    "loop": lambda: Cell(rf.GRU),
}


@pytest.fixture
def x():
    return torch.randn(3, 5, 4)


def model(kind):
    torch.manual_seed(0)
    net = rf.to_torch(Mean(PARTS[kind]()), in_dims=[[batch_dim, time, feat]]).eval()
    return net, {name: raw.detach() for name, raw in net.named_parameters()}


def of_one(net):
    """The loss as a function of parameters, one sequence, and its length."""
    return lambda parameters, x, length: functional_call(net, parameters, (x[None], length[None]))


@pytest.mark.parametrize("kind", PARTS)
def test_gradients(kind, x):
    net, parameters = model(kind)
    found = grad(lambda p: functional_call(net, p, (x, LENGTHS)))(parameters)
    net(x, LENGTHS).backward()
    for name, raw in net.named_parameters():
        assert_close(found[name], raw.grad, msg=name)
    wanted = torch.autograd.functional.jacobian(lambda x: net(x, LENGTHS), x)
    assert_close(jacrev(lambda x: functional_call(net, parameters, (x, LENGTHS)))(x), wanted)


@pytest.mark.parametrize("kind", ["frames", "attention", "LSTM", "loop"])
def test_gradients_of_each_sequence_of_its_own_length(kind, x):
    net, parameters = model(kind)
    found = vmap(grad(of_one(net)), (None, 0, 0))(parameters, x, LENGTHS)
    for i, length in enumerate(LENGTHS.tolist()):
        net.zero_grad()
        net(x[i : i + 1, :length]).backward()
        for name, raw in net.named_parameters():
            assert_close(found[name][i], raw.grad, msg=name)
    assert time.size.max == 3  # as in the last call: nothing of what vmap had is left behind


@pytest.mark.parametrize("kind", ["frames", "attention", "loop"])
def test_several_models_at_once(kind, x):
    net, parameters = model(kind)
    both = {name: torch.stack([raw, 2 * raw]) for name, raw in parameters.items()}
    found = vmap(lambda p: functional_call(net, p, (x, LENGTHS)))(both)
    for i in range(2):
        assert_close(found[i], functional_call(net, {name: raw[i] for name, raw in both.items()}, (x, LENGTHS)))


def test_second_derivatives(x):
    net, parameters = model("loop")
    name = "part.cell.bias"

    def loss(bias):
        return functional_call(net, {**parameters, name: bias}, (x, LENGTHS))

    found = jacrev(grad(loss))(parameters[name])
    step = torch.zeros_like(parameters[name])
    step[0] = 1e-3
    slopes = [grad(loss)(parameters[name] + sign * step) for sign in (1, -1)]
    assert_close(found[0], (slopes[0] - slopes[1]) / 2e-3, atol=1e-3, rtol=1e-2)
