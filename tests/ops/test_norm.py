"""Moments and norms against torch on the valid frames."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import rfnb as rf
from rfnb import batch_dim

FEAT = rf.Dim(6, name="feat")
LENGTHS = [4, 1, 2]


def padded(fill=float("nan")):
    time = rf.Dim(None, name="time")
    raw = torch.randn([3, 4, 6], generator=torch.Generator().manual_seed(1)) * 2 + 1
    return rf.convert_to_tensor(raw, dims=[batch_dim, time, FEAT], lengths=LENGTHS).copy_masked(fill), time


def frames(x):
    """The valid ones in a row. [frames, feat]"""
    return torch.cat([row[:n] for row, n in zip(x.raw_tensor, LENGTHS, strict=True)])


def weights():
    return [rf.convert_to_tensor(torch.linspace(a, b, 6), dims=[FEAT]) for a, b in ((0.5, 2.0), (-1.0, 1.0))]


@pytest.mark.parametrize("correction", [0, 1])
def test_moments_of_the_frames(correction):
    x, time = padded()
    mean, variance = rf.moments(x, [batch_dim, time], correction=correction)
    torch.testing.assert_close(mean.raw_tensor, frames(x).mean(0))
    torch.testing.assert_close(variance.raw_tensor, frames(x).var(0, correction=correction))
    _, each = rf.moments(x, time, correction=correction)
    torch.testing.assert_close(each.raw_tensor[0], x.raw_tensor[0].var(0, correction=correction))
    assert (each.raw_tensor[1] == 0).all()  # of one frame
    whole, _ = padded(fill=3.0)
    _, all_frames = rf.moments(whole, whole.dims[:2], correction=correction, use_mask=False)
    torch.testing.assert_close(all_frames.raw_tensor, whole.raw_tensor.flatten(0, 1).var(0, correction=correction))


@pytest.mark.parametrize("correction", [0, 1])
def test_the_variance_of_complex_numbers_is_that_of_torch(correction):
    raw, time = torch.randn(2, 5, dtype=torch.complex64), rf.Dim(None, name="time")
    for data in (raw, raw.numpy()):
        x = rf.convert_to_tensor(data, dims=[rf.batch_dim, time], lengths=[5, 3])
        variance = rf.moments(x, time, correction=correction)[1]
        assert variance.dtype == "float32"
        for row, length in enumerate([5, 3]):
            expected = raw[row, :length].var(correction=correction)
            assert variance.numpy()[row] == pytest.approx(expected.item(), rel=1e-5)


def test_normalized_frames():
    x, time = padded(fill=7.0)
    y = rf.normalize(x, axis=[batch_dim, time], epsilon=0.1)
    expected = functional.batch_norm(frames(x), None, None, training=True, eps=0.1)
    torch.testing.assert_close(frames(y), expected)
    assert y.raw_tensor.isfinite().all()


def test_large_numbers_in_float16_are_normalized_as_by_torch():
    feat, time = rf.Dim(64, name="feat"), rf.Dim(None, name="time")
    raw = (torch.randn(2, 5, 64) * 400).half().requires_grad_()
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=[5, 3])
    y = rf.normalize(x, axis=feat)
    expected = functional.layer_norm(raw, (64,))
    assert y.dtype == "float16"
    for row, length in enumerate([5, 3]):
        torch.testing.assert_close(y.raw_tensor[row, :length], expected[row, :length])
    weights = torch.randn(2, 5, 64)
    frames = (y.raw_tensor.float() * weights)[0].sum()
    gradients = [torch.autograd.grad(total, raw)[0] for total in (frames, (expected.float() * weights)[0].sum())]
    torch.testing.assert_close(*gradients, atol=1e-5, rtol=1e-2)


def test_rms_norm_is_that_of_torch():
    x, _ = padded(fill=0.0)
    scale, bias = weights()
    raw = functional.rms_norm(x.raw_tensor, [6], scale.raw_tensor, 1e-3)
    torch.testing.assert_close(rf.rms_norm(x, scale, in_dim=FEAT, eps=1e-3).raw_tensor, raw)
    turned = x.copy_transpose([FEAT, *x.dims[:2]])
    y = rf.rms_norm(turned, scale, bias, in_dim=FEAT, eps=1e-3)
    torch.testing.assert_close(y.copy_transpose(x.dims).raw_tensor, raw + bias.raw_tensor)
    with pytest.raises(rf.errors.DimError, match="rms_norm: `in_dim` must have a fixed size"):
        rf.rms_norm(x, None, in_dim=x.dims[1])


def test_group_norm_is_that_of_torch():
    x, time = padded()
    scale, bias = weights()
    each = rf.group_norm(x, scale, bias, in_dim=FEAT, num_groups=3, eps=1e-3)
    torch.testing.assert_close(
        frames(each), functional.group_norm(frames(x), 3, scale.raw_tensor, bias.raw_tensor, 1e-3)
    )
    assert each.dims == x.dims
    over_time = rf.group_norm(x, scale, None, in_dim=FEAT, num_groups=rf.Dim(2, name="groups"), axis=time, eps=1e-3)
    for row, raw, n in zip(over_time.raw_tensor, x.raw_tensor, LENGTHS, strict=True):
        expected = functional.group_norm(raw[None, :n].mT, 2, scale.raw_tensor, None, 1e-3).mT[0]
        torch.testing.assert_close(row[:n], expected)


def statistics():
    return rf.Parameter([FEAT], auxiliary=True), rf.Parameter([FEAT], auxiliary=True, initial=1.0)


def batch_norm(x, running, **options):
    gamma, beta = weights()
    mean, variance = running or (None, None)
    return rf.batch_norm(
        x, in_dim=FEAT, running_mean=mean, running_variance=variance, gamma=gamma, beta=beta, **options
    )


@pytest.fixture
def training():
    rf.init_train_step_run_ctx(train_flag=True)
    yield
    rf.init_forward_step_run_ctx()


def torch_batch_norm(raw, running, train):
    gamma, beta = weights()
    return functional.batch_norm(
        raw, *running, gamma.raw_tensor, beta.raw_tensor, training=train, momentum=0.1, eps=1e-3
    )


def test_batch_norm_in_training_is_that_of_torch_on_the_frames(training):
    x, _ = padded()
    mine, theirs = statistics(), (torch.zeros(6), torch.ones(6))
    for _ in range(3):
        torch.testing.assert_close(frames(batch_norm(x, mine)), torch_batch_norm(frames(x), theirs, True))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.raw_tensor.detach(), b)
    rf.init_forward_step_run_ctx()
    torch.testing.assert_close(frames(batch_norm(x, mine)), torch_batch_norm(frames(x), theirs, False))
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.raw_tensor.detach(), b)


def test_batch_norm_gradients(training):
    x, _ = padded(fill=0.0)
    raw = x.raw_tensor.requires_grad_()
    up = torch.sin(torch.arange(42.0)).reshape(7, 6)
    [expected] = torch.autograd.grad((torch_batch_norm(frames(x), (None, None), True) * up).sum(), raw)
    for running in (None, statistics()):
        [mine] = torch.autograd.grad((frames(batch_norm(x, running)) * up).sum(), raw)
        torch.testing.assert_close(mine, expected, atol=1e-5, rtol=1e-4)


def test_batch_norm_without_mask_weights_or_statistics(training):
    x, _ = padded(fill=2.0)
    flat = x.raw_tensor.flatten(0, 1)
    y = batch_norm(x, None, use_mask=False, affine=False)
    expected = functional.batch_norm(flat, None, None, training=True, eps=1e-3).view_as(x.raw_tensor)
    torch.testing.assert_close(frames(y), frames(x.like(expected)))


def test_a_loop_sees_the_running_statistics(training):
    time, step = rf.Dim(5, name="frames"), rf.Dim(3, name="step")
    xs = rf.convert_to_tensor(torch.randn([3, 5, 6]), dims=[step, time, FEAT])
    one, two = statistics(), statistics()
    with rf.Loop(axis=step) as loop:
        ys = loop.stack(batch_norm(loop.unstack(xs), one))
    for i in range(3):
        y = batch_norm(rf.gather(xs, indices=i, axis=step), two)
        torch.testing.assert_close(ys.copy_transpose([step, time, FEAT]).raw_tensor[i], y.raw_tensor)
    for a, b in zip(one, two, strict=True):
        torch.testing.assert_close(a.raw_tensor.detach(), b.raw_tensor.detach())
