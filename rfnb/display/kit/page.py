"""A page of its own: one file that needs nothing else, fetches nothing, and follows light or dark."""

from __future__ import annotations

import json
from typing import Any

from rfnb.display.kit.assets import asset
from rfnb.display.markup import style
from rfnb.display.markup.html import Child, Html, el, join, visible
from rfnb.display.markup.numbers import size
from rfnb.errors import ViewError

LIMIT = 2_000_000
"""Bytes of a page that can still be sent to somebody."""

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Nothing is fetched, whatever the page carries."""

FRAME = "body{max-width:70em;margin:2em auto;padding:0 1em;font-family:sans-serif}"


def page(title: str, body: Child, look: Child = None) -> str:
    """The whole page; `look` is its style sheet."""
    head = el(
        "head",
        el("meta", charset="utf-8"),
        el("meta", http_equiv="Content-Security-Policy", content=POLICY),
        el("meta", name="viewport", content="width=device-width"),
        el("title", title),
        el("style", Html(FRAME), look),
    )
    return (
        "<!doctype html>\n"
        + el("html", join(head, el("body", body)), lang="en", style="color-scheme:light dark")
        + "\n"
    )


def view_page(title: str, html: Html, scripts: dict[str, Any]) -> str:
    """A view, complete as it is; scripts enhance it if there is something to enhance, and if they fit."""
    still = page(title, html)
    if not (set(scripts) > {"kind"} or "data-rfnb-dim=" in html):
        return still
    try:
        moving = page(title, [el("div", html, id="rfnb-view"), _scripts(scripts)], asset_text("views.css"))
    except ViewError:  # not built
        return still
    if len(moving.encode()) <= LIMIT:
        return moving
    note = f"without scripts: with them this page has more than {size(LIMIT)}"
    return page(title, [html, el("p", note, style=style.QUIET)])


def _scripts(scripts: dict[str, Any]) -> list[Html]:
    data = el("script", json_of(scripts), type="application/json", id="rfnb-scripts")
    return [data, el("script", asset_text("views.js"), type="module")]


def json_of(data: Any) -> Html:
    """JSON that can stand in a script element: no character in it can end that, or begin a comment."""
    text = visible(json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(text)


def asset_text(name: str) -> Html:
    """A built file, so that it cannot end the element that it stands in."""
    text = asset(name).read_text(encoding="utf-8")
    return Html(text.replace("</s", "<\\/s").replace("<!--", "<\\!--"))
