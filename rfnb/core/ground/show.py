"""How objects are shown. Display registers its views here, by class name; core imports neither."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rfnb.core.ground.hook import Hook
from rfnb.core.ground.nested import form_of

KINDS: dict[str, str] = {}
"""The kind of view of a class, by its full name, so that the class need not be imported."""

MODULES: dict[str, str] = {}
"""The full name of the module that makes a view, by kind of view."""

make_view: Hook[[Any], Any] = Hook("core.ground.show.make_view", by="display.register", otherwise=lambda shown: None)
"""The view of an object."""

make_line: Hook[[str, Any, Any], str] = Hook("core.ground.show.make_line", by="display.register")
"""A tensor as a line of text: its name, the tensor, a mask of the entries that count."""

make_dot: Hook[..., Any] = Hook("core.ground.show.make_dot", by="display.register")
"""A `graphviz.Source` of a model graph, folded by the keyword arguments of `rf.show`."""

make_page: Hook[[Any, Path, int | None], Path] = Hook("core.ground.show.make_page", by="display.register")
"""Writes the HTML page of a run to a path; limit: bytes of tensors."""


def class_name(shown: type) -> str:
    """The full name of a class, "rfnb.core.dims.dim.Dim"."""
    return f"{shown.__module__}.{shown.__qualname__}"


def kind_of(shown: object) -> str | None:
    """The kind of view of an object; "tree" for other containers, such as dataclasses; None if there is no view."""
    default = None if form_of(type(shown)) is None else "tree"
    return next((KINDS[name] for name in map(class_name, type(shown).__mro__) if name in KINDS), default)


def view_of(shown: object) -> Any | None:
    """The view of an object: its `repr` is the text, `_repr_mimebundle_` the HTML. None if no view is registered."""
    return None if kind_of(shown) is None else make_view(shown)


class Shown:
    """Base of classes that are shown by their registered view: as text by `repr`, as HTML in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        view = view_of(self)
        return object.__repr__(self) if view is None else repr(view)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        view = view_of(self)
        return {"text/plain": object.__repr__(self)} if view is None else view._repr_mimebundle_(include, exclude)
