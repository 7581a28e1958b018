"""`make pages`: notebooks as pages that show their views without a kernel, with and without scripts."""

from __future__ import annotations

import functools
import importlib
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import nbformat
import pytest
from playwright.sync_api import expect

from rfnb.display.kit.assets import STATIC
from tests.browser.lab_server import ROOT
from tests.browser.notebook_page import made_of

CELLS = [
    "import torch\nimport rfnb as rf",
    "rf.show_attention(torch.eye(4).unsqueeze(0), cols='kiwi')",
    """\
loop = rf.Loop(max_seq_len=3, name="doubling")
loop.state.n = rf.convert_to_tensor(1.0)
with loop:
    loop.state.n = loop.state.n * 2
rf.stepper(loop.run)""",
]


class Quiet(SimpleHTTPRequestHandler):
    """Says nothing about requests."""

    def log_message(self, *_):
        """Nothing."""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The address of the pages of a small repository."""
    root = tmp_path_factory.mktemp("repository")
    (root / "notebooks").mkdir()
    (root / "docs").mkdir()
    notebook = made_of(CELLS)
    words = "# Small\n\nIt is small. See [the page](../docs/page.md#what-is-it) and [the data](data.txt)."
    notebook.cells.insert(0, nbformat.v4.new_markdown_cell(words))
    nbformat.write(notebook, root / "notebooks" / "01_small.ipynb")
    (root / "notebooks" / "data.txt").write_text("1 2 3")
    (root / "docs" / "page.md").write_text(
        "# Page\n\n## What is it\n\nSee [the notebook](../notebooks/01_small.ipynb).\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / ".ci")
        pages = importlib.import_module("pages")
        patch.setattr(pages, "ROOT", root)
        patch.setattr(pages, "OUT", root / "dist" / "pages")
        pages.main([])
    handler = functools.partial(Quiet, directory=root / "dist" / "pages")
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.browser
@pytest.mark.parametrize("scripts", [False, True])
def test_a_page_shows_its_views_and_asks_no_other_server(site, browser, scripts, missing):
    if scripts and not (STATIC / "views.js").exists():
        missing("the scripts of views are not built (make test builds them where there is Node)")
    context = browser.new_context(java_script_enabled=scripts)
    page, asked, said = context.new_page(), [], []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(f"{site}/index.html")
    expect(page.locator("body")).to_contain_text("Small: It is small.")
    page.get_by_role("link", name="Small").click()
    body = page.locator("body")
    expect(body).to_contain_text("attends to")
    expect(body).to_contain_text("doubling")
    expect(body.get_by_role("combobox")).to_have_count(1 if scripts else 0)  # scripts offer scales of colours
    page.get_by_role("link", name="the page").click()
    expect(page).to_have_url(f"{site}/docs/page.html#what-is-it")
    expect(page.locator("#what-is-it")).to_have_count(1)
    page.get_by_role("link", name="the notebook").click()
    page.get_by_role("link", name="the data").click()
    expect(page.locator("body")).to_contain_text("1 2 3")
    context.close()
    assert said == [] and all(url.startswith((site, "data:")) for url in asked)
