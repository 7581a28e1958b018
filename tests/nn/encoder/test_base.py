"""Bases of encoders: what they promise to whoever calls an encoder without knowing its class."""

from __future__ import annotations

import pytest

import rfnb as rf

TIME, FEAT, MODEL = rf.Dim(12, name="time"), rf.Dim(8, name="feat"), rf.Dim(16, name="model")


def conformer(**options):
    frontend = rf.ConformerConvSubsample(FEAT, out_dims=[4, 4], filter_sizes=[3, 3], strides=[2, (3, 1)])
    return rf.ConformerEncoder(FEAT, MODEL, num_layers=1, num_heads=2, input_layer=frontend, **options)


def test_a_conformer_reduces_frames_by_its_factor():
    encoder = conformer()
    y, frames = encoder(rf.zeros([TIME, FEAT]), in_spatial_dim=TIME)
    assert all(isinstance(part, rf.ISeqDownsamplingEncoder) for part in (encoder, encoder.input_layer))
    assert encoder.downsample_factor == 6 and frames.dimension == 12 // encoder.downsample_factor
    assert y.feature_dim is encoder.out_dim is MODEL


def test_a_conformer_without_a_frontend_keeps_all_frames():
    assert rf.ConformerEncoder(FEAT, MODEL, num_layers=1, num_heads=2, input_layer=None).downsample_factor == 1


@pytest.mark.parametrize(
    "layer", [rf.ConformerEncoderLayer(MODEL, num_heads=2), rf.EBranchformerLayer(MODEL, num_heads=2)]
)
def test_a_layer_keeps_the_frames(layer):
    assert isinstance(layer, rf.ISeqFramewiseEncoder)
    assert layer(rf.zeros([TIME, MODEL]), spatial_dim=TIME).dims == (TIME, layer.out_dim)


def test_a_transformer_keeps_the_frames():
    labels = rf.Dim(5, name="labels")
    encoder = rf.TransformerEncoder(labels, MODEL, num_layers=1, num_heads=2)
    assert isinstance(encoder, rf.ISeqFramewiseEncoder) and encoder.out_dim is MODEL


class Every(rf.ISeqDownsamplingEncoder):
    """Every second frame."""

    def __init__(self, in_dim: rf.Dim):
        super().__init__()
        self.out_dim = in_dim
        self.downsample_factor = 2

    def __call__(self, source, *, in_spatial_dim):
        return rf.slice(source, axis=in_spatial_dim, step=2)


def test_an_own_encoder_is_a_frontend():
    encoder = rf.ConformerEncoder(FEAT, MODEL, num_layers=1, num_heads=2, input_layer=Every(FEAT))
    _, frames = encoder(rf.zeros([TIME, FEAT]), in_spatial_dim=TIME)
    assert frames.dimension == 6 and encoder.downsample_factor == 2


@pytest.mark.parametrize("base", [rf.IEncoder, rf.ISeqFramewiseEncoder, rf.ISeqDownsamplingEncoder])
def test_a_base_has_no_call(base):
    class Mine(base):
        """Defines nothing."""

    with pytest.raises(NotImplementedError, match="Mine has no __call__"):
        Mine()(rf.zeros([FEAT]))
