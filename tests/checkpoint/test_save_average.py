"""Averages of checkpoints, compared with a plain mean, and what cannot be averaged."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb.errors import CheckpointError


def model(feat, out, dtype="float32"):
    module = rf.Sequential(rf.Linear(feat, out), rf.BatchNorm(out))
    for parameter in module.parameters():
        if parameter.raw_tensor.is_floating_point():
            parameter.assign(torch.randn(parameter.raw_tensor.shape))
    return module


def test_the_average_of_saved_models_is_the_mean_of_each_parameter(tmp_path):
    feat, out = rf.Dim(3, name="feat"), rf.Dim(2, name="out")
    models = [model(feat, out) for _ in range(3)]
    paths = [
        rf.save(each, tmp_path / f"{n}.safetensors", config={"n": n}, training={"step": n})
        for n, each in enumerate(models)
    ]
    before = paths[0].read_bytes()
    mean = rf.average_checkpoints(paths, tmp_path / "mean.safetensors")
    loaded = model(feat, out)
    report = rf.load(mean, loaded)
    assert not report.missing
    states = [dict(each.named_parameters()) for each in models]
    for name, parameter in loaded.named_parameters():
        expected = torch.stack([state[name].raw_tensor.double() for state in states]).mean(0)
        torch.testing.assert_close(parameter.raw_tensor.double(), expected, rtol=1e-6, atol=1e-7)
    assert rf.load_config(mean) == {"n": 2}
    assert paths[0].read_bytes() == before


def test_state_dicts_of_torch_with_counters_and_half_precision(tmp_path):
    states = [{"w": torch.tensor([6e4, -6e4]).half() * s, "count": torch.tensor(s)} for s in (1, 1)]
    states[1]["count"] = torch.tensor(7)
    with rf.open_checkpoint(rf.average_checkpoints(states, tmp_path / "mean.safetensors")) as mean:
        assert mean["w"].tolist() == [60000.0, -60000.0]  # a sum in float16 is infinite
        assert mean["count"].item() == 7


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        ([], "not a list"),
        ("path", "not a list"),
        ([{"a": torch.ones(2)}, {"a": torch.ones(3)}], "'a' is not the same"),
        ([{"a": torch.ones(2)}, {"b": torch.ones(2)}], "is not the same"),
        ([{"a": torch.ones(2)}, "missing.safetensors"], "does not exist"),
    ],
)
def test_wrong_sources_are_named_and_nothing_is_written(tmp_path, sources, words):
    with pytest.raises(CheckpointError, match=words):
        rf.average_checkpoints(sources, tmp_path / "mean.safetensors")
    assert list(tmp_path.iterdir()) == []
