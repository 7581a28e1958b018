"""Views: plain data first, then text and HTML made from that data alone."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from rfnb.backend.base.tape import untaped
from rfnb.core.ground.atomic import replacing
from rfnb.core.ground.show import MODULES, kind_of
from rfnb.display.kit import note, pictures
from rfnb.display.kit.assets import MIME
from rfnb.display.kit.degrade import reason
from rfnb.display.kit.page import view_page
from rfnb.display.markup.grid import Table
from rfnb.display.markup.html import Html, bounded_in, el, visible_in
from rfnb.errors import ViewError
from rfnb.printable import visible

FORMER_KINDS = {
    "history": "run",
    "explanation": "loop_explanation",
    "seen": "attention_list",
    "loaded": "load_report",
}
"""Former names of kinds, which views in saved notebooks and JSON files still use."""


OWN_VIEWS: dict[str, Any] = {}
"""By kind, the views that users registered: objects with the functions `describe`, `to_text` and `to_html`."""


def module_of(kind: str) -> Any:
    """The module that describes a kind of object, and makes text and HTML. Raises ViewError for an unknown kind."""
    if kind in OWN_VIEWS:
        return OWN_VIEWS[kind]
    kind = FORMER_KINDS.get(kind, kind)
    if kind not in MODULES:
        raise ViewError(f"views of kind {kind!r} are not registered")
    return importlib.import_module(MODULES[kind])


class View:
    """What `rf.show` gives: `.data` is plain JSON, `.save("x.html")` writes a page that needs nothing else."""

    def __init__(self, data: Any):
        self.data = bounded_in(data) if isinstance(data, dict) and data.get("kind") not in OWN_VIEWS else data

    @property
    def text(self) -> str:
        """The view as a terminal shows it."""
        return visible(self._made("to_text", str))

    @property
    def html(self) -> Html:
        """The view as HTML, complete without scripts and style sheets."""
        return self._made("to_html", lambda words: el("pre", words))

    @property
    def scripts(self) -> dict[str, Any]:
        """Data with which scripts enhance the HTML; only the kind, if the view has no scripts."""
        kind = {"kind": self.data["kind"]}
        try:
            to_scripts = self._optional("to_scripts")
            return kind if to_scripts is None else kind | visible_in(to_scripts(self.data) or {})
        except Exception:  # the HTML is complete without
            return kind

    def table(self) -> Table:
        """The view as columns and rows. Raises ViewError if it has no table."""
        to_table = self._optional("to_table")
        if to_table is None:
            raise ViewError(f"table: a view of kind {self.data['kind']!r} has no rows")
        made: Table = to_table(self.data)
        return made

    def save(self, path: str | Path) -> Path:
        """Writes the view as a page. The file is replaced as a whole or not at all."""
        title = str(self.data.get("name") or self.data["kind"])
        return write_atomically(Path(path), view_page(title, self.html, self.scripts))

    def widget(self) -> Any:
        """The view as a widget for VS Code, Colab, marimo and others: scripts run without the JupyterLab extension.

        Raises ViewError if anywidget or the built front end is missing.
        """
        return pictures.widget_class()(str(self.html), self.scripts, self._repr_mimebundle_())

    def to_dot(self) -> Any:
        """A `graphviz.Source` of a model graph. Raises ViewError for others, or without the package graphviz."""
        to_dot = self._optional("to_dot")
        if to_dot is None:
            raise ViewError("to_dot: only model graphs are drawn by Graphviz", got=self.data["kind"])
        return to_dot(self.data)

    def figure(self) -> Any:
        """A matplotlib figure of an attention view. Raises ViewError for others."""
        to_figure = self._optional("to_figure")
        if to_figure is None:
            raise ViewError("figure: only attention has one so far", got=self.data["kind"])
        return to_figure(self.data)

    def _optional(self, name: str) -> Callable[[Any], Any] | None:
        """A function that only some view modules have: `to_scripts`, `to_table`, `to_dot`, `to_figure`, `to_repr`."""
        found: Callable[[Any], Any] | None = getattr(module_of(self.data["kind"]), name, None)
        return found

    def _made(self, how: str, otherwise: Callable[[str], Any]) -> Any:
        try:
            return getattr(module_of(self.data["kind"]), how)(self.data)
        except Exception as error:
            return otherwise(f"(no view: {reason(error)})")

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {"text/plain": self.text, "text/html": str(self.html), MIME: self.scripts}


class ReprView(View):
    """The view of an object that is the result of a cell; it has a short `repr`."""

    def __repr__(self) -> str:
        return self.text if self._optional("to_repr") is None else visible(self._made("to_repr", str))


def write_atomically(path: Path, text: str) -> Path:
    """Writes a temporary file and renames it."""
    with replacing(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
    return path


def describe(shown: Any, **choice: Any) -> Any:
    """The JSON of an object. What a loop's body shows is not recorded as part of the loop.

    Raises ViewError if no view is registered for its class, or the view does not take such a choice.
    """
    kind = kind_of(shown)
    if kind is None:
        raise ViewError(f"no view for {type(shown).__name__}")
    make = module_of(kind).describe
    if not all(takes(make, name) for name in choice):
        given = ", ".join(f"{name}={value!r}" for name, value in choice.items())
        raise ViewError(f"show: a {type(shown).__name__} has nothing to choose from", got=given)
    with untaped():
        return make(shown, **choice)


def takes(call: Callable[..., Any], name: str) -> bool:
    """Whether a callable has a parameter of this name, or takes any; True if its signature is unknown."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(each.name == name or each.kind is each.VAR_KEYWORD for each in parameters)


def view_of(shown: Any) -> View:
    """The view of an object; if it cannot be made, a note that says why."""
    try:
        return ReprView(describe(shown))
    except Exception as error:
        return ReprView(note.describe(type(shown).__name__, f"no view: {reason(error)}"))


def own_view(
    kind: str,
    describe: Callable[..., Mapping[str, Any]],
    to_text: Callable[[Any], str],
    to_html: Callable[[Any], str] | None,
) -> SimpleNamespace:
    """A view made of a user's functions: what they raise becomes a note, and HTML is only what `el` made."""

    @wraps(describe)
    def described(shown: Any, **choice: Any) -> dict[str, Any]:
        try:
            return {**describe(shown, **choice), "kind": kind}
        except Exception as error:
            return dict(note.describe(type(shown).__name__, f"no view: {reason(error)}"))

    def html(view: Any) -> Html:
        made = (to_html or to_text)(view)
        return made if isinstance(made, Html) else el("pre", str(made))

    return SimpleNamespace(describe=described, to_text=to_text, to_html=html)
