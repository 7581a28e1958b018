"""JupyterLab and a browser for the tests in this folder; each ends with no kernel left and, failing, with a picture."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest
from playwright.sync_api import expect

from tests.browser.chromium import BROWSERS, FLAGS, find_browser
from tests.browser.lab_page import LabPage
from tests.browser.lab_server import EXTENSION, ROOT, LabServer, running
from tests.browser.notebook_page import NotebookPage, made_of

expect.set_options(timeout=30_000)  # as long as clicks wait: a busy machine is no fault
report = pytest.StashKey[pytest.TestReport]()


@pytest.fixture(scope="session")
def browser_program(missing) -> str:
    """The system's Chromium."""
    return find_browser() or missing(f"no browser: none of {', '.join(BROWSERS)} is installed")


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args, browser_program):
    return browser_type_launch_args | {"executable_path": browser_program, "args": FLAGS}


@pytest.fixture(scope="session")
def browser_context_args(browser_context_args):
    return browser_context_args | {"viewport": {"width": 1600, "height": 1000}}


@pytest.fixture(scope="session")
def lab(tmp_path_factory, browser_program, python) -> Iterator[LabServer]:
    """The server, one for all tests."""
    with running(tmp_path_factory.mktemp("lab"), python=python) as server:
        yield server
    shutil.rmtree(server.notebooks)  # not before: the list of files in the page shows the last one that was opened


@pytest.fixture(scope="session")
def lab_page(browser, browser_context_args) -> Iterator[LabPage]:
    """Where tests open their notebooks, one test after the other."""
    keeper = LabPage(lambda: browser.new_context(**browser_context_args).new_page())
    yield keeper
    keeper.drop()


@pytest.fixture
def open_notebook(lab, lab_page, request) -> Iterator[Callable[..., NotebookPage]]:
    """`open_notebook("01_tour.ipynb")` opens a copy of that notebook, `open_notebook(cells=[…])` one of these cells.

    `files` are written beside it, `beside` opens it in the same page as the one before, `kernel` is that it runs in.
    Without cells, a file that is there is opened again as it is, in a page that is loaded anew; `change` changes its
    text first. Tests with the mark `own_page`, such as those that reload it, begin with a page of their own.
    """
    folder = lab.notebooks / "".join(c if c.isalnum() else "-" for c in request.node.name)
    opened: list[NotebookPage] = []

    def open_copy(
        name: str = "test.ipynb",
        cells: list[str] | None = None,
        files: dict[str, str] | None = None,
        beside: bool = False,
        change: Callable[[str], str] = str,
        kernel: str = "python3",
    ) -> NotebookPage:
        folder.mkdir(exist_ok=True)
        for file, text in (files or {}).items():
            (folder / file).write_text(text)
        if cells is not None:
            nbformat.write(made_of(cells), folder / name)
        elif (folder / name).exists():
            (folder / name).write_text(change((folder / name).read_text()))
        else:
            copy_notebook(name, folder)
        path = f"{folder.name}/{name}"
        lab.start_kernel(path, kernel)
        if not opened:
            if request.node.get_closest_marker("own_page"):
                lab_page.drop()
            opened.append(lab_page.open(path, lab.address(path)))
            return opened[0]
        return opened[0].open_beside(path) if beside else opened[0].open(lab.address(path))

    yield open_copy
    if failed(request.node):
        for notebook in opened:
            notebook.screenshot(f"failed-{folder.name}")
        lab_page.drop()
    lab_page.clear()


@pytest.fixture(scope="session")
def extension(missing) -> None:
    """For tests that need the panel."""
    if not (EXTENSION / "package.json").exists():
        missing("the extension is not built (make test builds it where there is Node)")


def copy_notebook(name: str, folder: Path) -> None:
    """The notebook and all that lies beside it: its modules, its data."""
    shutil.copytree(ROOT / "notebooks", folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__", ".*"))
    notebook = nbformat.read(folder / name, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, folder / name)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item):
    """Keeps how the test ended, for the fixture above."""
    result = yield
    if result.when == "call":
        item.stash[report] = result
    return result


def failed(item: pytest.Item) -> bool:
    """Whether the test's body failed."""
    return report in item.stash and item.stash[report].failed
