"""Checkpoints of net dicts: every rule, and that the converted model computes what the unconverted one does."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import CheckpointError
from rfnb.netdict.weights import TRANSFORMS, made_from
from tests.checkpoint.bundle_writer import write

FEATURES, UNITS = 3, 4
RANDOM = np.random.default_rng(3)


def network(layers, **options):
    extern = rf.ExternData({"data": {"dim": FEATURES}, "classes": {"dim": 5, "sparse": True}})
    return rf.Network(extern_data=extern, **options).construct_from_dict(layers)


def lstm(unit, **options):
    rec = {"class": "rec", "unit": unit, "n_out": UNITS, "from": "data", **options}
    return network({"output": rec})


def values_of(net):
    return {name: parameter.raw_tensor.detach().numpy().copy() for name, parameter in net.variables().items()}


def randomized(net):
    for parameter in net.variables().values():
        parameter.assign(RANDOM.standard_normal(parameter.raw_tensor.shape).astype("float32"))
    return net


def saved(net, path, rename=None, **more):
    """A checkpoint of a network as TensorFlow writes it. rename: from the beginning or end of a name to another."""
    values = values_of(net)
    for old, new in (rename or {}).items():
        values = {re.sub(old, new, name): value for name, value in values.items()}
    return write(path / "network.040", values | more)


def outputs(net, x=None):
    x = RANDOM.standard_normal((2, 6, FEATURES)).astype("float32") if x is None else x
    return net.forward({"data": (x, [6, 4])})["output"].numpy(), x


def same(a, b):
    got, x = outputs(a)
    np.testing.assert_allclose(got, outputs(b, x)[0], rtol=1e-5, atol=1e-6)


NET = {
    "a": {"class": "linear", "n_out": UNITS, "activation": "tanh", "from": "data"},
    "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": UNITS, "from": "a"},
    "sub": {
        "class": "subnetwork",
        "from": "lstm",
        "subnetwork": {"output": {"class": "linear", "n_out": UNITS, "from": "data"}},
    },
    "output": {"class": "softmax", "target": "classes", "loss": "ce", "from": "sub"},
}


def test_names_of_variables():
    assert sorted(network(NET).variables()) == [
        *("a/W", "a/b", "lstm/rec/W", "lstm/rec/W_re", "lstm/rec/b"),
        *("output/W", "output/b", "sub/output/W", "sub/output/b"),
    ]


@pytest.mark.parametrize("name", ["network.040", "network.040.index", "network.040.meta", ""])
def test_all_are_there_by_name(name, tmp_path):
    trained, net = randomized(network(NET)), network(NET)
    more = {"output/W/Adam": np.ones((UNITS, 5), "float32"), "global_step": np.array(3), "old/W": np.ones(2, "float32")}
    saved(trained, tmp_path, **more)
    (tmp_path / "network.040.meta").write_bytes(b"\xff")
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "/elsewhere/network.040"')
    before = values_of(net)["a/W"]
    report = rf.load(tmp_path / name, net, verify=True)
    same(trained, net)
    assert set(report.loaded) == set(net.variables()) and report.unexpected == ("old/W",)
    assert set(report.apart) == {"output/W/Adam", "global_step"} and not report.missing and not report.notes
    origin = next(origin for origin in report.origins if origin.name == "a/W")
    assert origin.sources == ("a/W",) and not origin.conversion
    assert origin.before == pytest.approx(np.linalg.norm(before), rel=1e-5)
    assert origin.after == pytest.approx(np.linalg.norm(values_of(trained)["a/W"]), rel=1e-5)


def test_the_report_as_text_html_and_table(tmp_path):
    saved(randomized(lstm("standardlstm")), tmp_path)
    report = rf.load(tmp_path / "network.040", lstm("nativelstm2"))
    text = str(report)
    assert "output/rec/lstm_cell/kernel → output/rec/W: input rows of a kernel" in text
    assert "forget bias: file +1 at run time, this cell +0" in text and 'forget_bias="convert"' in text
    html, rows = rf.show(report).html, rf.show(report).table().rows
    assert "gates in the other order" in html and "norm before" in html
    assert [row[1] for row in rows if row[0] == "loaded"] == list(report.loaded) and len(rows[0]) == 6


def test_saved_and_loaded_again_by_rf(tmp_path):
    trained, net = randomized(network(NET)), network(NET)
    rf.save(trained, tmp_path / "net.safetensors")
    assert rf.load(tmp_path / "net.safetensors", net).complete
    same(trained, net)


def test_an_npz_file_with_the_names_of_variables(tmp_path):
    trained, net = randomized(network(NET)), network(NET)
    np.savez(tmp_path / "net.npz", **values_of(trained))
    rf.load(tmp_path / "net.npz", net)
    same(trained, net)


def test_another_module_takes_a_table_of_names(tmp_path):
    write(tmp_path / "x", {"enc/kernel": np.ones((3, 2), "float32"), "enc/bias": np.ones(2, "float32")})
    module = rf.ModuleList({"encoder": rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))})
    with pytest.raises(CheckpointError, match=r"missing encoder.weight"):
        rf.load(tmp_path / "x", module)
    rf.load(tmp_path / "x", module, rename={"enc": "encoder", "enc/kernel": "encoder/weight"})
    assert module[0].weight.raw_tensor.sum() == 6 and module[0].bias.raw_tensor.sum() == 2
    with pytest.raises(CheckpointError, match=r"'forget_bias' is an option of an rf\.Network"):
        rf.load(tmp_path / "x", module, forget_bias="convert")


# -- LSTMs


@pytest.mark.parametrize("unit", ["basiclstm", "standardlstm"])
@pytest.mark.parametrize("scope", ["rec/", "rec/rnn/"])
def test_native_to_basic_and_standard(unit, scope, tmp_path):
    trained, net = randomized(lstm("nativelstm2")), lstm(unit, unit_opts={"forget_bias": 0.0})
    report = rf.load(saved(trained, tmp_path), net)
    same(trained, net)
    assert not report.notes and not report.unexpected
    report = rf.load(tmp_path / "network.040", lstm(unit))
    assert "forget bias: file +0 at run time, this cell +1" in report.notes[0]
    converted = lstm(unit)
    rf.load(tmp_path / "network.040", converted, forget_bias="convert")
    same(trained, converted)


@pytest.mark.parametrize("scope", ["rec/", "rec/rnn/"])
def test_standard_to_native(scope, tmp_path):
    trained, net = randomized(lstm("standardlstm")), lstm("nativelstm2")
    prefix = saved(trained, tmp_path, {"output/rec/": f"output/{scope}"})
    report = rf.load(prefix, net, forget_bias="convert")
    same(trained, net)
    assert not report.unexpected and "forget bias +1" in {o.name: o for o in report.origins}["output/rec/b"].conversion
    report = rf.load(prefix, net)
    assert "file +1 at run time, this cell +0" in report.notes[0]
    without = randomized(lstm("standardlstm", unit_opts={"forget_bias": 0.0}))
    rf.load(saved(without, tmp_path, {"output/rec/": f"output/{scope}"}), net)
    same(without, net)


def test_basic_to_native_is_no_rule(tmp_path):
    """As in the reference: only from `lstm_cell`."""
    prefix = saved(lstm("basiclstm"), tmp_path)
    with pytest.raises(CheckpointError, match=r"missing output/rec/W .*\n(.*\n)*.*missing output/rec/W_re"):
        rf.load(prefix, lstm("nativelstm2"))


def lstm_by_hand(x, kernel, bias, forget_bias):
    """Gates i, j, f, o; in float64."""
    n = kernel.shape[1] // 4
    c = h = np.zeros((len(x), n))
    for t in range(x.shape[1]):
        i, j, f, o = np.split(np.concatenate([x[:, t], h], 1) @ kernel + bias, 4, 1)
        c = c / (1 + np.exp(-f - forget_bias)) + np.tanh(j) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
    return h


def test_the_weights_of_cudnn(tmp_path):
    """Sixteen tensors: i, f, j, o, of the input and of h; to native weights, and to the kernel of an LSTM block."""
    w = [RANDOM.standard_normal((UNITS, FEATURES)).astype("float32") for _ in range(4)]
    r = [RANDOM.standard_normal((UNITS, UNITS)).astype("float32") for _ in range(4)]
    b = [RANDOM.standard_normal(UNITS).astype("float32") for _ in range(8)]
    names = [f"output/rec/cudnn/CudnnRNNParamsToCanonical:{i}" for i in range(16)]
    prefix = write(tmp_path / "cudnn", dict(zip(names, w + r + b, strict=True)))
    net = lstm("cudnnlstm")
    report = rf.load(prefix, net)
    assert not report.notes and not report.unexpected
    got, x = outputs(net)
    kernel = np.concatenate([np.concatenate([w[g], r[g]], 1).T for g in (0, 2, 1, 3)], 1)
    bias = np.concatenate([b[g] + b[4 + g] for g in (0, 2, 1, 3)])
    assert got.shape == (6, 2, UNITS)  # {time, batch, feature}
    np.testing.assert_allclose(got[-1][:1], lstm_by_hand(x, kernel, bias, 0.0)[:1], rtol=1e-4, atol=1e-5)

    arrays = {name: torch.from_numpy(array) for name, array in zip(names, w + r + b, strict=True)}
    wanted = ["output/rec/lstm_block_wrapper/kernel", "output/rec/lstm_block_wrapper/bias"]
    made = made_from(wanted, names)
    for name, expected in zip(wanted, (kernel, bias), strict=True):
        value = TRANSFORMS[made[name].transform]([arrays[source] for source in made[name].sources])
        np.testing.assert_array_equal(value.numpy(), expected)


RENAMED = {
    r"lstm_cell/bias$": "lstm_cell/biases",
    r"lstm_cell/kernel$": "lstm_cell/weights",
    "rec/lstm_cell": "rec/rnn/lstm_cell",
}


@pytest.mark.parametrize("change", RENAMED)
@pytest.mark.parametrize("unit", ["standardlstm", "basiclstm"])
def test_renamed_variables(change, unit, tmp_path):
    trained, net = randomized(lstm(unit)), lstm(unit)
    report = rf.load(saved(trained, tmp_path, {change: RENAMED[change]}), net)
    same(trained, net)
    assert not report.unexpected and not report.notes


@pytest.mark.parametrize(
    "file, model",
    [
        ("x/lstm_cell/bias", "x/rnn/lstm_cell/bias"),
        ("x/lstm_cell/kernel", "x/rnn/lstm_cell/weights"),
        (
            "x/cudnn/params_canonical/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/bias",
            "x/lstm_fused_cell/bias",
        ),
        (
            "x/cudnn/params_canonical/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel",
            "x/lstm_fused_cell/kernel",
        ),
    ],
)
def test_renames_of_cells_that_no_layer_here_has(file, model):
    assert made_from([model], [file, "y/bias"])[model].sources == (file,)
    assert not made_from([model], ["y" + file])


# -- batch normalization

VERSIONS = {0: {"param_version": 0}, 1: {"param_version": 1}, 2: {"param_version": 2}}


def normalized(version, name="output"):
    options = {"class": "batch_norm", "from": "data", "masked_time": True, **VERSIONS[version]}
    layers = {name: options}
    if name != "output":
        layers["output"] = {"class": "copy", "from": name}
    return network(layers)


@pytest.mark.parametrize("old, new", [(0, 1), (0, 2), (1, 2), (2, 1)])
def test_versions_of_batch_norm(old, new, tmp_path):
    trained, net = randomized(normalized(old)), normalized(new)
    for name, parameter in trained.variables().items():
        if "variance" in name:
            parameter.assign(np.abs(parameter.numpy()) + 0.5)
    report = rf.load(saved(trained, tmp_path), net)
    same(trained, net)
    assert len(report.loaded) == 4 and not report.unexpected


def test_two_sources_of_batch_norm_are_none(tmp_path):
    prefix = saved(normalized(0), tmp_path, **{"output/batch_norm/other_mean": np.ones((1, 1, 3), "float32")})
    with pytest.raises(CheckpointError, match="missing output/batch_norm/v2_mean"):
        rf.load(prefix, normalized(2))


# -- options


def test_var_name_mapping_wins_over_rules(tmp_path):
    trained, net = randomized(lstm("nativelstm2")), lstm("standardlstm")
    kernel = np.ones((FEATURES + UNITS, 4 * UNITS), "float32")
    prefix = saved(trained, tmp_path, mine=kernel)
    rf.load(prefix, net, var_name_mapping={"output/rec/lstm_cell/kernel": "mine"})
    values = values_of(net)
    np.testing.assert_array_equal(values["output/rec/lstm_cell/kernel"], kernel)
    assert values["output/rec/lstm_cell/bias"].any()


def test_prefixes_of_names(tmp_path):
    """`params_prefix` is before all names here; `load_if_prefix` chooses, and is not in the file."""
    trained = randomized(network({"output": {"class": "linear", "n_out": 2, "from": "data"}}))
    prefix = saved(trained, tmp_path)
    inner = {"output": {"class": "linear", "n_out": 2, "from": "data"}}
    net = network({"output": {"class": "subnetwork", "from": "data", "subnetwork": inner}})
    rf.load(prefix, net, params_prefix="output/")
    same(trained, net)
    both = {
        "lm_output": {"class": "linear", "n_out": 2, "from": "data"},
        "output": {"class": "linear", "n_out": 2, "from": "lm_output"},
    }
    net = network(both)
    kept = values_of(net)["output/W"]
    report = rf.load(prefix, net, load_if_prefix="lm_")
    np.testing.assert_array_equal(values_of(net)["lm_output/W"], values_of(trained)["output/W"])
    np.testing.assert_array_equal(values_of(net)["output/W"], kept)
    assert set(report.skipped) == {"output/W", "output/b"}
    with pytest.raises(CheckpointError, match="does not begin with `params_prefix`"):
        rf.load(prefix, net, params_prefix="lm_")
    with pytest.raises(CheckpointError, match="there is no variable to load"):
        rf.load(prefix, net, load_if_prefix="am_")


def test_what_is_ignored_or_missing(tmp_path):
    trained, net = randomized(network(NET)), network(NET)
    prefix = saved(trained, tmp_path)
    before = values_of(net)
    report = rf.load(
        prefix, net, ignore_params=["a/W"], ignore_params_prefixes=["lstm/", "sub/output/b"], skip="output"
    )
    changed = {name for name, value in values_of(net).items() if (value != before[name]).any()}
    assert changed == {"a/b", "sub/output/W"} == set(report.loaded)
    assert set(report.skipped) == set(before) - changed
    saved(trained, tmp_path, {"^output": "out"})
    net = network(NET)
    before = values_of(net)
    with pytest.raises(CheckpointError) as caught:
        rf.load(prefix, net)
    assert "missing output/W (4, 5) (is it out/W?)" in str(caught.value)
    assert all((value == before[name]).all() for name, value in values_of(net).items())
    for options in ({"ignore_missing": True}, {"strict": False}):
        report = rf.load(prefix, net, **options)
        assert set(report.missing) == {"output/W", "output/b"} and set(report.unexpected) == {"out/W", "out/b"}
    rf.load(prefix, net, rename={"out": "output"})
    same(trained, net)


def test_nothing_fits_and_the_rename_that_helps(tmp_path):
    trained, net = randomized(network(NET)), network(NET)
    prefix = saved(trained, tmp_path, {"^": "model/"})
    with pytest.raises(CheckpointError) as caught:
        rf.load(prefix, net, ignore_missing=True)
    assert "nothing in" in str(caught.value) and 'rename={"model": ""}' in str(caught.value)
    rf.load(prefix, net, rename={"model": ""})
    same(trained, net)


def test_a_function_for_what_is_missing(tmp_path):
    trained, net = randomized(network(NET)), network(NET)
    prefix = saved(trained, tmp_path, {"output/W": "output/V"})
    asked = []

    def load(name, shape, reader):
        asked.append((name, shape, reader.has_tensor("output/V"), len(reader.get_variable_to_shape_map())))
        return reader.get_tensor(name.replace("W", "V")) if name == "output/W" else None

    prefix = saved(trained, tmp_path, {"^output/W": "output/V"})
    report = rf.load(prefix, net, custom_missing_load_func=load)
    same(trained, net)
    assert asked == [("output/W", (UNITS, 5), True, 9)] and not report.unexpected


def test_a_wrong_shape_leaves_the_net_as_it_is(tmp_path):
    larger = {**NET, "output": {**NET["output"], "from": ["sub", "a"]}}
    prefix, net = saved(randomized(network(larger)), tmp_path), network(NET)
    before = values_of(net)
    with pytest.raises(CheckpointError) as caught:
        rf.load(prefix, net)
    assert "output/W: (4, 5) float32 in the net, (8, 5) float32 from output/W" in str(caught.value)
    assert all((value == before[name]).all() for name, value in values_of(net).items())


@pytest.mark.parametrize("options", [{"forget_bias": "add"}, {"ignore_mising": True}])
def test_wrong_options(options, tmp_path):
    prefix = saved(network(NET), tmp_path)
    with pytest.raises(CheckpointError, match=r"forget_bias|unknown option 'ignore_mising'"):
        rf.load(prefix, network(NET), **options)


def test_kernels_that_no_transform_fits(tmp_path):
    values = {"output/rec/W": np.ones(3, "float32"), "output/rec/W_re": np.ones((2, 2), "float32")}
    prefix = write(tmp_path / "x", values | {"output/rec/b": np.ones(16, "float32")})
    with pytest.raises(CheckpointError, match="output/rec/lstm_cell/kernel: kernel of native weights"):
        rf.load(prefix, lstm("standardlstm"))
