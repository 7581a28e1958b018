"""Convolutions against torch.nn, one sequence at a time."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

BATCH = rf.batch_dim
LENGTHS = [7, 3, 5]


def dims(*named):
    return [rf.Dim(size, name=name) for name, size in named]


IN, OUT, WIDE, HIGH, DEEP = dims(("in", 4), ("out", 6), ("wide", 5), ("high", 6), ("deep", 4))
TORCH = {
    1: (rf.Conv1d, torch.nn.Conv1d, rf.TransposedConv1d, torch.nn.ConvTranspose1d),
    2: (rf.Conv2d, torch.nn.Conv2d, rf.TransposedConv2d, torch.nn.ConvTranspose2d),
    3: (rf.Conv3d, torch.nn.Conv3d, rf.TransposedConv3d, torch.nn.ConvTranspose3d),
}


def twin(module, make, **options):
    """The torch module with the same filter, which has the same layout."""
    sizes = tuple(dim.dimension for dim in module.filter_size)
    same = make(module.in_dim.dimension, module.out_dim.dimension, sizes, bias=module.bias is not None, **options)
    same.load_state_dict(
        {"weight": module.filter.raw_tensor} | ({} if module.bias is None else {"bias": module.bias.raw_tensor})
    )
    return same


def run(module, x, spatial):
    if module.nd == 1:
        y, out = module(x, in_spatial_dim=spatial[0])
        return y, [out]
    return module(x, in_spatial_dims=spatial)


def batch(spatial, in_dim=IN):
    """Sequences of several lengths: the first dim is the time, others are static."""
    time = rf.Dim(None, name="time")
    shape = [3, 7, *(dim.dimension for dim in spatial), in_dim.dimension]
    return rf.convert_to_tensor(torch.randn(shape), dims=[BATCH, time, *spatial, in_dim], lengths=LENGTHS), time


STATIC = [WIDE, HIGH]
OPTIONS = {
    "valid": ({"padding": "valid"}, {"padding": 0}),
    "same": ({"padding": "same"}, {"padding": 1}),
    "a number": ({"padding": 2}, {"padding": 2}),
    "strides": ({"padding": "valid", "strides": 2}, {"stride": 2}),
    "dilation": ({"padding": "valid", "dilation_rate": 2}, {"dilation": 2}),
    "groups": ({"padding": "same", "groups": 2}, {"padding": 1, "groups": 2}),
    "no bias": ({"padding": "same", "with_bias": False}, {"padding": 1}),
}


@pytest.mark.parametrize("nd", TORCH)
@pytest.mark.parametrize("name", OPTIONS)
def test_a_convolution_is_that_of_torch(nd, name):
    mine, theirs = OPTIONS[name]
    module = TORCH[nd][0](IN, OUT, 3, **mine)
    same = twin(module, TORCH[nd][1], **theirs)
    x, time = batch(STATIC[: nd - 1])
    y, out_spatial = run(module, x, [time, *STATIC[: nd - 1]])
    y = y.copy_transpose([BATCH, *out_spatial, OUT])
    for i, length in enumerate(LENGTHS):
        raw = x.raw_tensor[i, :length].movedim(-1, 0)[None]
        too_short = name == "dilation" and length < 5
        expected = torch.zeros(0) if too_short else same(raw)[0].movedim(0, -1)
        found = y.raw_tensor[i, : len(expected)]
        assert y.size_of(out_spatial[0]).values[i] == len(expected)
        if not too_short:
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("nd", TORCH)
@pytest.mark.parametrize("strides", [None, 1, 2])
def test_a_transposed_convolution_is_that_of_torch(nd, strides):
    module = TORCH[nd][2](IN, OUT, 2, padding="valid", strides=strides)
    same = twin(module, TORCH[nd][3], stride=strides or 2)
    x, time = batch(STATIC[: nd - 1])
    y, out_spatial = run(module, x, [time, *STATIC[: nd - 1]])
    y = y.copy_transpose([BATCH, *out_spatial, OUT])
    for i, length in enumerate(LENGTHS):
        expected = same(x.raw_tensor[i, :length].movedim(-1, 0)[None])[0].movedim(0, -1)
        assert y.size_of(out_spatial[0]).values[i] == len(expected)
        torch.testing.assert_close(y.raw_tensor[i, : len(expected)], expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("make", [rf.Conv1d, rf.TransposedConv1d])
def test_gradients_are_those_of_torch(make):
    module = make(IN, OUT, 3, padding="valid", strides=1)
    same = twin(module, TORCH[1][1 if make is rf.Conv1d else 3])
    x, time = batch([])
    y, out_time = module(x, in_spatial_dim=time)
    rf.reduce_sum(rf.square(y), axis=[BATCH, out_time, OUT]).raw_tensor.backward()
    sum(same(x.raw_tensor[i, :n].T[None]).square().sum() for i, n in enumerate(LENGTHS)).backward()
    torch.testing.assert_close(module.filter.raw_tensor.grad, same.weight.grad, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(module.bias.raw_tensor.grad, same.bias.grad, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_to_the_same_dim(groups):
    module = rf.Conv1d(IN, IN, 3, padding="same", groups=groups)
    same = twin(module, torch.nn.Conv1d, padding=1, groups=groups)
    x, time = batch([])
    y, out_time = module(x, in_spatial_dim=time)
    assert out_time is time
    for i, n in enumerate(LENGTHS):
        expected = same(x.raw_tensor[i, :n].T[None])[0].T
        torch.testing.assert_close(y.copy_transpose(x.dims).raw_tensor[i, :n], expected, atol=1e-5, rtol=1e-4)


def test_transposed_to_the_same_dim():
    module = rf.TransposedConv1d(IN, IN, 2, padding="valid")
    same = twin(module, torch.nn.ConvTranspose1d, stride=2)
    x, time = batch([])
    y, out_time = module(x, in_spatial_dim=time)
    expected = same(x.raw_tensor[:1].mT)[0].T
    torch.testing.assert_close(y.copy_transpose([BATCH, out_time, IN]).raw_tensor[0], expected, atol=1e-5, rtol=1e-4)


def test_the_output_dim_may_be_given():
    x, time = batch([])
    later = rf.Dim(None, name="later")
    y, found = rf.Conv1d(IN, OUT, 3, padding="same", strides=2)(x, in_spatial_dim=time, out_spatial_dim=later)
    assert found is later and y.feature_dim is OUT
    assert y.size_of(later).values.tolist() == [4, 2, 3]
    y, found = rf.TransposedConv1d(IN, OUT, 3, padding="valid")(
        x, in_spatial_dim=time, out_spatial_dim=rf.Dim(None, name="longer")
    )
    assert y.size_of(found).values.tolist() == [21, 9, 15]


def test_the_filter_has_the_size_and_dims_that_are_asked_for():
    width = rf.Dim(3, name="width")
    assert rf.Conv1d(IN, OUT, width, padding="same").filter.dims == (OUT, IN, width)
    assert [dim.dimension for dim in rf.Conv2d(IN, OUT, (3, 5), padding="same").filter.dims] == [6, 4, 3, 5]
    assert rf.TransposedConv1d(IN, OUT, width, padding="same").filter.dims == (IN, OUT, width)
    assert [dim.dimension for dim in rf.Conv2d(IN, OUT, 3, padding="same").filter_size] == [3, 3]


@pytest.mark.parametrize(("groups", "fan_in"), [(1, 40 * 5), (4, 10 * 5)])
def test_filters_begin_with_the_variance_of_their_fans(groups, fan_in):
    inp, out = dims(("in", 40), ("out", 60))
    conv = rf.Conv1d(inp, out, 5, padding="same", groups=groups)
    limit = (6 / (fan_in + 60 * 5)) ** 0.5
    assert 0.97 * limit < conv.filter.raw_tensor.abs().max() <= limit
    conv.filter.initial = rf.init.HeUniform()
    assert conv.filter.raw_tensor.abs().max().item() == pytest.approx((6 / fan_in) ** 0.5, rel=0.03)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rf.Conv1d(IN, OUT, 3, padding="same", groups=3), "must divide in"),
        (lambda: rf.Conv1d(OUT, IN, 3, padding="same", groups=3), "must divide in"),
        (lambda: rf.Conv1d(IN, OUT, 3, padding="same", groups=-1), "must divide in"),
        (lambda: rf.Conv2d(IN, OUT, (3,), padding="same"), "wrong number of sizes"),
        (lambda: rf.TransposedConv1d(IN, OUT, (3, 3), padding="same"), "wrong number of sizes"),
        (lambda: rf.Conv1d(IN, OUT, 0, padding="same"), "Conv1d: `filter_size` must be 1 or more"),
        (lambda: rf.TransposedConv1d(IN, OUT, rf.Dim(0, name="width"), padding="same"), "must be 1 or more"),
        (lambda: rf.Conv2d(IN, OUT, (3, -1), padding="same"), "Conv2d: `filter_size` must be 1 or more"),
        (lambda: rf.Conv1d(rf.Dim(None, name="time"), OUT, 3, padding="same"), "fixed size"),
    ],
)
def test_what_does_not_fit_is_told(make, message):
    with pytest.raises(rf.errors.RfError, match=message):
        make()


@pytest.mark.parametrize("kind", [rf.Conv1d, rf.TransposedConv3d, rf.RotaryPosSelfAttention, rf.CausalSelfAttention])
def test_a_missing_argument_is_one_of_the_class_that_is_made(kind):
    with pytest.raises(TypeError, match=rf"^{kind.__name__}.__init__\(\) missing .* 'in_dim'"):
        kind()
    with pytest.raises(TypeError, match=rf"^{kind.__name__}.__init__\(\) takes "):
        kind(*[IN] * 9)


def test_a_missing_argument_of_the_base_is_one_of_the_base():
    class Own(rf.Linear):
        def __init__(self):
            super().__init__(IN)

    with pytest.raises(TypeError, match=r"^Linear.__init__\(\) missing"):
        Own()


def test_it_says_what_it_is():
    assert rf.Conv2d(IN, OUT, (3, 5), padding="same").extra_repr() == "in:4 → out:6, 3×5, padding=same"


def test_nan_in_padding_stays_there():
    x, time = batch([])
    x.raw_tensor[1, 3:] = torch.nan
    module = rf.Conv1d(IN, OUT, 3, padding="same")
    y, _ = module(x, in_spatial_dim=time)
    rf.reduce_sum(rf.square(y), axis=y.dims).raw_tensor.backward()
    assert torch.isfinite(module.filter.raw_tensor.grad).all()
