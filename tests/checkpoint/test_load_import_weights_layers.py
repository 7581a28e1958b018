"""Layers of torch give the same with their weights imported: padded batches, against one sequence at a time."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import rfnb as rf
from rfnb import batch_dim
from rfnb.checkpoint.foreign import unfold_lstms
from rfnb.errors import CheckpointError

IN, OUT = rf.Dim(6, name="in"), rf.Dim(8, name="out")
LENGTHS = [5, 1, 3]


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


@pytest.fixture
def x(time):
    return rf.convert_to_tensor(torch.randn(3, 5, 6), dims=[batch_dim, time, IN], lengths=LENGTHS)


def sequences(x):
    """Each without its padding."""
    return [x.raw_tensor[i, :length] for i, length in enumerate(LENGTHS)]


def agrees(y, wanted, time, feat=OUT):
    """`wanted` is what torch gives for each sequence alone."""
    raw = y.copy_transpose([batch_dim, time, feat]).raw_tensor
    return all(torch.allclose(raw[i, : len(w)], w, atol=1e-5) for i, w in enumerate(wanted))


def trained(theirs):
    """Weights unlike those at the start, in evaluation."""
    for name, tensor in theirs.state_dict().items():
        if tensor.is_floating_point():
            tensor.uniform_(0.5, 1.5) if "var" in name else tensor.normal_(std=0.5)
    return theirs.eval()


FEATURES = {
    "Linear": (nn.Linear(6, 8), lambda: rf.Linear(IN, OUT), OUT),
    "Linear without bias": (nn.Linear(6, 8, bias=False), lambda: rf.Linear(IN, OUT, with_bias=False), OUT),
    "square": (nn.Linear(6, 6), lambda: rf.Linear(IN, IN), IN),
    "LayerNorm": (nn.LayerNorm(6, eps=0.1), lambda: rf.LayerNorm(IN), IN),
    "LayerNorm without bias": (nn.LayerNorm(6, bias=False), lambda: rf.LayerNorm(IN, with_bias=False), IN),
    "RMSNorm": (nn.RMSNorm(6, eps=0.1), lambda: rf.RMSNorm(IN), IN),
    "BatchNorm1d": (nn.BatchNorm1d(6), lambda: rf.BatchNorm(IN), IN),
}


@pytest.mark.parametrize("kind", FEATURES)
def test_layers_of_features(kind, x, time):
    theirs, make, feat = FEATURES[kind]
    ours = make()
    report = rf.import_weights(trained(theirs), ours)
    assert report.complete
    assert not report.settings or report.settings == (f"eps = {theirs.eps:g}",)
    assert agrees(ours(x), [theirs(one) for one in sequences(x)], time, feat)


def test_the_eps_of_a_norm_is_told_if_it_is_another_one():
    class Named(nn.RMSNorm):
        """As Hugging Face calls it."""

        def __init__(self, eps):
            super().__init__(6)
            self.variance_epsilon = eps
            del self.eps

    ours = rf.RMSNorm(IN)
    assert not rf.import_weights(nn.RMSNorm(6, eps=ours.eps), ours).settings
    assert rf.import_weights(Named(0.25), ours).settings == ("eps = 0.25",)
    assert ours.eps == 0.25


def test_an_embedding(time):
    labels = rf.Dim(9, name="labels")
    x = rf.convert_to_tensor(torch.randint(9, (3, 5)), dims=[batch_dim, time], sparse_dim=labels, lengths=LENGTHS)
    theirs, ours = nn.Embedding(9, 8), rf.Embedding(labels, OUT)
    assert rf.import_weights(theirs, ours).complete
    assert agrees(ours(x), [theirs(one) for one in sequences(x)], time)


@pytest.mark.parametrize(
    "options", [{}, {"stride": 2}, {"dilation": 2}, {"groups": 2}, {"bias": False}], ids=lambda options: str(options)
)
def test_conv1d(options, x, time):
    names = {"stride": "strides", "dilation": "dilation_rate", "bias": "with_bias"}
    theirs = trained(nn.Conv1d(6, 8, 3, padding=options.get("dilation", 1), **options))
    ours = rf.Conv1d(IN, OUT, 3, padding="same", **{names.get(name, name): v for name, v in options.items()})
    assert rf.import_weights(theirs, ours).complete
    y, out_time = ours(x, in_spatial_dim=time)
    assert agrees(y, [theirs(one.T).T for one in sequences(x)], out_time)


@pytest.mark.parametrize("bias", [True, False])
def test_one_layer_of_lstm(bias, x, time):
    theirs, ours = trained(nn.LSTM(6, 8, bias=bias)), rf.LSTM(IN, OUT, with_bias=bias)
    assert rf.import_weights(theirs, ours).complete
    y, _ = ours(x, state=ours.default_initial_state(batch_dims=[batch_dim]), spatial_dim=time)
    assert agrees(y, [theirs(one)[0] for one in sequences(x)], time)


def test_a_cell_of_lstm(x, time):
    theirs, ours = trained(nn.LSTMCell(6, 8)), rf.LSTM(IN, OUT)
    assert rf.import_weights(theirs, ours).complete
    first = rf.gather(x, indices=0, axis=time)
    y, _ = ours(first, state=ours.default_initial_state(batch_dims=[batch_dim]), spatial_dim=rf.single_step_dim)
    wanted, _ = theirs(x.raw_tensor[:, 0])
    assert torch.allclose(y.copy_transpose([batch_dim, OUT]).raw_tensor, wanted, atol=1e-5)


def run(lstm, x, time):
    y, _ = lstm(x, state=lstm.default_initial_state(batch_dims=[batch_dim]), spatial_dim=time)
    return y


def test_layers_of_lstm(x, time):
    theirs = trained(nn.LSTM(6, 8, num_layers=3))
    ours = rf.ModuleList([rf.LSTM(IN, OUT), rf.LSTM(OUT, OUT), rf.LSTM(OUT, OUT)])
    assert rf.import_weights(theirs, ours).complete
    y = x
    for layer in ours:
        y = run(layer, y, time)
    assert agrees(y, [theirs(one)[0] for one in sequences(x)], time)


@pytest.mark.parametrize("bias", [True, False])
def test_a_gru(bias, x, time):
    theirs = trained(nn.GRU(6, 8, bias=bias))
    ours = rf.GRU(IN, OUT, with_bias=bias, reset_after=True)
    assert rf.import_weights(theirs, ours).complete
    assert agrees(run(ours, x, time), [theirs(one)[0] for one in sequences(x)], time)


def test_layers_of_a_gru(x, time):
    theirs = trained(nn.GRU(6, 8, num_layers=2))
    ours = rf.ModuleList([rf.GRU(IN, OUT, reset_after=True), rf.GRU(OUT, OUT, reset_after=True)])
    assert rf.import_weights(theirs, ours).complete
    y = run(ours[1], run(ours[0], x, time), time)
    assert agrees(y, [theirs(one)[0] for one in sequences(x)], time)


def test_a_gru_that_resets_before_the_product_is_another_one():
    for theirs in (nn.GRU(6, 8), nn.GRUCell(6, 8), nn.GRU(6, 8).state_dict()):
        with pytest.raises(CheckpointError, match="before the product") as error:
            rf.import_weights(theirs, rf.GRU(IN, OUT))
        assert error.value.hint == "rf.GRU(…, reset_after=True)"


def test_a_gru_of_another_kind_can_be_skipped():
    theirs = nn.ModuleDict({"rnn": nn.GRU(6, 8), "out": nn.Linear(8, 6)})
    ours = rf.ModuleList([])
    ours.rnn, ours.out = rf.GRU(IN, OUT), rf.Linear(OUT, IN)
    with pytest.raises(CheckpointError, match="rnn resets"):
        rf.import_weights(theirs, ours)
    assert rf.import_weights(theirs, ours, skip="rnn").loaded == ("out.weight", "out.bias")


class Both(rf.Module):
    """One direction and the other."""

    def __init__(self, in_dim):
        self.forward, self.backward = rf.LSTM(in_dim, OUT), rf.LSTM(in_dim, OUT)

    def __call__(self, x, time):
        there = run(self.forward, x, time)
        back = rf.reverse_sequence(run(self.backward, rf.reverse_sequence(x, axis=time), time), axis=time)
        return rf.concat((there, OUT), (back, OUT))


def test_both_directions_of_lstm(x, time):
    theirs, ours = trained(nn.LSTM(6, 8, bidirectional=True)), Both(IN)
    assert rf.import_weights(theirs, ours).complete
    y, feat = ours(x, time)
    assert agrees(y, [theirs(one)[0] for one in sequences(x)], time, feat)


def test_layers_with_both_directions_of_lstm(x, time):
    theirs, ours = trained(nn.LSTM(6, 8, num_layers=2, bidirectional=True)), rf.ModuleList([Both(IN), Both(2 * OUT)])
    assert rf.import_weights(theirs, ours).complete
    y, feat = ours[0](x, time)
    y, feat = ours[1](rf.replace_dim_v2(y, in_dim=feat, out_dim=2 * OUT), time)
    assert agrees(y, [theirs(one)[0] for one in sequences(x)], time, feat)


def test_one_direction_of_two(x, time):
    theirs, ours = trained(nn.LSTM(6, 8, bidirectional=True)), rf.LSTM(IN, OUT)
    with pytest.raises(CheckpointError):
        rf.import_weights(theirs, ours)
    rf.import_weights(theirs, ours, rename={"forward": "", "backward": None})
    assert agrees(run(ours, x, time), [theirs(one)[0][:, :8] for one in sequences(x)], time)


UNFOLDED = {
    "weight_ih_l0": "weight_ih",
    "a.weight_hh_l0": "a.weight_hh",
    "b.weight_ih_l0": "b.0.weight_ih",
    "b.weight_ih_l1": "b.1.weight_ih",
    "c.bias_ih_l0": "c.forward.bias_ih",
    "c.bias_ih_l0_reverse": "c.backward.bias_ih",
    "d.bias_hh_l0_reverse": "d.0.backward.bias_hh",
    "d.bias_hh_l10": "d.10.forward.bias_hh",
    "e.weight_l0": "e.weight_l0",
}


def test_each_lstm_of_a_model_has_layers_and_directions_of_its_own():
    assert unfold_lstms({name: name for name in UNFOLDED}) == {new: name for name, new in UNFOLDED.items()}


class Theirs(nn.Module):
    """A model of several layers."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(6)
        self.rnn = nn.LSTM(6, 8)
        self.scale = nn.Parameter(torch.ones(8))
        self.head = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))

    def forward(self, x):
        return self.head(self.rnn(self.norm(x))[0] * self.scale)


