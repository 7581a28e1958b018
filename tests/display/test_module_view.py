"""The view of a module: its tree, cards of layers that are alike, and what is wrong with parameters."""

import json
import re

import pytest
import torch

import rfnb as rf
from rfnb.display.kit import options
from rfnb.display.module import ModuleRows, read_module


def text(module):
    return rf.show(module).text


@pytest.fixture
def dims():
    return rf.Dim(4, name="feat"), rf.Dim(8, name="<hidden>")


class Layer(rf.Module):
    def __init__(self, feat, hidden):
        self.norm, self.up, self.down = rf.LayerNorm(feat), rf.Linear(feat, hidden), rf.Linear(hidden, feat)


class Encoder(rf.Module):
    def __init__(self, feat, hidden, layers=3):
        self.layers = rf.ModuleList(Layer(feat, hidden) for _ in range(layers))
        self.out = rf.Linear(feat, hidden)
        self.again = self.out
        self.mean = rf.Parameter([feat], auxiliary=True)


@pytest.fixture
def encoder(dims):
    model = Encoder(*dims)
    for parameter in model.parameters():
        parameter.assign(0.5)
    return model


def test_layers_that_are_alike_are_one_card(encoder):
    assert text(encoder) == (
        "Encoder  292 parameters · 1.16 kB · float32 · cpu\n"
        "  mean {feat:4}  buffer  ‖·‖ 1\n"
        "  layers: ModuleList  252 parameters\n"
        "    0–2: Layer × 3  84 each, 252 parameters\n"
        "      norm: LayerNorm  feat:4  8 parameters\n"
        "        scale {feat:4}  ‖·‖ 1\n"
        "        bias {feat:4}  ‖·‖ 1\n"
        "      up: Linear  feat:4 → <hidden>:8  40 parameters\n"
        "        weight {feat:4, <hidden>:8}  ‖·‖ 2.83\n"
        "        bias {<hidden>:8}  ‖·‖ 1.41\n"
        "      down: Linear  <hidden>:8 → feat:4  36 parameters\n"
        "        weight {<hidden>:8, feat:4}  ‖·‖ 2.83\n"
        "        bias {feat:4}  ‖·‖ 1\n"
        "  out: Linear  feat:4 → <hidden>:8  40 parameters\n"
        "    weight {feat:4, <hidden>:8}  ‖·‖ 2.83\n"
        "    bias {<hidden>:8}  ‖·‖ 1.41\n"
        "  again: Linear  feat:4 → <hidden>:8  the same as out"
    )


def test_the_repr_is_short(encoder):
    assert repr(encoder).splitlines() == [
        "Encoder  292 parameters · 1.16 kB · float32 · cpu",
        "  mean {feat:4}  buffer  ‖·‖ 1",
        "  layers: ModuleList  252 parameters",
        "  out: Linear  feat:4 → <hidden>:8  40 parameters",
        "  again: Linear  feat:4 → <hidden>:8  the same as out",
    ]


def test_what_differs_between_layers_is_listed(encoder):
    for number in (0, 2):
        for parameter in encoder.layers[number].parameters():
            parameter.trainable = False
    encoder.layers[1].up.bias.to(dtype="float16")
    view = rf.show(encoder)
    assert "(168 not trained)" in view.text.splitlines()[0]
    assert "      (1: trained, float16 in up.bias)\n" in view.text
    assert "1: trained, float16 in up.bias" in view.html
    encoder.layers[0].norm.scale.trainable = encoder.layers[0].down.bias.trainable = True
    encoder.layers[0].up.bias.trainable = True
    [card] = read_module(encoder, ModuleRows()).children[0].children
    assert card.differs == [
        "1: trained in norm.bias, up.weight and 1 more, float16 in up.bias",
        "2: not trained in norm.scale, up.bias and 1 more",
    ]


