"""The events of a call: ops of rfnb, the steps of its loops, and calls of plain torch between them."""

from __future__ import annotations

import torch
from torch import nn

import rfnb as rf
from rfnb.trace.observe import observing

time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")


def events(fn):
    found = []
    with observing(found.append):
        fn()
    return [(event.op, event.plain, event.path) for event in found]


def tensor() -> rf.Tensor:
    return rf.convert_to_tensor(torch.ones(2, 5, 3), dims=[rf.batch_dim, time, feat], lengths=[5, 3])


def test_what_ops_call_is_not_reported():
    x = tensor()
    assert events(lambda: rf.softmax(rf.where(x > 0.0, x, -1.0), axis=time)) == [
        ("greater", False, ""), ("where", False, ""), ("softmax", False, ""),
    ]  # fmt: skip
    assert events(lambda: (rf.relu(x), x.copy_masked(0.0), rf.range_over_dim(time), rf.zeros([feat])))[0][1] is False
    assert not any(plain for _, plain, _ in events(lambda: rf.Linear(feat, feat)(x)))


def test_both_libraries():
    x = tensor()
    model = rf.from_torch(nn.Sequential(nn.Linear(3, 3), nn.ReLU()), in_dims=[..., feat], out_dims=[..., feat])
    found = events(lambda: rf.tanh(model(x)))
    assert [event for event in found if event[0] in ("linear", "relu", "raw_call", "tanh")] == [
        ("linear", True, "TorchNet.Sequential.0"),
        ("relu", True, "TorchNet.Sequential.1"),
        ("raw_call", False, "TorchNet"),
        ("tanh", False, ""),
    ]
    assert events(lambda: rf.raw_call(lambda raw: raw.log() * 2, x, out_dims=x.dims) + 1.0) == [
        ("log", True, ""), ("mul", True, ""), ("raw_call", False, ""), ("add", False, ""),
    ]  # fmt: skip


def test_in_a_loop_the_values_of_steps_are_reported():
    x = tensor()
    model = rf.from_torch(nn.Linear(3, 3), in_dims=[..., feat], out_dims=[..., feat])

    def run() -> None:
        loop = rf.Loop(axis=time)
        with loop:
            loop.stack(model(loop.unstack(x)))

    found = events(run)
    assert not any(plain for _, plain, _ in found)
    assert [op for op, *_ in found].count("raw_call") == 5


def test_a_tensor_keeps_the_value_that_it_had():
    found = []
    with observing(found.append):
        x = torch.zeros(2)
        x += 1
        y = x * 2
    first, second, third = (event.outputs[0].raw_tensor.tolist() for event in found)
    assert (first, second, third, y.tolist()) == ([0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [2.0, 2.0])
    assert found[1].changed is found[0].outputs[0]
    assert found[2].inputs[0] is found[1].outputs[0]
    assert [event.outputs[0].name for event in found] == ["x", "x", "y"]
