"""The view of `tree.where(reference)`: the verdict, the steps of the reference, and where it fell out."""

from __future__ import annotations

from collections.abc import Iterator

from rfnb.display.beam import view as beam
from rfnb.display.explain.life import labels, life_blocks, life_table, read_life
from rfnb.display.kit.blocks import Block, Figure, Line, Note, Notes, Only, Page, chip, lines_of
from rfnb.display.kit.view import View
from rfnb.display.markup.html import bounded_in, join
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


def describe(where: Where, pruned: int | None = None) -> Page:
    """The verdict, the table of steps, the n-best list and the picture of the tree.

    pruned: how many of the pruned candidates the picture has.
    """
    notes, fall = Notes(), list(_fall(where))
    life = read_life(where.tree, where.life, None, notes)
    tree = bounded_in(beam.describe(where, pruned=pruned))
    summary, steps = where.text.splitlines(), life_blocks(life)
    text: list[Block] = [
        *map(Line, summary[: 2 + bool(where.forced)]),
        *steps,
        *(Line(printable_name(line), indent=2) for line in fall),
        Note(notes.text() or tree["note"]),
        *map(Line, beam.tree_lines(tree)),
    ]
    html: list[Block] = [
        Figure(beam.head_html(tree)),
        Line(chip(where.verdict, beam.verdict_colour(where.verdict)), "reference: ", labels(where.reference.text)),
        Line(" · ".join(filter(None, [ADVICE.get(where.verdict), where.because]))),
        Line(where.forced) if where.forced else None,
        Line("✂ ", "; ".join(fall)) if fall else None,
        *steps,
        Figure(join(beam.search_html(tree), beam.text_html("\n".join(lines_of(text))))),
        Note(notes.text()) if notes.text() else Figure(beam.still_note(tree)),
    ]
    return Page(
        "where", "", [Only("text", text), Only("html", html)], life_table(life), list(map(Line, summary)), View(tree)
    )


def _fall(where: Where) -> Iterator[str]:
    """The fall, and what would have helped or would tell more."""
    tree, fall = where.tree, where.fall
    if fall is None:
        return
    yield fall.words
    if fall.reason == "pruned" and tree.own.living is None and fall.rank is not None:
        yield f"a beam of {fall.rank} would have kept it in this step"
    elif fall.reason == "not recorded" and fall.last is not None and tree.own.pruned is None:
        yield UNKNOWN


UNKNOWN = "its score there is not known: candidates=8 keeps those that are pruned, and a recorded loop computes them"
