"""A walk of a newcomer: the wheel beside an existing torch and JupyterLab, the first loop of the README, stepped.

`python -m tests.browser.newcomer_walk [folder]` prints how long each part took, writes a picture of each screen, and
fails if the walk took longer than two minutes. It needs Chromium and the built extension.
"""

from __future__ import annotations

import os
import secrets
import site
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from jupyterlab.commands import get_app_dir
from playwright.sync_api import Page, sync_playwright

from tests.browser.chromium import FLAGS, find_browser
from tests.browser.lab_server import ROOT, LabServer, free_port, stop, wait_until_it_answers
from tests.browser.make_readme_pictures import blocks
from tests.browser.notebook_page import NotebookPage, made_of
from tests.browser.panel import Panel

MOST = 120.0
"""Seconds from `pip install` to a stepped loop."""


def run(*command: object) -> str:
    """What the command prints; its errors end the walk."""
    return subprocess.run(list(map(str, command)), check=True, capture_output=True, text=True).stdout


def empty_environment(folder: Path) -> Path:
    """The Python of a fresh venv that has the libraries of this one, but nothing of rfnb."""
    venv = folder / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", venv)
    packages = next(venv.glob("lib/python*/site-packages"))
    (packages / "lent.pth").write_text("\n".join(site.getsitepackages()) + "\n")
    return venv / "bin" / "python"


@contextmanager
def lab(python: Path, folder: Path) -> Iterator[LabServer]:
    """JupyterLab as this Python has it, in an empty folder."""
    server = LabServer(f"http://127.0.0.1:{free_port()}", secrets.token_hex(8), folder / "notebooks")
    server.notebooks.mkdir()
    places = {name: str(folder / name.lower()) for name in ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")}
    options = {
        "ip": "127.0.0.1",
        "port": server.url.rpartition(":")[2],
        "ServerApp.root_dir": server.notebooks,
        "IdentityProvider.token": server.token,
        "LabApp.expose_app_in_browser": True,
        "LabApp.app_dir": get_app_dir(),
    }
    flags = ["--no-browser", "--allow-root", *(f"--{name}={value}" for name, value in options.items())]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | places
    with (folder / "lab.log").open("w") as log:
        process = subprocess.Popen(
            [python, "-m", "jupyterlab", *flags], env=environment, cwd=folder, stdout=log, stderr=log
        )
        try:
            wait_until_it_answers(server, process, folder / "lab.log")
            yield server
        finally:
            stop(process)


def walk(server: LabServer, page: Page) -> Iterator[str]:
    """The screens, each with a word for what was done."""
    nbformat.write(made_of([""]), server.notebooks / "Untitled.ipynb")
    notebook = NotebookPage(page).open(server.address("Untitled.ipynb"))
    yield "opened a notebook"
    panel = Panel(page).open()
    yield "opened the panel"
    [example, *_] = blocks("README.md")
    notebook.write(0, example.strip())
    notebook.run_cell(0)
    panel.choose("decoder")
    yield "ran the first loop of the README"
    panel.go("last", 9).go("previous", 8)
    yield "stepped it"
    assert "venv" in notebook.value("rf.__file__")
    notebook.shutdown_kernels()


def main(pictures: Path | None = None) -> None:
    """Each part with the seconds since the beginning."""
    with tempfile.TemporaryDirectory() as work, sync_playwright() as playwright:
        folder = Path(work)
        run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
        python = empty_environment(folder)
        browser = playwright.chromium.launch(executable_path=find_browser(), args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 860})
        begin = time.monotonic()

        def tell(what: str) -> None:
            print(f"{time.monotonic() - begin:6.1f} s  {what}", flush=True)

        run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "-q", next(folder.glob("*.whl")))
        tell("installed the wheel")
        with lab(python, folder) as server:
            tell("started JupyterLab")
            for number, what in enumerate(walk(server, page), 1):
                tell(what)
                if pictures is not None:
                    pictures.mkdir(parents=True, exist_ok=True)
                    page.screenshot(path=pictures / f"{number}-{what.replace(' ', '-')}.png")
            seconds = time.monotonic() - begin
        browser.close()
    assert seconds <= MOST, f"the walk took {seconds:.0f} seconds"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
