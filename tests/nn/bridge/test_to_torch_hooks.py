"""Hooks of torch on parts of a bridged model: they see raw tensors, the module Tensors."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.errors import BackendError, DimError

time, feat, hidden = Dim(None, name="time"), Dim(4, name="feat"), Dim(3, name="hidden")
LENGTHS = torch.tensor([5, 3])


@pytest.fixture
def x():
    return torch.randn(2, 5, 4, requires_grad=True)


class Net(rf.Module):
    """Linear, then an LSTM, which gives a Tensor and a state; and what was seen on the way, in a dict."""

    def __init__(self):
        self.inner, self.lstm = rf.Linear(feat, hidden), rf.LSTM(hidden, hidden)
        self.seen = Noting()

    def __call__(self, x):
        y = self.inner(x)
        notes = {}
        self.seen(y, notes=notes, lengths=None)
        y, state = self.lstm(y, state=self.lstm.default_initial_state(batch_dims=[batch_dim]), spatial_dim=time)
        return y, state, notes["y"]


class Noting(rf.Module):
    """Writes into a dict of the caller."""

    def __call__(self, y, *, notes, lengths):
        notes["y"] = y
        return {"y": y, "lengths": lengths}


def bridged():
    torch.manual_seed(0)
    return rf.to_torch(Net(), in_dims=[[batch_dim, time, feat]])


def test_hooks_see_raw_tensors_in_plain_structures(x):
    net, seen = bridged(), {}
    for name in ("inner", "lstm", "seen"):
        part = net.get_submodule(name)
        part.register_forward_pre_hook(lambda part, *given, name=name: seen.update({name: given}), with_kwargs=True)
        part.register_forward_hook(lambda part, args, out, name=name: seen.update({f"{name} out": out}))
    y, state, notes = net(x, LENGTHS)
    assert_close(seen["inner"][0][0], x)
    assert type(seen["lstm"][1]["state"]) is dict and seen["lstm"][1]["spatial_dim"] is time
    raw, raw_state = seen["lstm out"]
    assert raw.shape == y.shape and type(raw_state) is dict and raw_state["h"].equal(state["h"])
    assert notes.shape == (2, 5, 3) and seen["seen out"]["lengths"] is None


def test_gradients_of_parts_are_seen(x):
    net, seen = bridged(), {}
    for name in ("inner", "lstm"):
        part = net.get_submodule(name)
        part.register_full_backward_pre_hook(lambda part, out, name=name: seen.update({f"{name} before": out}))
        part.register_full_backward_hook(lambda part, given, out, name=name: seen.update({name: (given, out)}))
    y, state, _ = net(x, LENGTHS)
    (y.sum() + state["h"].sum()).backward()
    seen_there = {name: raw for name, raw in seen.items() if "before" not in name}
    assert len(seen) == 4

    module, wanted = bridged().rf_module, {}
    whole = rf.convert_to_tensor(x.detach(), dims=[batch_dim, time, feat], lengths=LENGTHS)
    raw = module.inner(whole)
    raw.raw_tensor.retain_grad()
    y, state = module.lstm(raw, state=module.lstm.default_initial_state(batch_dims=[batch_dim]), spatial_dim=time)
    y.raw_tensor.retain_grad()
    (y.raw_tensor.sum() + state.h.raw_tensor.sum()).backward()
    wanted = {"lstm": (raw.raw_tensor.grad, y.raw_tensor.grad)}
    (given,), (out, *_) = seen_there["lstm"]
    assert_close((given, out), wanted["lstm"])
    (into_inner,), (out_of_inner,) = seen_there["inner"]
    assert_close(out_of_inner, given) and into_inner.shape == x.shape
    assert_close(into_inner, given @ net.inner.weight.T)
    assert_close(into_inner, x.grad)


def test_a_hook_on_gradients_may_change_them(x):
    net = bridged()
    net.inner.register_full_backward_hook(lambda part, given, out: (given[0] * 0,))
    net(x, LENGTHS)[0].sum().backward()
    assert x.grad.eq(0).all() and net.inner.weight.grad.ne(0).any()


def test_what_a_hook_gives_is_used(x):
    net = bridged()
    plain = net(x, LENGTHS)[0]
    net.inner.register_forward_pre_hook(lambda part, args: (args[0] * 2,))
    net.lstm.register_forward_hook(lambda part, args, out: (out[0] * 3, out[1]))
    changed = net(x / 2, LENGTHS)
    assert_close(changed[0], plain * 3)


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (lambda part, args: (args[0][:, :1],), "changed the shape"),
        (lambda part, args: (args[0], 1), "changed the number of arguments"),
    ],
)
def test_a_hook_that_gives_something_else(x, hook, words):
    net = bridged()
    net.inner.register_forward_pre_hook(hook)
    with pytest.raises(DimError, match=words):
        net(x, LENGTHS)


class Steps(rf.Module):
    """A part that is called at each step of a loop."""

    def __init__(self):
        self.inner = rf.Linear(feat, feat)

    def __call__(self, x):
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([batch_dim, feat])
        with loop:
            loop.state.h = rf.tanh(self.inner(loop.state.h) + loop.unstack(x))
            y = loop.stack(loop.state.h)
        return y


def test_in_the_body_of_a_loop_hooks_see_what_it_is_traced_with(x):
    net = rf.to_torch(Steps(), in_dims=[[batch_dim, time, feat]], out_dims=[batch_dim, time, feat])
    seen = []
    net.inner.register_forward_hook(lambda part, args, out: seen.append(out) or out * 0)
    y, _ = net(x, LENGTHS)
    assert_close(y[0], torch.tanh(x[0]))
    assert isinstance(seen[0], rf.Tensor)


def test_gradients_of_single_steps_are_not_seen_there(x):
    net = rf.to_torch(Steps(), in_dims=[[batch_dim, time, feat]])
    net.inner.register_full_backward_hook(lambda part, given, out: None)
    with pytest.raises(
        BackendError, match=r"(?s)hook on gradients cannot be used on Linear.*the module that has the loop"
    ):
        net(x, LENGTHS)
