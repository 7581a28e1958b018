"""A saved notebook on a site of JupyterLite, where torch has no kernel: pictures, live views once it is trusted."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import nbformat
import pytest
from playwright.sync_api import Page, expect

from tests.browser.lab_server import environment, linked_extension
from tests.browser.notebook_page import NotebookPage, made_of
from tests.browser.test_views import ATTENTION, CELLS, GRAPH, TENSOR, errors_of, saved_views, walk

pytest.importorskip("jupyterlite_core", reason="JupyterLite is not installed: pip install jupyterlite-core")
pytestmark = [pytest.mark.browser, pytest.mark.usefixtures("extension")]

SETTINGS = {"jupyter-lite-schema-version": 0, "jupyter-config-data": {"exposeAppInBrowser": True}}


@pytest.fixture
def site(tmp_path, browser_program):
    """The address of a site with one notebook, built of files alone, with the extension and nothing else."""
    notebook, views = made_of(CELLS), saved_views()
    for index, name in ((TENSOR, "tensor"), (GRAPH, "graph"), (ATTENTION, "attention")):
        bundle = views[name]._repr_mimebundle_()
        notebook.cells[index].outputs = [nbformat.v4.new_output("display_data", bundle)]
    (tmp_path / "notebooks").mkdir()
    nbformat.write(notebook, tmp_path / "notebooks" / "test.ipynb")
    (tmp_path / "jupyter-lite.json").write_text(json.dumps(SETTINGS))
    options = {"lite-dir": tmp_path, "contents": tmp_path / "notebooks", "output-dir": tmp_path / "site"}
    options |= {"apps": "lab", "FederatedExtensionAddon.extra_labextensions_path": linked_extension(tmp_path)}
    flags = ["--ignore-sys-prefix", "--no-sourcemaps", *(f"--{name}={value}" for name, value in options.items())]
    command = [sys.executable, "-m", "jupyterlite_core", "build", *flags]
    subprocess.run(command, env=environment(tmp_path), cwd=tmp_path, check=True)
    handler = partial(SimpleHTTPRequestHandler, directory=tmp_path / "site")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def test_a_notebook_shows_pictures_and_is_live_once_it_is_trusted(site, page: Page):
    page.set_default_timeout(60_000)
    errors = errors_of(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{site}/lab/index.html?path=test.ipynb")
    page.locator(".jp-Dialog-button.jp-mod-reject", has_text="No Kernel").click()
    notebook = NotebookPage(page)
    for cell in (GRAPH, ATTENTION):
        expect(notebook.cell(cell).locator(".jp-OutputArea-output img").first).to_be_visible()
        expect(notebook.cell(cell).locator(".rfnb-Graph, .rfnb-Matrix")).to_have_count(0)
    notebook.page.evaluate("() => { void window.jupyterapp.commands.execute('notebook:trust'); }")
    page.locator(".jp-Dialog-button", has_text="Trust").click()
    walk(notebook)
    notebook.screenshot("jupyterlite")
    assert errors == []
    assert [url for url in asked if not url.startswith((site, "data:", "blob:"))] == []