def test_a_layer_made_with_another_function_is_no_equal(dims):
    feat, _ = dims

    class Layer(rf.Module):
        def __init__(self, activation, number=0):
            self.activation, self.gain, self.up, self.number = activation, 1.0, rf.Linear(feat, feat), number

    layers = [Layer(rf.relu, number) for number in range(4)]
    layers[2].activation, layers[3].gain, layers[3].up.options = rf.silu, 2.0, "x"
    [card] = read_module(rf.ModuleList(*layers), ModuleRows()).children
    assert card.differs == ["2: activation=silu", "3: gain=2.0, up.options=x"]
    pair = read_module(rf.ModuleList(Layer(rf.relu), Layer(rf.silu)), ModuleRows()).children[0]
    assert pair.differs == ["0: activation=relu", "1: activation=silu"]


@pytest.mark.parametrize("change", ["frozen", "dtype"])
def test_one_odd_layer(change, encoder):
    for parameter in encoder.layers[1].parameters():
        if change == "frozen":
            parameter.trainable = False
        else:
            parameter.to(dtype="float16")
    word = {"frozen": "not trained", "dtype": "float16"}[change]
    assert f"      (1: {word})\n" in text(encoder)


def test_layers_of_other_size_are_no_part_of_the_card(dims):
    feat, hidden = dims
    wide = rf.Dim(9, name="<hidden>")
    model = rf.ModuleList(*(rf.Linear(feat, hidden) for _ in range(2)), rf.Linear(feat, wide), rf.Linear(feat, hidden))
    names = [node.name for node in read_module(model, ModuleRows()).children]
    assert names == ["0–1", "2", "3"]


def test_modules_with_names_of_their_own_are_no_card(dims):
    class Attention(rf.Module):
        def __init__(self):
            self.query, self.key = rf.Linear(*dims), rf.Linear(*dims)

    assert [node.name for node in read_module(Attention(), ModuleRows()).children] == ["query", "key"]


def test_nan_and_gradients_are_seen_in_every_copy(encoder):
    encoder.layers[2].up.bias.raw_tensor.data[3] = float("nan")
    encoder.layers[1].up.weight.raw_tensor.grad = torch.ones(4, 8)
    encoder.out.bias.raw_tensor.grad = torch.full((8,), float("inf"))
    view = rf.show(encoder)
    assert view.text.splitlines()[1] == "! layers.2.up.bias: NaN, out.bias: Inf in the gradient"
    assert "        weight {feat:4, <hidden>:8}  ‖·‖ 2.83  ‖grad‖ 5.66\n" in view.text
    assert "        bias {<hidden>:8}  ‖·‖ 1.41  ! NaN\n" in view.text
    assert "NaN" in repr(encoder).splitlines()[1]
    json.dumps(view.data, allow_nan=False)


def test_a_value_that_is_nan_is_told_before_gradients(encoder):
    for parameter in encoder.parameters():
        parameter.raw_tensor.grad = torch.full_like(parameter.raw_tensor, float("nan"))
    encoder.out.bias.raw_tensor.data[0] = float("inf")
    view = rf.show(encoder)
    assert re.match(r"! out.bias: Inf, \S+: NaN in the gradient,", view.text.splitlines()[1])


def test_the_table_has_every_parameter(encoder):
    encoder.layers[0].norm.scale.trainable = False
    table = rf.show(encoder).table()
    rows = {row["name"]: row for row in table}
    assert len(rows) == 1 + 3 * 6 + 2
    row = rows["layers.0.norm.scale"]
    assert (row["dims"], row["shape"], row["dtype"], row["count"], row["trained"]) == ("feat", "4", "float32", 4, "no")
    assert rows["layers.1.up.weight"]["shape"] == "4×8" and rows["layers.1.up.weight"]["trained"] == "yes"
    assert rows["mean"]["trained"] == "buffer"
    assert rows["out.bias"]["norm"] == pytest.approx(2**0.5) and rows["out.bias"]["grad norm"] is None


