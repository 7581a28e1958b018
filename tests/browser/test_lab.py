"""The infrastructure itself: JupyterLab starts, a cell runs, its output is read, our extension is there."""

from __future__ import annotations

import pytest

from tests.browser.panel import Panel

pytestmark = pytest.mark.browser


def test_a_cell_runs_and_its_output_is_read(open_notebook):
    notebook = open_notebook(cells=["x = [n * n for n in range(5)]", "print(sum(x))", "x[-1]"])
    notebook.run_all()
    assert notebook.text(1) == "30\n"
    assert notebook.text(2) == "16"
    assert notebook.value("x") == [0, 1, 4, 9, 16]
    assert "30" in notebook.cell(1).inner_text()


def test_one_cell_runs_again(open_notebook):
    notebook = open_notebook(cells=["n = 0", "n += 1; n"])
    notebook.run_all()
    notebook.run_cell(1)
    assert notebook.text(1) == "2"


def test_an_error_in_a_cell_is_told(open_notebook):
    notebook = open_notebook(cells=["1 / 0"])
    with pytest.raises(AssertionError, match="cell 0: ZeroDivisionError"):
        notebook.run_all()


@pytest.mark.usefixtures("extension")
def test_the_extension_is_loaded(open_notebook):
    notebook = open_notebook(cells=["1"])
    assert notebook.page.evaluate("() => [...window.jupyterapp.listPlugins()].filter(id => id.startsWith('rfnb-lab:'))")


@pytest.mark.usefixtures("extension")
def test_the_commands_are_in_the_run_menu(open_notebook):
    page = open_notebook(cells=["1"]).page
    page.locator(".lm-MenuBar-itemLabel", has_text="Run").click()
    page.locator(".lm-Menu-itemLabel", has_text="Loops").hover()
    page.locator(".lm-Menu-itemLabel", has_text="Show Loops").click()
    page.locator(".rfnb-Loops").wait_for()


@pytest.mark.usefixtures("extension")
def test_a_loop_is_stepped_paused_and_continued_with_keys_alone(open_notebook):
    body = "with loop:\n    loop.state.n = loop.state.n * 2"
    body = f"loop = rf.Loop(max_seq_len=4)\nloop.state.n = rf.convert_to_tensor(1)\n{body}"
    notebook = open_notebook(cells=["import rfnb as rf", body])
    page = notebook.page
    page.keyboard.press("Control+Alt+l")
    panel = Panel(page)
    notebook.run_all()
    panel.at(0)
    notebook.cell(1).locator(".cm-content").click()
    page.keyboard.press("Control+Alt+.")
    panel.at(1)
    page.keyboard.press("Control+Alt+Shift+p")
    panel.root.locator('.rfnb-Status-pause[aria-pressed="true"]').wait_for()
    page.keyboard.press("Control+Enter")
    panel.root.locator(".rfnb-Paused").wait_for()
    panel.at(0)
    page.keyboard.press("Control+Alt+.")  # the next step of the paused loop
    panel.at(1)
    page.keyboard.press("Control+Alt+c")
    notebook.wait_for_idle()
    panel.root.locator(".rfnb-Paused").wait_for(state="detached")
