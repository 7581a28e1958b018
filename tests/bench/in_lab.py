"""What benchmarks in JupyterLab have in common: a server, a page of a real browser, how busy the machine is."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tests.browser import chromium, lab_server
from tests.browser.notebook_page import NotebookPage


def in_lab(measure: Callable[[lab_server.LabServer, Page], NotebookPage]) -> None:
    """Calls `measure` with a server and a page, if there are a browser and the built extension.

    It returns the notebook whose kernels are to be ended.
    """
    if not (chromium.find_browser() and lab_server.EXTENSION.exists()):
        print("no browser, or the extension is not built")
        return
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with (
        tempfile.TemporaryDirectory() as folder,
        lab_server.running(Path(folder)) as server,
        sync_playwright() as tools,
    ):
        browser = tools.chromium.launch(executable_path=chromium.find_browser(), args=chromium.FLAGS)
        page = browser.new_page(viewport={"width": 1600, "height": 1000})
        measure(server, page).shutdown_kernels()
        browser.close()
