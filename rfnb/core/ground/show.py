"""How objects are shown: functions that display registers, so that nothing below imports it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rfnb.core.ground.hook import Hook

view_of: Hook[[object], Any] = Hook("core.ground.show.view_of", by="display.register", otherwise=lambda shown: None)
"""The view of an object: its `repr` is the text, `_repr_mimebundle_` the HTML. None if its class has no view."""

make_line: Hook[[str, Any, Any], str] = Hook("core.ground.show.make_line", by="display.register")
"""A tensor as a line of text: its name, the tensor, a mask of the entries that count."""

make_dot: Hook[..., Any] = Hook("core.ground.show.make_dot", by="display.register")
"""A `graphviz.Source` of a model graph, folded by the keyword arguments of `rf.show`."""

make_page: Hook[[Any, Path, int | None], Path] = Hook("core.ground.show.make_page", by="display.register")
"""Writes the HTML page of a run to a path; limit: bytes of tensors."""


class Shown:
    """Base of classes that are shown by their registered view: as text by `repr`, as HTML in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        view = view_of(self)
        return object.__repr__(self) if view is None else repr(view)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> Any:
        view = view_of(self)
        return {"text/plain": repr(self)} if view is None else view._repr_mimebundle_(include, exclude)
