"""What IPython shows when an error ends a cell: a card in a kernel, a short text in a terminal, others as ever."""

from __future__ import annotations

import json
import subprocess
import sys
import traceback
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import rfnb as rf
from rfnb.display.error import card, view as error_view
from rfnb.display.kit import blocks
from rfnb.errors import DimError

CELLS = {
    "start": "import rfnb as rf, numpy as np\nfrom rfnb import batch_dim",
    "data": "\n\ntime, feat = rf.Dim(None, name='time'), rf.Dim(4, name='feat')\n"
    "x = rf.convert_to_tensor(np.ones((2, 5, 4), 'float32'), dims=[batch_dim, time, feat], lengths=[5, 3])\n"
    "longer, _ = rf.pad(x, axes=[time], padding=[(0, 1)])",
    "function": "\n\ndef differ(a, b):\n    return a - b\n",
    "ours": "differ(longer, x)",
    "other": "1/0",
    "again": "%tb",
    "verbose": "%xmode Verbose",
    "ours, verbose": "longer - x",
    "other, verbose": "1/0",
    "context": "%xmode Context",
    "ours, caught": "try:\n    longer - x\nexcept rf.errors.DimError as error:\n    view = rf.show(error)\nview",
    "ours, once more": "longer - x",
}


@pytest.fixture(scope="module")
def notebook(forked_kernels: None) -> dict[str, list[Any]]:
    """By cell: its outputs, from a real kernel."""
    cells = [nbformat.v4.new_code_cell(text) for text in CELLS.values()]
    notebook = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(notebook, allow_errors=True, kernel_name="python3", timeout=120).execute()
    return {name: cell.outputs for name, cell in zip(CELLS, notebook.cells, strict=True)}


def kinds(outputs: list[Any]) -> list[str]:
    return [output.output_type for output in outputs]


@pytest.mark.slow
def test_in_a_notebook_there_is_a_card_and_a_short_traceback(notebook):
    card, error = notebook["ours"]
    assert (card.output_type, error.output_type) == ("display_data", "error")
    assert card.data["text/plain"].startswith("DimError: sub: no operand has all dims of the result\n\ncell 3, line 4")
    assert "called in cell 4, line 1: differ(longer, x)" in card.data["text/plain"]
    assert "made in cell 2, line 5" in card.data["text/html"] and "<details>" in card.data["text/html"]
    assert (error.ename, error.traceback) == (
        "DimError",
        ["DimError: cell 3, line 4: sub: no operand has all dims of the result"],
    )
    assert "hint" in error.evalue


def test_it_comes_once_in_each_cell(notebook):
    assert kinds(notebook["ours, once more"]) == ["display_data", "error"]


def test_other_errors_are_shown_as_ever(notebook):
    assert kinds(notebook["other"]) == ["error"] and "----> " in "".join(notebook["other"][0].traceback)
    assert kinds(notebook["other, verbose"]) == ["error"]


def test_all_frames_when_they_are_asked_for(notebook):
    assert kinds(notebook["ours, verbose"]) == ["error"]
    assert "check_pair" in "".join(notebook["ours, verbose"][0].traceback)


def test_a_caught_error_is_shown_by_hand(notebook):
    (result,) = notebook["ours, caught"]
    assert result.output_type == "execute_result" and "cell 11, line 2" in result.data["text/html"]


TERMINAL = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
shell, said = InteractiveShell.instance(colors="nocolor"), {}
for name, text in json.loads(sys.stdin.read()).items():
    with capture_output() as out:
        shell.run_cell(text, store_history=True)
    said[name] = out.stdout + out.stderr
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def terminal(python: str) -> dict[str, str]:
    """By cell: what IPython prints."""
    run = subprocess.run([python, "-c", TERMINAL], input=json.dumps(CELLS), capture_output=True, text=True, check=True)
    said: dict[str, str] = json.loads(run.stdout.splitlines()[-1])
    return said


@pytest.mark.slow
def test_in_a_terminal_the_same_as_text(terminal):
    text = terminal["ours"]
    assert text.startswith("DimError: sub: no operand has all dims of the result\n\ncell 3, line 4, in differ")
    assert "\n  →    4      return a - b\n                     ^^^^^\n" in text
    assert "time+1:4–6 Σ10" in text and "hint" in text and "accident.py" not in text
    assert terminal["other"].startswith("----") and "ZeroDivisionError: division by zero" in terminal["again"]
    assert "check_pair" in terminal["ours, verbose"] and "/ 0" not in terminal["ours, verbose"]


def test_plain_python_says_what_it_said():
    """`str` and the traceback of Python know nothing of cards."""
    error = an_error()
    said = "reduce_sum: `source` has no dim "
    assert str(error).startswith(said) and str(error).count("\n") == 2
    assert f"rfnb.errors.DimError: {said}" in "".join(traceback.format_exception(error))


# -- with a shell of straw


class Shell:
    """What is asked of IPython's."""

    def __init__(self, kernel: object = None, mode: str = "Context"):
        self.kernel = kernel
        self.execution_count = 1
        self.published: list[Any] = []
        self.display_pub = SimpleNamespace(publish=self.published.append)
        self.InteractiveTB = SimpleNamespace(mode=mode, structured_traceback=lambda *error: ["IPython's own"])


@pytest.fixture
def shell_of(monkeypatch):
    def use(shell: Shell | None) -> Shell | None:
        monkeypatch.setattr(card, "_shown", [])
        monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
        return shell

    return use


def an_error() -> DimError:
    try:
        rf.reduce_sum(rf.zeros([]), axis=rf.Dim(3))
    except DimError as error:
        return error
    raise AssertionError


def test_what_ipython_stores_is_no_second_card(shell_of):
    shell, error = shell_of(Shell(kernel=object())), an_error()
    first, again = card.render_traceback(error), card.render_traceback(error)
    assert first == again and len(first) == 1 and len(shell.published) == 1
    shell.execution_count += 1
    card.render_traceback(error)
    card.render_traceback(an_error())
    assert len(shell.published) == 3


@pytest.mark.parametrize("module, broken", [(error_view, "describe"), (blocks, "to_text"), (blocks, "to_html")])
@pytest.mark.parametrize("kernel", [None, object()])
def test_a_card_that_fails_leaves_the_error_to_ipython(shell_of, monkeypatch, module, broken, kernel):
    shell = shell_of(Shell(kernel))
    monkeypatch.setattr(module, broken, lambda *args: 1 / 0)
    assert card.render_traceback(an_error()) == ["IPython's own"] and not shell.published


@pytest.mark.parametrize("mode", ["Verbose", "Minimal", "Docs"])
def test_modes_of_ipython(shell_of, mode):
    shell_of(Shell(object(), mode))
    assert card.render_traceback(an_error()) == ["IPython's own"]


def test_without_a_shell_there_is_pythons_traceback(shell_of):
    shell_of(None)
    error = an_error()
    assert "\n".join(card.render_traceback(error)) == "".join(traceback.format_exception(error))
