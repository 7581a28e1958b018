"""The panel steps through a loop: it shows what the kernel computes by itself, and marks the line that runs."""

from __future__ import annotations

import pytest

from tests.browser.notebook_page import until
from tests.browser.panel import Panel

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

EVIL = "<script>alert(1)</script>"

DATA = f"""\
import rfnb as rf
from rfnb import batch_dim

time = rf.Dim(None, name="time")
rows = [[1.0, 2.0, 3.0, 4.0], [10.0, 20.0], [5.0, 5.0, 5.0]]
x = rf.convert_to_tensor(rows, dims=[batch_dim, time], tags=["rising", "{EVIL}", "flat"])"""

LOOP = """\
loop = rf.Loop(axis=time, name="running sum")
loop.state.total = rf.zeros([batch_dim])
with loop:
    x_t = loop.unstack(x)
    loop.state.total = loop.state.total + x_t
    sums = loop.stack(loop.state.total)"""

MODULE = '''\
"""A loop in a file."""

import rfnb as rf


def running_product(x, time):
    loop = rf.Loop(axis=time, name="product")
    loop.state.product = rf.ones([rf.batch_dim])
    with loop:
        factor = loop.unstack(x)
        loop.state.product = loop.state.product * factor
        products = loop.stack(loop.state.product)
    return products
'''

ROWS = [[1.0, 2.0, 3.0, 4.0], [10.0, 20.0], [5.0, 5.0, 5.0]]


@pytest.fixture
def stepped(open_notebook):
    """A notebook that has run the loop, and the panel at its first step."""
    notebook = open_notebook(cells=[DATA, LOOP])
    panel = Panel(notebook.page).open()
    notebook.run_all()
    return notebook, panel.choose("running sum")


def running_sum(row, steps):
    return sum(ROWS[row][: min(steps, len(ROWS[row]))])


def test_stepping_shows_what_the_kernel_computes(stepped):
    notebook, panel = stepped
    rows = notebook.value("rows")
    assert rows == ROWS
    panel.sequence("rising")
    for button, step in [("next", 1), ("next", 2), ("previous", 1)]:
        panel.go(button, step)
        assert float(panel.state("total", "before")) == running_sum(0, step)
        assert float(panel.state("total", "after")) == running_sum(0, step + 1)
    [line] = notebook.highlighted(1, ".rfnb-cm-current", value="x_t = 2")
    assert line.strip() == "x_t = loop.unstack(x)x_t = 2"  # the text, then the value beside it


def test_a_tag_with_markup_is_text(open_notebook):
    notebook = open_notebook(cells=[DATA, LOOP, "x", "rf.stepper(loop.run)", "loop.run"])
    dialogs = []
    notebook.page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    panel = Panel(notebook.page).open()
    notebook.run_all()
    panel.choose("running sum").sequence(EVIL)
    panel.go("next", 1)
    assert float(panel.state("total", "after")) == running_sum(1, 2)
    panel.go("last", 3)
    assert panel.state("total", "after") == "ended"
    assert EVIL in notebook.cell(2).inner_text()
    notebook.stepper(3).sequence(EVIL)
    assert notebook.page.locator("script", has_text="alert(1)").count() == 0
    assert dialogs == []


def test_an_edited_cell_loses_its_marks_and_gets_them_back(stepped):
    notebook, _ = stepped
    assert notebook.highlighted(1, ".rfnb-cm-current")
    mark = notebook.cell(1).locator(".rfnb-cm-current, .rfnb-cm-value")
    notebook.write(1, f"# edited\n{LOOP}")
    mark.first.wait_for(state="detached")
    assert mark.count() == 0
    notebook.write(1, LOOP)
    [line] = notebook.highlighted(1, ".rfnb-cm-current")
    assert line.strip().startswith("x_t = loop.unstack(x)")
    notebook.write(1, f"# edited\n{LOOP}", LOOP)  # and back before anything is drawn
    assert notebook.highlighted(1, ".rfnb-cm-current") == [line]


def test_a_loop_in_a_file_shows_its_own_lines(open_notebook):
    cells = [DATA, "from running import running_product\nproducts = running_product(x, time)"]
    notebook = open_notebook(cells=cells, files={"running.py": MODULE})
    panel = Panel(notebook.page).open()
    notebook.run_all()
    panel.choose("product").sequence("rising")
    assert panel.lines()[0] == "with loop:"
    panel.on_line("factor = loop.unstack(x)")
    panel.go("next", 1).go("next", 2)
    assert float(panel.value("factor")) == ROWS[0][2]
    assert float(panel.state("product", "after")) == 1.0 * 2.0 * 3.0
    assert "running.py:9" in panel.root.inner_text()
    assert notebook.page.locator(".rfnb-cm-current").count() == 0


def test_the_keyboard_is_enough(stepped):
    notebook, panel = stepped
    press = notebook.page.keyboard.press
    panel.root.locator(".rfnb-Stepper").focus()
    press("ArrowRight")
    panel.at(1)
    press("End")
    panel.at(3)
    press("ArrowLeft")
    panel.at(2)
    press("ArrowDown")
    panel.on_line("loop.state.total = loop.state.total + x_t")
    press("ArrowUp")
    panel.on_line("x_t = loop.unstack(x)")
    press("Home")
    panel.at(0)
    press("ArrowDown")
    assert notebook.highlighted(1, ".rfnb-cm-current", value="total = 1")  # this gives the focus to the cell
    press("Control+Alt+Period")
    panel.at(1)
    panel.group("running sum").locator(".rfnb-Run-open").focus()
    press("Enter")
    panel.at(0)


