"""The report of a load tells the same as text, as HTML and as a table."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf

FEAT = rf.Dim(2, name="feat")


@pytest.fixture
def report():
    module = rf.Module()
    module.new, module.here, module.rest = (rf.LayerNorm(FEAT) for _ in range(3))
    module.layers = rf.ModuleList(rf.LayerNorm(FEAT) for _ in range(10))
    there = {f"{name}.{part}": torch.ones(2) for name in ("old", "other<b>") for part in ("scale", "bias")}
    return rf.load(there, module, strict=False, rename={"old": "new"}, skip="rest")


def test_text_and_html_name_the_same(report):
    view = rf.show(report)
    assert view.text == str(report) == repr(report)
    assert view.text.splitlines()[0] == "2 parameters loaded from the state dict"
    assert (
        "  missing    here.scale, here.bias, layers.0.scale, layers.0.bias, layers.1.scale, … and 17 more" in view.text
    )
    for words in ("missing", "unexpected", "skipped", "old.scale → new.scale", "layers.9.bias"):
        assert words in view.html
    assert "other&lt;b&gt;.scale" in view.html and "<b>" not in view.html


def test_a_row_for_each_name(report):
    rows = rf.show(report).table().rows
    assert ["loaded", "new.scale"] in rows and ["missing", "layers.9.bias"] in rows
    assert len(rows) == 2 + 22 + 2 + 2 + 2


def test_a_complete_one_is_a_line():
    module = rf.LayerNorm(FEAT)
    report = rf.load({"scale": torch.ones(2), "bias": torch.ones(2)}, module)
    assert repr(report) == "2 parameters loaded from the state dict"
