"""Files that a config wants to be loaded, and layers that import their parameters themselves."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import CheckpointError
from tests.checkpoint.bundle_writer import write
from tests.netdict.test_weights_restore import network, randomized, saved, values_of

LINEAR = {"class": "linear", "n_out": 2, "from": "data"}
LM = {
    "lm_output": LINEAR,
    "am_output": LINEAR,
    "output": {"class": "combine", "kind": "add", "from": ["lm_output", "am_output"]},
}


def changed(net, before):
    return {name for name, value in values_of(net).items() if (value != before[name]).any()}


@pytest.mark.parametrize(
    "init_for_train, train, epoch, loaded",
    [
        *((False, False, 1, 1), (False, True, 1, 0), (True, True, 1, 1), (True, True, 2, 0)),
        *((True, False, 1, 0), ("always", True, 7, 1), ("always", False, 7, 1)),
    ],
)
def test_preload_from_files(init_for_train, train, epoch, loaded, tmp_path):
    trained, net = randomized(network({"output": LINEAR})), network(LM)
    before = values_of(net)
    entry = {"filename": str(saved(trained, tmp_path)), "prefix": "lm_", "init_for_train": init_for_train}
    reports = rf.preload(net, {"preload_from_files": {"lm": entry}}, train=train, epoch=epoch)
    assert changed(net, before) == ({"lm_output/W", "lm_output/b"} if loaded else set()) and len(reports) == loaded


def test_preload_what_is_missing(tmp_path):
    prefix = write(tmp_path / "lm", {"output/W": np.ones((3, 2), "float32")})
    entry, net = {"filename": str(prefix), "prefix": "lm_"}, network(LM)
    with pytest.raises(CheckpointError, match="missing lm_output/b"):
        rf.preload(net, {"preload_from_files": {"lm": entry}})
    reports = rf.preload(net, {"preload_from_files": {"lm": {**entry, "ignore_missing": True}}})
    assert reports[str(prefix)].missing == ("lm_output/b",)


@pytest.mark.parametrize(
    "entry, message", [({"filename": "x", "prefx": "lm"}, "'prefx'"), ({"prefix": "lm"}, "no file"), (7, "no file")]
)
def test_preload_of_wrong_entries(entry, message):
    with pytest.raises(CheckpointError, match=message):
        rf.preload(network(LM), {"preload_from_files": {"lm": entry}})


def test_preload_the_start_of_training(tmp_path):
    trained, net = randomized(network(LM)), network(LM)
    config = {"import_model_train_epoch1": str(saved(trained, tmp_path))}
    before = values_of(net)
    for options in ({"train": False}, {"train": True, "epoch": 2}):
        assert not rf.preload(net, config, **options) and not changed(net, before)
    rf.preload(net, config, train=True)
    assert not changed(net, values_of(trained))


def test_preload_load_on_init_of_a_subnetwork(tmp_path):
    trained = randomized(network({"output": LINEAR}))
    sub = {"class": "subnetwork", "from": "data", "subnetwork": {"output": LINEAR}}
    sub["load_on_init"] = str(saved(trained, tmp_path))
    net = network({"sub": sub, "output": {"class": "linear", "n_out": 2, "from": "sub"}})
    before = values_of(net)
    rf.preload(net, {})
    assert changed(net, before) == {"sub/output/W", "sub/output/b"}
    np.testing.assert_array_equal(values_of(net)["sub/output/W"], values_of(trained)["output/W"])


# -- custom_param_importer


def importing(how, n_out=6, unit="nativelstm2", source=None):
    first = {"class": "rec", "unit": unit, "n_out": n_out, "from": "data", "custom_param_importer": how}
    return network({"a": source or first, "output": {"class": "linear", "n_out": 2, "from": "a"}})


def trained_with(n_out, tmp_path, unit="nativelstm2"):
    net = randomized(importing(None, n_out, unit))
    return net, saved(net, tmp_path)


def test_preload_reset_and_ifpossible(tmp_path):
    trained, prefix = trained_with(6, tmp_path)
    net = importing("reset")
    before = values_of(net)
    report = rf.load(prefix, net)
    assert changed(net, before) == {"output/W", "output/b"} and set(report.skipped) == {
        "a/rec/W",
        "a/rec/W_re",
        "a/rec/b",
    }
    assert not report.unexpected
    rf.load(prefix, importing("ifpossible"))
    values = values_of(trained)
    write(prefix, values | {"a/rec/W": np.ones((4, 24), "float32")})
    net = importing("ifpossible")
    before = values_of(net)
    rf.load(prefix, net)
    after = values_of(net)
    np.testing.assert_array_equal(after["a/rec/W"], before["a/rec/W"])
    np.testing.assert_array_equal(after["a/rec/W_re"], values["a/rec/W_re"])


@pytest.mark.parametrize("old, new", [(4, 6), (6, 4)])
@pytest.mark.parametrize("unit", ["nativelstm2", "standardlstm", "gru"])
def test_preload_a_subset_gate_by_gate(unit, old, new, tmp_path):
    trained, prefix = trained_with(old, tmp_path, unit)
    values = values_of(trained) | {"output/W": np.zeros((new, 2), "float32")}
    write(prefix, values)
    net = importing("subset", new, unit)
    before = values_of(net)
    report = rf.load(prefix, net)
    after = values_of(net)
    both, rest = min(old, new), max(new - old, 0)
    for name in (name for name in after if name.startswith("a/")):
        gates = after[name].shape[-1] // new
        for g in range(gates):
            found, start, there = (
                x[..., g * n : (g + 1) * n] for x, n in ((after[name], new), (before[name], new), (values[name], old))
            )
            rows = [(0, 0, len(there))] if found.ndim == 2 else [(0, 0, both)]
            if found.ndim == 1:
                np.testing.assert_array_equal(found[:both], there[:both])
                np.testing.assert_array_equal(found[both:], start[both:])
                continue
            if "kernel" in name:
                rows = [(0, 0, 3), (3, 3, both)]
            elif name.endswith("W_re"):
                rows = [(0, 0, both)]
            for row, old_row, count in rows:
                np.testing.assert_array_equal(
                    found[row : row + count, :both], there[old_row : old_row + count, :both], err_msg=name
                )
            if rest:
                np.testing.assert_array_equal(found[:, both:], start[:, both:])
    assert "common part" in str(report) and not report.missing


def test_preload_by_a_function(tmp_path):
    """It gets the layer and the values below its scope, as in the reference, and returns what it wants to be set."""
    trained, prefix = trained_with(6, tmp_path)
    seen = []

    def importer(layer, values_dict, session):
        seen.append((layer.name, sorted(values_dict), session))
        return {"b": values_dict["b"] * 2}

    net = importing(importer)
    before = values_of(net)
    report = rf.load(prefix, net)
    assert seen == [("a", ["W", "W_re", "b"], None)]
    assert changed(net, before) == {"a/rec/b", "output/W", "output/b"}
    np.testing.assert_array_equal(values_of(net)["a/rec/b"], values_of(trained)["a/rec/b"] * 2)
    assert {origin.name: origin.conversion for origin in report.origins}["a/rec/b"] == "custom_param_importer"
    before = values_of(net)
    for wrong in ({"b": np.zeros(3)}, {"c": np.zeros(24)}, {"b": "words"}, 7):
        with pytest.raises(CheckpointError, match="returned something else than parameters"):
            rf.load(prefix, importing(lambda wrong=wrong, **options: wrong))


def test_preload_with_an_unknown_importer(tmp_path):
    _, prefix = trained_with(6, tmp_path)
    with pytest.raises(CheckpointError, match=r"custom_param_importer 'all' is not known\n.*ifpossible"):
        rf.load(prefix, importing("all"))
