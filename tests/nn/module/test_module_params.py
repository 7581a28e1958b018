"""Modules have parameters of the names and shapes that checkpoints have been written with.

`module_params.json` lists them: the dims of each, in order, as "name:size", and "auxiliary".
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import rfnb as rf

FACTS = json.loads(Path(__file__).parents[2].joinpath("module_params.json").read_text(encoding="utf-8"))

IN, OUT, VOCAB, MODEL, FF = (
    rf.Dim(n, name=name) for n, name in [(4, "in"), (6, "out"), (5, "vocab"), (8, "model"), (16, "ff")]
)
HEADS = {"key_dim_total": rf.Dim(8, name="key"), "value_dim_total": rf.Dim(10, name="value")} | {
    "num_heads": rf.Dim(2, name="heads")
}


def conformer_frontend():
    options = {"filter_sizes": [(3, 3)] * 2, "strides": [(2, 1)] * 2}
    return rf.encoder.conformer.ConformerConvSubsample(
        IN, out_dims=[rf.Dim(3, name="c1"), rf.Dim(3, name="c2")], **options
    )


MAKE = {
    "Linear": lambda: rf.Linear(IN, OUT),
    "Embedding": lambda: rf.Embedding(VOCAB, OUT),
    "LSTM": lambda: rf.LSTM(IN, OUT),
    "ZoneoutLSTM": lambda: rf.ZoneoutLSTM(IN, OUT),
    "LayerNorm": lambda: rf.LayerNorm(IN),
    "RMSNorm": lambda: rf.RMSNorm(IN),
    "GroupNorm": lambda: rf.GroupNorm(IN, num_groups=2),
    "BatchNorm": lambda: rf.BatchNorm(IN),
    "Normalize": lambda: rf.Normalize(param_dims=IN),
    "Conv1d": lambda: rf.Conv1d(IN, OUT, 3, padding="same"),
    "Conv2d": lambda: rf.Conv2d(IN, OUT, (3, 5), padding="same"),
    "Conv1d groups": lambda: rf.Conv1d(IN, OUT, 3, padding="same", groups=2),
    "TransposedConv1d": lambda: rf.TransposedConv1d(IN, OUT, 3, padding="same"),
    "SelfAttention": lambda: rf.SelfAttention(IN, OUT, **HEADS),
    "CausalSelfAttention": lambda: rf.CausalSelfAttention(IN, OUT, **HEADS),
    "RelPosSelfAttention": lambda: rf.RelPosSelfAttention(IN, OUT, **HEADS),
    "RelPosCausalSelfAttention": lambda: rf.RelPosCausalSelfAttention(IN, OUT, **HEADS),
    "RotaryPosSelfAttention": lambda: rf.RotaryPosSelfAttention(IN, OUT, **HEADS),
    "CrossAttention": lambda: rf.CrossAttention(VOCAB, IN, OUT, **HEADS),
    "LearnedRelativePositionalEncoding": lambda: rf.LearnedRelativePositionalEncoding(IN, clipping=3),
    "PiecewiseLinear": lambda: rf.PiecewiseLinear({0: 1.0, 10: 2.0}),
    "RunningMean": lambda: rf.RunningMean(IN, alpha=0.1),
    "ConformerEncoderLayer": lambda: rf.encoder.conformer.ConformerEncoderLayer(
        MODEL, num_heads=2, conv_norm=rf.BatchNorm, ff_activation=rf.swish
    ),
    "ConformerEncoder": lambda: rf.encoder.conformer.ConformerEncoder(
        IN, MODEL, ff_dim=FF, num_layers=2, num_heads=2, input_layer=conformer_frontend(), conv_norm=rf.BatchNorm
    ),
    "TransformerDecoder": lambda: rf.decoder.transformer.TransformerDecoder(
        IN, VOCAB, MODEL, num_layers=2, num_heads=2, share_embedding=False
    ),
    "TransformerDecoder llama-like": lambda: rf.decoder.transformer.TransformerDecoder(
        None,
        VOCAB,
        MODEL,
        num_layers=1,
        num_heads=2,
        norm=rf.RMSNorm,
        ff=rf.decoder.transformer.FeedForwardGated,
        ff_dim=rf.Dim(256, name="transformer-ff-dim"),
        pos_enc=None,
        share_embedding=False,
        layer_opts={"self_att": rf.RotaryPosCausalSelfAttention, "self_att_opts": {"with_bias": False}},
    ),
    "TransformerEncoder": lambda: rf.encoder.transformer.TransformerEncoder(VOCAB, MODEL, num_layers=1, num_heads=2),
    "Sequential": lambda: rf.Sequential(rf.Linear(IN, OUT), rf.relu, rf.Linear(OUT, IN)),
    "Sequential dict": lambda: rf.Sequential({"a": rf.Linear(IN, OUT), "b": rf.relu}),
    "ModuleList": lambda: rf.ModuleList(rf.Linear(IN, OUT), rf.Linear(OUT, IN)),
    "ParameterList": lambda: rf.ParameterList(rf.Parameter([IN]), rf.Parameter([OUT])),
}


def test_each_fact_has_a_module():
    assert set(MAKE) == set(FACTS)


@pytest.mark.parametrize("name", sorted(MAKE))
def test_parameters_have_the_names_and_shapes_of_checkpoints(name):
    facts = FACTS[name]
    expected = {
        path: ([int(dim.rpartition(":")[2]) for dim in dims if dim != "auxiliary"], "auxiliary" in dims)
        for path, dims in facts.items()
    }
    found = {path: ([dim.dimension for dim in p.dims], p.auxiliary) for path, p in MAKE[name]().named_parameters()}
    assert found == expected


@pytest.mark.parametrize("name", sorted(MAKE))
def test_the_shape_is_that_of_the_raw_parameter_which_training_changes(name):
    for parameter in MAKE[name]().parameters():
        assert tuple(parameter.raw_tensor.shape) == tuple(dim.dimension for dim in parameter.dims)
        assert parameter.dtype == "float32"
        assert parameter.trainable is parameter.raw_tensor.requires_grad is not parameter.auxiliary
