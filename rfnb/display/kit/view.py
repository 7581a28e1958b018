"""Views: a page of blocks, or plain data of which a page is made; text, HTML and tables are printed from the page."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property, wraps
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from rfnb.backend.base.tape import untaped
from rfnb.core.ground.atomic import replacing, unwritable
from rfnb.core.ground.nested import form_of
from rfnb.core.tensor.op import guarded
from rfnb.display.kit import page
from rfnb.display.kit.blocks import Page, Table, note_page, reason, to_data, to_html, to_repr, to_text
from rfnb.display.kit.page import MIME
from rfnb.display.markup.html import Html, bounded_in, el, visible_in
from rfnb.errors import ViewError
from rfnb.printable import encodable, visible


def check_choice(describe: Callable[..., object], cls: str, choice: Mapping[str, object]) -> None:
    """Raises ViewError if `describe`, which shows objects of class `cls`, does not take such arguments of `rf.show`."""
    unknown = [name for name in choice if not takes(describe, name)]
    if unknown:
        options = list(inspect.signature(describe).parameters)[1:]
        raise ViewError(
            f"show: the view of a {cls} does not take {', '.join(map(repr, unknown))}",
            got=", ".join(f"{name}={choice[name]!r}" for name in unknown),
            expected=", ".join(options) or "nothing to choose",
        )


def takes(call: Callable[..., object], name: str) -> bool:
    """Whether a callable has a parameter of this name, or takes any; True if its signature is unknown."""
    try:
        parameters = inspect.signature(call).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(parameter.name == name or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def own_view(make: Callable[..., Page]) -> Callable[..., Page]:
    """A view made by a user's function: what it raises becomes a note."""

    @wraps(make)
    def described(shown: object, **choice: object) -> Page:
        try:
            page = make(shown, **choice)
            if not isinstance(page, Page):
                raise ViewError(f"the function gave an object of class {type(page).__name__}, not a Page")
            to_text(page), to_html(page)
        except Exception as error:
            return note_page(type(shown).__name__, f"no view: {reason(error)}")
        return page

    return described


FORMER_KINDS = {
    "history": "run",
    "explanation": "loop_explanation",
    "seen": "attention_list",
    "loaded": "load_report",
}
"""Former names of kinds, which views in saved notebooks and JSON files still use."""

OWN_VIEWS: dict[str, Callable[..., Page]] = {}
"""By kind, the functions that users registered."""


class Views(NamedTuple):
    """The kind of view by the full name of a class; by kind, the module and the name of the function that makes it."""

    kinds: dict[str, str]
    makers: dict[str, tuple[str, str]]


PACKAGE = Path(__file__).parents[2]
FOLDERS = ("display", "jobs", "netdict/views")
MARK = re.compile(r"\n@page\.shows\(([^)]*)\)\ndef (\w+)")


@cache
def views() -> Views:
    """The functions marked by `shows`, read from the files of the package, so that nothing is imported for this."""
    kinds, makers = dict[str, str](), dict[str, tuple[str, str]]()
    for file in (file for folder in FOLDERS for file in (PACKAGE / folder).rglob("*.py")):
        for arguments, function in MARK.findall(file.read_text(encoding="utf-8")):
            kind, *classes = ast.literal_eval(f"[{arguments}]")
            makers[kind] = ".".join(("rfnb", *file.relative_to(PACKAGE).with_suffix("").parts)), function
            kinds.update(dict.fromkeys(classes, kind))
    return Views(kinds, makers)


def class_name(shown: type) -> str:
    """The full name of a class, "rfnb.core.dims.dim.Dim"."""
    return f"{shown.__module__}.{shown.__qualname__}"


def kind_of(shown: object) -> str | None:
    """The kind of view of an object; "tree" for other containers, such as dataclasses; None if there is no view."""
    default = None if form_of(type(shown)) is None else "tree"
    kinds = views().kinds
    return next((kinds[name] for name in map(class_name, type(shown).__mro__) if name in kinds), default)


def module_of(kind: str) -> tuple[ModuleType, str]:
    """The module that shows a kind of object, and the name of its function. Raises ViewError for an unknown kind."""
    kind = FORMER_KINDS.get(kind, kind)
    if kind not in views().makers:
        raise ViewError(f"views of kind {kind!r} are not registered")
    module, function = views().makers[kind]
    return importlib.import_module(module), function


def maker(kind: str) -> Callable[..., Page | Mapping[str, object]]:
    """The function that makes the page of an object, or its JSON. Raises ViewError for an unknown kind."""
    return OWN_VIEWS[kind] if kind in OWN_VIEWS else getattr(*module_of(kind))


T = TypeVar("T")


