"""A checkpoint comes back as it was, or not at all."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import rfnb as rf
from rfnb.errors import CheckpointError

IN, HIDDEN, OUT = rf.Dim(3, name="in"), rf.Dim(4, name="hidden"), rf.Dim(2, name="out")


class Model(rf.Module):
    """Two layers and a counter."""

    def __init__(self):
        self.first = rf.Linear(IN, HIDDEN)
        self.second = rf.Linear(HIDDEN, OUT, with_bias=False)
        self.seen = rf.Parameter([], dtype="int64", auxiliary=True)


def values(module):
    return {name: p.raw_tensor.detach().clone() for name, p in module.named_parameters()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def model():
    model = Model()
    model.seen.assign(7)
    return model


@pytest.fixture
def path(model, tmp_path):
    return rf.save_checkpoint(model, tmp_path / "model.safetensors")


def test_what_was_saved_comes_back(model, path):
    other = Model()
    raw = other.first.weight.raw_tensor
    report = rf.load_checkpoint(other, path)
    assert same(values(other), values(model))
    assert other.first.weight.raw_tensor is raw
    assert report.complete
    assert set(report.loaded) == {"first.weight", "first.bias", "second.weight", "seen"}
    assert "4 parameters loaded" in str(report)


def test_the_file_tells_dims_and_version(path):
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    assert json.loads(metadata["dims"])["first.weight"] == ["in", "hidden"]
    assert metadata["rfnb_version"] == rf.__version__
    assert metadata["format"] == "pt"  # what other libraries look for


def test_other_floats_are_cast(model, path):
    other = Model().to(dtype="float64")
    rf.load_checkpoint(other, path)
    assert torch.equal(other.first.weight.raw_tensor, model.first.weight.raw_tensor.double())


class Renamed(rf.Module):
    """Like Model, with another name for a part."""

    def __init__(self):
        self.first = rf.Linear(IN, HIDDEN)
        self.secound = rf.Linear(HIDDEN, OUT, with_bias=False)


def test_wrong_names_are_listed_with_the_nearest(path):
    other = Renamed()
    before = values(other)
    with pytest.raises(CheckpointError) as error:
        rf.load_checkpoint(other, path)
    assert "missing secound.weight {hidden:4, out:2} (is it second.weight?)" in str(error.value)
    assert "unexpected seen {}" in str(error.value)
    assert same(values(other), before)


def test_not_strict_loads_what_fits(model, path):
    other = Renamed()
    report = rf.load_checkpoint(other, path, strict=False)
    assert torch.equal(other.first.weight.raw_tensor, model.first.weight.raw_tensor)
    assert (report.missing, sorted(report.unexpected)) == (("secound.weight",), ["second.weight", "seen"])
    assert not report.complete


@pytest.mark.parametrize("strict", [True, False])
def test_a_wrong_shape_never_loads(path, strict):
    other = Model()
    other.second = rf.Linear(HIDDEN, rf.Dim(5, name="more"), with_bias=False)
    before = values(other)
    with pytest.raises(
        CheckpointError, match=r"second.weight: {hidden:4, more:5} in the module, {hidden:4, out:2} in the file"
    ):
        rf.load_checkpoint(other, path, strict=strict)
    assert same(values(other), before)


def test_a_wrong_kind_of_numbers_never_loads(model, path):
    model.seen = rf.Parameter([])
    with pytest.raises(CheckpointError, match="seen"):
        rf.load_checkpoint(model, path)


def test_a_parameter_that_may_be_missing(model, path):
    model.statistics = rf.Parameter([OUT], non_critical_for_restore=True)
    assert rf.load_checkpoint(model, path).complete


@pytest.mark.parametrize("kept", [0, 5, 100, -1])
def test_a_truncated_file_is_refused(model, path, kept):
    path.write_bytes(path.read_bytes()[:kept])
    other = Model()
    before = values(other)
    with pytest.raises(CheckpointError, match="cannot be read"):
        rf.load_checkpoint(other, path)
    assert same(values(other), before)


def test_a_config_of_nets_is_named_as_one(tmp_path):
    (tmp_path / "net.config").write_text("network = {}")
    with pytest.raises(CheckpointError, match=r"rf\.read_config\('net\.config'\)"):
        rf.load_config(tmp_path / "net.config")


def test_a_missing_file_tells_what_is_there(path):
    with pytest.raises(CheckpointError, match=r"in that folder: model\.safetensors"):
        rf.load_checkpoint(Model(), path.with_name("modle.safetensors"))
    with pytest.raises(CheckpointError, match=r"the folder .* does not exist"):
        rf.load_checkpoint(Model(), path.parent / "no" / "model.safetensors")


def test_saving_again_replaces(model, path):
    model.seen.assign(8)
    rf.save_checkpoint(model, path)
    other = Model()
    rf.load_checkpoint(other, path)
    assert other.seen.raw_tensor.item() == 8
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_files_of_others_load_too(model, tmp_path):
    save_file(values(model), tmp_path / "plain.safetensors")
    other = Model()
    assert rf.load_checkpoint(other, tmp_path / "plain.safetensors").complete
    assert same(values(other), values(model))


def test_a_module_without_parameters_is_not_saved(tmp_path):
    with pytest.raises(CheckpointError, match="no parameters"):
        rf.save_checkpoint(rf.Functional(rf.relu), tmp_path / "x.safetensors")


def test_a_shared_parameter_is_saved_once(model, tmp_path):
    model.again = model.first
    path = rf.save_checkpoint(model, tmp_path / "shared.safetensors")
    other = Model()
    other.again = other.first
    assert len(rf.load_checkpoint(other, path).loaded) == 4
