"""All kinds of views on one page: they fit, can be read, and axe finds no fault, at each width and in all colours."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path

import pytest
from playwright.sync_api import Page

from rfnb.display.kit.page import FRAME, STATIC
from tests.browser.looks import faults, weak_words, wide_views
from tests.display.hostile import harmless, views

pytestmark = pytest.mark.browser

RENDER = """async ([code, style, views]) => {
  const { default: picture } = await import(URL.createObjectURL(new Blob([code], { type: 'text/javascript' })));
  document.head.append(Object.assign(document.createElement('style'), { textContent: style }));
  for (const [name, html, scripts] of views) {
    const el = document.createElement('div');
    el.dataset.view = name;
    document.body.append(el);
    picture.render({ model: { get: part => ({ html, scripts })[part] }, el });
    el.querySelectorAll('details').forEach(fold => { fold.open = true; });
  }
}"""
BROKEN = """view => {
  const walker = document.createTreeWalker(view, NodeFilter.SHOW_TEXT);
  const broken = [];
  while (walker.nextNode()) {
    for (const { 0: word, index } of walker.currentNode.textContent.matchAll(/\\S+/g)) {
      const range = document.createRange();
      range.setStart(walker.currentNode, index);
      range.setEnd(walker.currentNode, index + word.length);
      const tops = new Set([...range.getClientRects()].map(({ top }) => Math.round(top)));
      if (tops.size > 1) broken.push(word);
    }
  }
  return broken;
}"""
"""Words that are on two lines."""
PICTURE = re.compile(r"data:image/svg\+xml;base64,([\w+/=]+)")
COLOURS = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "high contrast": {"color_scheme": "light", "contrast": "more"},
    "forced colours": {"color_scheme": "dark", "contrast": "no-preference", "forced_colors": "active"},
}


@pytest.fixture
def all_views(page: Page, tmp_path: Path, missing) -> Page:
    """One page of all views, with their scripts and all folds open."""
    if not (STATIC / "views.js").exists():
        missing("the scripts of views are not built (make test builds them where there is Node)")
    made = [[name, str(view.html), view.scripts] for name, view in views(harmless).items()]
    file = tmp_path / "views.html"
    head = f'<meta charset="utf-8"><title>views</title><style>{FRAME}</style>'
    file.write_text(f'<!doctype html><html lang="en" style="color-scheme:light dark">{head}<body></body></html>')
    page.goto(file.as_uri())
    style = (STATIC / "views.css").read_text(encoding="utf-8")
    page.evaluate(RENDER, [(STATIC / "views.js").read_text(encoding="utf-8"), style, json.loads(json.dumps(made))])
    assert page.locator("[data-view]").count() == len(made)
    return page


def test_each_view_fits_and_can_be_read_in_all_colours(all_views: Page, missing):
    found = []
    for colours, media in COLOURS.items():
        all_views.emulate_media(**media)
        for width in (280, 600, 1400):
            all_views.set_viewport_size({"width": width, "height": 900})
            found += [f"{colours}, {width} pixels: {words}" for words in wide_views(all_views)]
        found += [f"{colours}: {words}" for words in weak_words(all_views)]
    bar = all_views.locator(".rfnb-Legend i").first  # in forced colours, too
    assert "gradient" in bar.evaluate("bar => getComputedStyle(bar).backgroundImage")
    all_views.set_viewport_size({"width": 510, "height": 900})
    for view in ("explanation", "step"):
        found += all_views.locator(f"[data-view='{view}']").evaluate(BROKEN)
    assert found == [], "\n".join(found)
    all_views.set_viewport_size({"width": 280, "height": 900})
    assert faults(all_views, missing) == []


def test_static_views_and_their_pictures_can_be_read_in_both_themes(page: Page):
    parts = {name: str(view.html) for name, view in views(harmless).items()}
    codes = {code: name for name, html in parts.items() for code in PICTURE.findall(html)}
    assert len(codes) > 10
    found = []
    for html, name in {"".join(parts.values()): "all", **{b64decode(c).decode(): n for c, n in codes.items()}}.items():
        page.set_content(f'<html lang="en" style="color-scheme:light dark"><body>{html}</body></html>')
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            found += [f"{name}, {scheme}: {words}" for words in weak_words(page)]
    assert found == [], "\n".join(found)
