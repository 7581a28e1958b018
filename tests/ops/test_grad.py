"""Gradients, and where numbers are kept."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef

import rfnb as rf
from rfnb.errors import RfError

feat, out = rf.Dim(3, name="feat"), rf.Dim(3, name="out")


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


def test_gradients_can_be_shifted():
    x = leaf()
    weight = rf.convert_to_tensor([1.0, -2.0, 3.0], dims=[feat])

    def gradient(**how):
        return rf.gradient(rf.scaled_gradient_ext(x, **how) * weight, x).raw_tensor.tolist()

    assert gradient(scale=2.0) == [2, -4, 6]
    assert gradient(scale=2.0, shift=0.5) == [2.5, -3.5, 6.5]
    assert gradient(scale=2.0, shift=0.5, scale_shift_by_sum_over_axis=feat) == [5, -1, 9]
    own = rf.convert_to_tensor([1.0, 2.0, 3.0], dims=[feat])
    assert gradient(scale=1.0, shift=own, scale_shift_by_sum_over_axis=feat) == [7, 10, 21]
    assert gradient(scale=own, shift=0.0) == [1, -4, 9]
    assert gradient(scale=own, clip_max_axis=feat) == [1, -3, 3]
    assert gradient(scale=1.0, shift=-2.0, clip_max_axis=feat) == [-1, -3, 1]


def test_no_gradient_for_padding():
    """Neither of a sum, nor by a shift."""
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(2, 3).requires_grad_(), dims=[rf.batch_dim, time], lengths=[3, 1])
    assert rf.gradient(x * 2.0, x).raw_tensor.tolist() == [[2, 2, 2], [2, 0, 0]]
    y = rf.scaled_gradient_ext(x, scale=2.0, shift=0.5)
    assert torch.autograd.grad(y.raw_tensor.sum(), [x.raw_tensor])[0].tolist() == [[2.5, 2.5, 2.5], [2.5, 0, 0]]


def test_the_gradient_leaves_padding_out():
    time = rf.Dim(None, name="time")
    frames = rf.convert_to_tensor(torch.ones(2, 3), dims=[rf.batch_dim, time], lengths=[3, 1])
    x = rf.ones([])
    rf.set_requires_gradient(x)
    assert rf.gradient(frames * x, x).item() == 4


def test_what_has_no_gradient():
    x = rf.ones([feat])
    with pytest.raises(RfError, match="without recording gradients for `x`"):
        rf.gradient(x * 2.0, x)
    rf.set_requires_gradient(x)
    assert rf.gradient(rf.ones([feat]), x).raw_tensor.tolist() == [0, 0, 0]


def test_a_scope_of_constants():
    x = leaf()
    with rf.stop_gradient_scope():
        y = rf.square(x)
        assert not y.raw_tensor.requires_grad
    assert rf.gradient(x * y, x).raw_tensor.tolist() == [1, 4, 9] and rf.square(x).raw_tensor.requires_grad


def test_a_scope_of_constants_in_a_loop():
    time = rf.Dim(4, name="time")
    raw = torch.arange(12.0).view(4, 3).requires_grad_()
    xs = rf.convert_to_tensor(raw, dims=[time, feat])
    loop = rf.Loop(axis=time)
    loop.state.total = rf.zeros([feat])
    with loop:
        x = loop.unstack(xs)
        with rf.stop_gradient_scope():
            factor = rf.exp(x * 0.1) + loop.state.total * 0.0
        loop.state.total = loop.state.total + x * factor
    loop.state.total.raw_tensor.sum().backward()
    assert torch.allclose(raw.grad, (raw.detach() * 0.1).exp())


def deep(x, w, depth=4):
    for _ in range(depth):
        x = rf.tanh(rf.matmul(x, w, reduce=feat))
        x = rf.replace_dim_v2(x, in_dim=out, out_dim=feat)
    return x


@pytest.mark.parametrize("times", [1, 2])
def test_a_checkpoint_scope_changes_no_gradient(times):
    x, w = leaf(), rf.convert_to_tensor(torch.randn(3, 3).requires_grad_(), dims=[feat, out])
    plain = torch.autograd.grad(deep(x, w).raw_tensor.sum(), [x.raw_tensor, w.raw_tensor])
    with rf.gradient_checkpoint_scope():
        y = rf.square(deep(x, w))
        y = rf.dropout(y, 0.5, on_forward=True)
        z = deep(x, w)
    z = z * rf.exp(rf.stop_gradient(y) * 0.0)
    for i in range(times):
        found = torch.autograd.grad(z.raw_tensor.sum(), [x.raw_tensor, w.raw_tensor], retain_graph=i + 1 < times)
        assert all(torch.equal(a, b) for a, b in zip(plain, found, strict=True))


def test_a_checkpoint_scope_keeps_no_intermediate_results():
    x, w = leaf(), rf.convert_to_tensor(torch.randn(3, 3).requires_grad_(), dims=[feat, out])
    held = []

    def run(scope):
        held.clear()
        with scope:
            y = rf.tanh(rf.matmul(x, w, reduce=feat))
            held.append(StorageWeakRef(y.raw_tensor.untyped_storage()))
            return rf.reduce_sum(rf.square(y), axis=out)

    assert run(nullcontext()) and not held[0].expired()
    y = run(rf.gradient_checkpoint_scope())
    assert held[0].expired()
    [twice] = torch.autograd.grad(rf.gradient(y, x).raw_tensor.sum(), [w.raw_tensor])
    [expected] = torch.autograd.grad(rf.gradient(run(nullcontext()), x).raw_tensor.sum(), [w.raw_tensor])
    assert torch.allclose(twice, expected)


def test_a_checkpoint_scope_with_noise():
    """What was drawn is kept, so that the gradient is that of the same draw."""
    x = leaf()
    with rf.gradient_checkpoint_scope():
        noisy = x + rf.random_normal([feat])
        y = rf.square(noisy)
    assert torch.allclose(rf.gradient(y, x).raw_tensor, 2 * noisy.raw_tensor)
    with rf.gradient_checkpoint_scope():
        y = rf.square(rf.dropout(rf.exp(x), 0.5, on_forward=True))
    assert torch.allclose(rf.gradient(y, x).raw_tensor, 2 * y.raw_tensor)
    many = torch.ones(100, requires_grad=True)
    with rf.gradient_checkpoint_scope():
        kept = many.exp() * torch.bernoulli(torch.full((100,), 0.5))
    assert torch.equal(torch.autograd.grad(kept.sum(), [many])[0], kept)


def test_a_checkpoint_scope_tells_of_changes():
    x, w = leaf(), rf.ones([feat])
    with rf.gradient_checkpoint_scope():
        y = rf.square(rf.exp(x * w))
    w.raw_tensor.add_(1)
    with pytest.raises(RfError, match="changed in place"):
        rf.gradient(y, x)


def test_loops_and_checkpoint_scopes():
    time = rf.Dim(4, name="time")
    gradients = []
    for inside, around in ((nullcontext, nullcontext), (rf.gradient_checkpoint_scope, nullcontext),
                           (nullcontext, rf.gradient_checkpoint_scope)):  # fmt: skip
        raw = torch.arange(12.0).view(4, 3).requires_grad_()
        xs = rf.convert_to_tensor(raw, dims=[time, feat])
        loop = rf.Loop(axis=time)
        loop.state.total = rf.zeros([feat])
        with around():
            with loop, inside():
                loop.state.total = rf.tanh(loop.state.total + loop.unstack(xs))
            total = loop.state.total
        gradients += torch.autograd.grad(total.raw_tensor.sum(), [raw])
    assert all(torch.equal(gradients[0], gradient) for gradient in gradients[1:])


MADE = {  # of a weight {feat}, and frames {batch, time, feat}
    "add": lambda w, x: x + w * 2.0,
    "mul": lambda w, x: x * rf.square(w),
    "where": lambda w, x: rf.where(x > 0.0, w * 2.0, x),
    "expand_dim": lambda w, x: rf.expand_dim(w, x.dims[1]) * x,
    "matmul": lambda w, x: rf.matmul(x, rf.tanh(w) * rf.ones([feat, out]), reduce=feat),
    "linear": lambda w, x: rf.linear(x, w * rf.ones([feat, out]), None, in_dim=feat, out_dim=out),
    "layer_norm": lambda w, x: rf.layer_norm(x, rf.exp(w), None, in_dim=feat),
}


@pytest.mark.parametrize("inside", ["no loop", "loop"])
@pytest.mark.parametrize("name", MADE)
def test_what_is_made_of_weights_gets_no_gradient_from_padding(name, inside):
    gradients = []
    for padding in (0.0, float("nan")):
        time, again = rf.Dim(None, name="time"), rf.Dim(2, name="again")
        raw = torch.arange(18.0).view(2, 3, 3) - 4.0
        x = rf.convert_to_tensor(raw, dims=[rf.batch_dim, time, feat], lengths=[3, 1]).copy_masked(padding)
        w = leaf()
        if inside == "loop":
            halves = rf.convert_to_tensor([0.5, 0.5], dims=[again])
            with rf.Loop(axis=again) as loop:
                y = loop.stack(MADE[name](w, x) * loop.unstack(halves))
        else:
            y = MADE[name](w, x)
        total = rf.reduce_sum(rf.square(y), axis=y.dims)
        gradients += torch.autograd.grad(total.raw_tensor, [w.raw_tensor])
    assert torch.isfinite(gradients[1]).all() and torch.allclose(*gradients)
