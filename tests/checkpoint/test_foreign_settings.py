"""What a model is made of comes back with its dims."""

from __future__ import annotations

import http
import subprocess

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import rfnb as rf
from rfnb.errors import CheckpointError

IN, OUT = rf.Dim(3, name="in"), rf.Dim(2, name="out")

CONFIGS = [
    None or {},
    {"layers": 3, "dropout": 0.1, "bias": True, "name": "ä", "other": None},
    {"lr": float("inf"), "tiny": 5e-324, "large": 10**30, "minus": -0.0},
    [1, [2, [3, "x"]], []],
    {"of": (1, (2,)), 1: "one", (2, 3): "pair", "$dim": "no dim", None: 0},
    {"$dim": 3, "more": {"$tuple": [1]}},
    "a word",
    0,
]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.mark.parametrize("config", CONFIGS)
def test_plain_values(path, config):
    found = rf.load_config(rf.save(rf.Linear(IN, OUT), path, config=config))
    assert repr(found) == repr(config)


def test_numbers_of_numpy_are_numbers(path):
    rf.save(rf.Linear(IN, OUT), path, config={"a": np.float64(0.5), "b": np.int64(3), "c": np.bool_(True)})
    assert rf.load_config(path) == {"a": 0.5, "b": 3, "c": True}


def test_dims_are_the_same_dims_here(path):
    config = {"in": IN, "both": [IN, OUT], "twice": 2 * IN + OUT, "batch": rf.batch_dim}
    found = rf.load_config(rf.save(rf.Linear(IN, OUT), path, config=config))
    assert found["in"] is IN and found["both"][0] is IN
    assert found["twice"] is 2 * IN + OUT
    assert found["batch"] is rf.batch_dim


ELSEWHERE = """
import sys, torch
import rfnb as rf
config = rf.load_config(sys.argv[1])
letters = config["letters"]
assert letters.vocab.labels == ("a", "b", "c")
assert config["again"] is letters
model = rf.Linear(letters, config["out"])
assert rf.load(sys.argv[1], model).complete
print(model.weight.raw_tensor.sum().item())
"""


@pytest.mark.slow
def test_dims_in_another_process(python, path):
    letters = rf.Dim(3, name="letters")
    letters.vocab = rf.Vocab(["a", "b", "c"])
    model = rf.Linear(letters, OUT)
    rf.save(model, path, config={"letters": letters, "again": letters, "out": OUT})
    done = subprocess.run([python, "-c", ELSEWHERE, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == model.weight.raw_tensor.sum().item()


HOSTILE = [
    "{", "3", "[" * 100_000, '{"values": 3}', '{"values": {"config": 1}, "dims": 3}',
    *(f'{{"values": {{"config": {{"${kind}": {content}}}}}}}' for kind, content in [
        ("tuple", 3), ("dict", "[[1]]"), ("dict", '[[{"a": 1}, 2]]'), ("bytes", '"%%"'), ("what", 1),
        ("tensor", '"weight"'), ("dim", 7), ("dim", '"seven"'), ("dim", "[1]"), ("dim", "null"),
    ]),
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: text[:60])
def test_a_config_that_nobody_wrote(path, text):
    save_file({"weight": torch.ones(3)}, path, {"config": text})
    with pytest.raises(CheckpointError, match="the config in the file cannot be read"):
        rf.load_config(path)


def itself():
    config = []
    config.append(config)
    return config


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"a": {"b": [1, object()]}}, r"config\.a\.b\[1\] is not plain data"),
        ({"day": np.datetime64("2020-01-01")}, r"(?s)config\.day is not plain data.*datetime\.date"),
        ({"kind": http.HTTPStatus.OK}, r"(?s)config\.kind is not plain data.*http\.HTTPStatus"),
        ({"act": rf.relu}, r"(?s)config\.act is not plain data.*rf\.build_dict"),
        ({"w": torch.ones(2)}, r"(?s)config\.w is not plain data.*torch\.Tensor"),
        (itself(), "nested too deeply"),
    ],
)
def test_what_is_no_data(path, config, words):
    with pytest.raises(CheckpointError, match=words):
        rf.save(rf.Linear(IN, OUT), path, config=config)
    assert not path.exists()


def test_a_file_without_one(path):
    with pytest.raises(CheckpointError, match=r"has no config"):
        rf.load_config(rf.save(rf.Linear(IN, OUT), path))
