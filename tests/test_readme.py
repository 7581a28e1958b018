"""The README's examples run as they stand."""

from __future__ import annotations

import linecache
import re
import shutil
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import rfnb as rf
from rfnb.display.kit.view import View
from rfnb.errors import LoopWarning
from rfnb.trace import pause as hold

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
STEPS, PAUSE, SEARCH, PYTORCH, EXAMPLE, TRAVEL, NET, CHECKS = BLOCKS


def test_a_plain_loop_becomes_a_run():
    linecache.cache["steps.py"] = (len(STEPS), None, STEPS.splitlines(keepends=True), "steps.py")
    names: dict[str, object] = {}
    exec(compile(STEPS, "steps.py", "exec"), names)
    run = rf.runs["decoder"]
    assert run.steps == 10 and run[4].before.h.raw_tensor.equal(run[3].h.raw_tensor)
    assert run[9].x.raw_tensor.equal(names["x"])


def test_a_line_pauses_a_training(tmp_path, monkeypatch, request):
    monkeypatch.setattr(rf.options, "pause_folder", tmp_path)
    monkeypatch.setattr(hold, "_written", [])
    request.addfinalizer(rf.pauses.clear)
    with pytest.warns(LoopWarning, match="training was not paused after step 34"):
        linecache.cache["pause.py"] = (len(PAUSE), None, PAUSE.splitlines(keepends=True), "pause.py")
        exec(compile(PAUSE, "pause.py", "exec"), {})
    [file] = tmp_path.iterdir()
    assert rf.load_run(file).steps == 35


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


def shown_by(code: str) -> tuple[list[Any], dict[str, Any]]:
    """What a block displays, with its last line, and its names."""
    shown: list[Any] = []
    names: dict[str, Any] = {"display": shown.append}
    *lines, last = code.strip().splitlines()
    linecache.cache["block.py"] = (len(code), None, code.splitlines(keepends=True), "block.py")
    exec(compile("\n".join(lines), "block.py", "exec"), names)
    return [*shown, eval(last, names)], names


def test_the_calls_for_a_pytorch_model_give_views():
    graph, array, seen, weights = views = shown_by(PYTORCH)[0]
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
    padding, finite, explained = shown_by(CHECKS)[0]
    assert padding.first.event.op == "reduce_mean"
    assert finite.first.event.op == "log"
    assert "in each step" in repr(explained)


def test_a_run_is_searched_forked_compared_and_saved(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (comparison, _), names = shown_by(TRAVEL)
    assert capsys.readouterr().out == "[1, 2]\n"
    assert comparison.first.step == 1 and names["fork"][2].total.raw_tensor.tolist() == [5.0, 7.0, 7.0]
    assert rf.load_run("sum.rfrun").steps == 3


def outputs_of(cells: list[str], folder: Path) -> list[list[Any]]:
    """What each cell of a fresh notebook in a folder shows."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in cells])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(folder)}}).execute()
    return [cell.outputs for cell in notebook.cells]


@pytest.mark.parametrize(("code", "views"), [(STEPS, 0), (SEARCH, 1), (PYTORCH, 4), (TRAVEL, 1), (NET, 1), (CHECKS, 3)])
def test_a_block_runs_alone_in_a_fresh_notebook(code, views, forked_kernels, tmp_path):
    [outputs] = outputs_of([code], tmp_path)
    assert sum("text/html" in output.get("data", {}) for output in outputs) == views
    assert not [output for output in outputs if output.get("name") == "stderr"]


def test_all_blocks_run_beside_the_notebooks(forked_kernels, tmp_path):
    for file in (ROOT / "notebooks").glob("*.py"):
        shutil.copy(file, tmp_path)
    assert len(outputs_of(BLOCKS, tmp_path)) == 8


@pytest.mark.parametrize("fact", ["make lab ", "make test ", "Apache-2.0"])
def test_the_readme_says_how_to_start_and_its_licence(fact):
    assert fact in README


def test_the_documentation_table_has_every_page():
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    table = README.partition("## Documentation")[2].partition("\n## ")[0]
    assert set(re.findall(r"\]\(docs/(\w+\.md)\)", table)) == pages


def test_two_lines_draw_the_network_of_a_config():
    [view], names = shown_by(NET)
    assert "blstm_1" in view.text and view.svg
    assert names["net"].report()
