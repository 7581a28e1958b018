"""The infrastructure itself: JupyterLab starts, a cell runs, its output is read, our extension is there."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.browser


def test_a_cell_runs_and_its_output_is_read(open_notebook):
    notebook = open_notebook(cells=["x = [n * n for n in range(5)]", "print(sum(x))", "x[-1]"])
    notebook.run_all()
    assert notebook.text(1) == "30\n"
    assert notebook.text(2) == "16"
    assert notebook.value("x") == [0, 1, 4, 9, 16]
    assert "30" in notebook.cell(1).inner_text()
    notebook.screenshot("lab")


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
