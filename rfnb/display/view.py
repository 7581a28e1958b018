"""A view that can be shown, saved and read: data first, then text and HTML made from the data alone."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rfnb.core.atomic import replacing
from rfnb.display.attempt import reason
from rfnb.display.grid import Table
from rfnb.display.html import Html, el, join
from rfnb.errors import ViewError

MODULES = {
    "tensor": "rfnb.display.views.tensor",
    "dim": "rfnb.display.views.dim",
    "module": "rfnb.display.views.module",
    "attention": "rfnb.display.views.attention",
    "history": "rfnb.display.views.loop",
    "runs": "rfnb.display.views.runs",
    "gradients": "rfnb.display.views.gradients",
    "comparison": "rfnb.display.views.comparison",
    "explanation": "rfnb.display.views.explain",
    "note": "rfnb.display.views.note",
}
"""By the `kind` of the JSON: who makes text and HTML of it."""


class View:
    """What `rf.show` gives: `.data` is plain JSON, `.save("x.html")` writes a page that needs nothing else."""

    def __init__(self, data: Any):
        self.data = data

    @property
    def text(self) -> str:
        """As a terminal shows it."""
        return self._made("to_text", str)

    @property
    def html(self) -> Html:
        """Complete without scripts and style sheets."""
        return self._made("to_html", lambda words: el("pre", words))

    def table(self) -> Table:
        """The facts as columns and rows. Raises ViewError if this view has none."""
        module = importlib.import_module(MODULES[self.data["kind"]])
        if not hasattr(module, "to_table"):
            raise ViewError(f"table: a view of kind {self.data['kind']!r} has no rows")
        return module.to_table(self.data)

    def save(self, path: str | Path) -> Path:
        """Writes the page; either all of it is there or what was there before."""
        return write_atomically(Path(path), page(self.html, title=str(self.data.get("name") or self.data["kind"])))

    def figure(self) -> Any:
        """A matplotlib figure of an attention view. Raises ViewError for others."""
        from rfnb.display.plot import figure

        return figure(self.data)

    def _made(self, how: str, otherwise: Callable[[str], Any]) -> Any:
        try:
            return getattr(importlib.import_module(MODULES[self.data["kind"]]), how)(self.data)
        except Exception as error:
            return otherwise(f"(no view: {reason(error)})")

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": self.text, "text/html": str(self.html)}


class ReprView(View):
    """The view of an object that is the result of a cell; its `repr` is short."""

    def __repr__(self) -> str:
        module = importlib.import_module(MODULES[self.data["kind"]])
        return self._made("to_repr", str) if hasattr(module, "to_repr") else self.text


def page(body: Html, title: str) -> str:
    """A page of its own that follows the light or dark mode of the reader."""
    look = "color-scheme:light dark;max-width:70em;margin:2em auto;padding:0 1em;font-family:sans-serif"
    head = el("head", el("meta", charset="utf-8"), el("title", title))
    return (
        "<!doctype html>\n"
        + el("html", join(head, el("body", body, style=look)), style="color-scheme:light dark")
        + "\n"
    )


def write_atomically(path: Path, text: str) -> Path:
    """Writes beside the file, then renames."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path