def test_a_shared_parameter_counts_once(dims):
    feat, hidden = dims
    model = rf.ModuleList(rf.Linear(feat, hidden), rf.Linear(feat, hidden))
    model[1].weight = model[0].weight
    view = rf.show(model)
    assert view.text.splitlines()[0].startswith(f"ModuleList  {32 + 8 + 8} parameters · {4 * 48} B")
    assert "weight {feat:4, <hidden>:8}  the same as 0.weight" in view.text
    assert [row["shared with"] for row in view.table()] == [None, None, "0.weight", None]


def test_a_module_that_holds_itself_and_an_empty_one():
    class Knot(rf.Module):
        def __init__(self):
            self.me, self.inside = self, rf.ModuleList()

    assert text(Knot()) == "Knot  0 parameters · 0 B\n  me: Knot  the same as the whole\n  inside: ModuleList"
    assert text(rf.ModuleList()) == "ModuleList  0 parameters · 0 B"
    assert len(rf.show(rf.ModuleList()).table()) == 0


def test_large_tensors_are_not_looked_at(encoder, monkeypatch):
    monkeypatch.setattr(options, "MODULE_ENTRIES", 40)
    view = rf.show(encoder)
    assert "\n(no norms of " in view.text
    assert sum(row["count"] for row in view.table() if row["norm"] is not None) <= 40


def test_a_model_without_numbers(dims):
    with rf.set_default_device_ctx("meta"):
        model = rf.Linear(rf.Dim(2**15, name="in"), rf.Dim(2**15, name="out"))
    assert text(model).splitlines()[0] == "Linear  1,073,774,592 parameters · 4 GB · float32 · meta"


def test_many_lines_are_cut(dims, monkeypatch):
    monkeypatch.setattr(options, "MODULE_LINES", 5)
    model = rf.Module()
    for name in "abcdef":
        setattr(model, name, rf.Linear(*dims))
    view = rf.show(model)
    assert len(view.text.splitlines()) == 6 and ".table()" in view.text.splitlines()[-1]
    assert view.html.count("<details") <= 5 and ".table()" in view.html
    assert len(view.table()) == 12


def test_modules_of_torch():
    nn = torch.nn
    model = nn.Sequential(*(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)) for _ in range(3)), nn.LazyLinear(2))
    model.tied = nn.Linear(4, 4)
    model.tied.weight = model[0][0].weight
    model.other = model[3]
    for parameter in model[0].parameters():
        parameter.requires_grad_(False)
    view = rf.show(model)
    assert view.text.startswith(f"Sequential  {3 * (20 + 8) + 4} parameters (28 not trained) · ")
    assert (
        "  0–2: Sequential × 3  28 each, 84 parameters, 28 not trained\n    (0: not trained in 0.weight, 0.bias"
        in view.text
    )
    assert "weight [4, 4]  not trained  the same as 0.0.weight" in view.text
    assert "weight no shape yet" in view.text
    assert "other: LazyLinear" in view.text and "the same as 3" in view.text
    assert "num_batches_tracked []  int64  buffer" in view.text


def test_the_picture(encoder, golden):
    encoder.layers[2].up.bias.raw_tensor.data[3] = float("nan")
    for parameter in encoder.layers[1].parameters():
        parameter.trainable = False
    view = rf.show(encoder)
    golden("module.json", json.dumps(view.data, indent=1, ensure_ascii=False) + "\n")
    golden("module.txt", view.text + "\n")


def test_a_hundred_parameters_are_few_bytes():
    model = rf.Module()
    for i in range(50):
        setattr(model, f"part_{'x' * (i % 7)}{i}", rf.Linear(rf.Dim(20 + i, name="in"), rf.Dim(30 + i, name="out")))
    assert len(rf.show(model).html) <= 60_000


def test_hostile_names_stay_text(dims):
    class Odd(rf.Module):
        pass

    Odd.__name__ = "<img src=x onerror=alert(1)>"
    model = Odd()
    setattr(model, "<b>", rf.Linear(*dims))
    html = rf.show(model).html
    assert "<img" not in html and "<b>:" not in html and "&lt;b&gt;" in html and "<hidden>" not in html
