"""`rf.stepper` in marimo: it steps, follows the theme of the page, and names the cell."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from playwright.sync_api import Page

from tests.browser.lab_server import ROOT, free_port
from tests.browser.panel import Stepper
from tests.browser.test_pause import DATA

pytestmark = [
    pytest.mark.browser,
    pytest.mark.usefixtures("extension"),
    pytest.mark.skipif(
        importlib.util.find_spec("marimo") is None, reason="marimo is not installed: pip install marimo"
    ),
]

LOOP = """\
loop = rf.Loop(axis=time, name="running sum")
loop.state.total = rf.zeros([batch_dim])
with loop:
    loop.state.total = loop.state.total + loop.unstack(x)
rf.stepper(rf.runs["running sum"])"""


def cell(code: str, needs: str, gives: str) -> str:
    """A cell as marimo writes it: names that it takes from other cells, and gives to them."""
    body = code.replace("\n", "\n    ")
    return f"@app.cell\ndef _({needs}):\n    {body}\n    return ({gives})\n"


@pytest.fixture
def address(tmp_path, browser_program):
    """A marimo server with a notebook of two cells, in the dark theme."""
    cells = [cell(DATA, "", "batch_dim, rf, time, x,"), cell(LOOP, "batch_dim, rf, time, x", "")]
    (tmp_path / "test.py").write_text("\n\n".join(["import marimo\n\napp = marimo.App()", *cells]))
    settings = tmp_path / ".config" / "marimo"
    settings.mkdir(parents=True)
    (settings / "marimo.toml").write_text('[display]\ntheme = "dark"\n')
    places = {"PYTHONPATH": str(ROOT), "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / ".config")}
    url = f"http://127.0.0.1:{free_port()}"
    options = ["--headless", "--no-token", "--skip-update-check", "--port", url.rpartition(":")[2]]
    command = [sys.executable, "-m", "marimo", "edit", "test.py", *options]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, env=os.environ | places, cwd=tmp_path, stdout=log, stderr=log)
        try:
            wait_for(url)
            yield url
        finally:
            process.terminate()
            process.wait(timeout=15)


def wait_for(url, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError("marimo did not start")


def test_the_stepper_steps_and_is_dark_in_a_dark_page(address, page: Page):
    page.set_default_timeout(30_000)
    page.goto(address)
    page.get_by_test_id("cell-editor").nth(1).click()
    page.keyboard.press("Control+Shift+r")
    stepper = Stepper(page.locator(".rfnb-Inline"))
    stepper.at(0).go("next", 1)
    assert stepper.state("total", "after") == "3 30"
    assert stepper.root.locator(".rfnb-place").first.inner_text().startswith("cell ")
    assert stepper.root.evaluate("el => getComputedStyle(el).backgroundColor") == "rgb(31, 31, 31)"
    stepper.root.locator(".rfnb-Stepper").press("ArrowRight")
    stepper.at(2)
