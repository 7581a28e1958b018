"""Functions with loops in other files than those that are recorded."""

from __future__ import annotations

import sys
import textwrap

import pytest

import rfnb as rf
from rfnb.display.panel.commands import Dispatcher
from rfnb.trace.plain import record as skipped_functions

FILES = {
    "__init__": "",
    "search": """\
from library_of_loops.score import best, plain, listed

def search(n):
    while n > 1:
        n = best(plain(listed([n, n - 1])))
    return n
""",
    "score": """\
import json

def best(numbers):
    smallest = numbers[0]
    for number in numbers:
        smallest = min(smallest, number)
    return smallest

def plain(numbers):
    return json.loads(json.dumps(numbers))

def listed(numbers):
    return [number for number in numbers]
""",
}


@pytest.fixture
def library(tmp_path, monkeypatch):
    folder = tmp_path / "site-packages" / "library_of_loops"
    folder.mkdir(parents=True)
    for name, text in FILES.items():
        (folder / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(folder.parent))
    monkeypatch.setattr(skipped_functions, "ADDED", set())
    skipped_functions._modules.cache_clear()
    import library_of_loops.search

    yield library_of_loops.search
    for name in [name for name in sys.modules if name.startswith("library_of_loops")]:
        del sys.modules[name]


def test_loops_of_other_files_are_listed_and_can_be_added(library):
    with rf.record_loops(library.search):
        assert library.search(3) == 1
    run = rf.runs["search"]
    place = "library_of_loops.score:best"
    assert run.steps == 2 and run.replay.also == [place]
    shown = rf.show(run)
    assert place not in repr(run) and f"not recorded: loops in {place}" in repr(shown) and place in shown.html
    panel = Dispatcher(rf.runs)
    view = panel.handle({"id": 1, "command": "run", "args": {"run": run.serial}})["data"]
    assert view["also"] == [{"place": place, "added": False}]
    wrong = panel.handle({"id": 2, "command": "record_too", "args": {"run": run.serial, "place": "os:walk"}})
    assert wrong["status"] == "error" and not skipped_functions.ADDED
    answer = panel.handle({"id": 3, "command": "record_too", "args": {"run": run.serial, "place": place}})
    assert answer["data"] == [{"place": place, "added": True}]
    with rf.record_loops("library_of_loops.search:search"):
        library.search(2)
    assert [run.name for run in rf.runs][:2] == ["search", "best"] and rf.runs["search"].replay.also == []
    with rf.record_loops(place):
        library.search(2)
    assert rf.runs["best"].replay.also == ["library_of_loops.search:search"]


def test_the_code_of_other_packages_is_not_read(library, monkeypatch):
    read = []
    monkeypatch.setattr(skipped_functions, "outline", lambda code: read.append(code.co_name))
    with rf.record_loops(library.search):
        library.search(3)
        textwrap.fill("a word")
    assert "best" in read and "_wrap_chunks" not in read
