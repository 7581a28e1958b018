"""How objects are shown. Display registers here; core knows neither it nor the classes of other folders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rfnb.core.ground.hook import Hook

KINDS: dict[str, str] = {}
"""By the full name of a class: its kind of view. A class that is not imported yet can be named, too."""

MODULES: dict[str, str] = {}
"""By kind of view: the full name of the module that makes it."""

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


def kind_of(shown: Any) -> str | None:
    """The kind of view of an object; None if nobody can show it."""
    return next((KINDS[name] for name in map(class_name, type(shown).__mro__) if name in KINDS), None)


def view_of(shown: Any) -> Any | None:
    """The view of an object, which has `_repr_mimebundle_` and whose `repr` is the text; None if there is none."""
    return None if kind_of(shown) is None else make_view(shown)


class Shown:
    """Shown by the view for its class: text as `repr`, HTML in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        view = view_of(self)
        return object.__repr__(self) if view is None else repr(view)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        view = view_of(self)
        return {"text/plain": object.__repr__(self)} if view is None else view._repr_mimebundle_(include, exclude)