class Ours(rf.Module):
    """The same, with the same names."""

    def __init__(self):
        self.norm = rf.LayerNorm(IN)
        self.rnn = rf.LSTM(IN, OUT)
        self.scale = rf.Parameter([OUT])
        self.head = rf.Sequential(rf.Linear(OUT, OUT), rf.Linear(OUT, OUT))

    def __call__(self, x, time):
        return self.head(run(self.rnn, self.norm(x), time) * self.scale)


@pytest.mark.parametrize("how", ["module", "state dict", "torch.save"])
def test_a_model_with_the_same_names(how, x, time, tmp_path):
    theirs, ours = trained(Theirs()), Ours()
    source = theirs
    if how == "state dict":
        source, ours.norm.eps = theirs.state_dict(), 1e-5
    elif how == "torch.save":
        source, ours.norm.eps = tmp_path / "theirs.pt", 1e-5
        torch.save({"model": theirs.state_dict(), "epoch": 3}, source)
    report = rf.import_weights(source, ours)
    assert report.complete
    assert report.settings == (("norm.eps = 1e-05",) if how == "module" else ())
    assert report.renamed["rnn.bias"] == "rnn.bias_ih + rnn.bias_hh" and "scale" not in report.renamed
    assert agrees(ours(x, time), [theirs(one) for one in sequences(x)], time)


