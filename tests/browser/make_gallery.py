"""Makes docs/views/*.webp: the gallery notebook as it is read. `python -m tests.browser.make_gallery [folder]`.

It is run, then opened in JupyterLab without being trusted, so that scripts and style sheets are taken out of its
outputs, and exported as HTML; both in light and dark, wide and narrow. A folder gets all of them, docs/views those of
`KEPT`.
"""

from __future__ import annotations

import io
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from tests.browser.chromium import FLAGS, find_browser
from tests.browser.lab_server import ROOT, running
from tests.browser.notebook_page import NotebookPage

GALLERY = ROOT / "notebooks" / "03_views.ipynb"
WIDTHS = (1400, 600)
THEMES = ("light", "dark")
TALL = 40_000
"""Pixels: so high is the window, as JupyterLab draws only what is seen."""
PIECE = 3_000
"""A picture is at most so high; it ends between two cells if it can."""
QUALITY = 30
KEPT = ("lab-light-1400", "lab-dark-600", "html-dark-1400", "html-light-600")
"""Each look once, in 3 MB."""


def run_notebook(folder: Path) -> Path:
    """The gallery with its outputs."""
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    notebook = nbformat.read(GALLERY, as_version=4)
    NotebookClient(notebook, kernel_name="python3", store_widget_state=False).execute(cwd=str(GALLERY.parent))
    file = folder / GALLERY.name
    nbformat.write(notebook, file)
    return file


def in_lab(browser: Browser, file: Path, folder: Path) -> Iterator[tuple[str, Page, Locator]]:
    """In JupyterLab: a name, the page, and its cells."""
    with running(folder) as server:
        (server.notebooks / file.name).write_bytes(file.read_bytes())
        for width in WIDTHS:
            page = browser.new_page(viewport={"width": width, "height": TALL})
            page.set_default_timeout(60_000)
            notebook = NotebookPage(page).open(server.address(file.name))
            notebook.command("application:toggle-mode")
            for side in ("left", "right"):
                if page.locator(f"#jp-{side}-stack").is_visible():
                    notebook.command(f"application:toggle-{side}-area")
            assert not all(notebook.trusted(i) for i in range(notebook.cell_count()))
            page.wait_for_function(
                "count => document.querySelectorAll('.jp-NotebookPanel .jp-Cell').length >= count",
                arg=notebook.cell_count(),
            )
            for theme in THEMES:
                notebook.command("apputils:change-theme", theme=f"JupyterLab {theme.title()}")
                page.wait_for_timeout(1500)
                yield f"lab-{theme}-{width}", page, page.locator(".jp-NotebookPanel .jp-Cell")
            notebook.shutdown_kernels()
            page.close()


def exported(browser: Browser, file: Path) -> Iterator[tuple[str, Page, Locator]]:
    """As a page of HTML, without a network."""
    for theme in THEMES:
        made = file.with_name(f"{theme}.html")
        command = [
            sys.executable,
            "-m",
            "nbconvert",
            "--to",
            "html",
            "--theme",
            theme,
            "--output",
            made.name,
            str(file),
        ]
        subprocess.run(command, check=True, capture_output=True)
        for width in WIDTHS:
            context = browser.new_context(viewport={"width": width, "height": 1000}, color_scheme=theme, offline=True)
            page = context.new_page()
            page.goto(made.as_uri(), wait_until="domcontentloaded")
            page.wait_for_timeout(500)
            yield f"html-{theme}-{width}", page, page.locator(".jp-Cell")
            context.close()


def take(name: str, page: Page, cells: Locator, folder: Path) -> None:
    """Writes the pictures of one page."""
    boxes = [box for box in (cell.bounding_box() for cell in cells.all()) if box is not None]
    scrolled = page.evaluate("window.scrollY")
    width = page.viewport_size["width"] if page.viewport_size else 0
    for number, (top, bottom) in enumerate(pieces([(b["y"], b["y"] + b["height"]) for b in boxes]), 1):
        clip = {"x": 0, "y": top + scrolled, "width": width, "height": bottom - top}
        picture = Image.open(io.BytesIO(page.screenshot(clip=clip, full_page=True)))
        picture.convert("RGB").save(folder / f"{name}-{number}.webp", quality=QUALITY, method=6)


def pieces(cells: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Top and bottom of each picture: as many whole cells as fit."""
    top = bottom = cells[0][0]
    for _, end in cells:
        if end - top > PIECE and bottom > top:
            yield top, bottom
            top = bottom
        bottom = end
    yield top, bottom


def main(folder: Path | None = None) -> None:
    """Needs Chromium and the built extension."""
    wanted, folder = (None, folder) if folder else (KEPT, ROOT / "docs" / "views")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.webp"):
        old.unlink()
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        file = run_notebook(Path(work))
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        for name, page, cells in itertools.chain(in_lab(browser, file, Path(work)), exported(browser, file)):
            if wanted is None or name in wanted:
                take(name, page, cells, folder)
        browser.close()
    size = sum(picture.stat().st_size for picture in folder.glob("*.webp"))
    print(f"{folder}: {len(list(folder.glob('*.webp')))} pictures, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
