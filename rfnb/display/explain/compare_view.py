"""The view of `rf.compare` for two searches: where their beams differ first, and their hypotheses side by side."""

from __future__ import annotations

from typing import NamedTuple

from rfnb.core.ground.text import count_of
from rfnb.display.explain.life import rounded
from rfnb.display.kit.blocks import Block, Facts, Figure, Fold, Grid, Group, Line, Note, Only, Page
from rfnb.display.kit.words import Span, Words, bold, chip, markup, quiet, web
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, wide
from rfnb.display.markup.html import el
from rfnb.printable import printable_name
from rfnb.search.explain.compare import BeamPrefix, BeamsCompared, SearchComparison
from rfnb.search.trace import Hypothesis
from rfnb.search.tree import Tree
from rfnb.search.words import number

MOST = 10
"""Sequences that are shown, if no number is given."""
HYPOTHESES = 5
"""The best hypotheses of each search that are shown."""
LABELS = 24
"""Labels of a hypothesis that are shown."""
BEFORE = 3
"""Common labels that are shown before the first difference, if there are too many labels."""
END = "▣"
"""Stands for an end label that does not count, as in the text of a tree."""
SIDES = ("first", "second")
COLOURS = (style.PALETTE[0], style.PALETTE[1])
"""The colours of what only one of the searches has."""


Sides = list[Hypothesis | None]
Found = tuple[tuple[str, ...], Sides]


class Pair(NamedTuple):
    """One sequence in two searches, and the best hypotheses of both.

    start: the position of the first label that is shown. by_step: whether each label has a step of its own.
    """

    compared: BeamsCompared
    hypotheses: list[Found]
    start: int
    by_step: bool


def describe(compared: SearchComparison | BeamsCompared, most: int = MOST) -> Page:
    """The first difference with the hypotheses of both; later ones folded. most: how many sequences."""
    unpaired: list[tuple[str, ...]] = [(), ()]
    if isinstance(compared, BeamsCompared):
        sequences, extra = [compared], 0
    else:
        sequences, extra = compared.differing[:most], len(compared.differing) - most
        unpaired = [compared.only_a, compared.only_b]
    summary, pairs = compared.text.splitlines(), [_pair(sequence) for sequence in sequences]
    single = len(pairs) == len(summary) == 1
    word = chip("agree", style.PALETTE[2]) if compared.agree else chip("differ", style.ALARM)
    listed = [pair for pair in pairs if pair.hypotheses]
    text: list[Block] = list(map(Line, summary))
    for pair in listed:
        text += [Line(""), Line(printable_name(pair.compared.name), indent=2), Grid(_grid(pair), indent=4)]
    alone = [
        f"only in the {side}: {', '.join(names[:MOST])}" for side, names in zip(SIDES, unpaired, strict=True) if names
    ]
    html: list[Block] = [
        Line(word, bold(sequences[0].name) if single else summary[0], look=style.HEAD),
        *(Group([Line(_headline(pair.compared, named=not single)), *_inside(pair)], FRAME) for pair in pairs[:1]),
        *(Group([Fold(f"{pair.compared.name}: {pair.compared.words}", _inside(pair))], LATER) for pair in pairs[1:]),
        *(Line(quiet(words)) for words in alone),
        Line(quiet(LEGEND), look="font-size:12px") if listed else None,
    ]
    note = Note(f"{count_of(extra, 'more sequence')}; rf.show(comparison, most=…)" if extra > 0 else None)
    blocks: list[Block] = [Only("text", text), Only("html", html), note]
    return Page("search_comparison", "", blocks, _table(pairs), short=list(map(Line, summary)))


def _pair(compared: BeamsCompared) -> Pair:
    hypotheses = _hypotheses(compared.trees)
    start, by_step = _start([labels for labels, _ in hypotheses]), all(t.own.blank is None for t in compared.trees)
    return Pair(compared, hypotheses, start, by_step)


LATER = "margin-top:4px"
LEGEND = (
    "grey: as in the output of the first, bold: the first label that differs · ≠ the first step that differs · "
    "tinted: only in one of them · ▣ ends"
)
FRAME = f"border-left:3px solid {style.tint(style.GREY, 0.5)};padding-left:10px;margin:4px 0"


def _headline(compared: BeamsCompared, named: bool) -> list[Words]:
    step = compared.step
    beams = "the beams agree" if step is None else f"the beams differ first at step {step}"
    outputs = f"the outputs {'agree' if compared.same_output else 'differ'}"
    return [[bold(compared.name), ": "] if named else None, f"{beams}, {outputs}"]


def _hypotheses(trees: tuple[Tree, Tree]) -> list[Found]:
    """The best hypotheses of both by their labels: the output of the first, that of the second, the others by rank."""
    by_labels: dict[tuple[str, ...], Sides] = {}
    best = [tree.hypotheses[:HYPOTHESES] for tree in trees]
    for side, hypotheses in enumerate(best):
        for hypothesis in hypotheses:
            by_labels.setdefault(_texts(trees[side], hypothesis), [None, None])
    for side, tree in enumerate(trees):
        for hypothesis in tree.hypotheses:
            sides = by_labels.get(_texts(tree, hypothesis))
            if sides is not None and sides[side] is None:
                sides[side] = hypothesis
    return sorted(by_labels.items(), key=lambda hypothesis: _order(hypothesis[1]))


def _texts(tree: Tree, each: Hypothesis) -> tuple[str, ...]:
    """The labels of a hypothesis as texts, with a sign for an end label that does not count."""
    return (*map(tree.label, each.labels), *[END] * (each.taken > len(each.labels)))


