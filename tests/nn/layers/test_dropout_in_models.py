"""Dropout in attention, feed-forward parts, layers and models: each option alone, and in training only."""

from __future__ import annotations

from functools import partial

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim

MODEL, ENC, FF = (rf.Dim(n, name=name) for n, name in [(8, "model"), (6, "enc"), (10, "ff")])
HEADS = {"num_heads": 2, "key_dim_total": MODEL, "value_dim_total": MODEL}
ConvGated = rf.encoder.e_branchformer.FeedForwardConvGated


def sequences(dim, lengths=(6, 4, 1), name="time"):
    """{batch, time, dim}, and their time."""
    time, shape = rf.Dim(None, name=name), [len(lengths), max(lengths), dim.dimension]
    raw = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    return rf.convert_to_tensor(raw, dims=[batch_dim, time, dim], lengths=list(lengths)), time


def called(module, x, time):
    """What the module makes of x. {batch, time, model} → {batch, time, …}"""
    if isinstance(module, rf.FeedForward | rf.FeedForwardGated):
        return module(x)
    if isinstance(module, rf.ConformerEncoder):
        return module(x, in_spatial_dim=time)[0]
    if isinstance(module, rf.SelfAttentionBase):
        found = module(x, axis=time)
        return found[0] if isinstance(found, tuple) else found
    if not hasattr(module, "transform_encoder"):
        return module(x, spatial_dim=time)
    encoder, letters = sequences(ENC, x.size_of(time).values, "letters")
    encoder = module.transform_encoder(encoder, axis=letters) if module.encoder_dim else None
    if isinstance(module, rf.CrossAttention):
        return module(x, encoder)
    state = module.default_initial_state(batch_dims=[batch_dim])
    return module(x, spatial_dim=time, state=state, encoder=encoder)[0]


def model(make, *dims, **given):
    return partial(make, *dims, MODEL, MODEL, num_layers=1, num_heads=2, **given)


ATTENTION = {
    f"{kind}SelfAttention": partial(getattr(rf, f"{kind}SelfAttention"), MODEL, MODEL, **HEADS)
    for kind in ["", "Causal", "RotaryPos", "RotaryPosCausal", "RelPos", "RelPosCausal"]
} | {"CrossAttention": partial(rf.CrossAttention, ENC, MODEL, MODEL, **HEADS)}
FEED_FORWARD = {
    make.__name__: partial(make, MODEL, ff_dim=FF)
    for make in (rf.FeedForward, rf.ConformerPositionwiseFeedForward, rf.FeedForwardGated, ConvGated)
}
LAYERS = {
    "TransformerEncoderLayer": partial(rf.TransformerEncoderLayer, MODEL, num_heads=2),
    "TransformerDecoderLayer": partial(rf.TransformerDecoderLayer, ENC, MODEL, num_heads=2),
    "TransformerDecoderLayer, no encoder": partial(rf.TransformerDecoderLayer, None, MODEL, num_heads=2),
    # batch norm would make training another thing without any dropout
    "ConformerEncoderLayer": partial(rf.ConformerEncoderLayer, MODEL, num_heads=2, conv_norm=rf.LayerNorm),
    "EBranchformerLayer": partial(rf.EBranchformerLayer, MODEL, num_heads=2),
}
MODELS = {
    "TransformerEncoder": model(rf.TransformerEncoder, input_embedding=None),
    "TransformerDecoder": model(rf.TransformerDecoder, ENC, input_embedding=False),
    "TransformerDecoder, no encoder": model(rf.TransformerDecoder, None, input_embedding=False),
    "ConformerEncoder": model(rf.ConformerEncoder, input_layer=None, conv_norm=rf.LayerNorm),
    "ConformerEncoder, EBranchformerLayer": model(
        rf.ConformerEncoder, input_layer=None, encoder_layer=rf.EBranchformerLayer
    ),
}
OPTIONS = {
    **{name: (make, ["att_dropout"] + ["pos_emb_dropout"] * ("RelPos" in name)) for name, make in ATTENTION.items()},
    **{name: (make, ["dropout"]) for name, make in FEED_FORWARD.items()},
    **{name: (make, ["dropout", "att_dropout"]) for name, make in LAYERS.items()},
    **{name: (make, ["input_dropout", "dropout", "att_dropout"]) for name, make in MODELS.items()},
}


def made(name, **drop):
    """The same weights each time; no dropout but this."""
    make, options = OPTIONS[name]
    rf.set_random_seed(3)
    return make(**{**dict.fromkeys(options, 0.0), **drop})


def output(module, lengths=(6, 4, 1), *, train=True, seed=7):
    rf.init_train_step_run_ctx(train_flag=train)
    rf.set_random_seed(seed)
    return called(module, *sequences(MODEL, lengths)).copy_masked(0.0).raw_tensor


