"""Run files that earlier versions of rfnb wrote still load, and show the same."""

from __future__ import annotations

import json

import pytest

import rfnb as rf
from tests.trace.make_saved import FOLDER, facts

FILES = sorted(FOLDER.glob("*/*.rfrun"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_an_older_run_file_shows_what_it_showed_then(file):
    then = json.loads((file.parent / "facts.json").read_text(encoding="utf-8"))[file.stem]
    assert json.loads(json.dumps(facts(rf.load_run(file)))) == then
