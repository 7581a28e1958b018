"""`rf.NotSpecified`: an argument that was not given."""

from __future__ import annotations

import inspect

import pytest

import rfnb as rf

IN, OUT = rf.Dim(8, name="in"), rf.Dim(16, name="out")
LABELS = rf.Dim(5, name="labels")
NS = rf.NotSpecified


def shapes(module):
    return {name: tuple(dim.dimension for dim in p.dims) for name, p in module.named_parameters()}


MADE = {
    "Linear": lambda **given: rf.Linear(IN, OUT, **given),
    "FeedForwardGated": lambda **given: rf.FeedForwardGated(OUT, **given),
    "ConformerEncoder": lambda **given: rf.ConformerEncoder(
        IN, OUT, num_layers=1, num_heads=2, input_layer=None, **given
    ),
    "ConformerEncoderLayer": lambda **given: rf.ConformerEncoderLayer(OUT, num_heads=2, **given),
    "EBranchformerLayer": lambda **given: rf.EBranchformerLayer(OUT, num_heads=2, **given),
    "TransformerEncoder": lambda **given: rf.TransformerEncoder(LABELS, OUT, num_layers=1, num_heads=2, **given),
    "TransformerDecoder": lambda **given: rf.TransformerDecoder(IN, LABELS, OUT, num_layers=1, num_heads=2, **given),
    "TransformerDecoderLayer": lambda **given: rf.TransformerDecoderLayer(IN, OUT, num_heads=2, **given),
}
LEFT_TO_THE_MODULE = {"with_bias", "ff", "ff_dim", "ff_activation", "conv_kernel_size", "conv_norm", "self_att", "norm"}


@pytest.mark.parametrize("name", MADE)
def test_every_constructor_uses_its_default(name):
    options = LEFT_TO_THE_MODULE & set(inspect.signature(getattr(rf, name)).parameters)
    assert options and shapes(MADE[name](**dict.fromkeys(options, NS))) == shapes(MADE[name]())


def test_it_may_be_passed_on():
    class Model(rf.Module):
        """Passes its options on, as to a base class."""

        def __init__(self, *, ff_dim=NS, norm=NS):
            super().__init__()
            self.given = ff_dim, norm
            self.encoder = rf.ConformerEncoder(
                IN,
                OUT,
                num_layers=1,
                input_layer=None,
                encoder_layer=rf.build_dict(rf.ConformerEncoderLayer, num_heads=2, norm=norm),
                encoder_layer_opts={"conv_norm": NS},
                ff_dim=ff_dim,
            )

    assert shapes(Model().encoder) == shapes(MADE["ConformerEncoder"]())
    assert Model().given == (NS, NS)
    assert Model(ff_dim=3).encoder.layers[0].ffn1.linear_ff.out_dim.dimension == 3


def test_a_class_of_the_user_gets_what_it_was_given():
    class Mine(rf.Linear):
        """Looks at its options itself."""

        def __init__(self, *args, scale=None, **options):
            self.scale = scale
            super().__init__(*args, **options)

    made = Mine(IN, OUT, scale=NS, with_bias=NS)
    assert made.scale is NS and made.bias is not None


def test_signatures_stay():
    assert list(inspect.signature(rf.Linear).parameters) == ["in_dim", "out_dim", "with_bias"]