def test_other_names(x, time):
    theirs, ours = trained(Theirs()), Ours()
    ours.lstm = ours.rnn
    del ours.rnn
    with pytest.raises(CheckpointError, match=r"missing lstm\.ff_weight"):
        rf.import_weights(theirs, ours)
    report = rf.import_weights(theirs, ours, rename={"rnn": "lstm"})
    assert report.complete and report.settings == ("norm.eps = 1e-05",)
    assert torch.equal(ours.lstm.ff_weight.raw_tensor, theirs.rnn.weight_ih_l0)


def test_a_table_of_ones_own():
    class Scale(rf.Module):
        """A gain and an offset."""

        def __init__(self):
            self.gain, self.offset = rf.Parameter([IN, OUT]), rf.Parameter([OUT])

    theirs, ours = trained(nn.Linear(6, 8)), Scale()
    table = [("gain", ("weight",), "transposed"), ("offset", ("bias", "bias"), "sum")]
    assert rf.import_weights(theirs, ours, table=table).complete
    assert torch.equal(ours.gain.raw_tensor, theirs.weight.T)
    assert torch.equal(ours.offset.raw_tensor, 2 * theirs.bias)


@pytest.mark.parametrize("choice", [{"only": "head"}, {"skip": ["norm", "rnn", "scale"]}])
def test_a_part_of_a_model(choice):
    theirs, ours = trained(Theirs()), Ours()
    report = rf.import_weights(theirs, ours, **choice)
    assert set(report.loaded) == {"head.0.weight", "head.0.bias", "head.1.weight", "head.1.bias"}
    assert not ours.scale.raw_tensor.any()


