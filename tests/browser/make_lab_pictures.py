"""Makes the README's pictures of JupyterLab, light and dark. `python -m tests.browser.make_lab_pictures`."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.chromium import FLAGS, find_browser
from tests.browser.lab_server import LabServer, running
from tests.browser.make_readme_pictures import FOLDER, QUALITY, blocks
from tests.browser.make_screenshot import widen
from tests.browser.notebook_page import NotebookPage, made_of
from tests.browser.panel import Panel

SIZE = {"width": 1280, "height": 600}
DATA = """\
import torch
import rfnb as rf

torch.manual_seed(3)
audio = torch.randn(512, 40, 8)
audio[307] = 0.0  # silence
loader = torch.utils.data.DataLoader(audio, batch_size=8, shuffle=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.Adam(model.parameters())"""
TRAINING = """\
rf.pause_when(rf.when.not_finite("loss"))

for x in rf.progress(loader, plot=False):
    scaled = (x - x.mean(1, True)) / x.std(1, keepdim=True)
    y = model(scaled).squeeze(-1)
    loss = (y - x[:, :, 0].cumsum(1)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()"""


@contextmanager
def opened(server: LabServer, browser: Browser, theme: str, cells: list[str]) -> Iterator[tuple[NotebookPage, Panel]]:
    """JupyterLab with a notebook of these cells and a wide panel."""
    page = browser.new_page(viewport=SIZE, color_scheme=theme, device_scale_factor=1.5)
    nbformat.write(made_of(cells), server.notebooks / "model.ipynb")
    notebook = NotebookPage(page).open(server.address("model.ipynb"))
    notebook.command("apputils:change-theme", theme=f"JupyterLab {theme.title()}")
    notebook.command("application:toggle-left-area")
    page.wait_for_timeout(1000)
    panel = Panel(page).open()
    page.wait_for_timeout(500)
    widen(page)
    notebook.run_cell(0)
    yield notebook, panel
    notebook.shutdown_kernels()
    page.close()


def taken(page: Page) -> Image.Image:
    """The picture of the page, when it has settled."""
    page.mouse.move(1, SIZE["height"] - 1)
    page.wait_for_timeout(1000)
    return Image.open(io.BytesIO(page.screenshot()))


def any_loop(server: LabServer, browser: Browser, theme: str) -> Image.Image:
    """The README's first example, at step 4."""
    [example, *_] = blocks("README.md")
    with opened(server, browser, theme, [example.strip(), ""]) as (notebook, panel):
        panel.choose("decoder")
        for step in range(1, 5):
            panel.go("next", step)
        panel.look("x = readout")
        return taken(notebook.page)


def paused(server: LabServer, browser: Browser, theme: str) -> Image.Image:
    """A training that is paused."""
    with opened(server, browser, theme, [DATA, TRAINING]) as (notebook, panel):
        panel.root.locator(".rfnb-Status-pause").wait_for()
        notebook.start_cell(1)
        expect(panel.root.locator(".rfnb-Paused-why")).to_contain_text("loss is not finite")
        panel.root.locator(".rfnb-Stepper[aria-busy=false]").wait_for()
        return taken(notebook.page)


def main() -> None:
    """Needs Chromium and the built extension."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        for theme in ("light", "dark"):
            any_loop(server, browser, theme).save(FOLDER / f"any-loop-{theme}.webp", quality=QUALITY)
            paused(server, browser, theme).save(FOLDER / f"paused-{theme}.webp", quality=QUALITY)
        browser.close()


if __name__ == "__main__":
    main()
