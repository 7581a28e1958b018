"""docs/net_dicts.md: its examples run, and weights come over by their names in a checkpoint."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

import rfnb as rf

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "net_dicts.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
LOOK, MASKED, DRAFT, TRAIN, STAGES, RECURRENT, EXPLAINED, SEARCHED, OWN, CODE, PLAIN, WIDER, COMPARED, *REST = BLOCKS
TRAINED, SAVED = REST


@pytest.fixture
def names(monkeypatch):
    monkeypatch.chdir(ROOT)
    found: dict[str, object] = {"__name__": "page"}
    exec(LOOK, found)
    return found


@pytest.mark.slow
def test_the_examples_run(names):
    for block in (MASKED, DRAFT, TRAIN, STAGES):
        exec(block, names)
    assert names["batches"] and len(names["stages"]) == 3


@pytest.mark.slow
def test_recurrent_nets(names):
    for block in (RECURRENT, EXPLAINED, SEARCHED, OWN, CODE, PLAIN, WIDER, COMPARED):
        exec(block, names)
    assert names["found"].nbest(1)


@pytest.mark.slow
def test_the_calls_of_the_tables_are_there(names):
    net = names["net"]
    assert [name for name in re.findall(r"\bnet\.(\w+)(?!\w*\")", PAGE) if not hasattr(net, name)] == ["html"]
    assert [name for name in re.findall(r"rf\.(\w+)", PAGE) if not hasattr(rf, name)] == []


@pytest.mark.slow
def test_a_trained_model(names, monkeypatch, tmp_path):
    names["torch"] = torch
    exec(TRAINED, names)
    trained = {name: x.copy() for name, x in values_of(names["net"]).items()}
    text = SAVED.replace('"notebooks/', f'"{ROOT}/notebooks/')
    monkeypatch.chdir(tmp_path)
    exec(text, names)
    after = values_of(names["net"])
    assert any((after[name] != trained[name]).any() for name in after)
    for name, x in values_of(names["again"]).items():
        np.testing.assert_array_equal(x, after[name])


def values_of(net):
    of = {id(x): name for name, x in net.variables().items()}
    return {of[id(x)]: x.numpy() for x in net.parameters()}


def test_other_weights_by_their_names(tmp_path):
    """Arrays with the names of variables, as a checkpoint in any format has them."""
    net = rf.Network.from_config(rf.examples.path("blstm_hybrid.config"))
    stored = {name: np.zeros_like(x) for name, x in values_of(net).items()}
    assert {"conv0/W", "blstm_1/fw/rec/W_re", "output/b"} <= set(stored)
    np.savez(tmp_path / "network.040.npz", **stored)
    rf.load(tmp_path / "network.040.npz", net)
    assert not any(x.any() for x in values_of(net).values())
