"""docs/from_pytorch.md: both sides of each row on modules, data and checkpoints run, and give as many numbers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

import rfnb as rf

PAGE = (Path(__file__).parents[1] / "docs" / "from_pytorch.md").read_text(encoding="utf-8")
MODULES = PAGE.partition("## Modules")[2]
ROWS = re.findall(r"^\| `(.*?)` \| `(.*)` \|$", MODULES, re.MULTILINE)
SETUP = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture(scope="module")
def names():
    found: dict[str, object] = {"__name__": "page"}
    exec(SETUP, found)
    found["loss"].backward(retain_graph=True)
    return found


@pytest.fixture(autouse=True)
def files(monkeypatch, tmp_path):
    torch.save(torch.nn.Linear(4, 3).state_dict(), tmp_path / "net.pt")
    rf.save(rf.Linear(rf.Dim(4, name="feat"), rf.Dim(3, name="out")), tmp_path / "model.safetensors")
    monkeypatch.chdir(tmp_path)


def size(value):
    """How many numbers, however its axes are ordered; None for what is no tensor."""
    value = value[0] if isinstance(value, tuple) else value
    if isinstance(value, rf.Tensor):
        value = value.raw_tensor
    return sorted(value.shape) if isinstance(value, torch.Tensor) else None


@pytest.mark.parametrize(("there", "here"), ROWS, ids=[there for there, _ in ROWS])
def test_a_row(names, there, here):
    a, b = eval(there, dict(names)), eval(here, dict(names))
    if size(a) is not None:
        assert size(a) == size(b)
    if isinstance(a, dict):
        assert set(a) == set(b)


def test_there_are_25_rows():
    assert len(ROWS) >= 25
