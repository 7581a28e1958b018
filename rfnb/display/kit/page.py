"""Views outside of a cell's HTML: standalone pages, files, and widgets, with the built front end that they carry.

A page is one file that needs nothing else, fetches nothing, and follows the light or dark theme.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rfnb.display.markup import style
from rfnb.display.markup.html import Child, Html, el, join
from rfnb.display.markup.numbers import size
from rfnb.errors import ViewError
from rfnb.printable import visible

if TYPE_CHECKING:
    from rfnb.display.kit.view import View


STATIC = Path(__file__).parents[1] / "static"

MIME = "application/vnd.rfnb.view+json"
"""MIME type, next to the HTML of an output, of the data with which scripts enhance it."""


def asset(name: str) -> Path:
    """The path of a built file. Raises ViewError if it does not exist."""
    path = STATIC / name
    if not path.is_file():
        raise ViewError(
            f"{path.stem}: its front end is not built",
            got=f"no file {name} in rfnb/display/static",
            expected="the output of the extension's build",
            hint="run `make lab` in the checkout, or install a wheel",
        )
    return path


LIMIT = 2_000_000
"""Largest size of a page with scripts, in bytes: small enough to send by mail."""

POLICY = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
"""Content security policy: nothing is fetched, whatever the page contains."""

FRAME = "body{max-width:70em;margin:2em auto;padding:0 1em;font-family:sans-serif;background:Canvas;color:CanvasText}"


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
    whole = el("html", join(head, el("body", body)), lang="en", style="color-scheme:light dark")
    return f"<!doctype html>\n{whole}\n"


def view_page(title: str, html: Html, scripts: dict[str, object]) -> str:
    """The page of a view. It is complete without scripts; they are added if the view uses them and if they fit."""
    still = page(title, html)
    if not (set(scripts) > {"kind"} or "data-rfnb-dim=" in html):
        return still
    try:
        data = el("script", json_of(scripts), type="application/json", id="rfnb-scripts")
        script = el("script", asset_text("views.js"), type="module")
        moving = page(title, [el("div", html, id="rfnb-view"), data, script], asset_text("views.css"))
    except ViewError:  # not built
        return still
    if len(moving.encode()) <= LIMIT:
        return moving
    note = f"without scripts, which would make this page larger than {size(LIMIT)}"
    return page(title, [html, el("p", note, style=style.QUIET)])


def json_of(data: object) -> Html:
    """JSON for a script element, escaped so that it can neither end the element nor begin a comment."""
    text = visible(json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Html(text)


def asset_text(name: str) -> Html:
    """The text of a built file, escaped so that it cannot end the element around it."""
    text = asset(name).read_text(encoding="utf-8")
    return Html(text.replace("</s", "<\\/s").replace("<!--", "<\\!--"))


DPI = 200
"""Resolution of PNG files."""


def content(view: View, path: Path) -> str | bytes:
    """The content of the file with this name. Raises ViewError for a suffix that the view does not support."""
    formats = formats_of(view)
    suffix = path.suffix.lower().removeprefix(".")
    if suffix not in formats:
        raise ViewError(
            f"save: a view of kind {view.kind!r} cannot be written to {path.name!r}",
            got=f"the suffix {path.suffix!r}" if suffix else "a name without a suffix",
            expected=", ".join(formats),
        )
    return formats[suffix](view)


def formats_of(view: View) -> dict[str, Callable[[View], str | bytes]]:
    """What can be written of a view, by suffix."""
    formats: dict[str, Callable[[View], str | bytes]] = {
        "html": lambda view: view_page(str(view.data.get("name") or view.kind), view.html, view.scripts),
        "json": lambda view: json.dumps(view.data),
        "txt": lambda view: view.full_text + "\n",
    }
    if view.has("to_table"):
        formats["csv"] = _csv
    if view.has("to_figure"):
        formats |= {form: _figure(form) for form in ("svg", "pdf", "png")}
    if (picture := view.svg) is not None:
        formats["svg"] = lambda _: picture
    return formats


def _csv(view: View) -> str:
    table, file = view.table(), io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows([table.columns, *table.rows])
    return visible(file.getvalue())


def _figure(form: str) -> Callable[[View], bytes]:
    def drawn(view: View) -> bytes:
        file = io.BytesIO()
        view.figure().savefig(file, format=form, dpi=DPI)
        return file.getvalue()

    return drawn


@lru_cache(maxsize=1)
def widget_class() -> type:
    """The widget class, made when first needed. Raises ViewError if anywidget or the built files are missing."""
    try:
        import anywidget
        import traitlets
    except ImportError:
        raise ViewError("widget: anywidget is not installed", hint="pip install 'rfnb[lab]'") from None

    class Picture(anywidget.AnyWidget):
        """A widget with the HTML of a view and the data that scripts use to enhance it."""

        _esm = asset("views.js")
        _css = asset("views.css")
        html = traitlets.Unicode().tag(sync=True)
        scripts = traitlets.Dict().tag(sync=True)

        def __init__(self, html: str, scripts: dict[str, object], static: dict[str, object]):
            super().__init__(html=html, scripts=scripts)
            self.static = static

        def _repr_mimebundle_(self, **choice: Any) -> Any:
            result = super()._repr_mimebundle_(**choice)
            bundle, metadata = result if isinstance(result, tuple) else (result or {}, {})
            return {**bundle, **self.static}, metadata

    return Picture
