"""The view of an object whose own view could not be made: one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.widgets_html import quiet

if TYPE_CHECKING:
    from rfnb.display.kit.schema import NoteView


def describe(name: str, note: str) -> NoteView:
    """The JSON: the name of the object, and why it is not shown."""
    return {"kind": "note", "name": name, "note": note}


def to_text(view: NoteView) -> str:
    """`Tensor (no view: …)`"""
    return f"{view['name']} ({view['note']})"


def to_html(view: NoteView) -> Html:
    """The note as a quiet line."""
    return el("div", view["name"], quiet(f" ({view['note']})"), style=style.BOX)
