"""While a cell trains, the panel lists its runs as they come, and shows steps of those that are complete."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.notebook_page import until
from tests.browser.panel import Panel

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

MODEL = """\
import rfnb as rf
from rfnb import Dim, batch_dim

feat = Dim(4, name="feat")
linear = rf.Linear(feat, feat)

def decode(step):
    time = Dim(None, name="time")
    x = rf.convert_to_tensor([[[float(step)] * 4] * 6], dims=[batch_dim, time, feat])
    loop = rf.Loop(axis=time, name="decoder")
    loop.state.h = rf.zeros([batch_dim, feat])
    with loop:
        frame = loop.unstack(x)
        loop.state.h = rf.tanh(linear(frame) + loop.state.h)
    return loop.state.h"""


def follows(panel, frame):
    """Waits until a later run is shown, whose frames are larger."""
    panel.root.page.wait_for_function(
        """frame => [...document.querySelectorAll('.rfnb-Loops .rfnb-Line-values')]
          .some(line => Number(line.textContent.match(/frame ?=? ?(\\d+)/)?.[1]) > frame)""",
        arg=frame,
    )


@pytest.mark.own_page
def test_runs_are_listed_followed_and_stepped_while_the_cell_runs(open_notebook, tmp_path):
    # four runs are kept: for longer than clicks take on a busy machine
    train = until(tmp_path / "go", "decode(step := step + 1); sleep(0.5)")
    notebook = open_notebook(cells=[MODEL, f'step = -1\n{train}\nprint("trained")'])
    panel = Panel(notebook.page).open()
    notebook.run_cell(0)
    panel.root.locator(".rfnb-Status-pause").wait_for()
    notebook.start_cell(1)
    panel.at(0)
    panel.group("decoder").locator(".rfnb-Run").nth(3).wait_for()
    panel.go("next", 1).go("next", 2)
    frame = float(panel.value("frame").split()[0])
    expect(panel.root.locator(".rfnb-Check")).to_contain_text("replay agrees")
    assert "trained" not in notebook.text(1)
    follows(panel, frame)  # the newest run, at the same step
    panel.at(2)
    assert "trained" not in notebook.text(1)
    (tmp_path / "go").touch()
    notebook.wait_for_idle()
    assert "trained" in notebook.text(1)


def test_keys_go_on_to_the_newest_run_from_one_that_was_dropped(open_notebook, tmp_path):
    train = until(tmp_path / "go", "decode(step := step + 1); sleep(0.1)")
    notebook = open_notebook(cells=[MODEL, f"step = -1\n{train}", "for _ in range(4): decode(step := step + 1)"])
    page = notebook.page
    panel = Panel(page).open()
    stepper, shown = panel.root.locator(".rfnb-Stepper"), panel.root.locator(".rfnb-Run[aria-current=true]")
    notebook.run_cell(0)
    panel.root.locator(".rfnb-Status-pause").wait_for()
    notebook.start_cell(1)
    panel.at(0)
    panel.root.locator("[data-step=next]").focus()
    expect(shown).to_have_count(0)  # it was dropped, and the panel leaves the time to the cell
    page.keyboard.press("ArrowRight")
    expect(panel.at(1).root.locator("[data-step=next]")).to_be_focused()
    (tmp_path / "go").touch()
    notebook.wait_for_idle()
    panel.group("decoder").locator(".rfnb-Run-open").nth(2).click()
    panel.at(0).go("next", 1)
    notebook.run_cell(2)
    note = stepper.locator(".rfnb-Note")
    expect(note).to_contain_text("This run was dropped")
    expect(panel.root.locator(".rfnb-Transport-step")).to_have_text("1")
    note.get_by_role("button").focus()
    page.keyboard.press("Enter")
    expect(note).to_have_count(0)
    page.keyboard.press("ArrowRight")
    panel.at(2)
    expect(stepper).to_be_focused()
    newest = notebook.value("rf.runs[0].serial")
    expect(shown).to_have_attribute("data-run", str(newest))