class View:
    """What `rf.show` gives: `.data` is plain JSON, `.save("x.html")` writes a page that needs nothing else.

    It is made of a page, or of the JSON of a kind whose module has the function `to_page`.
    """

    def __init__(self, shown: Page | Mapping[str, object]):
        self._shown = shown

    @property
    def kind(self) -> str:
        """What kind of view it is."""
        source = self._shown
        return str(source.kind if isinstance(source, Page) else source["kind"])

    @cached_property
    def data(self) -> Any:
        """The view as plain JSON."""
        return to_data(self._shown) if isinstance(self._shown, Page) else self._shown

    @cached_property
    def page(self) -> Page:
        """What is shown, as blocks."""
        if isinstance(self._shown, Page):
            return self._shown
        try:
            return module_of(self.kind)[0].to_page(bounded_in(self.data))
        except Exception as error:
            return note_page(self.kind, f"no view: {reason(error)}")

    @guarded
    def has(self, name: str) -> bool:
        """Whether a view of this kind has "to_table", "to_figure" and so on."""
        if name == "to_table":
            return self.page.table is not None
        return self._optional(name) is not None

    @property
    def _drawn(self) -> View:
        """The view whose picture this one has: its own, or that of the tree or attention that it draws."""
        drawing = self._shown.drawing if isinstance(self._shown, Page) else None
        return self if drawing is None else drawing

    @property
    def text(self) -> str:
        """The view as a terminal shows it, in the characters that it has."""
        return encodable(self.full_text)

    @property
    def full_text(self) -> str:
        """The view as text in all characters, as `save` writes it."""
        return visible(self._made(to_text, str))

    @property
    def html(self) -> Html:
        """The view as HTML, complete without scripts and style sheets."""
        return self._made(to_html, lambda words: el("pre", words))

    @property
    def scripts(self) -> dict[str, object]:
        """Data with which scripts enhance the HTML, or its drawing; only the kind, if the view has no scripts."""
        kind: dict[str, object] = {"kind": self._drawn.kind}
        try:
            to_scripts = self._optional("to_scripts")
            return kind if to_scripts is None else kind | visible_in(to_scripts() or {})
        except Exception:  # the HTML is complete without
            return kind

    def table(self) -> Table:
        """The view as columns and rows. Raises ViewError if it has no table."""
        if self.page.table is None:
            raise ViewError(f"table: a view of kind {self.kind!r} has no rows")
        return self.page.table

    @guarded
    def save(self, path: str | Path) -> Path:
        """Writes the view to a file. The suffix of the name chooses the format.

        >>> view = rf.show(rf.ones([rf.Dim(3, name="feat")]))
        >>> print(view.save(folder / "ones.txt").read_text())
        tensor Tensor float32 {feat:3}
          all 1
            1 1 1

        | suffix | what is written |
        |---|---|
        | `.html` | a page that needs nothing else |
        | `.svg` | the picture of a graph, a tree, attention, curves or a large tensor |
        | `.pdf`, `.png` | `view.figure()` |
        | `.csv` | `view.table()` |
        | `.json`, `.txt` | `view.data`, `view.text` |

        An existing file is replaced only when the new one is complete. Raises ViewError for a suffix that this view
        does not support, or if the file cannot be written.
        """
        path = Path(path)
        content = page.content(self, path)
        try:
            return write_atomically(path, content)
        except (OSError, ValueError) as error:
            raise unwritable(path, error, ViewError) from error

    @property
    def svg(self) -> str | None:
        """The picture of the view as SVG; None if it has none that scales."""
        to_svg = self._optional("to_svg")
        return None if to_svg is None else to_svg()

    def widget(self) -> object:
        """The view as a widget for VS Code, Colab, marimo and others: scripts run without the JupyterLab extension.

        Raises ViewError if anywidget or the built front end is missing.
        """
        return page.widget_class()(str(self.html), self.scripts, self._repr_mimebundle_())

    def to_dot(self) -> object:
        """A `graphviz.Source` of a model graph. Raises ViewError for others, or without the package graphviz."""
        to_dot = self._optional("to_dot")
        if to_dot is None:
            raise ViewError("to_dot: only model graphs are drawn by Graphviz", got=self.kind)
        return to_dot()

    def figure(self) -> Any:
        """A matplotlib figure of attention, training curves or the tree of a search. Raises ViewError for others."""
        to_figure = self._optional("to_figure")
        if to_figure is None:
            raise ViewError("figure: only attention, training curves and trees of a search have one", got=self.kind)
        return to_figure()

    def _optional(self, name: str) -> Callable[[], Any] | None:
        """What only some view modules have, of the data of the view: `to_scripts`, `to_svg`, `to_dot`, `to_figure`."""
        drawn = self._drawn
        module = None if isinstance(drawn._shown, Page) else module_of(drawn.kind)[0]
        make = getattr(module, name, None)
        return None if make is None else lambda: make(bounded_in(drawn.data))

    def _made(self, printer: Callable[[Page], T], otherwise: Callable[[str], T]) -> T:
        try:
            return printer(self.page)
        except Exception as error:
            return otherwise(f"(no view: {reason(error)})")

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, Any]:
        return {"text/plain": self.text, "text/html": str(self.html), MIME: self.scripts}


class ReprView(View):
    """The view of an object that is the result of a cell; it has a short `repr`."""

    def __repr__(self) -> str:
        return encodable(visible(self._made(to_repr, str)))


def write_atomically(path: Path, content: str | bytes) -> Path:
    """Writes a temporary file and renames it."""
    with replacing(path) as unfinished:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def describe(shown: object, **choice: object) -> Page | Mapping[str, object]:
    """The JSON of an object. What a loop's body shows is not recorded as part of the loop.

    Raises ViewError if no view is registered for its class, or the view does not take such a choice.
    """
    kind = kind_of(shown)
    if kind is None:
        raise ViewError(f"no view for {type(shown).__name__}")
    make = maker(kind)
    if choice:
        check_choice(make, type(shown).__name__, choice)
    with untaped():
        return make(shown, **choice)


def view_of(shown: object) -> View:
    """The view of an object; if it cannot be made, a note that says why."""
    try:
        return ReprView(describe(shown))
    except Exception as error:
        return ReprView(note_page(type(shown).__name__, f"no view: {reason(error)}"))
