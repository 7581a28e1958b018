"""From an object to its view, by class. Never raises: what cannot be shown is named in one line."""

from __future__ import annotations

from typing import Any

from rfnb.backend.base.tape import untaped
from rfnb.core.ground.show import kind_of
from rfnb.display.kit import note
from rfnb.display.kit.degrade import reason
from rfnb.display.kit.view import ReprView, View, module_of


def describe(shown: Any, **choice: Any) -> Any:
    """The JSON of an object; what a loop's body shows is no part of the loop.

    Raises what its view raises; TypeError if nobody can show it.
    """
    kind = kind_of(shown)
    if kind is None:
        raise TypeError(f"no view for {type(shown).__name__}")
    with untaped():
        return module_of(kind).describe(shown, **choice)


def view_of(shown: Any) -> View:
    """The view of an object; a note if it cannot be made."""
    try:
        return ReprView(describe(shown))
    except Exception as error:
        return ReprView(note.describe(type(shown).__name__, f"no view: {reason(error)}"))
