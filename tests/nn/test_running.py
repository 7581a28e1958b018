"""Batch norm and running means against torch, on the valid frames."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

BATCH = rf.batch_dim
FEAT = rf.Dim(4, name="feat")
LENGTHS = [5, 1, 3]


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


def test_a_running_mean_follows_the_frames(x):
    mean = rf.RunningMean(FEAT, alpha=0.25)
    rf.init_train_step_run_ctx()
    expected = torch.zeros(4)
    for _ in range(3):
        expected += 0.25 * (frames(x).mean(0) - expected)
        assert mean(x) is mean.mean
        close(mean.mean.raw_tensor, expected)
    rf.init_forward_step_run_ctx()
    close(mean(x).raw_tensor, expected)
    always = rf.RunningMean(FEAT, alpha=0.25, update_only_in_train=False)
    close(always(x).raw_tensor, 0.25 * frames(x).mean(0))


def test_a_running_mean_of_probabilities_begins_uniform():
    mean = rf.RunningMean(FEAT, alpha=0.5, is_prob_distribution=True, update_only_in_train=False)
    assert mean.mean.raw_tensor.tolist() == [0.25] * 4
    one_hot = rf.convert_to_tensor([1.0, 0.0, 0.0, 0.0], dims=[FEAT])
    assert mean(one_hot).raw_tensor.tolist() == [0.625, 0.125, 0.125, 0.125]
    with pytest.raises(rf.errors.DimError, match="no dim feat"):
        mean(rf.zeros([rf.Dim(3, name="other")]))
    assert mean.mean.raw_tensor.tolist() == [0.625, 0.125, 0.125, 0.125]


def test_no_gradient_goes_into_a_running_mean():
    raw = torch.ones(4, requires_grad=True)
    y = rf.RunningMean(FEAT, alpha=0.5, update_only_in_train=False)(rf.convert_to_tensor(raw, dims=[FEAT]))
    assert not y.raw_tensor.requires_grad


def test_a_running_mean_may_move_alone():
    """Its own train flag decides, not that of the whole step."""
    feat = rf.Dim(1, name="feat")
    mean = rf.RunningMean(feat, alpha=0.5)
    x = rf.convert_to_tensor([2.0], dims=[feat])
    ctx = rf.init_forward_step_run_ctx()
    assert mean(x).raw_tensor.tolist() == [0.0]
    with ctx.train_flag_ctx(True, func=rf.RunningMean.__call__):
        assert mean(x).raw_tensor.tolist() == [1.0]
