"""The live plot of a training loop: while it runs, stopped by the button, run again, and in the saved notebook."""

from __future__ import annotations

import nbformat
import pytest
from playwright.sync_api import expect

pytestmark = pytest.mark.browser

LOOP = """\
import time, rfnb as rf
progress = rf.progress(range(5000), name="attempted")
for i in progress:
    time.sleep(0.005)
    progress.report(loss=1 / (i + 1), error=100.0 - i)"""


def test_the_live_plot_and_the_stop_button(open_notebook, lab):
    notebook = open_notebook(cells=[LOOP])
    page, cell = notebook.page, notebook.cell(0)
    for _ in range(2):
        notebook.start_cell(0)
        place, bar = cell.get_by_text(" of 5,000"), cell.locator(".jupyter-widgets .progress-bar")
        place.and_(cell.locator(":not(:text('stopped'))")).wait_for()
        expect(bar).to_be_visible()
        before = place.inner_text()
        expect(place).not_to_have_text(before)  # it goes on, in the same place
        expect(cell.locator("img[alt^='loss']")).to_have_count(1)
        page.locator(".jp-Toolbar-item[data-jp-item-name='interrupt']").click()
        cell.get_by_text("KeyboardInterrupt").first.wait_for()
        expect(place).to_contain_text("stopped")
        expect(bar).to_have_count(0)
        notebook.wait_for_idle()
        assert notebook.value("len(progress.history) - progress.step in (0, 1) and progress.stopped")
    notebook.save()
    (folder,) = lab.notebooks.glob("test-the-live-plot*")
    outputs = nbformat.read(folder / "test.ipynb", as_version=4).cells[0].outputs
    assert len(outputs) == 3, outputs
    was_bar, plot, error = outputs
    assert was_bar.data == {} and "stopped" in plot.data["text/plain"] and error.ename == "KeyboardInterrupt"
    open_notebook(change=lambda text: text.replace("attempted", "changed"))
    assert not notebook.trusted(0)  # as of somebody else
    expect(notebook.cell(0).locator("img[alt^='error']")).to_be_visible()
