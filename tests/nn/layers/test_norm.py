"""Norms against torch.nn."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

BATCH = rf.batch_dim


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


@pytest.fixture
def feat():
    return rf.Dim(4, name="feat")


@pytest.fixture
def x(time, feat):
    return rf.convert_to_tensor(torch.randn(3, 5, 4) * 3 + 1, dims=[BATCH, time, feat], lengths=[5, 5, 5])


def twin(norm):
    same = torch.nn.LayerNorm(norm.in_dim.dimension, eps=norm.eps)
    with torch.no_grad():
        same.weight.copy_(norm.scale.raw_tensor)
        same.bias.copy_(norm.bias.raw_tensor)
    return same


def test_parameters_have_the_names_and_dims_of_the_reference(feat):
    norm = rf.LayerNorm(feat)
    assert {n: p.dims for n, p in norm.named_parameters()} == {"scale": (feat,), "bias": (feat,)}
    assert (norm.scale.raw_tensor == 1).all()
    assert (norm.bias.raw_tensor == 0).all()
    assert norm.eps == 1e-6
    assert rf.LayerNorm(feat, with_bias=False).bias is None


def test_as_torch_with_gradients(feat, x):
    norm = rf.LayerNorm(feat, eps=0.1)
    norm.scale.initial = rf.init.Normal(1.0)
    norm.bias.initial = rf.init.Normal(1.0)
    y, same = norm(x), twin(norm)
    expected = same(x.raw_tensor)
    assert y.dims == x.dims
    assert torch.allclose(y.raw_tensor, expected, atol=1e-5)
    y.raw_tensor.square().sum().backward()
    expected.square().sum().backward()
    assert torch.allclose(norm.scale.raw_tensor.grad, same.weight.grad, rtol=1e-4, atol=1e-4)
    assert torch.allclose(norm.bias.raw_tensor.grad, same.bias.grad, rtol=1e-4, atol=1e-4)


def test_the_place_of_the_features_does_not_matter(feat, time, x):
    norm = rf.LayerNorm(feat)
    y = norm(x.copy_transpose([feat, time, BATCH]))
    assert torch.allclose(y.copy_transpose(x.dims).raw_tensor, norm(x).raw_tensor, atol=1e-6)


def test_nan_in_padding_stays_there(feat, time, x):
    norm = rf.LayerNorm(feat)
    x = rf.convert_to_tensor(x.raw_tensor, dims=[BATCH, time, feat], lengths=[5, 2, 3])
    x.raw_tensor[1, 2:] = torch.nan
    y = norm(x)
    assert torch.isfinite(y.raw_tensor[1, :2]).all()
    rf.reduce_sum(rf.square(y), axis=[BATCH, time, feat]).raw_tensor.backward()
    assert torch.isfinite(norm.scale.raw_tensor.grad).all()


def test_without_bias(feat, x):
    norm = rf.LayerNorm(feat, with_bias=False)
    assert torch.allclose(norm(x).raw_tensor, rf.LayerNorm(feat)(x).raw_tensor)


LENGTHS = [5, 1, 3]


@pytest.fixture
def padded(time, feat):
    x = rf.convert_to_tensor(torch.randn(3, 5, 4) * 3 + 1, dims=[BATCH, time, feat], lengths=LENGTHS)
    return x.copy_masked(float("nan"))


def close_on_frames(y, expected, dims):
    """expected: of one sequence, from its number and length."""
    y = y.copy_transpose(dims)
    for i, n in enumerate(LENGTHS):
        torch.testing.assert_close(y.raw_tensor[i, :n], expected(i, n), atol=1e-5, rtol=1e-4)


def with_weights(norm, twin):
    """Random weights in both."""
    with torch.no_grad():
        for mine, theirs in (norm.scale, twin.weight), (norm.bias, twin.bias):
            if mine is not None:
                mine.initial = rf.init.Normal(1.0)
                theirs.copy_(mine.raw_tensor)
    return norm, twin


def test_rms_norm_is_that_of_torch_with_gradients(feat, padded):
    norm, twin = rf.RMSNorm(feat, eps=0.1), torch.nn.RMSNorm(4, eps=0.1)
    norm.scale.initial = rf.init.Normal(1.0)
    twin.load_state_dict({"weight": norm.scale.raw_tensor})
    assert norm.bias is None and rf.RMSNorm(feat).eps == 1e-6
    y = norm(padded)
    close_on_frames(y, lambda i, n: twin(padded.raw_tensor[i, :n]), padded.dims)
    rf.reduce_sum(rf.square(y), axis=y.dims).raw_tensor.backward()
    sum(twin(padded.raw_tensor[i, :n]).square().sum() for i, n in enumerate(LENGTHS)).backward()
    torch.testing.assert_close(norm.scale.raw_tensor.grad, twin.weight.grad, atol=1e-4, rtol=1e-4)


def test_rms_norm_may_have_a_bias(feat, x):
    norm = rf.RMSNorm(feat, with_bias=True)
    norm.bias.initial = 2.0
    torch.testing.assert_close(norm(x).raw_tensor, rf.RMSNorm(feat)(x).raw_tensor + 2.0)


@pytest.mark.parametrize("groups", [1, 2, rf.Dim(2, name="groups")])
def test_group_norm_of_each_frame_is_that_of_torch(feat, padded, groups):
    number = groups.dimension if isinstance(groups, rf.Dim) else groups
    norm, twin = with_weights(rf.GroupNorm(feat, num_groups=groups, eps=0.01), torch.nn.GroupNorm(number, 4, eps=0.01))
    for x in padded, padded.copy_transpose([padded.dims[1], feat, BATCH]):
        close_on_frames(norm(x), lambda i, n: twin(padded.raw_tensor[i, :n]), padded.dims)


@pytest.mark.parametrize("groups", [1, 2])
def test_group_norm_over_sequences_is_that_of_torch(feat, time, padded, groups):
    norm, twin = with_weights(rf.GroupNormSpatial(feat, num_groups=groups), torch.nn.GroupNorm(groups, 4, eps=1e-6))
    y = norm(padded, spatial_dim=time)
    close_on_frames(y, lambda i, n: twin(padded.raw_tensor[i, :n].T[None])[0].T, padded.dims)


def test_groups_are_of_one_size(feat):
    for groups in 3, 0, 8:
        with pytest.raises(rf.errors.ParameterError, match="must divide feat"):
            rf.GroupNorm(feat, num_groups=groups)


@pytest.mark.parametrize("on", [{}, {"scale": False}, {"bias": False}, {"scale": False, "bias": False}])
def test_normalize_over_the_frames_of_each_sequence(feat, time, padded, on):
    norm = rf.Normalize(param_dims=feat, epsilon=0.1, **on)
    assert set(dict(norm.named_parameters())) == {"scale", "bias"} - set(on)
    for name in dict(norm.named_parameters()):
        getattr(norm, name).initial = rf.init.Normal(1.0)
    scale = 1.0 if norm.scale is None else norm.scale.raw_tensor
    bias = 0.0 if norm.bias is None else norm.bias.raw_tensor

    def expected(i, n):
        raw = padded.raw_tensor[i, :n]
        return (raw - raw.mean(0)) / (raw.var(0, correction=0) + 0.1).sqrt() * scale + bias

    close_on_frames(norm(padded, axis=time), expected, padded.dims)


def test_normalize_takes_the_axes_of_the_call(feat, time, padded):
    both = rf.Normalize(param_dims=[feat])(padded, axis=[BATCH, time])
    frames = torch.cat([padded.raw_tensor[i, :n] for i, n in enumerate(LENGTHS)])
    mean, var = frames.mean(0), frames.var(0, correction=0)
    close_on_frames(both, lambda i, n: (padded.raw_tensor[i, :n] - mean) / (var + 1e-6).sqrt(), padded.dims)
