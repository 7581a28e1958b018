"""Run files that earlier versions of rfnb wrote still load, and show the same."""

from __future__ import annotations

import json

import pytest

import rfnb as rf
from tests.trace.make_saved import FOLDER, MAKERS, facts

FILES = sorted(FOLDER.glob("*/*.rfrun"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
def test_an_older_run_file_shows_what_it_showed_then(file):
    then = json.loads((file.parent / "facts.json").read_text(encoding="utf-8"))[file.stem]
    if file.parent.name == "format1":  # which listed what inner loops carry for themselves
        then["values"] = [[value for value in step if not value[0].startswith("#")] for step in then["values"]]
    assert json.loads(json.dumps(facts(rf.load_run(file)))) == then


def test_the_same_loops_show_the_same_today(tmp_path):
    with rf.recording("all"):
        for name, make in MAKERS.items():
            again, saved = make(), rf.load_run(FOLDER / "format1" / f"{name}.rfrun")
            loaded = rf.load_run(again.save(tmp_path / f"{name}.rfrun"))
            assert facts(loaded)["values"] == facts(saved)["values"]
            assert facts(loaded)["states"] == facts(saved)["states"]
            assert facts(again)["values"] == facts(saved)["values"]
    rf.runs.clear()
