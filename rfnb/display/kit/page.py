"""Standalone pages: one file that needs nothing else, fetches nothing, and follows the light or dark theme."""

from __future__ import annotations

import json
from typing import Any

from rfnb.display.kit.assets import asset
from rfnb.display.markup import style
from rfnb.display.markup.html import Child, Html, el, join
from rfnb.display.markup.numbers import size
from rfnb.errors import ViewError
from rfnb.printable import visible

LIMIT = 2_000_000
"""Largest size of a page with scripts, in bytes: small enough to send by mail."""

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Content security policy: nothing is fetched, whatever the page contains."""

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
    """The page of a view. It is complete without scripts; they are added if the view uses them and if they fit."""
    still = page(title, html)
    if not (set(scripts) > {"kind"} or "data-rfnb-dim=" in html):
        return still
    try:
        moving = page(title, [el("div", html, id="rfnb-view"), _scripts(scripts)], asset_text("views.css"))
    except ViewError:  # not built
        return still
    if len(moving.encode()) <= LIMIT:
        return moving
    note = f"without scripts, which would make this page larger than {size(LIMIT)}"
    return page(title, [html, el("p", note, style=style.QUIET)])


def _scripts(scripts: dict[str, Any]) -> list[Html]:
    data = el("script", json_of(scripts), type="application/json", id="rfnb-scripts")
    return [data, el("script", asset_text("views.js"), type="module")]


def json_of(data: Any) -> Html:
    """JSON for a script element, escaped so that it can neither end the element nor begin a comment."""
    text = visible(json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(text)


def asset_text(name: str) -> Html:
    """The text of a built file, escaped so that it cannot end the element around it."""
    text = asset(name).read_text(encoding="utf-8")
    return Html(text.replace("</s", "<\\/s").replace("<!--", "<\\!--"))
