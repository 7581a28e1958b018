"""How objects are shown: views register here by type; core knows none of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

SHOW: dict[type, Callable[[Any], Any]] = {}
"""By type: from the object to its view, which has `_repr_mimebundle_` and whose `repr` is the text."""


def register(shown: type, view: Callable[[Any], Any]) -> None:
    """Objects of type `shown` are shown by `view(object)` from now on."""
    SHOW[shown] = view


def view_of(shown: Any) -> Any | None:
    """The view of an object; None if nobody can show it."""
    for base in type(shown).__mro__:
        if base in SHOW:
            return SHOW[base](shown)
    return None


class Shown:
    """Shown by the view registered for its class: text as `repr`, HTML in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        view = view_of(self)
        return object.__repr__(self) if view is None else repr(view)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        view = view_of(self)
        return {"text/plain": object.__repr__(self)} if view is None else view._repr_mimebundle_(include, exclude)
