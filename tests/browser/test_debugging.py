"""The notebook on debugging with the panel open: its cells pause where the bugs are, and go on."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.panel import Panel

pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]


def test_its_cells_pause_where_the_bugs_are(open_notebook):
    notebook = open_notebook("06_debugging.ipynb")
    panel = Panel(notebook.page).open()
    reasons = {"repeats-when": "prev repeats in sequence 'hummingbird'", "nan-when": "loss is not finite"}
    for index in range(notebook.index_of("nan-fix") + 1):
        [why] = [reason for cell, reason in reasons.items() if notebook.index_of(cell) == index] or [None]
        if why is None:
            notebook.run_cell(index)
            continue
        notebook.start_cell(index)
        expect(panel.root.locator(".rfnb-Paused-why")).to_have_text(why, timeout=60_000)
        if why.startswith("prev"):
            panel.at(3)
            panel.sequence("hummingbird")
            assert panel.state("prev", "before") == panel.state("prev", "after") == "M"
        panel.root.locator("[data-resume=last]").click()
        notebook.wait_for_idle()
    assert notebook.text(notebook.index_of("repeats-over")).startswith("[1, 2, 3")
    assert notebook.text(notebook.index_of("nan-why")) == "tensor([0.])"
    assert "never true" in notebook.text(notebook.index_of("nan-fix"))
    assert notebook.value("list(Path(rf.options.pause_folder).iterdir())") == []
