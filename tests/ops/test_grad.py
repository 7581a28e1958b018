"""Gradients, and where numbers are kept."""

from __future__ import annotations

import torch

import rfnb as rf

feat = rf.Dim(3, name="feat")


def leaf():
    return rf.convert_to_tensor(torch.tensor([1.0, 2.0, 3.0], requires_grad=True), dims=[feat])


def test_gradient_is_that_of_the_sum():
    x = leaf()
    assert rf.gradient(rf.square(x), x).raw_tensor.tolist() == [2, 4, 6]
    assert rf.gradient(rf.square(rf.stop_gradient(x)) + x, x).raw_tensor.tolist() == [1, 1, 1]


def test_gradients_of_gradients():
    x = leaf()
    assert rf.gradient(rf.gradient(x * x * x, x), x).raw_tensor.tolist() == [6, 12, 18]


def test_scaled_gradient_leaves_the_numbers():
    x = leaf()
    y = rf.scaled_gradient(x, -0.5)
    assert torch.equal(y.raw_tensor, x.raw_tensor) and rf.gradient(y, x).raw_tensor.tolist() == [-0.5] * 3
    scale = rf.convert_to_tensor([0.0, 1.0, 2.0], dims=[feat])
    assert rf.gradient(rf.scaled_gradient(x, scale), x).raw_tensor.tolist() == [0, 1, 2]
    low = rf.convert_to_tensor(torch.tensor([float("-inf")] * 3), dims=[feat])
    assert torch.isneginf(rf.scaled_gradient(low, 0.0).raw_tensor).all()


def test_set_requires_gradient():
    x = rf.ones([feat])
    rf.set_requires_gradient(x)
    assert rf.gradient(x * 2.0, x).raw_tensor.tolist() == [2, 2, 2]


def test_copies():
    x = rf.ones([feat])
    y = rf.copy(x)
    y.raw_tensor[0] = 5
    assert x.raw_tensor[0] == 1 and rf.copy_to_device(x, "cpu") is x


def test_scaled_gradient_in_a_loop():
    time = rf.Dim(4, name="time")
    raw = torch.ones(4, 3, requires_grad=True)
    loop = rf.Loop(axis=time)
    loop.state.total = rf.zeros([feat])
    with loop:
        loop.state.total = loop.state.total + rf.scaled_gradient(
            loop.unstack(rf.convert_to_tensor(raw, dims=[time, feat])), 3.0
        )
    loop.state.total.raw_tensor.sum().backward()
    assert torch.equal(raw.grad, torch.full((4, 3), 3.0))
