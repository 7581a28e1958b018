"""The text of a run is the text that ran, also if its file has changed since."""

from __future__ import annotations

import importlib
import sys

import pytest

import rfnb as rf
from rfnb.errors import LoopWarning, ParameterError
from rfnb.trace.plain.user_code import text_of

LOOP = "def g(n):\n    h = 0\n    for t in range(n):\n        {}\n        {}\n    return h\n"


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Writes a module, and imports it first of all."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(text):
        (tmp_path / "a_model.py").write_text(text)
        return importlib.import_module("a_model")

    yield write
    sys.modules.pop("a_model", None)


def lines_of(run):
    return [line.strip() for line in run.source.lines[1:]]


def test_a_module_that_was_edited_and_reloaded(model):
    module = model(LOOP.format("h = h + 1", "y = h * 2"))
    with rf.record_loops():
        module.g(3)
    importlib.reload(model(LOOP.format("h = h + 100", "z = h * 5")))
    with rf.record_loops():
        module.g(3)
    new, old = rf.runs
    assert new.steps == 3 and new.stack("z").tolist() == [500, 1000, 1500]
    assert lines_of(new) == ["h = h + 100", "z = h * 5"] and lines_of(old) == ["h = h + 1", "y = h * 2"]
    importlib.reload(model("# moved\n\n" + LOOP.format("h = h + 2", "z = h * 5")))
    with rf.record_loops(module.g):
        module.g(3)
    assert rf.runs["g"].stack("h").tolist() == [2, 4, 6]


@pytest.mark.parametrize("edit", ["# moved\n{}", "{}"])
def test_a_file_that_was_saved_and_not_reloaded_is_not_recorded(model, edit):
    module = model(LOOP.format("h = h + 1", "y = h * 2"))
    model(edit.format(LOOP.format("y = h * 2", "h = h + 1")))
    words = "g ran, but a_model.py has changed since its code was loaded: reload it"
    for functions in ([], [module.g]):
        with pytest.warns(LoopWarning, match=words), rf.record_loops(*functions):
            module.g(3)
    with pytest.raises(ParameterError, match="has changed"):
        rf.record_calls(module.g)
    assert not list(rf.runs)
    model(LOOP.format("h = h + 1", "y = h * 2"))  # the edit was undone
    with rf.record_loops():
        module.g(3)
    assert rf.runs["g"].stack("h").tolist() == [1, 2, 3]


def test_what_was_recorded_before_an_edit_keeps_its_text(model):
    module = model(LOOP.format("h = h + 1", "y = h * 2"))
    with rf.record_loops():
        module.g(3)
    model(LOOP.format("y = h * 2", "h = h + 1"))
    with rf.record_loops():
        module.g(3)
    assert len(rf.runs) == 2 and all(lines_of(run) == ["h = h + 1", "y = h * 2"] for run in rf.runs)


def test_a_loop_next_to_one_that_changed_is_recorded_with_a_word(model):
    module = model(LOOP.format("h = h + 1", "y = h * 2"))
    model(LOOP.format("y = h * 2", "h = h + 1"))
    with pytest.warns(LoopWarning, match="g ran, but a_model.py has changed"), rf.record_loops():
        for i in range(2):
            module.g(i)
    assert [run.steps for run in rf.runs] == [2]


def test_an_edit_elsewhere_in_the_file_changes_nothing(model):
    module = model(LOOP.format("h = h + 1", "y = h * 2"))
    model(LOOP.format("h = h + 1", "y = h * 2") + "\nx = 3\n")
    with rf.record_loops():
        module.g(3)
    assert rf.runs["g"].steps == 3


def test_asserts_that_pytest_rewrites_are_no_change():
    text_of(test_asserts_that_pytest_rewrites_are_no_change.__code__)
    with rf.record_loops():
        for i in range(3):
            assert i < 3, "not less"
    assert rf.runs[0].steps == 3


def test_code_that_takes_over_flags_of_the_code_that_executes_it(tmp_path):
    path = tmp_path / "flags.py"
    path.write_text("def f(x: int):\n    for i in range(x):\n        y = i\n")
    names: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), names)  # with `annotations` of this file
    with rf.record_loops():
        names["f"](2)
    assert rf.runs["f"].steps == 2
