"""Running means follow the valid frames."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

FEAT = rf.Dim(4, name="feat")


def test_a_running_mean_follows_the_frames():
    raw, lengths = torch.randn(3, 5, 4) * 3 + 1, [5, 1, 3]
    x = rf.convert_to_tensor(raw, dims=[rf.batch_dim, rf.Dim(None, name="time"), FEAT], lengths=lengths)
    x = x.copy_masked(float("nan"))
    of_batch = torch.cat([sequence[:length] for sequence, length in zip(raw, lengths, strict=True)]).mean(0)
    mean = rf.RunningMean(FEAT, alpha=0.25)
    rf.init_train_step_run_ctx()
    expected = torch.zeros(4)
    for _ in range(3):
        expected += 0.25 * (of_batch - expected)
        assert mean(x) is mean.mean
        torch.testing.assert_close(mean.mean.raw_tensor, expected)
    rf.init_forward_step_run_ctx()
    torch.testing.assert_close(mean(x).raw_tensor, expected)
    always = rf.RunningMean(FEAT, alpha=0.25, update_only_in_train=False)
    torch.testing.assert_close(always(x).raw_tensor, 0.25 * of_batch)


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
