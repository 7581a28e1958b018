"""Conformer and E-Branchformer, against plain torch and one sequence at a time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import ParameterError
from tests.examples import examples
from tests.nn.encoder import plain_conformer

FEAT, MODEL = rf.Dim(6, name="feat"), rf.Dim(8, name="model")
NO_DROPOUT = {"dropout": 0.0, "att_dropout": 0.0}
FRONTENDS = {
    "stride": {"out_dims": [3, 4], "filter_sizes": [3, (3, 3)], "strides": [1, (3, 1)], "pool_sizes": [(1, 2)]},
    "pool": {"out_dims": [3, 4], "filter_sizes": [(3, 3), 3], "pool_sizes": [(1, 2), (2, 1)], "strides": [1, (2, 1)]},
    "even": {"out_dims": [3], "filter_sizes": [(4, 3)], "strides": [(4, 2)]},
    "valid": {"out_dims": [3, 4], "filter_sizes": [3, 3], "strides": [(2, 1), (2, 1)], "padding": "valid"},
}
LENGTHS = {  # of 0, 1, 2, … frames
    "stride": [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5],
    "pool": [0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4],
    "even": [0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4],
    "valid": [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2],
}


@pytest.fixture(autouse=True)
def seed():
    rf.set_random_seed(1)


def shaken(module):
    """With weights that are all different."""
    for name, parameter in module.named_parameters():
        noise = 0.3 * torch.randn_like(parameter.raw_tensor)
        with torch.no_grad():
            parameter.raw_tensor.add_(noise.abs() if name.endswith("variance") else noise)
    return module


def batch(lengths, dim=FEAT, garbage=0.0):
    time = rf.Dim(None, name="time")
    raw = torch.randn(len(lengths), max(lengths), dim.dimension)
    for row, length in zip(raw, lengths, strict=True):
        row[length:] = garbage
    return rf.convert_to_tensor(raw, dims=[batch_dim, time, dim], lengths=lengths), time


def alone(x, time, i, length):
    """One sequence, without padding."""
    one = rf.Dim(None, name="time")
    raw = x.copy_transpose([batch_dim, time, *[d for d in x.dims if d not in (batch_dim, time)]]).raw_tensor
    return rf.convert_to_tensor(raw[i : i + 1, :length], dims=[batch_dim, one, x.dims[-1]], lengths=[length]), one


def rows(y, frames):
    """[frames, features] of each sequence."""
    rest = [dim for dim in y.dims if dim not in (batch_dim, frames)]
    raw = y.copy_transpose([batch_dim, frames, *rest]).raw_tensor
    return [row[:n] for row, n in zip(raw, y.size_of(frames).values.reshape(-1).tolist(), strict=True)]


@pytest.mark.parametrize("name", FRONTENDS)
def test_lengths_of_the_frontend(name):
    frontend = rf.ConformerConvSubsample(FEAT, **FRONTENDS[name])
    x, time = batch(list(range(14)))
    y, frames = frontend(x, in_spatial_dim=time)
    assert frames is frontend.get_out_spatial_dim(time)
    assert y.size_of(frames).values.tolist() == LENGTHS[name]
    assert set(y.dims) == {batch_dim, frames, frontend.out_dim} and y.feature_dim is frontend.out_dim
    assert frontend.downsample_factor == {"stride": 3, "pool": 4, "even": 4, "valid": 4}[name]


@examples(8)
@given(lengths=st.lists(st.integers(0, 9), min_size=1, max_size=3), name=st.sampled_from(list(FRONTENDS)))
def test_each_sequence_gets_what_it_gets_alone(lengths, name):
    rf.init_forward_step_run_ctx()
    frontend = rf.ConformerConvSubsample(FEAT, **FRONTENDS[name])
    encoder = shaken(rf.ConformerEncoder(FEAT, MODEL, num_layers=1, input_layer=frontend, num_heads=2))
    x, time = batch(lengths, garbage=float("nan"))
    for i, row in enumerate(rows(*encoder(x, in_spatial_dim=time))):
        one, its_time = alone(x, time, i, lengths[i])
        [expected] = rows(*encoder(one, in_spatial_dim=its_time))
        torch.testing.assert_close(row, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("lengths", [[9, 9], [9, 4, 1]])
def test_values_and_gradients_are_those_of_plain_torch(lengths, train):
    rf.init_train_step_run_ctx(train_flag=train)
    options = {"num_layers": 2, "num_heads": 2, "conv_kernel_size": 5, "input_dropout": 0.0, **NO_DROPOUT}
    encoder = shaken(rf.ConformerEncoder(FEAT, MODEL, input_layer=None, **options))
    weights = plain_conformer.weights_of(encoder)
    x, time = batch(lengths)
    y, _ = encoder(x, in_spatial_dim=time)
    expected = plain_conformer.encoder(weights, x.raw_tensor, torch.tensor(lengths), layers=2, heads=2, train=train)
    pairs = list(zip(rows(y, time), [row[:n] for row, n in zip(expected, lengths, strict=True)], strict=True))
    for row, other in pairs:
        torch.testing.assert_close(row, other, rtol=1e-4, atol=1e-5)
    factors = [torch.randn_like(row) for row, _ in pairs]
    sum((row * f).sum() for (row, _), f in zip(pairs, factors, strict=True)).backward()
    sum((other * f).sum() for (_, other), f in zip(pairs, factors, strict=True)).backward()
    for name, parameter in encoder.named_parameters():
        if parameter.auxiliary:  # the running statistics moved alike
            torch.testing.assert_close(parameter.raw_tensor, weights[name])
            continue
        gradient = parameter.raw_tensor.grad
        gradient = gradient.t() if name.endswith(".weight") else gradient
        torch.testing.assert_close(
            gradient, weights[name].grad, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}"
        )


@pytest.mark.parametrize("make", [rf.ConformerEncoderLayer, rf.EBranchformerLayer])
def test_training_does_not_depend_on_padding(make):
    """Batch norm counts valid frames alone: more padding, or garbage in it, changes nothing."""
    layer = shaken(make(MODEL, num_heads=2, **NO_DROPOUT))
    rf.init_train_step_run_ctx(train_flag=True)
    x, time = batch([5, 3, 1], MODEL)
    wide = torch.full([3, 9, 8], float("nan"))
    wide[:, :5] = x.raw_tensor
    wide[1, 3:] = wide[2, 1:] = float("nan")
    more = rf.Dim(None, name="time")
    garbage = rf.convert_to_tensor(wide, dims=[batch_dim, more, MODEL], lengths=[5, 3, 1])
    gradients = []
    for source, dim in ((x, time), (garbage, more)):
        y = layer(source, spatial_dim=dim)
        loss = rf.reduce_sum(rf.square(y - 0.5), axis=list(y.dims))
        trained = [p.raw_tensor for p in layer.parameters() if not p.auxiliary]
        gradients.append([loss.raw_tensor, *torch.autograd.grad(loss.raw_tensor, trained)])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_the_order_of_dims_does_not_matter():
    rf.init_forward_step_run_ctx()
    encoder = shaken(rf.ConformerEncoder(FEAT, MODEL, num_layers=1, input_layer=None, num_heads=2))
    x, time = batch([4, 2])
    y, _ = encoder(x, in_spatial_dim=time)
    z, _ = encoder(x.copy_transpose([FEAT, time, batch_dim]), in_spatial_dim=time)
    for a, b in zip(rows(y, time), rows(z, time), strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("make", [rf.ConformerEncoderLayer, rf.EBranchformerLayer])
def test_dropout_is_for_training(make):
    layer = make(MODEL, num_heads=2, dropout=0.5)
    x, time = batch([4, 2], MODEL)
    rf.init_forward_step_run_ctx()
    assert torch.equal(*(layer(x, spatial_dim=time).raw_tensor for _ in range(2)))
    rf.init_train_step_run_ctx(train_flag=True)
    assert not torch.equal(*(layer(x, spatial_dim=time).raw_tensor for _ in range(2)))


def test_what_each_layer_gives_is_collected():
    encoder = rf.ConformerEncoder(FEAT, MODEL, num_layers=2, input_layer=None, num_heads=2)
    x, time = batch([4, 2])
    collected = {}
    y, _ = encoder(x, in_spatial_dim=time, collected_outputs=collected)
    assert list(collected) == ["0", "1"] and collected["1"] is y


CHOICES = {
    "norm": {"norm": rf.RMSNorm},
    "norm dict": {"norm": {"class": "rf.RMSNorm", "eps": 1e-3}},
    "conv norm": {"conv_norm": rf.LayerNorm},
    "conv norm over time": {"conv_norm": rf.GroupNormSpatial, "conv_norm_opts": {"num_groups": 2}},
    "self-attention": {"self_att": rf.SelfAttention},
    "self-attention options": {"self_att_opts": {"with_bias": False}},
    "feed-forward": {"ff_dim": 5, "ff_activation": rf.relu_square},
    "feed-forward module": {"ff": rf.FeedForward(MODEL, ff_dim=3)},
}


@pytest.mark.parametrize("name", CHOICES)
def test_parts_can_be_chosen(name):
    layer = rf.ConformerEncoderLayer(MODEL, num_heads=2, **CHOICES[name])
    x, time = batch([4, 2], MODEL)
    assert set(layer(x, spatial_dim=time).dims) == {batch_dim, time, MODEL}
    if name == "feed-forward module":
        assert layer.ffn1 is not layer.ffn2 and layer.ffn1.linear_ff.weight is not layer.ffn2.linear_ff.weight


@pytest.mark.parametrize("layer", [rf.EBranchformerLayer, rf.EBranchformerLayer(MODEL, num_heads=2)])
def test_layers_can_be_chosen(layer):
    options = {"num_layers": 2, "input_layer": None, "num_heads": 2}
    encoder = rf.ConformerEncoder(FEAT, MODEL, encoder_layer=layer, **options)
    assert type(encoder.layers[0]) is rf.EBranchformerLayer
    assert encoder.layers[0].cgmlp.linear_ff.weight is not encoder.layers[1].cgmlp.linear_ff.weight
    x, time = batch([4, 2])
    assert set(encoder(x, in_spatial_dim=time)[0].dims) == {batch_dim, time, MODEL}


def test_positions_are_added_to_a_scaled_input():
    rf.init_forward_step_run_ctx()
    options = {"num_layers": 0, "input_layer": None}
    encoder = rf.ConformerEncoder(FEAT, MODEL, pos_enc=rf.sinusoidal_positional_encoding, **options)
    x, time = batch([4, 2])
    y, _ = encoder(x, in_spatial_dim=time)
    expected = encoder.input_projection(x) * 8**0.5 + rf.sinusoidal_positional_encoding(
        spatial_dim=time, feat_dim=MODEL
    )
    for a, b in zip(rows(y, time), rows(expected, time), strict=True):
        torch.testing.assert_close(a, b)


def test_bfloat16():
    rf.init_train_step_run_ctx(train_flag=True)
    encoder = rf.ConformerEncoder(
        FEAT, MODEL, num_layers=1, input_layer=None, num_heads=2, input_dropout=0.0, **NO_DROPOUT
    )
    x, time = batch([6, 3])
    y, _ = encoder(x, in_spatial_dim=time)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z, _ = encoder(x, in_spatial_dim=time)
    for a, b in zip(rows(y, time), rows(z, time), strict=True):
        assert (a - b).abs().max() < 0.2


@pytest.mark.parametrize(
    "options",
    [
        {"out_dims": [], "filter_sizes": []},
        {"out_dims": [4, 5], "filter_sizes": [3]},
        {"out_dims": [4], "filter_sizes": [3], "strides": [1, 1]},
    ],
)
def test_a_frontend_of_options_that_do_not_fit(options):
    with pytest.raises(ParameterError, match="ConformerConvSubsample"):
        rf.ConformerConvSubsample(FEAT, **options)


def test_what_makes_no_part():
    with pytest.raises(ParameterError, match="no part"):
        rf.ConformerEncoderLayer(MODEL, num_heads=2, norm="layer_norm")


def test_a_feed_forward_without_bias():
    ff = rf.build_dict(rf.ConformerPositionwiseFeedForward, activation=rf.build_dict(rf.relu_square), with_bias=False)
    layer = rf.ConformerEncoderLayer(MODEL, ff=ff, num_heads=2, conv_kernel_size=3)
    assert [name for name, _ in layer.ffn1.named_parameters()] == ["linear_ff.weight", "linear_out.weight"]
    x, time = batch([5, 3], MODEL)
    expected = layer.ffn1.linear_out(rf.square(rf.relu(layer.ffn1.linear_ff(x))))
    torch.testing.assert_close(rows(layer.ffn1(x), time), rows(expected, time))
