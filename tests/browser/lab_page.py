"""One page with JupyterLab for one test after the other: to load it costs more than most tests do in it."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Error, Page

from tests.browser.notebook_page import LEAVE, NotebookPage

CLEAR = """async () => {
  const { shell, commands, restored } = window.jupyterapp;
  await restored;
  [...shell.widgets('main')].forEach(widget => widget.dispose());
  shell.collapseRight();
  localStorage.clear();
  await commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' });
  await new Promise(requestAnimationFrame);
  return shell.isEmpty('main') && !document.querySelector('.jp-Dialog, .jp-NotebookPanel, .lm-Menu');
}"""
"""Whether it is as it was when it was loaded. Notebooks are not asked whether they want to be saved."""


class LabPage:
    """A page that is loaded when there is none, and dropped when a test failed in it or it cannot be cleared."""

    def __init__(self, load: Callable[[], Page]):
        self.load = load
        self.page: Page | None = None

    def open(self, path: str, address: str) -> NotebookPage:
        """A notebook in JupyterLab, the only one."""
        if self.page is not None:
            try:
                return self.set_up(self.page).open_beside(path)
            except Error:
                self.drop()
        self.page = self.load()
        return self.set_up(self.page).open(address)

    def set_up(self, page: Page) -> NotebookPage:
        """As each test has it first."""
        page.set_default_timeout(30_000)
        page.set_viewport_size({"width": 1600, "height": 1000})
        page.mouse.move(0, 0)
        return NotebookPage(page)

    def clear(self) -> None:
        """Closes notebooks and ends their kernels without waiting: the next test has those of its own."""
        if self.page is None:
            return
        try:
            self.page.evaluate(LEAVE)
            self.page.wait_for_function(CLEAR, timeout=10_000)
        except Error:
            self.drop()

    def drop(self) -> None:
        """The next test loads another page."""
        if self.page is not None:
            self.page.context.close()
        self.page = None
