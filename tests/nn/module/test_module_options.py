"""Options of modules that do not exist, or that cannot be."""

from __future__ import annotations

import pytest

import rfnb as rf
from rfnb.errors import ParameterError

IN, OUT, MODEL = (rf.Dim(n, name=name) for n, name in [(4, "in"), (6, "out"), (8, "model")])
HEADS = {"key_dim_total": MODEL, "value_dim_total": MODEL, "num_heads": 2}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rf.Linear(IN, OUT, bias=False), r"Linear: there is no option `bias`.*bias=False.*`with_bias`"),
        (lambda: rf.Linear(in_features=4, out_features=6), r"`in_features`.*hint +`in_dim`"),
        (lambda: rf.LSTM(IN, OUT, bidirectional=True), r"`bidirectional`.*rf\.reverse_sequence"),
        (lambda: rf.LSTM(IN, OUT, num_layers=2), r"`num_layers`.*rf\.ModuleList"),
        (lambda: rf.make_cell("gru", IN, OUT, bias=True), r"GRU: there is no option `bias`.*`with_bias`"),
        (lambda: rf.Conv1d(IN, OUT, kernel_size=3, padding="same"), r"`kernel_size`.*`filter_size`"),
        (lambda: rf.Conv1d(IN, OUT, 3, padding="same", stride=2), r"`stride`.*`strides`"),
        (lambda: rf.LayerNorm(IN, epsilon=1e-3), r"`epsilon`.*`eps`"),
        (lambda: rf.RotaryPosSelfAttention(MODEL, MODEL, bias=False, **HEADS), r"`bias`.*in_dim.*base.*`with_bias`"),
        (lambda: rf.TransformerEncoder(OUT, MODEL, num_layers=1, nhead=2), r"`nhead`.*`num_heads`"),
        (lambda: rf.TransformerEncoder(OUT, MODEL, num_layers=1, layer_opts={"bias": 1}), r"Layer: there is no option"),
        (lambda: rf.Linear(IN, OUT, with_bais=False), r"`with_bais`.*did you mean `with_bias`"),
        (lambda: rf.Linear(IN, OUT, bais=False), r"`bais`.*did you mean `with_bias`"),
    ],
)
def test_an_unknown_option_names_the_one_that_is_meant(make, words):
    with pytest.raises(ParameterError, match=f"(?s){words}"):
        make()


def test_options_that_a_constructor_passes_on_are_known():
    assert rf.RotaryPosSelfAttention(MODEL, MODEL, with_bias=False, base=100.0, **HEADS).qkv.bias is None


def test_constructors_of_users_are_left_to_python():
    class Mine(rf.Module):
        def __init__(self, size):
            self.size = size

    class Loose(rf.Linear):
        def __init__(self, **options):
            super().__init__(IN, OUT)
            self.options = options

    made: dict = {}
    exec("class Typed(Module):\n    def __init__(self, size):\n        self.size = size", {"Module": rf.Module}, made)
    assert made["Typed"](size=2).size == 2
    assert Mine(size=3).size == 3 and Loose(bias=1).options == {"bias": 1}
    with pytest.raises(TypeError, match="unexpected keyword argument 'sise'"):
        Mine(sise=3)


@pytest.mark.parametrize("count", [-1, 1.5, None, "2"])
@pytest.mark.parametrize(
    "make",
    [
        lambda n: rf.TransformerEncoder(OUT, MODEL, num_layers=n),
        lambda n: rf.TransformerDecoder(None, OUT, MODEL, num_layers=n),
        lambda n: rf.ConformerEncoder(IN, MODEL, num_layers=n, input_layer=None),
    ],
)
def test_a_number_of_layers_is_not_negative(make, count):
    with pytest.raises(ParameterError, match=r"(?s)`num_layers` must be 0 or more.*got +"):
        make(count)
    assert len(make(0).layers) == 0


def test_a_depth_is_not_negative():
    with pytest.raises(ParameterError, match="RHN: `depth` must be 0 or more"):
        rf.RHN(IN, OUT, depth=-1)
