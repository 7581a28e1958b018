"""Batch norm against torch, on the valid frames."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb.backend.torch.backend import TorchBackend

BATCH = rf.batch_dim
FEAT = rf.Dim(4, name="feat")
LENGTHS = [5, 1, 3]
FIVE = rf.Dim(5, name="five")


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


@pytest.fixture
def x(time):
    x = rf.convert_to_tensor(torch.randn(3, 5, 4) * 3 + 1, dims=[BATCH, time, FEAT], lengths=LENGTHS)
    return x.copy_masked(float("nan"))


def frames(x):
    return torch.cat([raw[:n] for raw, n in zip(x.raw_tensor, LENGTHS, strict=True)])


def close(a, b):
    torch.testing.assert_close(a.detach(), b.detach(), atol=1e-5, rtol=1e-4)


def same_statistics(norm, twin):
    close(norm.running_mean.raw_tensor, twin.running_mean)
    close(norm.running_variance.raw_tensor, twin.running_var)


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("momentum", [0.1, 0.5])
def test_batch_norm_is_that_of_torch_on_the_frames(x, affine, momentum):
    norm = rf.BatchNorm(FEAT, affine=affine, momentum=momentum, eps=0.01)
    twin = torch.nn.BatchNorm1d(4, affine=affine, momentum=momentum, eps=0.01)
    assert len(rf.torch_parameters(norm)) == len(list(twin.parameters()))
    if affine:
        norm.gamma.initial, norm.beta.initial = rf.init.Normal(1.0), rf.init.Normal(1.0)
        twin.load_state_dict({"weight": norm.gamma.raw_tensor, "bias": norm.beta.raw_tensor}, strict=False)
    rf.init_train_step_run_ctx()
    for _ in range(3):
        close(frames(norm(x)), twin(frames(x)))
        same_statistics(norm, twin)
    rf.init_forward_step_run_ctx()
    twin.eval()
    close(frames(norm(x)), twin(frames(x)))
    same_statistics(norm, twin)


def test_gradients_are_those_of_torch(x):
    norm, twin = rf.BatchNorm(FEAT, eps=1e-5), torch.nn.BatchNorm1d(4)
    rf.init_train_step_run_ctx()
    rf.reduce_sum(rf.square(norm(x) + 0.5), axis=x.dims).raw_tensor.backward()
    (twin(frames(x)) + 0.5).square().sum().backward()
    close(norm.gamma.raw_tensor.grad, twin.weight.grad)
    close(norm.beta.raw_tensor.grad, twin.bias.grad)


def test_padding_counts_if_it_is_asked_for(time):
    raw = torch.randn(3, 5, 4)
    x = rf.convert_to_tensor(raw, dims=[BATCH, time, FEAT], lengths=LENGTHS)
    norm, twin = rf.BatchNorm(FEAT, use_mask=False), torch.nn.BatchNorm1d(4, eps=1e-3)
    rf.init_train_step_run_ctx()
    close(frames(norm(x)), frames(x.like(twin(raw.flatten(0, 1)).view_as(raw))))
    same_statistics(norm, twin)


def test_without_running_statistics_the_batch_counts_at_all_times(x):
    norm = rf.BatchNorm(FEAT, track_running_stats=False)
    assert list(dict(norm.named_parameters())) == ["gamma", "beta"]
    rf.init_forward_step_run_ctx()
    close(frames(norm(x)), torch.nn.BatchNorm1d(4, eps=1e-3, track_running_stats=False)(frames(x)))


def test_one_frame_is_its_own_mean_and_moves_no_variance_to_infinity():
    norm, one = rf.BatchNorm(FEAT), rf.Dim(1, name="time")
    rf.init_train_step_run_ctx()
    assert (norm(rf.random_normal([one, FEAT])).raw_tensor == 0).all()
    close(norm.running_variance.raw_tensor, torch.full([4], 0.9))


@pytest.mark.parametrize("func", [rf.BatchNorm.__call__, [rf.dropout, rf.BatchNorm.__call__]])
def test_statistics_can_be_frozen_in_training(x, func):
    norm, ctx = rf.BatchNorm(FEAT), rf.init_train_step_run_ctx()
    with ctx.train_flag_ctx(False, func=func):
        y = norm(x)
    assert (norm.running_mean.raw_tensor == 0).all()
    close(frames(y), frames(x) / (1 + norm.eps) ** 0.5)
    norm(x)
    assert (norm.running_mean.raw_tensor != 0).all()


def test_features_over_two_dims():
    high, time = rf.Dim(2, name="high"), rf.Dim(6, name="time")
    x = rf.random_normal([time, FEAT, high], seed=3)
    norm, twin = rf.BatchNorm([FEAT, high], eps=1e-5), torch.nn.BatchNorm1d(8)
    assert norm.gamma.dims == (FEAT, high)
    rf.init_train_step_run_ctx()
    close(norm(x).raw_tensor.flatten(1), twin(x.raw_tensor.flatten(1)))


def test_a_model_in_training_and_then_evaluated_sequence_by_sequence(x, time):
    norm = rf.BatchNorm(FEAT)
    rf.init_train_step_run_ctx()
    norm(x)
    rf.init_forward_step_run_ctx()
    y = norm(x)
    for i, n in enumerate(LENGTHS):
        alone = rf.convert_to_tensor(x.raw_tensor[i, :n], dims=[rf.Dim(n, name="time"), FEAT])
        close(norm(alone).raw_tensor, y.raw_tensor[i, :n])


def trained(norm, x, up, train=True):
    """The frames of the result, the gradients, and the running statistics."""
    x = x.like(x.raw_tensor.detach().clone().requires_grad_())
    rf.init_train_step_run_ctx(train_flag=train)
    y = norm(x)
    flat = y.copy_transpose([d for d in up.dims if d in y.dims])
    rf.reduce_sum(flat * up, axis=y.dims).raw_tensor.backward()
    rf.init_forward_step_run_ctx()
    found = [x.raw_tensor.grad, *(p.raw_tensor.grad for p in norm.parameters() if p.trainable)]
    return [y.copy_masked(0.0).raw_tensor, *found, norm.running_mean.raw_tensor, norm.running_variance.raw_tensor]


@pytest.mark.parametrize("lengths", [[5, 1, 3], [5, 5, 5], [0, 2, 0], [1, 0, 0], [0, 0, 0]], ids=str)
@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("features_at", [0, 1, 2])
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_the_kernel_gives_what_its_parts_give(time, monkeypatch, lengths, train, features_at, dtype):
    dims = [BATCH, time]
    dims.insert(features_at, FEAT)
    raw = (torch.randn(3, max(lengths), 4) * 3 + 1).to(dtype)
    plain = rf.convert_to_tensor(raw, dims=[BATCH, time, FEAT], lengths=lengths)
    x, up = plain.copy_masked(float("nan")).copy_transpose(dims), plain.like(torch.randn_like(raw))
    results = []
    for kernel in (TorchBackend.batch_norm_raw, None):
        monkeypatch.setattr(TorchBackend, "batch_norm_raw", kernel)
        norm = rf.BatchNorm(FEAT)
        norm.to(dtype="float64" if dtype is torch.float64 else "float32")
        norm.gamma.assign(torch.linspace(0.5, 2.0, 4))
        norm.running_variance.assign(torch.linspace(1.0, 3.0, 4))
        results.append(trained(norm, x, up, train))
    for mine, expected in zip(*results, strict=True):
        assert mine.dtype is expected.dtype and mine.isfinite().all()
        close(mine, expected) if dtype is torch.float64 else torch.testing.assert_close(
            mine, expected, atol=0.06, rtol=0.02
        )


def test_the_kernel_sees_the_frames_alone(x, monkeypatch):
    seen, kernel = [], TorchBackend.batch_norm_raw
    monkeypatch.setattr(TorchBackend, "batch_norm_raw", lambda raw, *args: (seen.append(raw), kernel(raw, *args))[1])
    norm = rf.BatchNorm(FEAT)
    rf.init_train_step_run_ctx()
    norm(x)
    torch.testing.assert_close(seen, [frames(x)])


def test_the_gradient_of_running_statistics_that_are_trained(x):
    norm = rf.BatchNorm(FEAT, affine=False, eps=0.0)
    norm.running_mean.trainable = True
    rf.init_forward_step_run_ctx()
    rf.reduce_sum(norm(x), axis=x.dims).raw_tensor.backward()
    close(norm.running_mean.raw_tensor.grad, torch.full([4], -float(sum(LENGTHS))))


def test_two_batches_before_a_gradient(x, time):
    norm, twin = rf.BatchNorm(FEAT, eps=1e-5), torch.nn.BatchNorm1d(4)
    rf.init_train_step_run_ctx()
    one, two = norm(x), norm(x * 2.0 + 1.0)
    rf.reduce_sum(rf.square(one + two), axis=one.dims).raw_tensor.backward()
    (twin(frames(x)) + twin(frames(x) * 2.0 + 1.0)).square().sum().backward()
    close(norm.gamma.raw_tensor.grad, twin.weight.grad)
    same_statistics(norm, twin)


def moved_by_training(norm, x):
    rf.init_train_step_run_ctx()
    norm(x * 3.0 + 1.0)


def moved_by_few_frames(norm, x):
    rf.init_train_step_run_ctx()
    norm(rf.ones([FEAT]))


def moved_by_hand(norm, x):
    norm.running_mean.assign(1.0)
    norm.running_variance.assign(7.0)


@pytest.mark.parametrize("move", [moved_by_training, moved_by_few_frames, moved_by_hand])
@pytest.mark.parametrize("train", [True, False])
def test_statistics_that_move_before_the_gradient_is_taken(x, move, train):
    found = []
    for moved in (False, True):
        norm = rf.BatchNorm(FEAT)
        given = x.like(x.raw_tensor.clone().requires_grad_())
        rf.init_train_step_run_ctx(train_flag=train)
        y = norm(given)
        if moved:
            version = norm.running_mean.raw_tensor._version
            move(norm, x)
            assert norm.running_mean.raw_tensor._version > version  # who reads them again sees it
        rf.init_forward_step_run_ctx()
        rf.reduce_sum(y * y * y, axis=y.dims).raw_tensor.backward()
        found.append((norm.gamma.raw_tensor.grad, given.raw_tensor.grad))
    torch.testing.assert_close(*found)


def test_features_over_two_dims_of_another_layout():
    pair = rf.Dim(2, name="pair")
    norm = rf.BatchNorm([pair, FEAT])
    turned = norm.gamma.like(torch.randn(4, 2).t())
    x = rf.random_normal([FIVE, pair, FEAT])
    how = {"in_dim": [pair, FEAT], "running_mean": norm.running_mean, "running_variance": norm.running_variance}
    how |= {"beta": None, "epsilon": 1e-3, "momentum": 0.1, "affine": True, "use_mask": True, "train": False}
    y = rf.batch_norm(x, gamma=turned, **how)
    close(y.raw_tensor, rf.batch_norm(x, gamma=turned.like(turned.raw_tensor.contiguous()), **how).raw_tensor)


def test_a_loop_gives_the_type_of_its_frames():
    step, norm = rf.Dim(3, name="step"), rf.BatchNorm(FEAT)
    xs = rf.cast(rf.random_normal([step, FIVE, FEAT], seed=1), "bfloat16")
    rf.init_train_step_run_ctx()
    with rf.Loop(axis=step) as loop:
        ys = loop.stack(norm(loop.unstack(xs)))
    alone = rf.BatchNorm(FEAT)
    last = [alone(rf.gather(xs, indices=i, axis=step)) for i in range(3)][-1]
    assert ys.dtype == last.dtype == "bfloat16"
    found = rf.gather(ys, indices=2, axis=step).copy_transpose(last.dims)
    torch.testing.assert_close(found.raw_tensor, last.raw_tensor, atol=0.05, rtol=0.02)
    close(norm.running_variance.raw_tensor, alone.running_variance.raw_tensor)
