"""LayerNorm against torch.nn."""

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