def test_what_is_there_is_enough_if_it_is_asked_for():
    ours = Ours()
    report = rf.import_weights({"norm.weight": torch.zeros(6), "more": torch.ones(3)}, ours, strict=False)
    assert report.loaded == ("norm.scale",) and report.unexpected == ("more",) and "norm.bias" in report.missing


def test_a_table_is_for_whole_names():
    ours = rf.Module()
    ours.gain, ours.gain2 = rf.Parameter([IN]), rf.Parameter([IN])
    with pytest.raises(CheckpointError, match="missing gain2"):
        rf.import_weights({"weight": torch.ones(6)}, ours, table=[("gain", ("weight",), "same")])


def tied(first, second):
    """Two layers with one weight, or with parts of it."""
    weight = torch.randn(8, 6)
    return {"first.weight": weight[:first], "second.weight": weight[:second]}


def test_a_second_name_of_a_weight_is_no_other_weight():
    ours = rf.Module()
    ours.first = rf.Linear(IN, OUT, with_bias=False)
    assert rf.import_weights(tied(8, 8), ours).complete
    for others in (tied(8, 6), {**tied(8, 8), "second.weight": torch.randn(8, 6)}):
        with pytest.raises(CheckpointError, match=r"unexpected second\.weight"):
            rf.import_weights(others, ours)


WRONG = {
    "one bias of two": (
        {"weight_ih": torch.ones(32, 6), "weight_hh": torch.ones(32, 8), "bias_ih": torch.ones(32)},
        lambda: rf.LSTM(IN, OUT),
        "missing bias",
    ),
    "another size": (nn.Linear(6, 9), lambda: rf.Linear(IN, OUT), r"\{in:6, out:8\} in the module, shape \(6, 9\)"),
    "a bias too many": (nn.Linear(6, 8), lambda: rf.Linear(IN, OUT, with_bias=False), "unexpected bias"),
    "a bias too few": (nn.Linear(6, 8, bias=False), lambda: rf.Linear(IN, OUT), "missing bias"),
    "a projection": (nn.LSTM(6, 8, proj_size=3), lambda: rf.LSTM(IN, OUT), "weight_hr"),
    "too many layers": (nn.LSTM(6, 8, num_layers=2), lambda: rf.LSTM(IN, OUT), r"1\.weight_ih"),
    "GRU": (nn.GRU(6, 8), lambda: rf.LSTM(IN, OUT), "in the module"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_does_not_fit_changes_nothing(kind):
    theirs, make, words = WRONG[kind]
    ours = make()
    before = [p.raw_tensor.clone() for p in ours.parameters()]
    with pytest.raises(CheckpointError, match=words):
        rf.import_weights(theirs, ours)
    assert all(torch.equal(a, b.raw_tensor) for a, b in zip(before, ours.parameters(), strict=True))


def test_the_order_of_arguments():
    with pytest.raises(CheckpointError, match="first argument must be"):
        rf.import_weights(rf.Linear(IN, OUT), nn.Linear(6, 8))
