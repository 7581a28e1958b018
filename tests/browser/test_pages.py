"""`make pages`: notebooks as pages that show their views without a kernel, with and without scripts."""

from __future__ import annotations

import functools
import importlib
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import nbformat
import pytest
from playwright.sync_api import expect

from rfnb.display.kit.page import STATIC
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
def pages():
    """The program."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / ".ci")
        yield importlib.import_module("pages")


def use(patch, pages, root):
    """Makes it write the pages of another folder than this repository."""
    patch.setattr(pages, "ROOT", root)
    patch.setattr(pages, "OUT", root / "dist" / "pages")
    patch.setattr(pages, "KEPT", root / ".cache" / "pages")
    patch.setattr(importlib.import_module("step"), "ROOT", root)


@pytest.fixture(scope="module")
def site(tmp_path_factory, pages):
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
        use(patch, pages, root)
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
    page.on("console", lambda message: said.append(message.text))
    page.goto(f"{site}/index.html")
    expect(page.locator("body")).to_contain_text("Small: It is small.")
    page.get_by_role("link", name="Small").click()
    body = page.locator("body")
    expect(body).to_contain_text("attends to")
    expect(body).to_contain_text("doubling")
    expect(body.locator(".rfnb-Scales")).to_have_count(1 if scripts else 0)  # scripts offer scales of colours
    page.get_by_role("link", name="the page").click()
    expect(page).to_have_url(f"{site}/docs/page.html#what-is-it")
    expect(page.locator("#what-is-it")).to_have_count(1)
    page.get_by_role("link", name="the notebook").click()
    assert said == []
    page.get_by_role("link", name="the data").click()
    expect(page.locator("body")).to_contain_text("1 2 3")
    context.close()
    assert all(url.startswith((site, "data:")) for url in asked)


def test_a_notebook_is_executed_only_if_it_has_to_be(tmp_path, pages, monkeypatch):
    use(monkeypatch, pages, tmp_path)
    (tmp_path / "notebooks").mkdir()
    file, module = tmp_path / "notebooks" / "01_small.ipynb", tmp_path / "notebooks" / "words.py"
    module.write_text("")
    notebook = made_of(["'first'", "", "'second'"])
    executed = []

    def execute(file):
        executed.append(file.name)
        done = nbformat.read(file, as_version=4)
        for count, cell in enumerate(done.cells):
            cell.outputs = [nbformat.v4.new_output("stream", text=f"out {count}")]
        return done

    def outputs(*counts):
        for cell, count in zip(notebook.cells, counts, strict=False):
            cell.execution_count = count
        nbformat.write(notebook, file)
        return [cell.outputs for cell in pages.with_outputs(file).cells if cell.outputs]

    monkeypatch.setattr(pages, "executed", execute)
    assert len(outputs()) == 3 and len(executed) == 1
    assert len(outputs()) == 3 and len(executed) == 1  # as before
    module.write_text("# another one")
    assert len(outputs()) == 3 and len(executed) == 2
    assert len(outputs(1, None, None)) == 3 and len(executed) == 3  # saved after the first cell
    assert len(outputs(2, None, 1)) == 3 and len(executed) == 4  # in another order
    assert outputs(1, None, 3) == [] and len(executed) == 4  # saved with all it printed: nothing
