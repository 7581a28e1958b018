"""Makes docs/stepper.png: JupyterLab with the README's example, stepped. `python -m tests.browser.make_screenshot`."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import nbformat
from playwright.sync_api import Page, sync_playwright

from tests.browser.chromium import FLAGS, find_browser
from tests.browser.lab_server import ROOT, LabServer, running
from tests.browser.notebook_page import NotebookPage, made_of
from tests.browser.panel import Panel

FILE = ROOT / "docs" / "stepper.png"
SIZE = {"width": 1400, "height": 840}
PANEL = 460


def example() -> list[str]:
    """The README's block with the loop, which is its last paragraph."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    [code] = [block for block in blocks if "rf.Loop(" in block]
    before, _, loop = code.strip().rpartition("\n\n")
    return [before, loop]


def take(server: LabServer, page: Page) -> None:
    """Runs the example, steps twice through one sequence, writes the picture."""
    nbformat.write(made_of([*example(), "sums"]), server.notebooks / "running sums.ipynb")
    notebook = NotebookPage(page).open(server.address("running%20sums.ipynb"))
    notebook.command("application:toggle-left-area")
    panel = Panel(page).open()
    widen(page)
    notebook.run_all()
    panel.choose("sum").sequence("pi")
    panel.go("next", 1).go("next", 2)
    panel.look("loop.state.total = ")
    notebook.highlighted(1, ".rfnb-cm-current", value="total = ")
    page.mouse.move(1, SIZE["height"] - 1)
    FILE.parent.mkdir(exist_ok=True)
    page.screenshot(path=FILE)


def widen(page: Page) -> None:
    """Pulls the left edge of the panel."""
    box = page.locator("#jp-right-stack").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] - 2, 400)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - PANEL, 400, steps=4)
    page.mouse.up()


def main() -> None:
    """Needs Chromium and the built extension."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        page = browser.new_page(viewport=SIZE)
        take(server, page)
        browser.close()


if __name__ == "__main__":
    main()
