"""JSON of views that older versions wrote still gives text, HTML and tables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rfnb.display.kit.view import FORMER_KINDS, View

SAVED = Path(__file__).parents[1] / "saved"


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
