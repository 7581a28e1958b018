"""The panel in Notebook 7: it opens in the right sidebar, steps runs, and holds a cell that pauses."""

from __future__ import annotations

import nbformat
import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab_server import running
from tests.browser.notebook_page import NotebookPage, made_of
from tests.browser.panel import Panel
from tests.browser.test_pause import DATA, LOOP, WHEN, over, resume

pytest.importorskip("notebook", reason="Notebook 7 is not installed: pip install notebook")
pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]


@pytest.fixture
def opened(tmp_path, browser_program, page: Page):
    """A notebook in Notebook 7 with a loop, a pause, and the loop again; the panel is closed."""
    with running(tmp_path, "notebook") as server:
        nbformat.write(made_of([DATA, LOOP, WHEN, LOOP]), server.notebooks / "test.ipynb")
        page.set_default_timeout(30_000)
        notebook = NotebookPage(page).open(server.address("test.ipynb"))
        yield notebook
        notebook.shutdown_kernels()


def test_a_run_is_stepped_in_the_right_sidebar(opened):
    panel = Panel(opened.page)
    opened.page.locator(".lm-MenuBar-itemLabel", has_text="View").click()
    opened.page.locator(".lm-Menu-itemLabel", has_text="Right Sidebar").hover()
    opened.page.locator(".lm-Menu-itemLabel", has_text="Show Loops").click()
    expect(panel.root).to_contain_text("rfnb is not imported")
    opened.run_cell(0)
    opened.run_cell(1)
    panel.at(0).go("next", 1)
    assert panel.state("total", "after") == "3 30"
    expect(opened.cell(1).locator(".rfnb-cm-current")).to_contain_text("x_t = loop.unstack(x)")
    panel.root.locator(".rfnb-Stepper").press("ArrowRight")
    panel.at(2)


def test_a_pause_opens_the_panel_and_holds_the_cell(opened):
    for index in (0, 1, 2):
        opened.run_cell(index)
    opened.start_cell(3)
    panel = Panel(opened.page)
    expect(panel.root.locator(".rfnb-Paused-where")).to_contain_text("Paused: running sum, after step 2")
    panel.at(2).go("next", 3)
    resume(panel, "last")
    opened.wait_for_idle()
    over(panel)
    assert "done [15.0, 30.0]" in opened.text(3)
