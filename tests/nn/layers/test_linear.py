"""Linear against torch.nn."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

BATCH = rf.batch_dim


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


@pytest.fixture
def inp():
    return rf.Dim(4, name="in")


@pytest.fixture
def out():
    return rf.Dim(6, name="out")


@pytest.fixture
def x(time, inp):
    return rf.convert_to_tensor(torch.randn(3, 5, 4), dims=[BATCH, time, inp], lengths=[5, 5, 5])


def twin(linear):
    """The same map by torch.nn, with weights of its own."""
    weight = linear.weight.raw_tensor.detach()
    same = torch.nn.Linear(*weight.shape, bias=linear.bias is not None)
    with torch.no_grad():
        same.weight.copy_(weight.T)
        if linear.bias is not None:
            same.bias.copy_(linear.bias.raw_tensor)
    return same


def test_parameters_have_the_names_and_dims_of_the_reference(inp, out):
    found = {name: (p.dims, p.dtype) for name, p in rf.Linear(inp, out).named_parameters()}
    assert found == {"weight": ((inp, out), "float32"), "bias": ((out,), "float32")}
    assert [name for name, _ in rf.Linear(inp, out, with_bias=False).named_parameters()] == ["weight"]


@pytest.mark.parametrize("with_bias", [True, False])
def test_as_torch_with_gradients(inp, out, time, x, with_bias):
    linear = rf.Linear(inp, out, with_bias=with_bias)
    if with_bias:
        linear.bias.initial = rf.init.Normal(1.0)
    y, expected = linear(x), twin(linear)
    raw = expected(x.raw_tensor)
    assert y.dims == (BATCH, time, out)
    assert torch.allclose(y.raw_tensor, raw, atol=1e-6)
    y.raw_tensor.square().sum().backward()
    raw.square().sum().backward()
    assert torch.allclose(linear.weight.raw_tensor.grad, expected.weight.grad.T, rtol=1e-4, atol=1e-4)
    if with_bias:
        assert torch.allclose(linear.bias.raw_tensor.grad, expected.bias.grad, rtol=1e-4, atol=1e-4)


def test_the_place_of_the_features_does_not_matter(inp, out, time, x):
    linear = rf.Linear(inp, out)
    y = linear(x.copy_transpose([inp, BATCH, time]))
    assert torch.allclose(y.copy_transpose([BATCH, time, out]).raw_tensor, linear(x).raw_tensor, atol=1e-6)


def test_to_the_same_dim(inp, time, x):
    linear = rf.Linear(inp, inp)
    y = linear(linear(x))
    assert set(y.dims) == {BATCH, time, inp}
    same = twin(linear)
    assert torch.allclose(y.copy_transpose(x.dims).raw_tensor, same(same(x.raw_tensor)), atol=1e-6)


def test_sparse_source_is_one_hot(inp, out, time):
    labels = rf.convert_to_tensor(torch.tensor([[0, 3], [1, 0]]), dims=[BATCH, time], lengths=[2, 1], sparse_dim=inp)
    linear = rf.Linear(inp, out)
    linear.bias.initial = rf.init.Normal(1.0)
    expected = linear.weight.raw_tensor[labels.raw_tensor] + linear.bias.raw_tensor
    y, valid = linear(labels).copy_transpose([BATCH, time, out]), time.get_mask().raw_tensor
    assert torch.allclose(y.raw_tensor[valid], expected[valid])


def test_nan_in_padding_stays_there(inp, out, time, x):
    linear = rf.Linear(inp, out)
    x = rf.convert_to_tensor(x.raw_tensor, dims=[BATCH, time, inp], lengths=[5, 2, 3])
    x.raw_tensor[1, 2:] = torch.nan
    loss = rf.reduce_sum(linear(x), axis=[BATCH, time, out])
    loss.raw_tensor.backward()
    frames = torch.cat([x.raw_tensor[0], x.raw_tensor[1, :2], x.raw_tensor[2, :3]])
    assert torch.allclose(linear.weight.raw_tensor.grad[:, 0], frames.sum(dim=0), atol=1e-5)
    assert torch.allclose(loss.raw_tensor, twin(linear)(frames).sum(), atol=1e-4)


def test_a_wrong_source_is_named(inp, out, x):
    with pytest.raises(rf.errors.DimError, match="linear"):
        rf.Linear(out, inp)(x)


def test_a_wrong_bias_is_named_also_where_another_fitted(inp, out, x):
    weight, dims = rf.ones([inp, out]), {"in_dim": inp, "out_dim": out}
    rf.linear(x, weight, rf.ones([out]), **dims)
    with pytest.raises(rf.errors.DimError, match="linear: `bias`"):
        rf.linear(x, weight, rf.ones([rf.Dim(out.dimension, name="other")]), **dims)


def test_a_training_step_is_plain_torch(inp, out, time, x):
    model = rf.Linear(inp, out)
    optimizer = torch.optim.SGD(rf.torch_parameters(model), lr=0.1)
    before = model.weight.raw_tensor.detach().clone()
    losses = []
    for _ in range(3):
        loss = rf.reduce_mean(rf.square(model(x)), axis=[BATCH, time, out])
        optimizer.zero_grad()
        loss.raw_tensor.backward()
        optimizer.step()
        losses.append(loss.raw_tensor.item())
    assert losses[0] > losses[1] > losses[2]
    assert not torch.equal(before, model.weight.raw_tensor)


def test_torch_parameters_are_the_trainable_ones(inp, out):
    model = rf.Linear(inp, out)
    model.bias.trainable = False
    assert rf.torch_parameters(model) == [model.weight.raw_tensor]
    assert rf.torch_parameters(model)[0] is model.weight.raw_tensor


@pytest.fixture
def ragged():
    """A batch of which so much is padding that no padding is computed, its layer, and the dims."""
    time, inp, out = rf.Dim(None, name="time"), rf.Dim(256, name="in"), rf.Dim(288, name="out")
    raw = torch.randn(4, 60, 256, dtype=torch.float64, requires_grad=True)
    x = rf.convert_to_tensor(raw, dims=[BATCH, time, inp], lengths=[60, 9, 20, 31])
    linear = rf.Linear(inp, out)
    for parameter in linear.parameters():
        parameter.initial = rf.init.Normal(1.0)
        parameter.raw_tensor.data = parameter.raw_tensor.data.double()
    return raw, x, linear, time


def padded(x, time):
    return ~time.get_mask().raw_tensor.expand(x.raw_tensor.shape[:2])


def test_padding_of_many_features_is_0_and_frames_are_as_in_torch(ragged):
    raw, x, linear, time = ragged
    y, expected, padding = linear(x).raw_tensor, twin(linear).double()(raw), padded(x, time)
    assert (y[padding] == 0).all()
    torch.testing.assert_close(y[~padding], expected[~padding])
    turned = linear(x.copy_transpose([time, BATCH, linear.in_dim]))
    torch.testing.assert_close(turned.raw_tensor.transpose(0, 1), y)


def test_gradients_of_many_features_come_from_frames_only(ragged):
    raw, x, linear, time = ragged
    expected, padding = twin(linear).double(), padded(x, time)
    factor = torch.randn(4, 60, 288, dtype=torch.float64)
    (linear(x).raw_tensor * factor).sum().backward()
    gradients = [raw.grad, linear.weight.raw_tensor.grad.T, linear.bias.raw_tensor.grad]
    raw.grad = None
    (expected(raw) * factor)[~padding].sum().backward()
    for gradient, reference in zip(gradients, [raw.grad, *(p.grad for p in expected.parameters())], strict=True):
        torch.testing.assert_close(gradient, reference)


def test_gradients_of_many_features_have_gradients(ragged):
    raw, x, linear, _ = ragged
    inputs = raw[:, :, :2].detach().requires_grad_()

    def function(part):
        whole = rf.convert_to_tensor(
            torch.cat([part, raw.detach()[:, :, 2:]], -1), dims=x.dims, lengths=[60, 9, 20, 31]
        )
        return linear(whole).raw_tensor[:, :, :2].tanh().sum()

    assert torch.autograd.gradgradcheck(function, inputs, fast_mode=True)


def test_torch_func_computes_many_features(ragged):
    raw, x, linear, time = ragged

    def loss(weight):
        return rf.linear(x, x_weight.like(weight), None, in_dim=linear.in_dim, out_dim=linear.out_dim, use_mask=True)

    x_weight = linear.weight
    value = torch.func.grad(lambda weight: rf.reduce_sum(loss(weight), axis=loss(weight).dims).raw_tensor)
    frames = raw.detach()[~padded(x, time)]
    torch.testing.assert_close(value(linear.weight.raw_tensor.detach()), frames.sum(0)[:, None].expand(256, 288))


def test_many_features_keep_no_copy_of_the_frames(ragged):
    raw, x, linear, _ = ragged
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda saved: kept.append(saved) or saved, lambda saved: saved):
        linear(x)
    storages = {saved.untyped_storage().data_ptr() for saved in kept if saved.is_floating_point()}
    assert storages == {raw.data_ptr(), linear.weight.raw_tensor.data_ptr()}
