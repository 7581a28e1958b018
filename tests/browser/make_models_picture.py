"""Makes docs/models.png: the graph of the page's first model. `python -m tests.browser.make_models_picture`."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import rfnb as rf
from tests.browser.chromium import FLAGS, find_browser

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def main() -> None:
    """Needs Chromium."""
    names: dict[str, object] = {"__name__": "models"}
    for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "graph.html"
        rf.show(names["recognizer"], names["sound"]).save(file)
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        page = browser.new_page(viewport={"width": 400, "height": 800}, color_scheme="light")
        page.goto(file.as_uri())
        page.wait_for_timeout(500)
        page.locator("body").screenshot(path=PAGE.with_suffix(".png"))


if __name__ == "__main__":
    main()
