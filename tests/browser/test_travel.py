"""The panel searches a run, marks lines of cells, watches expressions, goes op by op, runs on from edited states."""

from __future__ import annotations

import re

import pytest

from tests.browser.panel import Panel

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

DATA = """\
import rfnb as rf
from rfnb import batch_dim

time = rf.Dim(None, name="time")
word = rf.Dim(3, name="word", vocab=["low", "high", "top"])
rows = [[1.0, 2.0, 9.0, 1.0, 8.0, 8.0], [1.0, 1.0]]
x = rf.convert_to_tensor(rows, dims=[batch_dim, time], tags=["long", "short"])"""

LOOP = """\
loop = rf.Loop(axis=time, name="levels")
loop.state.level = rf.zeros([batch_dim], dtype="int64", sparse_dim=word)
loop.state.total = rf.zeros([batch_dim])
with loop:
    x_t = loop.unstack(x)
    loop.state.level = rf.cast(x_t > 5.0, "int64")
    loop.state.total = loop.state.total * 0.5 + x_t"""

LEVELS = [0, 0, 1, 0, 1, 1]
"""Of the long sequence, after each step."""

SECOND = LOOP.replace('"levels"', '"second"')


@pytest.fixture
def stepped(open_notebook):
    """A notebook that has run the loop, and the panel at its first step."""
    notebook = open_notebook(cells=[DATA, LOOP])
    panel = Panel(notebook.page).open()
    notebook.run_all()
    return notebook, panel.choose("levels")


def changes():
    return [step for step in range(1, 6) if LEVELS[step] != LEVELS[step - 1]]


def test_the_panel_goes_to_the_steps_that_are_searched_for(stepped):
    notebook, panel = stepped
    assert changes() == [2, 3, 4]
    panel.find("changes", "level")
    assert panel.hits() == changes()
    panel.hit("next", 2).hit("next", 3).hit("previous", 2)
    assert panel.state("level", "after").startswith("high")
    notebook.page.keyboard.press("n")
    panel.at(3)
    panel.go("last", 5)
    panel.root.locator("[data-hit=next]").click()
    panel.root.locator(".rfnb-Find-progress", has_text="no match after this step").wait_for()
    notebook.screenshot("panel-found")
    panel.root.locator(".rfnb-Find-kind").select_option("not finite")
    panel.root.locator("[data-hit=previous]").click()
    panel.root.locator(".rfnb-Find-progress", has_text=re.compile("^no match$")).wait_for()


def test_a_click_beside_a_line_marks_it_in_any_cell(open_notebook):
    notebook = open_notebook(cells=[DATA, LOOP, SECOND])
    panel = Panel(notebook.page).open()
    notebook.run_all()
    panel.choose("levels")
    marks = notebook.cell(1).locator(".rfnb-cm-gutter .rfnb-cm-stop[data-marked=true]")
    beside(notebook, 1, "level = rf.cast").click()
    marks.wait_for()
    panel.searched().hit("next", 2).hit("next", 3)
    beside(notebook, 2, "level = rf.cast").click()  # of the loop that is not shown
    panel.root.locator(".rfnb-Stepper-name", has_text="second").wait_for()
    panel.at(0).hit("next", 2)
    assert marks.count() == 1
    panel.choose("levels").root.locator(".rfnb-Stop", has_text="line 6").wait_for()
    notebook.write(1, f"# edited\n{LOOP}")
    marks.wait_for(state="detached")
    notebook.write(1, LOOP)
    marks.wait_for()
    beside(notebook, 1, "level = rf.cast").click()
    marks.wait_for(state="detached")
    panel.root.locator(".rfnb-Stop").wait_for(state="detached")


def beside(notebook, cell, code):
    """What can be clicked beside a line of a cell."""
    lines = notebook.cell(cell).locator(".cm-line").all_inner_texts()
    body = lines[lines.index("with loop:") + 1 :]
    position = next(i for i, line in enumerate(body) if code in line)
    return notebook.cell(cell).locator(".rfnb-cm-gutter .rfnb-cm-stop").nth(position)


def test_watches_are_evaluated_at_each_step_and_stay_with_the_loop(stepped):
    notebook, panel = stepped
    row = panel.watch("after.total - before.total")
    panel.watch("totl * 2").locator(".rfnb-Watch-error", has_text="did you mean").wait_for()
    panel.sequence("long")
    panel.go("next", 1).go("next", 2)
    assert float(row.locator(".rfnb-Value-text").inner_text()) == 7.75  # 2.5 → 10.25
    notebook.run_cell(1)
    panel.root.locator(".rfnb-Run").nth(1).wait_for()
    assert float(panel.at(2).root.locator(".rfnb-Watch-value .rfnb-Value-text").first.inner_text()) == 7.75


def test_an_edited_state_runs_on_beside_the_original(stepped):
    notebook, panel = stepped
    panel.sequence("long")
    panel.go("next", 1).go("next", 2)
    panel.edit("level", "tip")
    panel.root.locator(".rfnb-Edit [role=alert]", has_text="no label 'tip'; did you mean top?").wait_for()
    panel.root.locator(".rfnb-Edit input").press("Escape")
    panel.edit("total", "100")
    panel.root.locator(".rfnb-Origin", has_text="at step 2").wait_for()
    panel.at(2)
    assert (float(panel.state("total", "before")), float(panel.state("total", "after"))) == (100, 59)
    assert panel.root.locator(".rfnb-Run").count() == 2
    panel.root.locator(".rfnb-Run-parent", has_text=re.compile(r"fork of #\d+ at 2")).wait_for()
    original = panel.root.locator(".rfnb-Run").nth(1)
    original.hover()
    original.locator("[aria-label^='Compare']").click()
    panel.root.locator(".rfnb-Comparison", has_text="total").wait_for()
    notebook.screenshot("panel-forked")
    panel.root.locator(".rfnb-Origin button").click()
    panel.root.locator(".rfnb-Origin").wait_for(state="detached")
    assert float(panel.at(2).state("total", "before")) == 2.5


def test_op_by_op_with_the_keyboard(stepped):
    notebook, panel = stepped
    panel.look("total = loop.state.total")
    panel.root.locator(".rfnb-Stepper").focus()
    press = notebook.page.keyboard.press
    press(".")
    panel.root.locator(".rfnb-Op[aria-current=step]").wait_for()
    assert panel.ops() == ["mul", "add"]
    press(".")
    panel.root.locator(".rfnb-Op[aria-current=step] .rfnb-Op-name", has_text="add").wait_for()
    press(".")
    panel.at(1).on_line("x_t = loop.unstack(x)")
    panel.root.locator(".rfnb-Op[aria-current=step] .rfnb-Op-name", has_text="unstack").wait_for()


def test_the_inline_stepper_searches_and_forks_as_well(open_notebook):
    notebook = open_notebook(cells=[DATA, LOOP, "rf.stepper(loop.run, batch='long')"])
    notebook.run_all()
    inline = notebook.stepper(2).at(0)
    inline.find("changes", "level").hit("next", 2)
    inline.watch("x_t * 2")
    inline.edit("total", "100")
    inline.root.locator(".rfnb-Origin", has_text="at step 2").wait_for()
    assert float(inline.at(2).state("total", "after")) == 59
    assert inline.root.locator(".rfnb-Watch-value .rfnb-Value-text").inner_text() == "18"
