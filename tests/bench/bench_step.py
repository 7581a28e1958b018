"""How long from a click on "step" until the panel shows it: python tests/bench/bench_step.py

JupyterLab with the decoder of the tour, in a real browser. Needs Chromium and the built extension.
"""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Page

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.in_lab import in_lab
from tests.browser.clicks import CLICKS
from tests.browser.conftest import copy_notebook
from tests.browser.lab_server import LabServer
from tests.browser.notebook_page import NotebookPage
from tests.browser.panel import Panel

WATCHES = ["rf.reduce_max(att, axis=spelling)", "after.prev", "h"]


def opened(server: LabServer, page: Page) -> tuple[NotebookPage, Panel]:
    """The tour, run, and the panel at its decoder."""
    copy_notebook("01_tour.ipynb", server.notebooks)
    notebook = NotebookPage(page).open(server.address("01_tour.ipynb"))
    panel = Panel(page).open()
    notebook.run_all()
    notebook.execute('run = [run for run in rf.runs if run.name == "decoder" and run.batch == 8][0]; run.open()')
    panel.root.locator(".rfnb-Sequences-tag", has_text="alphabet").wait_for()
    return notebook, panel.at(0)


def row(page: Page, what: str, clicks: int = 60) -> str:
    """A line of the table: medians, and what 95 % of the clicks stay below."""
    page.evaluate(CLICKS, 10)
    times = page.evaluate(CLICKS, clicks)
    return f"{what:<16}  {times[clicks // 2]:>6.0f}  {times[clicks * 95 // 100]:>6.0f}"


def main(server: LabServer, page: Page) -> NotebookPage:
    """Prints the table, in ms."""
    notebook, panel = opened(server, page)
    print(f"{'ms':<16}  {'p50':>6}  {'p95':>6}")
    print(row(page, "all words"))
    panel.sequence("alphabet")
    print(row(page, "one word"))
    panel.look("att = decoder.attend")
    panel.root.locator(".rfnb-Stepper").press(".")
    panel.root.locator(".rfnb-Op[aria-current=step]").wait_for()
    print(row(page, "and its ops"))
    for text in WATCHES:
        panel.watch(text)
    print(row(page, "and 3 watches"))
    return notebook


if __name__ == "__main__":
    in_lab(main)
