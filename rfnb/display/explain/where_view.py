"""The view of `tree.where(reference)`: the verdict, the steps of the reference, and where it fell out."""

from __future__ import annotations

from typing import Any

from rfnb.display.beam import view as beam
from rfnb.display.beam.schema import BeamScripts
from rfnb.display.explain.life import WhereView, describe_life, labels_html, life_html, life_lines, life_table
from rfnb.display.kit.note import Notes
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, chip, note_html, note_text
from rfnb.display.markup.html import Html, el
from rfnb.printable import printable_name
from rfnb.search.explain.where import Where

ADVICE = {
    "search error": "the model prefers the reference: a wider beam can help",
    "model error": "the model prefers the output: a wider beam cannot help",
    "tie": "the model prefers neither",
    "over the limit": "the limit of steps decides: a higher one can help",
    "no hypothesis": "the search was left without an output",
}
"""What verdicts mean."""


def describe(where: Where, pruned: int | None = None) -> WhereView:
    """The reference in the beam as JSON; pruned: how many of the pruned candidates the picture of the tree has."""
    tree, fall = where.tree, where.fall
    notes = Notes()
    reason = None if fall is None else fall.reason
    in_one_beam = reason == "pruned" and tree.own.living is None
    return {
        "kind": "where",
        "summary": where.text.splitlines(),
        "reference": where.reference.text,
        "verdict": where.verdict,
        "advice": ADVICE.get(where.verdict),
        "because": where.because,
        "fall": None if fall is None else fall.words,
        "needed": fall.rank if fall is not None and in_one_beam else None,
        "unknown": reason == "not recorded" and fall is not None and fall.last is not None and tree.own.pruned is None,
        "life": describe_life(tree, where.life, None, notes),
        "beam": beam.describe(where, pruned=pruned),
        "note": notes.text(),
    }


# -- text


def to_text(view: WhereView) -> str:
    """The verdict, the steps, the fall, and the tree."""
    fall = [f"  {printable_name(line)}" for line in _fall(view)]
    lines = [*view["summary"][:2], *life_lines(view["life"]), *fall]
    return "\n".join([*lines, *note_text(_note(view)), *beam.tree_lines(view["beam"])])


def to_repr(view: WhereView) -> str:
    """The verdict, the steps and the fall in a few words."""
    return "\n".join(view["summary"])


def to_table(view: WhereView) -> Table:
    """A row for each step."""
    return life_table(view["life"])


def _fall(view: WhereView) -> list[str]:
    """The fall, and what would have helped or would tell more."""
    if view["fall"] is None:
        return []
    if view["needed"] is not None:
        return [view["fall"], f"a beam of {view['needed']} would have kept it in this step"]
    return [view["fall"], *([UNKNOWN] if view["unknown"] else [])]


UNKNOWN = "its score there is not known: candidates=8 keeps those that are pruned, and a recorded loop computes them"


def _note(view: WhereView) -> str | None:
    return view["note"] or view["beam"]["note"]


# -- HTML


def to_scripts(view: WhereView) -> BeamScripts | None:
    """The tree, which is what scripts enhance."""
    return beam.to_scripts(view["beam"])


def to_svg(view: WhereView) -> str:
    """The picture of the tree."""
    return beam.to_svg(view["beam"])


def to_figure(view: WhereView) -> Any:
    """The tree as a matplotlib figure."""
    return beam.to_figure(view["beam"])


def to_html(view: WhereView) -> Html:
    """The verdict, the table of steps, the n-best list and the picture of the tree."""
    word = chip(view["verdict"], beam.verdict_colour(view["verdict"]))
    return el(
        "div",
        beam.head_html(view["beam"]),
        el("div", word, "reference: ", labels_html(view["reference"])),
        el("div", " · ".join(filter(None, [view["advice"], view["because"]]))),
        el("div", "✂ ", "; ".join(_fall(view))) if view["fall"] else None,
        life_html(view["life"]),
        beam.search_html(view["beam"]),
        beam.text_html(to_text(view)),
        note_html(view["note"]) or beam.still_note(view["beam"]),
        style=style.BOX,
    )
