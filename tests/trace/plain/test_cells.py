"""Cells of IPython: `%%record_loops`, all cells, loops that raise, and the hint for `rf.recording("all")`."""

from __future__ import annotations

import atexit
import gc
import sys
import weakref
from types import SimpleNamespace

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

import rfnb as rf
from rfnb.trace.plain.cells import Cells, as_line_magic


@pytest.fixture
def notebook(monkeypatch):
    """`notebook.run(text)` runs a cell; `notebook.cells` is what records them."""
    monkeypatch.setattr("rfnb.trace.plain.cells.recording_mode", lambda: "last")
    monkeypatch.setattr(sys, "displayhook", sys.displayhook)
    shell = InteractiveShell(config=Config(HistoryManager={"enabled": False}))
    cells = Cells()
    cells.follow(shell)
    cells.follow(shell)
    shell.user_ns |= {"rf": rf, "torch": torch}
    for run in list(rf.runs):
        rf.runs.forget(run.serial)
    yield SimpleNamespace(run=lambda text: shell.run_cell(text, store_history=True), cells=cells, shell=shell)
    atexit.unregister(shell.atexit_operations)
    assert sys.gettrace() is None


LOOP = "total = 0\nfor n in range(4):\n    total = total + n\ntotal"


def test_the_magic_records_a_cell_that_runs_as_without_it(notebook):
    plain, magic = notebook.run(LOOP), notebook.run("%%record_loops\n" + LOOP)
    assert (plain.result, magic.result, len(rf.runs)) == (6, 6, 1)
    run = rf.runs[0]
    assert [run[t].total.item() for t in range(4)] == [0, 1, 3, 6]
    assert run[1].values()[0].line == 3 and run.source.lines[0] == "for n in range(4):"
    failed = notebook.run("\n%%record_loops  # all\nfor n in range(3):\n    1 / (1 - n)")
    assert isinstance(failed.error_in_exec, ZeroDivisionError) and rf.runs[0].failed.step == 1
    notebook.run(LOOP)
    assert len(rf.runs) == 2
    assert notebook.run("%%record_loops").success
    assert notebook.run("%%record_loops\nimport asyncio\nfor n in range(2):\n    await asyncio.sleep(0)").success
    assert len(rf.runs) == 3


def test_arguments_of_the_magic_are_functions(notebook):
    notebook.run("def f(n):\n    while n:\n        n -= 1\nclass Model:\n    f = staticmethod(f)\nmodel = Model()")
    notebook.run("%%record_loops model.f, f\nfor n in range(2):\n    f(n + 1)")
    assert [run.name for run in rf.runs if run.name == "f"] == ["f", "f"]
    for text in ("model.g", "nothing", "1 + 1", "json:nothing"):
        wrong = notebook.run(f"%%record_loops {text}\nran = 1")
        assert isinstance(wrong.error_in_exec, rf.errors.ParameterError) and "ran" not in notebook.shell.user_ns
    assert "`model.g` is not defined" in str(notebook.run("%%record_loops model.g").error_in_exec)
    timed = notebook.run("%%record_loops\n%%time\n1")
    assert "not a cell of Python" in str(timed.error_in_exec)


def test_all_cells_are_recorded_while_that_is_on(notebook):
    notebook.cells.every = True
    notebook.run(LOOP)
    notebook.run("%%capture\n" + LOOP)
    notebook.run("for n in rf.steps(range(3), name='mine'):\n    m = n")
    assert [run.steps for run in rf.runs] == [3, 4, 4] and rf.runs[0].name == "mine"
    notebook.shell.run_cell(LOOP)  # of a tool: it is not in the history
    notebook.run("get_ipython().run_cell('pass')\nfor n in range(5):\n    m = n")
    assert (len(rf.runs), rf.runs[0].steps) == (4, 5)
    notebook.cells.every = False
    notebook.run(LOOP)
    assert len(rf.runs) == 4


RAISES = """\
scale = torch.ones(2)
for n in range(4):
    h = torch.full((3 - (n == 2),), float(n))
    for k in range(2):
        first = h[0] + k
        y = h @ torch.ones(3) * scale
        last = y + k
    after = n
"""


def test_a_loop_that_raises_shows_its_last_iteration(notebook):
    assert notebook.run(RAISES).error_in_exec is not None
    (run,) = rf.runs
    step = run[0]
    assert (run.steps, run.failed.step, run.failed.line, run.flags) == (0, 0, 6, ["raised, not recorded"])
    assert (step.n.item(), step.h.raw_tensor.tolist(), step.k.item()) == (2, [2.0, 2.0], 0)
    assert [(value.name, value.line) for value in step.values()] == [
        ("n", 2), ("h", 3), ("k", 4), ("first", 5), ("scale", 6)
    ]  # fmt: skip
    assert run.states == [] and "raised in line 6: RuntimeError" in rf.show(run).text
    for text in (repr(run), rf.show(run).text, rf.show(rf.runs).text, rf.show(rf.runs).html):
        assert "last iteration only" in text and "0 steps" not in text
    assert step.check == "from the traceback" and step.lines().skipped == []
    assert {"y", "last"}.isdisjoint(dir(step))  # they are of the iteration before
    notebook.run("h *= 9")
    assert run[0].h.raw_tensor.tolist() == [2.0, 2.0]
    held = weakref.ref(notebook.shell.user_ns["h"])
    notebook.run("%reset_selective -f ^h$\nimport sys\nsys.last_traceback = sys.last_value = None")
    notebook.shell.InteractiveTB.tb = notebook.shell.InteractiveTB.etype = notebook.shell.InteractiveTB.evalue = None
    gc.collect()
    assert held() is None


def test_errors_elsewhere_and_of_recorded_loops_add_no_run(notebook):
    notebook.run("for n in range(3):\n    n\n1 / 0")
    notebook.run("sum(1 / n for n in range(3))")
    assert not list(rf.runs)
    notebook.run("with rf.record_loops():\n" + "".join(f"    {line}\n" for line in RAISES.splitlines()))
    assert len(rf.runs) == 1 and rf.runs[0].steps == 2
    notebook.run("def f():\n    for n in (1, 0):\n        1 / n")
    notebook.run("for k in range(2):\n    f()")
    assert rf.runs[0].name == "f" and rf.runs[0].place.endswith(":2")


def test_recording_all_says_what_to_write_for_plain_loops(notebook, capsys, monkeypatch):
    monkeypatch.setattr(rf.options, "record", None)
    notebook.run(LOOP)
    notebook.run("rf.options.record = 'all'\ndef f():\n    for n in []: pass")
    notebook.run("for n in rf.steps(range(2)):\n    n")
    assert "rf.steps" not in capsys.readouterr().out
    notebook.run(LOOP)
    assert "for x in rf.steps(" in capsys.readouterr().out
    notebook.run(LOOP)
    assert "rf.steps" not in capsys.readouterr().out


def test_only_the_first_line_of_a_cell_is_the_magic():
    for lines in (["x\n", "%%record_loops\n"], ["%%record_loops_of f\n"], [" %%record_loops\n"], ["\n"], []):
        assert as_line_magic(lines) == lines
    assert as_line_magic(["\n", "%%record_loops  a.b\n", "x\n"]) == ["\n", "%record_loops a.b\n", "x\n"]