def test_the_panel_survives_a_restart_of_the_kernel(stepped):
    notebook, panel = stepped
    notebook.restart_kernel()
    panel.root.locator(".rfnb-Note", has_text="no longer has this run").wait_for()
    assert panel.root.locator(".rfnb-Run").count() == 0
    notebook.run_all()
    panel.choose("running sum").go("next", 1)
    assert panel.root.locator(".rfnb-Run").count() == 1
    assert panel.root.locator(".rfnb-Note").count() == 0


def test_the_panel_follows_the_active_notebook(stepped, open_notebook):
    notebook, panel = stepped
    panel.go("next", 1)
    open_notebook("other.ipynb", cells=[DATA, LOOP.replace("running sum", "another sum")], beside=True).run_all()
    panel.choose("another sum")
    assert panel.group("running sum").count() == 0
    notebook.activate("test.ipynb")
    panel.group("running sum").wait_for()
    assert panel.group("another sum").count() == 0
    panel.at(1)  # where it was


USER_CODE = """\
loop = rf.Loop(axis=time, name="user code")
loop.state.total = rf.zeros([batch_dim])
with loop:
    x_t = rf.raw_call(abs, loop.unstack(x), out_dims=[batch_dim])
    loop.state.total = loop.state.total + x_t"""


def test_steps_come_while_a_cell_runs_and_those_of_user_code_after_it(open_notebook, tmp_path):
    notebook = open_notebook(cells=[DATA, LOOP, USER_CODE])
    panel = Panel(notebook.page).open()
    notebook.run_all()
    panel.group("user code").wait_for()  # the list is whole, so that a click meets the run that it is for
    panel.choose("running sum")
    notebook.write(0, until(tmp_path / "go"))
    notebook.start_cell(0)
    panel.root.locator(".rfnb-Status-busy").wait_for()
    panel.go("next", 1)
    assert panel.root.locator(".rfnb-Status-busy").count() == 1
    panel.group("user code").locator(".rfnb-Run-open").first.click()
    panel.root.locator(".rfnb-Note", has_text="Step 0 will be shown when the cell has finished").wait_for()
    (tmp_path / "go").touch()
    panel.at(0).go("next", 1)
    assert panel.root.locator(".rfnb-Note").count() == 0
    assert notebook.value("1 + 1") == 2


def test_an_error_in_a_cell_leaves_the_panel_working(stepped):
    notebook, panel = stepped
    for cell in (1, 0, 1):
        notebook.write(cell, {0: DATA, 1: LOOP}[cell] + "\n1 / 0")
        with pytest.raises(AssertionError, match="ZeroDivisionError"):
            notebook.run_cell(cell)
    panel.go("next", 1)
    panel.choose("running sum").go("next", 1)  # the run of the cell that failed after its loop
    assert panel.root.locator(".rfnb-Run").count() == 3


def test_the_inline_stepper_steps_by_its_own_buttons(open_notebook):
    notebook = open_notebook(cells=[DATA, LOOP, "rf.stepper(loop.run, batch='rising')"])
    panel = Panel(notebook.page).open()
    notebook.run_all()
    inline = notebook.stepper(2).at(0)
    panel.choose("running sum").sequence("rising")
    for button, step in [("next", 1), ("last", 3), ("previous", 2)]:
        inline.go(button, step)
        assert float(inline.state("total", "after")) == running_sum(0, step + 1)
        panel.go(button, step)
        for name in ("before", "after"):
            assert panel.state("total", name) == inline.state("total", name)
        assert inline.value("x_t") == panel.value("x_t") == f"{ROWS[0][step]:g}"
    panel.go("first", 0)
    inline.at(2)  # each goes its own way


def test_a_saved_notebook_shows_the_history_when_its_kernel_has_gone(open_notebook):
    table = "rf.convert_to_tensor(torch.randn(30, 40), dims=[rf.Dim(30, name='rows'), rf.Dim(40, name='columns')])"
    notebook = open_notebook(cells=[DATA, LOOP, "rf.stepper(loop.run)", "x", f"import torch\n{table}"])
    notebook.run_all()
    notebook.stepper(2).at(0)
    notebook.save()
    notebook.shutdown_kernels()

    open_notebook()
    assert notebook.trusted(2)
    assert_static(notebook)

    open_notebook(change=lambda text: text.replace("import torch", "import torch #"))  # by somebody else
    assert not notebook.trusted(2)
    assert_static(notebook)
    assert notebook.page.locator(".jp-OutputArea script").count() == 0


def assert_static(notebook):
    """Tables and pictures, as they were saved."""
    sequences, states = (notebook.cell(2).locator("table").nth(i) for i in range(2))
    states.wait_for()
    assert "length 4 reached" in sequences.inner_text()
    assert str(int(running_sum(0, 4))) in states.inner_text()
    assert notebook.cell(2).locator(".rfnb-Stepper").count() == 0
    assert "Error displaying widget" not in notebook.cell(2).inner_text()
    assert EVIL in notebook.cell(3).inner_text()
    picture = notebook.cell(4).locator("img[src^='data:image/png']")
    assert picture.evaluate("image => image.naturalWidth") > 0
