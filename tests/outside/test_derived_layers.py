"""Layers that a model derives from ours, written as those of public code: they read the attributes of their base."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.decoder.transformer import FeedForward, FeedForwardGated, TransformerDecoderLayer
from rfnb.encoder.conformer import ConformerEncoder, ConformerEncoderLayer, ConformerPositionwiseFeedForward
from rfnb.encoder.e_branchformer import EBranchformerLayer, FeedForwardConvGated
from rfnb.encoder.transformer import TransformerEncoderLayer

FEAT, MODEL = rf.Dim(3, name="feat"), rf.Dim(4, name="model")


class Layer(ConformerEncoderLayer):
    """A Conformer layer without convolution."""

    def __call__(self, inp, *, spatial_dim):
        shared = self.dropout_broadcast and self.out_dim
        x = self.ffn1(self.ffn1_layer_norm(inp)) * 0.5
        x = rf.dropout(x, self.dropout, axis=shared) + inp
        y = self.self_att(self.self_att_layer_norm(x), axis=spatial_dim)
        x = rf.dropout(y, self.dropout, axis=shared) + x
        return self.final_layer_norm(x)


class Encoder(ConformerEncoder):
    """Layers on the input, with a mean over neighbouring layers."""

    def __call__(self, source, *, in_spatial_dim, collected_outputs=None):
        x = self.input_projection(source)
        x = rf.dropout(x, self.input_dropout, axis=self.dropout_broadcast and self.input_projection.out_dim)
        for name, layer in self.layers.items():
            x = 0.5 * (x + rf.dropout(layer(x, spatial_dim=in_spatial_dim), self.dropout))
            if collected_outputs is not None:
                collected_outputs[name] = x
        return x, in_spatial_dim


def test_a_derived_encoder_gives_the_same_alone_and_in_a_batch():
    rf.set_random_seed(1)
    encoder = Encoder(FEAT, MODEL, input_layer=None, num_layers=2, num_heads=2, encoder_layer=Layer)
    raw = torch.randn(3, 5, 3)
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, FEAT], lengths=[5, 2, 1])
    outputs = {}
    y, _ = encoder(x, in_spatial_dim=time, collected_outputs=outputs)
    assert list(outputs) == ["0", "1"] and y.dims_set == {batch_dim, time, MODEL}
    whole = y.copy_compatible_to_dims_raw([batch_dim, time, MODEL])
    for i, n in enumerate([5, 2, 1]):
        alone = rf.Dim(n, name="alone")
        one, _ = encoder(rf.convert_to_tensor(raw[i, :n], dims=[alone, FEAT]), in_spatial_dim=alone)
        torch.testing.assert_close(one.copy_compatible_to_dims_raw([alone, MODEL]), whole[i, :n])


MAKE = {
    ConformerEncoder: lambda: ConformerEncoder(FEAT, MODEL, input_layer=None, num_layers=1, num_heads=2),
    ConformerPositionwiseFeedForward: lambda: ConformerPositionwiseFeedForward(MODEL),
    FeedForward: lambda: FeedForward(MODEL),
    FeedForwardGated: lambda: FeedForwardGated(MODEL, ff_dim=6),
    FeedForwardConvGated: lambda: FeedForwardConvGated(MODEL),
    TransformerDecoderLayer: lambda: TransformerDecoderLayer(None, MODEL, num_heads=2),
    **{
        layer: lambda layer=layer: layer(MODEL, num_heads=2)
        for layer in (ConformerEncoderLayer, EBranchformerLayer, TransformerEncoderLayer)
    },
}


@pytest.mark.parametrize("make", MAKE.values(), ids=[cls.__name__ for cls in MAKE])
def test_whether_dropout_is_shared_is_readable_and_settable(make):
    layer = make()
    assert layer.dropout_broadcast is True
    with rf.set_dropout_broadcast_ctx(False):
        assert layer.dropout_broadcast is False
    layer.dropout_broadcast = False
    assert layer.dropout_broadcast is False


def test_a_layer_of_its_own_shares_dropout():
    rf.set_random_seed(1)
    time = rf.Dim(40, name="time")
    rf.init_train_step_run_ctx(train_flag=True)
    layer = FeedForward(MODEL, ff_dim=MODEL, dropout=0.5, activation=rf.identity)
    layer.linear_ff.weight.initial, layer.linear_ff.bias.initial = 0.0, 1.0
    layer.linear_out = rf.Linear(MODEL, MODEL, with_bias=False)
    layer.linear_out.weight.assign(torch.eye(4))
    assert len(layer(rf.zeros([time, MODEL])).raw_tensor.unique(dim=0)) == 1
    layer.dropout_broadcast = False
    assert len(layer(rf.zeros([time, MODEL])).raw_tensor.unique(dim=0)) > 1


def test_other_attributes():
    conv = rf.Conv1d(MODEL, MODEL, 3, padding="same", groups=2)
    assert conv.filter_in_dim.dimension == 2 and rf.Conv2d(FEAT, MODEL, 3, padding="same").filter_in_dim is FEAT
    assert MAKE[ConformerEncoder]().dropout == 0.1
