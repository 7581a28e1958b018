"""Kinds of views under the names that older versions wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rfnb.display.kit.view import FORMER_KINDS, View, maker

SAVED = Path(__file__).parents[2] / "saved"


@pytest.mark.parametrize("former", FORMER_KINDS)
def test_a_former_kind_has_the_view_of_the_new_one(former):
    assert maker(former) is maker(FORMER_KINDS[former])


def test_a_saved_run_view_still_says_what_it_said():
    view = View(json.loads((SAVED / "history.json").read_text(encoding="utf-8")))
    assert view.data["run"]["name"] in view.text.splitlines()[0]
    assert "<table" in view.html and "<details" in view.html
