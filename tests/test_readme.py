"""The README's examples run as they stand."""

from __future__ import annotations

import linecache
import re
from pathlib import Path

import pytest

import rfnb as rf
from rfnb.display.kit.view import View
from rfnb.errors import LoopWarning
from rfnb.trace.pause import hold

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
STEPS, PAUSE, SEARCH, PYTORCH, EXAMPLE, TRAVEL, NET, CHECKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_a_plain_loop_becomes_a_run():
    linecache.cache["steps.py"] = (len(STEPS), None, STEPS.splitlines(keepends=True), "steps.py")
    names: dict[str, object] = {}
    exec(compile(STEPS, "steps.py", "exec"), names)
    run = rf.runs["decoder"]
    assert run.steps == 10 and run[4].before.h.raw_tensor.equal(run[3].h.raw_tensor)
    assert run[9].x.raw_tensor.equal(names["x"])


def test_two_lines_pause_a_training(tmp_path, monkeypatch, request):
    monkeypatch.setattr(rf.options, "pause_folder", tmp_path)
    monkeypatch.setattr(hold, "_written", [])
    request.addfinalizer(rf.pauses.clear)
    losses = iter([1.0, float("nan"), 0.5])
    with pytest.warns(LoopWarning, match="training was not paused after step 1"):
        linecache.cache["pause.py"] = (len(PAUSE), None, PAUSE.splitlines(keepends=True), "pause.py")
        exec(compile(PAUSE, "pause.py", "exec"), {"rf": rf, "loader": range(3), "train_on": lambda x: next(losses)})
    [file] = tmp_path.iterdir()
    assert rf.load_run(file)[0]["loss"].item() == 1.0


@pytest.mark.parametrize("code", [STEPS, SEARCH, PYTORCH])
def test_the_first_examples_need_no_dim(code):
    assert "rf.Dim" not in code and "batch_dim" not in code


def test_the_search_finds_hypotheses_and_shows_them():
    names: dict[str, object] = {}
    exec(SEARCH, names)
    [hypotheses] = names["found"].nbest(4)
    assert len(set(hypotheses)) == 4
    view = eval(SEARCH.strip().splitlines()[-1], names)
    assert isinstance(view, View) and view.svg
    assert all(text in view.text for text in [*hypotheses, "a dog barks"])


def test_the_calls_for_a_pytorch_model_give_views():
    names: dict[str, object] = {}
    exec(PYTORCH, names)
    calls = re.findall(r"^rf\.show.*?(?=  #|$)", PYTORCH, re.MULTILINE)
    graph, array, seen, weights = views = [eval(call, names) for call in calls]
    assert all(isinstance(view, View) and view.html for view in views)
    assert "MultiheadAttention" in graph.text
    assert "time:4–7" in array.text
    assert "2 layers × 4 heads" in seen.text
    assert "4 heads" in weights.text


def test_the_example_sums_up():
    names: dict[str, object] = {}
    exec(EXAMPLE, names)
    sums, axis = names["sums"], names["sums"].dims.index(names["time"])
    assert sums.raw_tensor.select(axis, 0).tolist() == [3.0, 2.0, 1.0]
    assert sums.raw_tensor.select(axis, 2)[0].item() == 8.0


def test_the_checks_find_what_they_are_shown_for():
    names: dict[str, object] = {}
    exec(EXAMPLE, names)
    *definition, padding, finite, explain = CHECKS.strip().splitlines()
    exec("\n".join(definition), names)
    assert eval(padding, names).first.event.op == "reduce_mean"
    assert eval(finite, names).first.event.op == "log"
    assert "in each step" in repr(eval(explain, names))


def test_the_run_of_the_example_is_searched_forked_and_saved(tmp_path, monkeypatch):
    names: dict[str, object] = {}
    monkeypatch.chdir(tmp_path)
    with rf.recording("last"):
        exec(EXAMPLE, names)
    run, find, fork, compare, save = TRAVEL.strip().splitlines()
    exec(run, names)
    assert eval(find, names) == [1, 2, 3]
    exec(fork, names)
    assert eval(compare, names).first.step == 0
    exec(save, names)
    assert rf.load_run("sum.rfrun").steps == 4


@pytest.mark.parametrize("fact", ["make lab ", "make test ", "Apache-2.0"])
def test_the_readme_says_how_to_start_and_its_licence(fact):
    assert fact in README


def test_the_documentation_table_has_every_page():
    pages = {path.name for path in (Path(__file__).parents[1] / "docs").glob("*.md")}
    table = README.partition("## Documentation")[2].partition("\n## ")[0]
    assert set(re.findall(r"\]\(docs/(\w+\.md)\)", table)) == pages


def test_two_lines_draw_the_network_of_a_config(monkeypatch):
    monkeypatch.chdir(Path(__file__).parents[1])
    opened, shown = NET.strip().splitlines()
    names: dict[str, object] = {"rf": rf}
    exec(opened, names)
    view = eval(shown, names)
    assert "blstm_1" in view.text and view.svg
    assert names["net"].report()
