"""Hostile names in a real browser: nothing runs, nothing is fetched, nothing gets out of its element."""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import Page

from rfnb.display.kit.page import STATIC
from tests.browser.lab_server import ROOT
from tests.display.hostile import PAYLOADS, Word, disarmed, hostile, views
from tests.examples import PROFILE

pytestmark = pytest.mark.browser

ALL = "".join(PAYLOADS.values())
WORDS = {
    "all": ALL,
    "turned around": "".join(reversed(PAYLOADS.values())),
    "short": PAYLOADS["markup"],  # what is cut off from longer ones may be what hurts
}

SHAPE = """() => [...document.querySelectorAll('body *')].map(element =>
  [element.tagName, ...element.getAttributeNames().sort()].join(' '))"""

TOUCH = """async () => {
  document.querySelectorAll('details').forEach(fold => { fold.open = true; });
  const over = ['pointerover', 'mouseover', 'mouseenter', 'pointermove', 'mousemove', 'focusin'];
  for (const element of document.querySelectorAll('body *')) {
    const { x, y, width, height } = element.getBoundingClientRect();
    const at = { bubbles: true, clientX: x + width / 2, clientY: y + height / 2 };
    over.forEach(type => element.dispatchEvent(new PointerEvent(type, at)));
    if (element.matches('svg image, svg g, canvas, [tabindex]')) {
      element.dispatchEvent(new PointerEvent('click', at));
    }
  }
  await new Promise(done => {
    const isStill = () => (changes.disconnect(), done());
    let timer = setTimeout(isStill, 150);
    const changes = new MutationObserver(() => (clearTimeout(timer), (timer = setTimeout(isStill, 150))));
    changes.observe(document, { subtree: true, childList: true, attributes: true });
  });
}"""
"""All folds opened, the mouse on everything, clicks on pictures; ends once nothing changes any more."""

READ = "() => !document.querySelector('[data-rfnb-still]:not([hidden])')"
"""Whether scripts have read the pictures, which browsers decode in the background."""

JAVASCRIPT_LINKS = """() => [...document.querySelectorAll('[href], [src], [action]')].map(
  element => element.getAttribute('href') ?? element.getAttribute('src') ?? element.getAttribute('action'),
).filter(address => /^\\s*(javascript|vbscript|data:text)/i.test(address))"""


class Watched:
    """What a page did that it should not do."""

    def __init__(self, page: Page, allowed: str):
        self.page, self.done = page, []
        page.on("dialog", lambda dialog: (self.done.append(f"a dialog: {dialog.message}"), dialog.dismiss()))
        page.on("popup", lambda popup: self.done.append(f"a window: {popup.url}"))
        page.on("pageerror", lambda error: self.done.append(f"an error: {error}"))
        page.on("request", lambda request: self.asked(request.url, allowed))

    def asked(self, url: str, allowed: str) -> None:
        if not url.startswith((allowed, "data:image/", "blob:")):
            self.done.append(f"fetched {url[:200]}")

    def nothing(self) -> None:
        """Fails if it did."""
        assert self.page.evaluate("() => window.hit") is None
        assert self.page.evaluate(JAVASCRIPT_LINKS) == []
        assert self.done == []


def shape_of(watched: Watched, word: Word, folder) -> dict[str, list[str]]:
    """The elements of each page once scripts have done their work, and everything was touched."""
    page, found = watched.page, {}
    for name, view in views(word).items():
        page.goto(view.save(folder / "view.html").as_uri())
        if (STATIC / "views.js").exists():
            page.wait_for_function(READ)
        page.evaluate(TOUCH)
        watched.nothing()
        found[name] = page.evaluate(SHAPE)
    return found


@pytest.mark.parametrize("words", list(WORDS) if PROFILE == "nightly" else ["all"])
def test_saved_pages(page: Page, tmp_path, words):
    watched = Watched(page, "file:")
    hurt = shape_of(watched, hostile(WORDS[words]), tmp_path)
    if (STATIC / "views.js").exists():
        for name in ("graph", "attention, layers"):
            assert any(element.startswith("svg") for element in hurt[name]), f"scripts did nothing to {name}"
    plain = shape_of(watched, disarmed(WORDS[words]), tmp_path)
    for name, shape in hurt.items():
        assert shape == plain[name], name


CELL = """
import sys; sys.path.insert(0, {root!r})
from IPython.display import display
from tests.display.hostile import PAYLOADS, hostile, views
for view in views(hostile("".join(PAYLOADS.values()))).values():
    display(view)
"""


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "untrusted"])
def test_in_jupyterlab(open_notebook, trusted):
    cell = CELL.format(root=os.fspath(ROOT))
    notebook = open_notebook(cells=[cell])
    notebook.run_all()
    if not trusted:
        notebook.save()
        notebook = open_notebook(change=lambda text: text.replace("import sys;", "import sys ;"))
    assert notebook.trusted(0) == trusted
    watched = Watched(notebook.page, "http://127.0.0.1")
    notebook.cell(0).locator(".jp-OutputArea-output").first.wait_for()
    notebook.page.evaluate(TOUCH)
    watched.nothing()
    assert notebook.page.locator(".jp-OutputArea-output").count() >= 10
    assert (notebook.page.locator(".jp-OutputArea-output svg").count() > 0) == trusted
    assert notebook.page.locator(".jp-OutputArea-output :is(script, iframe, object, embed, link, base)").count() == 0
