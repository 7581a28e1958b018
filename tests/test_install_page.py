"""The examples of docs/install.md run as they stand, and its make targets exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rfnb as rf

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")


@pytest.fixture
def recording():
    """Leaves the option and the runs as they were."""
    before = rf.options.record
    yield
    rf.options.record = before
    rf.runs.clear()


def test_the_examples(recording):
    stepper, state = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names: dict[str, object] = {}
    exec(stepper, names)
    assert eval(state, names).raw_tensor.tolist() == [4.0, 9.0]


def test_the_targets_of_make_exist():
    listed = re.search(r"^\.PHONY: (.*)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"`?\bmake ([\w-]+)", PAGE)) == set(listed[1].split())
