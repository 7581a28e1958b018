"""From an object to its view, by type. Never raises: what cannot be shown is named in one line."""

from __future__ import annotations

from typing import Any

from rfnb.backend.base.tape import untaped
from rfnb.core import show
from rfnb.display.attempt import reason
from rfnb.display.view import ReprView, View, module_of
from rfnb.display.views import note

DESCRIBE: dict[type, str] = {}
"""By type: the kind of view, whose module is imported when first needed."""


def register(kind: str, *shown: type) -> None:
    """Objects of these types have such a view from now on."""
    for each in shown:
        DESCRIBE[each] = kind
        show.register(each, view_of)


def describe(shown: Any, **choice: Any) -> Any:
    """The JSON of an object; what a loop's body shows is no part of the loop.

    Raises what its view raises; TypeError if nobody can show it.
    """
    for base in type(shown).__mro__:
        if base in DESCRIBE:
            with untaped():
                return module_of(DESCRIBE[base]).describe(shown, **choice)
    raise TypeError(f"no view for {type(shown).__name__}")


def view_of(shown: Any) -> View:
    """The view of an object; a note if it cannot be made."""
    try:
        return ReprView(describe(shown))
    except Exception as error:
        return ReprView(note.describe(type(shown).__name__, f"no view: {reason(error)}"))