@pytest.mark.parametrize(
    ("name", "option"), [(name, option) for name, (_, options) in OPTIONS.items() for option in options]
)
def test_each_option_is_for_training(name, option):
    none, some = made(name), made(name, **{option: 0.5})
    expected = output(none, train=False)
    assert torch.equal(output(some, train=False), expected) and torch.equal(output(none), expected)
    found = output(some)
    assert torch.equal(output(some), found)
    assert not torch.equal(found, expected) and not torch.equal(output(some, seed=8), found)


ALL = [(name, "att_dropout") for name in ATTENTION] + [(name, "dropout") for name in FEED_FORWARD]
ALL += [(name, "input_dropout") for name in MODELS if name != "TransformerDecoder"]


@pytest.mark.parametrize(("name", "option"), ALL)
def test_nothing_passes_with_probability_one(name, option):
    """Positions neither; biases are 0 at first."""
    assert output(made(name)).any() and not output(made(name, **{option: 1.0})).any()


@pytest.mark.parametrize("name", ["TransformerEncoder", "TransformerDecoder"])
def test_dropout_of_a_transformer_is_that_of_its_input_too(name):
    assert MODELS[name](dropout=0.3).input_dropout == 0.3


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_drops_all_that_its_parts_add(name):
    layer, (x, time) = made(name), sequences(MODEL)
    for parameter in layer.parameters():
        parameter.raw_tensor.data.add_(0.1)  # biases too: no part gives 0
    layer.dropout = 1.0  # not that of its parts
    expected = layer.final_layer_norm(x) if hasattr(layer, "final_layer_norm") else x
    rf.init_train_step_run_ctx(train_flag=True)
    assert torch.equal(called(layer, x, time).raw_tensor, expected.raw_tensor)


def test_both_branches_are_dropped_before_they_are_merged():
    layer, branches = made("EBranchformerLayer", dropout=0.0), []
    layer.dropout, layer.merge = 1.0, lambda far, near, **_: branches.extend([far, near]) or far
    output(layer)
    assert len(branches) == 2 and not any(branch.raw_tensor.any() for branch in branches)


SHARED = [(name, "dropout") for name in [*FEED_FORWARD, *LAYERS]] + [(name, "input_dropout") for name in MODELS]


@pytest.mark.parametrize(("name", "option"), SHARED)
def test_frames_share_dropped_features_unless_switched_off(name, option, monkeypatch):
    axes = []
    drop = rf.dropout

    def noted(source, drop_prob, *, axis=None, on_forward=False):
        if drop_prob == 0.5:
            axes.append((axis, source.dims))
        return drop(source, drop_prob, axis=axis, on_forward=on_forward)

    monkeypatch.setattr("rfnb.nn.layers.dropout.dropout", noted)
    module = made(name, **{option: 0.5})
    output(module)
    assert axes and all(axis is not None and axis in dims and axis.is_static() for axis, dims in axes)
    shared = len(axes)
    with rf.set_dropout_broadcast_ctx(False):
        output(module)
    assert len(axes) == 2 * shared and not any(axis for axis, _ in axes[shared:])


@pytest.mark.parametrize("name", FEED_FORWARD)
def test_a_feed_forward_part_drops_hidden_features(name):
    gate = {} if isinstance(made(name), rf.FeedForward) else {"gate_activation": rf.ones_like}
    module = OPTIONS[name][0](ff_dim=rf.Dim(1000, name="ff"), dropout=0.25, activation=rf.ones_like, **gate)
    module.linear_out = lambda hidden: hidden
    hidden = output(module)[0]
    assert sorted(hidden.unique().tolist()) == pytest.approx([0.0, 4 / 3])
    assert (hidden == 0).float().mean().item() == pytest.approx(0.25, abs=0.03)


def mean_of_ones(name, **drop):
    """Attention with values 1 and the same weight for all keys."""
    module = made(name, **drop)
    module.proj, values = None, module.kv if name == "CrossAttention" else module.qkv
    for parameter in module.parameters():
        parameter.raw_tensor.data.zero_()
    values.bias.raw_tensor.data.reshape(2, -1)[:, -4:] = 1.0  # those of each head come last
    return module


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_drops_weights_of_keys(name):
    """With one key, its weight is 1."""
    found = output(mean_of_ones(name, att_dropout=0.25), [1] * 1000).reshape(1000, 2, 4)
    assert (found == found[..., :1]).all() and not torch.equal(found[:, 0], found[:, 1])
    assert sorted(found.unique().tolist()) == pytest.approx([0.0, 4 / 3])
    assert (found == 0).float().mean().item() == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize("name", ATTENTION)
def test_attention_drops_the_same_keys_everywhere_if_asked(name):
    everywhere, each = (
        output(mean_of_ones(name, att_dropout=0.5, att_dropout_broadcast=broadcast), [6, 6, 6])
        for broadcast in (True, None)
    )
    if "Causal" in name:  # only the last frame sees all keys
        everywhere, each = everywhere[:, -1], each[:, -1]
    assert everywhere.std() < 1e-6 and each.std() > 0.1
