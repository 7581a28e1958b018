"""Square matrices: one dim twice, told apart by its priority."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim

FEAT = Dim(4, name="feat")
FIRST = FEAT.copy(match_priority=1)
RAW = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)


@pytest.fixture(params=[(FIRST, FEAT), (FEAT, FIRST)], ids=["in, out", "out, in"])
def weight(request):
    """From FIRST to FEAT."""
    return rf.convert_to_tensor(RAW if request.param[0] is FIRST else RAW.T, dims=request.param)


@pytest.fixture
def x():
    return rf.convert_to_tensor(torch.randn(3, 4, dtype=torch.float64), dims=[batch_dim, FEAT])


def test_a_product_takes_the_dim_with_the_higher_priority(weight, x):
    for y in (
        rf.matmul(x, weight, reduce=FEAT),
        rf.matmul(weight, x, reduce=[FEAT]),
        rf.matmul(x, weight, reduce=FIRST),
    ):
        assert y.dims_set == {batch_dim, FEAT}
        torch.testing.assert_close(y.copy_transpose([batch_dim, FEAT]).raw_tensor, x.raw_tensor @ RAW)
    again = rf.matmul(rf.matmul(x, weight, reduce=FEAT), weight, reduce=FEAT)
    torch.testing.assert_close(again.raw_tensor, x.raw_tensor @ RAW @ RAW)


def test_other_dims_make_a_product_of_many_axes(weight):
    time, heads = Dim(2, name="time"), Dim(3, name="heads")
    x = rf.random_normal([batch_dim, heads, time, FEAT], dtype="float64")
    both = rf.combine_bc(weight, "mul", rf.random_normal([heads, time], dtype="float64"))
    y = rf.matmul(x, both, reduce=[FEAT, time]).copy_transpose([batch_dim, heads, FEAT])
    matrix = both.copy_transpose([heads, time, FIRST, FEAT]).raw_tensor
    torch.testing.assert_close(y.raw_tensor, torch.einsum("bhti,htio->bho", x.raw_tensor, matrix))


def test_with_itself(weight):
    torch.testing.assert_close(rf.matmul(weight, weight, reduce=[FEAT, FIRST]).raw_tensor, RAW.square().sum())
    gram = rf.matmul(weight, weight, reduce=FEAT)
    assert gram.dims == (FEAT,)  # the rows are shared


def test_other_ops_mean_the_same_axis(weight):
    count = Dim(2, name="count")
    labels = rf.convert_to_tensor([1, 3], dims=[count], sparse_dim=FEAT)
    cases = {
        "sum": (rf.reduce_sum(weight, axis=FEAT), RAW.sum(0)),
        "sum of the other": (rf.reduce_sum(rf.reduce_sum(weight, axis=FEAT), axis=FEAT), RAW.sum()),
        "all": (rf.reduce_mean(weight, axis=weight.dims), RAW.mean()),
        "softmax": (rf.softmax(weight, axis=FEAT).copy_transpose([FIRST, FEAT]), RAW.softmax(0)),
        "log_softmax": (rf.log_softmax(weight, axis=FIRST).copy_transpose([FIRST, FEAT]), RAW.log_softmax(0)),
        "gather": (rf.gather(weight, indices=labels).copy_transpose([count, FEAT]), RAW[[1, 3]]),
        "gather one": (rf.gather(weight, indices=2, axis=FEAT), RAW[2]),
    }
    for name, (found, expected) in cases.items():
        assert FIRST not in found.dims or "softmax" in name
        torch.testing.assert_close(found.raw_tensor, expected, msg=name)
    assert weight.dims[weight.get_axis_from_description(FEAT)] is FIRST


def test_the_highest_of_three():
    second = FEAT.copy(match_priority=2)
    raw = torch.arange(64.0).reshape(4, 4, 4)
    for dims in ((FEAT, second, FIRST), (second, FIRST, FEAT)):
        x = rf.convert_to_tensor(raw, dims=dims)
        found = rf.reduce_sum(x, axis=FEAT)
        assert found.dims == tuple(dim for dim in dims if dim is not second)
        torch.testing.assert_close(found.raw_tensor, raw.sum(dims.index(second)))


def test_plain_arithmetic_goes_by_the_very_dim(weight):
    v = rf.convert_to_tensor(torch.arange(4.0, dtype=torch.float64), dims=[FEAT])
    turned = rf.convert_to_tensor(v.raw_tensor, dims=[FIRST])
    torch.testing.assert_close((weight * v).copy_transpose([FIRST, FEAT]).raw_tensor, RAW * v.raw_tensor)
    torch.testing.assert_close((weight * turned).copy_transpose([FIRST, FEAT]).raw_tensor, RAW * v.raw_tensor[:, None])


def test_a_linear_map_to_the_same_dim(x):
    linear = rf.Linear(FEAT, FEAT)
    linear.bias.initial = rf.init.Normal(1.0)
    assert linear.weight.dims == (FIRST, FEAT)
    x = rf.cast(x, "float32")
    y = linear(linear(x))
    assert y.dims == x.dims
    raw, bias = linear.weight.raw_tensor, linear.bias.raw_tensor
    torch.testing.assert_close(y.raw_tensor, (x.raw_tensor @ raw + bias) @ raw + bias)
    labels = rf.convert_to_tensor([1, 3], dims=[batch_dim], sparse_dim=FEAT)
    torch.testing.assert_close(linear(labels).raw_tensor, raw[[1, 3]] + bias)


def test_a_linear_map_to_the_same_dim_in_a_loop():
    time = Dim(None, name="time")
    xs = rf.convert_to_tensor(torch.randn(2, 3, 4), dims=[batch_dim, time, FEAT], lengths=[3, 2])
    linear = rf.Linear(FEAT, FEAT)
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch_dim, FEAT])
    with loop:
        loop.state.h = rf.tanh(linear(loop.state.h) + linear(loop.unstack(xs)))
        out = loop.stack(loop.state.h)
    raw, h = linear.weight.raw_tensor, torch.zeros(2, 4)
    for step in range(3):
        h = torch.tanh(h @ raw + xs.raw_tensor[:, step] @ raw)
    torch.testing.assert_close(out.copy_transpose([batch_dim, time, FEAT]).raw_tensor[0, 2], h[0])


def test_frames_of_both_axes_are_masked():
    time = Dim(rf.convert_to_tensor([3, 1], dims=[batch_dim]), name="time")
    other = time.copy(match_priority=1)
    x = rf.convert_to_tensor(torch.full((2, 3, 3), torch.nan), dims=[batch_dim, other, time])
    valid = torch.arange(3) < torch.tensor([3, 1])[:, None]
    raw = torch.where(valid[:, :, None] & valid[:, None], 1.0, torch.nan)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, other, time])
    v = rf.convert_to_tensor(torch.where(valid, 1.0, torch.nan), dims=[batch_dim, time])
    assert rf.reduce_sum(x, axis=[time, other]).raw_tensor.tolist() == [9.0, 1.0]
    product = rf.matmul(x, v, reduce=time)
    assert product.dims == (batch_dim, time)
    assert product.copy_masked(0.0).raw_tensor.tolist() == [[3.0, 3.0, 3.0], [1.0, 0.0, 0.0]]
