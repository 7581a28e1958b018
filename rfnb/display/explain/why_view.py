"""The view of `tree.why(hypothesis)`: what became of it, and its life step by step."""

from __future__ import annotations

from typing import Literal

from rfnb.core.ground.text import count_of
from rfnb.display.explain.life import WhyView, describe_life, labels_html, life_html, life_lines, life_table
from rfnb.display.kit.note import Notes
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, chip, note_html, note_text, quiet
from rfnb.display.markup.html import Html, el
from rfnb.search.explain.why import Why

STATES = {
    "best": ("the output", style.PALETTE[2]),
    "left": ("left at the end", style.PALETTE[0]),
    "continued": ("continued", style.GREY),
    "lost": ("lost", style.ALARM),
}
"""What became of a hypothesis: the word for it, and its colour."""


def describe(why: Why) -> WhyView:
    """The life of a hypothesis as JSON."""
    notes, tree = Notes(), why.tree
    return {
        "kind": "why",
        "name": tree.name,
        "steps": tree.steps,
        "beam": tree.beam,
        "summary": why.text.splitlines(),
        "text": tree.text_of(why.labels),
        "state": _state(why),
        "fate": why.fate,
        "life": describe_life(tree, why.life, why.apart, notes),
        "note": notes.text(),
    }


def _state(why: Why) -> Literal["best", "left", "continued", "lost"]:
    if why.final is not None:
        return "best" if why.final is why.tree.best else "left"
    return "continued" if why.last_step is not None and why.last_step >= why.tree.steps - 1 else "lost"


# -- text


def to_text(view: WhyView) -> str:
    """What became of it, and the table of steps."""
    closest = [f"  {view['life']['closest']}"] if view["life"]["closest"] else []
    return "\n".join([*view["summary"][:1], *life_lines(view["life"]), *closest, *note_text(view["note"])])


def to_repr(view: WhyView) -> str:
    """What became of it, and its steps in a few words."""
    return "\n".join(view["summary"])


def to_table(view: WhyView) -> Table:
    """A row for each step."""
    return life_table(view["life"])


# -- HTML


def to_html(view: WhyView) -> Html:
    """What became of it, and the table of steps."""
    word, colour = STATES[view["state"]]
    sizes = f" · {count_of(view['steps'], 'step')}, beam {view['beam']}"
    closest = view["life"]["closest"]
    return el(
        "div",
        el("div", el("span", view["name"], style=style.NAME), quiet(sizes), style=style.HEAD),
        el("div", chip(word, colour), labels_html(view["text"])),
        el("div", view["fate"]),
        el("div", quiet(closest)) if closest else None,
        life_html(view["life"]),
        note_html(view["note"]),
        style=style.BOX,
    )
