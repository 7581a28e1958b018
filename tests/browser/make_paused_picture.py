"""Makes docs/pictures/paused-*.webp: a training that is paused. `python -m tests.browser.make_paused_picture`."""

from __future__ import annotations

import io
import tempfile
from pathlib import Path

import nbformat
from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

from tests.browser.chromium import FLAGS, find_browser
from tests.browser.lab_server import LabServer, running
from tests.browser.make_readme_pictures import FOLDER, QUALITY
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


def take(server: LabServer, browser: Browser, theme: str) -> bytes:
    """A picture of the notebook and the panel when the training is paused."""
    page = browser.new_page(viewport=SIZE, color_scheme=theme, device_scale_factor=1.5)
    nbformat.write(made_of([DATA, TRAINING]), server.notebooks / "training.ipynb")
    notebook = NotebookPage(page).open(server.address("training.ipynb"))
    notebook.command("apputils:change-theme", theme=f"JupyterLab {theme.title()}")
    notebook.command("application:toggle-left-area")
    page.wait_for_timeout(1000)
    panel = Panel(page).open()
    page.wait_for_timeout(500)
    widen(page)
    notebook.run_cell(0)
    panel.root.locator(".rfnb-Status-pause").wait_for()
    notebook.start_cell(1)
    expect(panel.root.locator(".rfnb-Paused-why")).to_contain_text("loss is not finite")
    panel.root.locator(".rfnb-Stepper[aria-busy=false]").wait_for()
    page.mouse.move(1, SIZE["height"] - 1)
    page.wait_for_timeout(1000)
    picture = page.screenshot()
    notebook.shutdown_kernels()
    page.close()
    return picture


def main() -> None:
    """Needs Chromium and the built extension."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        for theme in ("light", "dark"):
            picture = Image.open(io.BytesIO(take(server, browser, theme)))
            picture.save(FOLDER / f"paused-{theme}.webp", quality=QUALITY)
        browser.close()


if __name__ == "__main__":
    main()
