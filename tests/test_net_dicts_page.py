"""docs/net_dicts.md: its examples run, and weights come over by their names in a checkpoint."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rfnb as rf

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "net_dicts.md").read_text(encoding="utf-8")
LOOK, DRAFT, TRAIN, RECURRENT, EXPLAINED, SEARCHED, WEIGHTS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def names(monkeypatch):
    monkeypatch.chdir(ROOT)
    found: dict[str, object] = {"__name__": "page"}
    exec(LOOK, found)
    return found


def test_the_examples_run(names):
    exec(DRAFT, names)
    exec(TRAIN, names)
    assert names["batches"]


def test_recurrent_nets(names):
    for block in (RECURRENT, EXPLAINED, SEARCHED):
        exec(block, names)
    assert names["found"].nbest(1)


def test_the_calls_of_the_tables_are_there(names):
    net = names["net"]
    assert [name for name in re.findall(r"\bnet\.(\w+)(?!\w*\")", PAGE) if not hasattr(net, name)] == ["html"]
    assert [name for name in re.findall(r"rf\.(\w+)", PAGE) if not hasattr(rf, name)] == []


def test_weights_by_their_names_in_a_checkpoint(names, monkeypatch, tmp_path):
    config = ROOT / "notebooks" / "blstm_hybrid.config"
    net = names["net"]
    of = {id(parameter): name for name, parameter in net.variables().items()}
    shapes = {of[id(x)]: x.raw_tensor.shape for x in net.parameters()}
    assert {"conv0/W", "blstm_1/fw/rec/W_re", "output/b"} <= set(shapes)
    monkeypatch.chdir(tmp_path)
    exec(WEIGHTS.replace("notebooks/blstm_hybrid.config", str(config)), {**names, "shapes": shapes})
    exec("net = None", names)
    loaded = rf.Network.from_config(config)
    rf.load("network.040.npz", loaded)
    assert all((x.raw_tensor == 0).all() for x in loaded.parameters())