def _order(sides: Sides) -> tuple[float, ...]:
    ranks = [float("inf") if hypothesis is None else hypothesis.rank for hypothesis in sides]
    return (min(ranks), *ranks)


def _start(several: list[tuple[str, ...]]) -> int:
    """The position of the first label that is shown: of long hypotheses, a few before they differ."""
    if max(map(len, several), default=0) <= LABELS:
        return 0
    common = min((_common(several[0], labels) for labels in several[1:]), default=0)
    return max(0, common - BEFORE)


def _common(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    """The number of labels with which both begin."""
    differ = (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differ, min(len(one), len(other)))


def _table(pairs: list[Pair]) -> Table:
    """A row for each hypothesis of each sequence."""
    rows = [
        [pair.compared.name, pair.compared.step, *_ranks(sides), " ".join(_labels(pair, labels))]
        for pair in pairs
        for labels, sides in pair.hypotheses
    ]
    columns = [f"{column} {side}" for side in SIDES for column in ("rank", "score")]
    return Table(["sequence", "step", *columns, "labels"], rows)


def _ranks(sides: Sides) -> list[object]:
    return [cell for side in sides for cell in ((None, None) if side is None else (side.rank, rounded(side.score)))]


def _labels(pair: Pair, labels: tuple[str, ...]) -> list[str]:
    """The labels that are shown, with signs for others before and after."""
    visible = labels[pair.start : pair.start + LABELS]
    return [*["…"] * (pair.start > 0), *visible, *["…"] * (len(labels) > pair.start + LABELS)]


def _grid(pair: Pair) -> list[list[str]]:
    """The header with the positions of labels, and a row for each hypothesis."""
    head = [*(cell for side in SIDES for cell in (side, "score")), *_positions(pair)]
    return [head, *([*_side_cells(sides), *(_labels(pair, labels) or [NONE])] for labels, sides in pair.hypotheses)]


NONE = "(no labels)"


def _positions(pair: Pair) -> list[str]:
    """The steps of the labels, with a mark at the first one after which the beams differ."""
    count = min(LABELS, max((len(labels) - pair.start for labels, _ in pair.hypotheses), default=0))
    steps = range(pair.start, pair.start + count)
    words = [f"≠ {step}" if pair.by_step and step == pair.compared.step else str(step) for step in steps]
    return ["…", *words] if pair.start else words


def _side_cells(sides: Sides) -> list[str]:
    return [cell for side in sides for cell in (("–", "") if side is None else (str(side.rank), number(side.score)))]


# -- HTML


def _inside(pair: Pair) -> list[Block]:
    """What only one of them has after the first step that differs, and the hypotheses."""
    compared = pair.compared
    facts: list[tuple[str, Words]] = [
        (f"step {compared.step}, only {side}", [_pill(prefix, colour) for prefix in only[:HYPOTHESES]])
        for side, only, colour in zip(SIDES, (compared.only_a, compared.only_b), COLOURS, strict=True)
        if only
    ]
    if not pair.hypotheses:
        return [Facts(facts), Line(quiet("no hypothesis is left in either"))]
    return [Group([Facts(facts), _hypotheses_grid(pair)], "overflow-x:auto;max-width:100%")]


def _pill(prefix: BeamPrefix, colour: str) -> Span:
    words = quiet(f" rank {prefix.rank} · {number(prefix.score)}")
    return Span([bold(prefix.text or NONE), words, web(" ")], style.pill(colour))


def _hypotheses_grid(pair: Pair) -> Figure:
    """A row for each hypothesis, label below label: quiet what it has in common with the first one, then bold."""
    step, shift = pair.compared.step, int(pair.start > 0)
    marked = step - pair.start + shift if step is not None and pair.by_step and step >= pair.start else None
    heads = [
        el("th", f"{side} ({tree.trace.beam_text})", colspan=2, style=f"{style.HEADER_CELL};text-align:left")
        for side, tree in zip(SIDES, pair.compared.trees, strict=True)
    ]
    positions = _positions(pair)
    heads += [el("th", word, style=_look(style.HEADER_CELL, i == marked)) for i, word in enumerate(positions)]
    rows = []
    for at, (labels, sides) in enumerate(pair.hypotheses):
        same = -1 if at == 0 else _common(labels, pair.hypotheses[0][0]) - pair.start + shift
        cells = [el("td", word, style=_side_look(sides, i // 2, i % 2)) for i, word in enumerate(_side_cells(sides))]
        words = _labels(pair, labels) or [NONE]
        for i, label in enumerate([*words, *[""] * (len(positions) - len(words))]):
            text = quiet(label) if i < same or label == "…" else bold(label) if i == same and label else label
            cells.append(el("td", markup(text), style=_look(LABEL, i == marked)))
        rows.append(el("tr", cells, style=style.PLAIN_ROW))
    head = el("thead", el("tr", heads, style=style.PLAIN_ROW))
    return Figure(wide(el("table", head, el("tbody", rows), style=style.TABLE)))


LABEL = f"{style.CELL};text-align:left;white-space:nowrap"


def _look(look: str, marked: bool) -> str:
    edge = f";border-left:2px solid {style.ALARM}" if marked else ""
    return f"{look};text-align:left{edge}"


def _side_look(sides: Sides, side: int, score: int) -> str:
    """Tinted if only this search has the hypothesis."""
    unique = sides[side] is not None and sides[1 - side] is None
    tint = f";background-color:{style.tint(COLOURS[side], 0.2)}" if unique else ""
    return f"{style.CELL}{tint};text-align:{'left' if not score else 'right'};padding-right:{14 if score else 6}px"
