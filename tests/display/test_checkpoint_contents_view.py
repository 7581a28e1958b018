"""What is in a checkpoint is a tree of names, the same as text, as HTML and as a table."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.checkpoint.entries import Checkpoint, CheckpointFile, StoredEntry
from tests.checkpoint.bundle_writer import write


def hostile_views(word):
    """Names of entries, dtypes and the path; the parts of names are separated by a character that no payload has."""
    parts = {"W": "float32", "b": word("?")}
    entries = {f"{word('up')}|{word(part)}": StoredEntry("", (2, 3), dtype) for part, dtype in parts.items()}
    apart = {word("words"): StoredEntry("", (), word("string"))}
    checkpoint = Checkpoint(
        word("path"), entries, lambda key: torch.zeros(0), kind=word("kind"), apart=apart, separator="|"
    )
    return {"checkpoint": rf.show(CheckpointFile(checkpoint, ExitStack()))}


@pytest.fixture
def file(tmp_path):
    values = {f"encoder/layer_{i}/{part}": np.ones((3, 2), "float32") for i in range(6) for part in "Wb"}
    values |= {"encoder/layer_0/W/Adam": np.ones((3, 2), "float32"), "global_step": np.array(7, "int64")}
    write(tmp_path / "net", values)
    with rf.open_checkpoint(tmp_path / "net") as file:
        yield file


def test_text_html_and_table(file):
    view = rf.show(file)
    assert view.text.splitlines()[0] == f"TensorFlow {file.path}: 12 entries, 72 values, 288 B"
    assert view.text.splitlines()[1:5] == [
        "  encoder/  72 values in 12",
        "    layer_0/  12 values in 2",
        "      W  3×2  float32",
        "      b  3×2  float32",
    ]
    assert view.text.splitlines()[-3:] == [
        "  apart: 2",
        "    encoder/layer_0/W/Adam  3×2  float32",
        "    global_step  scalar  int64",
    ]
    assert repr(file) == view.text and "layer_5/" in view.html and "global_step" in view.html
    rows = view.table().rows
    assert len(rows) == 14 and ["global_step", "scalar", "int64", 1, 8, "yes"] in rows


def test_values_on_demand_and_names_that_are_not_there(file):
    assert file["encoder/layer_0/W"].shape == (3, 2) and file["global_step"].item() == 7
    assert len(file) == len(list(file)) == 12 and "global_step" in file and "global" not in file
    with pytest.raises(rf.errors.CheckpointError, match=r"did you mean .*'encoder/layer_1/W'"):
        file["encoder/layer_1/w"]


@pytest.mark.slow
def test_very_deep_and_very_many_names(tmp_path):
    names = ["/".join("abc" * 30), *(f"x/{i}" for i in range(5000))]
    write(tmp_path / "net", dict.fromkeys(names, np.zeros(1, "float32")))
    view = rf.show(rf.open_checkpoint(tmp_path / "net"))
    assert "more lines" in view.text and "and more" in view.html and len(view.html) < 100_000
    assert len(view.table().rows) == 5001
