"""Plain Python loops in JupyterLab: the four ways to record them, a loop that raises, hostile texts, the keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.panel import Panel

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

SETUP = """\
import torch, rfnb as rf
w = torch.tensor([[0.5, 0.25], [-0.25, 1.0]])

def states(steps):
    "What the loops below compute, without them."
    h, rows = torch.ones(2), []
    while len(rows) < steps:
        h = torch.tanh(h @ w)
        rows.append(h.tolist())
    return rows"""

BODY = """\
    h = torch.tanh(h @ w)
    if t % 2:
        odd = t
    total = 0
    for k in range(2):
        total = total + k + t"""

LOOP = f"h = torch.ones(2)\nfor t in range(4):\n{BODY}"
STEPS = LOOP.replace("range(4)", 'rf.steps(range(4), name="by steps")', 1)
BLOCK = "with rf.record_loops():\n    " + LOOP.replace("\n", "\n    ")


def shown(text):
    """The numbers of a value."""
    return [float(number.replace("−", "-")) for number in text.split()]


def test_four_ways_make_runs_that_step_forth_and_back(open_notebook):
    notebook = open_notebook(cells=[SETUP, STEPS, BLOCK, f"%%record_loops\n{LOOP}\nh", LOOP])
    panel = Panel(notebook.page).open()
    notebook.run_cell(0)
    expect(panel.root.locator(".rfnb-Guide")).to_contain_text("rf.steps(range(10))")
    switch = panel.root.get_by_label("Record loops of this notebook", exact=True)
    for index in (1, 2, 3):
        notebook.run_cell(index)
    assert "tensor(" in notebook.text(3)  # the result of the cell
    panel.root.locator(".rfnb-Status-record").click()
    expect(switch).to_have_count(0)  # it was that of the guide
    expect(panel.root.locator(".rfnb-Status-record")).to_have_attribute("aria-pressed", "true")
    notebook.run_cell(4)
    expected = notebook.value("states(4)")
    panel.group("for t in range(4)").first.wait_for()
    by_header = [("for t in range(4)", 4)] * 3
    assert notebook.value("[(run.name, run.steps) for run in rf.runs]") == [*by_header, ("by steps", 4)]
    places = panel.root.locator(".rfnb-Group .rfnb-place")
    expect(places.filter(has_text="cell 5, line 2")).to_have_count(1)
    panel.choose("by steps")
    for button, step in (("next", 1), ("next", 2), ("last", 3), ("previous", 2), ("first", 0)):
        panel.go(button, step)
        assert shown(panel.value("h")) == pytest.approx(expected[step], rel=1e-2)
        skipped = panel.root.locator("[data-skipped=true] .rfnb-Line-code").all_inner_texts()
        assert [line.strip() for line in skipped] == ([] if step % 2 else ["odd = t"])
    marked = notebook.highlighted(1, ".rfnb-cm-skipped")
    assert [line.strip() for line in marked] == ["odd = t"]
    panel.look("h = torch.tanh")
    panel.root.get_by_text("name axes").press("Enter")
    notebook.page.keyboard.type("unit")
    notebook.page.keyboard.press("Enter")
    expect(panel.root.get_by_text("rename axes")).to_be_focused()
    expect(panel.go("last", 3).root.locator("[aria-current=step] .rfnb-Dim-name")).to_have_text("unit")
    panel.look("for k in")
    panel.root.get_by_text("Step into the loop").click()
    panel.root.locator(".rfnb-Stepper-name", has_text="for k in range(2)").wait_for()
    assert panel.at(0).go("next", 1).value("total") == "7"


@pytest.mark.own_page
def test_the_switch_outlives_the_page_and_a_loop_that_raises_is_run_again(open_notebook):
    raises = "for n in range(3):\n    half = torch.ones(3 - n) / 2\n    y = half @ torch.ones(2)"
    notebook = open_notebook(cells=[SETUP, raises, LOOP])
    page = notebook.page
    panel = Panel(page).open()
    notebook.run_cell(0)
    notebook.start_cell(1)
    note = panel.root.locator(".rfnb-Failure")
    expect(note).to_contain_text("raised in line 3")
    expect(note).to_contain_text("from the traceback")
    assert panel.at(0).value("half") == "0.5 0.5 0.5"
    note.get_by_role("button", name="Record and run again").click()
    expect(note).to_contain_text("failed in step 0, line 3")
    notebook.save()
    page.reload()
    notebook.open(page.url.replace("&reset", ""))
    panel.open()
    record = panel.root.locator(".rfnb-Status-record")
    expect(record).to_have_attribute("aria-pressed", "true")
    notebook.run_cell(2)
    assert notebook.value("(rf.runs[0].name, rf.runs[0].steps)") == ("for t in range(4)", 4)
    record.click()
    expect(record).to_have_attribute("aria-pressed", "false")
    notebook.run_cell(2)
    assert notebook.value("len(rf.runs)") == 3


EVIL = "<img src=x onerror=alert(1)>"


def test_hostile_texts_stay_texts_and_the_keyboard_steps(open_notebook):
    loop = f"for s in ['{EVIL}', '</code>{EVIL}']:\n    parts = {{s: s}}\n    n = len(s)"
    notebook = open_notebook(cells=["import rfnb as rf", f"%%record_loops\n{loop}"])
    page, dialogs = notebook.page, []
    page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
    panel = Panel(page).open()
    notebook.run_cell(0)
    notebook.run_cell(1)
    panel.at(0)
    stepper = panel.root.locator(".rfnb-Stepper")
    assert EVIL in stepper.locator(".rfnb-Stepper-name").inner_text() and EVIL in panel.value("s")
    stepper.focus()
    page.keyboard.press("ArrowRight")
    assert f"</code>{EVIL}" in panel.at(1).value("s") and panel.value("n") == str(len(EVIL) + 7)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("o")  # there are no ops
    page.keyboard.press("Home")
    panel.at(0)
    expect(stepper.get_by_text("Ops")).to_have_count(0)
    assert page.locator("img[src=x]").count() == 0 and not dialogs


def test_the_guide_inserts_a_loop_that_becomes_a_run(open_notebook):
    notebook = open_notebook(cells=["import rfnb as rf"])
    panel = Panel(notebook.page).open()
    notebook.run_cell(0)
    panel.root.locator(".rfnb-Guide-way button").first.click()
    expect(notebook.page.locator(".jp-Notebook .jp-CodeCell")).to_have_count(2)
    notebook.run_cell(1)
    panel.group("for t in rf.steps(range(10))").first.wait_for()
    assert notebook.value("[(run.name, run.steps) for run in rf.runs]") == [("for t in rf.steps(range(10))", 10)]


ATTENTION = """\
weights = torch.softmax(3 * torch.randn(5, 4, generator=torch.Generator().manual_seed(1)), 1)
for t in rf.steps(range(5), name="attends"):
    att = weights[t].softmax(0)"""


def test_all_steps_of_a_row_of_weights_open_as_a_matrix(open_notebook):
    notebook = open_notebook(cells=[SETUP, ATTENTION])
    panel = Panel(notebook.page).open()
    for index in (0, 1):
        notebook.run_cell(index)
    panel.choose("attends").look("att = weights")
    button = panel.root.locator(".rfnb-Rows .rfnb-Link", has_text="All steps")
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    matrix = panel.root.locator(".rfnb-Rows .rfnb-Matrix")
    plot, marked = matrix.locator(".rfnb-Matrix-plot"), matrix.locator(".rfnb-Matrix-step")
    expect(marked).to_have_attribute("visibility", "visible")
    rows = [marked.bounding_box()["y"]]
    for step in range(1, 5):
        panel.go("next", step)
        rows.append(marked.bounding_box()["y"])
        assert rows[-1] > rows[-2]  # the row of this step
    plot.focus()
    notebook.page.keyboard.press("ArrowDown")
    notebook.page.keyboard.press("ArrowRight")
    expected = notebook.value("rf.runs['attends'][1].att.raw_tensor.tolist()")
    shown_weight = float(matrix.locator("[role=status]").inner_text().rsplit("≈ ", 1)[1].split()[0])
    assert shown_weight == pytest.approx(expected[1], rel=0.02)
    button.click()
    expect(matrix).to_have_count(0)
