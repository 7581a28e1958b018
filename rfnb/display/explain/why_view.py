"""The view of `tree.why(hypothesis)`: what became of it, and its life step by step."""

from __future__ import annotations

from typing import Literal

from rfnb.core.ground.text import count_of
from rfnb.display.explain.life import closest, labels, life_blocks, life_table, read_life
from rfnb.display.kit.blocks import Line, Note, Only, Page
from rfnb.display.kit.note import Notes
from rfnb.display.kit.words import chip, name, quiet
from rfnb.display.markup import style
from rfnb.search.explain.where import Why

STATES = {
    "best": ("the output", style.PALETTE[2]),
    "left": ("left at the end", style.PALETTE[0]),
    "continued": ("continued", style.GREY),
    "lost": ("lost", style.ALARM),
}
"""What became of a hypothesis: the word for it, and its colour."""


def describe(why: Why) -> Page:
    """What became of it, and the table of steps."""
    notes, tree, summary = Notes(), why.tree, why.text.splitlines()
    life = read_life(tree, why.life, why.apart, notes)
    word, colour = STATES[_state(why)]
    near = closest(tree, why.life)
    heading = [
        Line(name(tree.name), quiet(f" · {count_of(tree.steps, 'step')}, {tree.trace.beam_text}"), look=style.HEAD),
        Line(chip(word, colour), labels(tree.text_of(why.labels))),
        Line(why.fate),
        Line(quiet(near)) if near else None,
    ]
    blocks = [
        Only("text", list(map(Line, summary[:1]))),
        Only("html", heading),
        *life_blocks(life),
        Only("text", [Line(near, indent=2)]) if near else None,
        Note(notes.text()),
    ]
    return Page("why", tree.name, blocks, life_table(life), list(map(Line, summary)))


def _state(why: Why) -> Literal["best", "left", "continued", "lost"]:
    if why.final is not None:
        return "best" if why.final is why.tree.best else "left"
    return "continued" if why.last_step is not None and why.last_step >= why.tree.steps - 1 else "lost"
