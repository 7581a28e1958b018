"""JSON of views that older versions wrote still gives text, HTML and tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rfnb.display.kit.view import FORMER_KINDS, View

SAVED = Path(__file__).parents[2] / "saved"


@pytest.mark.parametrize("former", FORMER_KINDS)
def test_a_view_under_its_former_kind_reads_as_under_the_new_one(former):
    saved = json.loads((SAVED / f"{former}.json").read_text(encoding="utf-8"))
    assert saved["kind"] == former
    old, new = View(saved), View({**saved, "kind": FORMER_KINDS[former]})
    assert "no view" not in old.text and old.text.count("\n") >= 1
    assert (old.text, old.html) == (new.text, new.html)
    assert repr(old.table()) == repr(new.table())


def test_a_saved_run_view_still_says_what_it_said():
    view = View(json.loads((SAVED / "history.json").read_text(encoding="utf-8")))
    assert view.data["run"]["name"] in view.text.splitlines()[0]
    assert "<table" in view.html and "<details" in view.html


def test_places_of_ops_are_read_under_their_former_names():
    saved = json.loads((SAVED / "explanation.json").read_text(encoding="utf-8"))
    assert {op["where"] for op in saved["ops"]} == {"once", "all steps", "step", "behind"}
    view = View(saved)
    assert {"each step", "after the loop"} <= {row[2] for row in view.table().rows}
    assert "2 after the loop" in view.text.splitlines()[0]
    assert "after the loop" in view.html and ">behind<" not in view.html
