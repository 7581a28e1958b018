"""The view of `rf.compare` for two searches: where their beams differ first, and their hypotheses side by side."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.core.ground.text import count_of
from rfnb.display.explain.life import rounded
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, aligned, chip, facts_html, fold, note_html, note_text, quiet
from rfnb.display.markup.html import Child, Html, el
from rfnb.display.markup.numbers import Number, real
from rfnb.printable import printable_name
from rfnb.search.explain.compare import BeamPrefix, BeamsCompared, SearchComparison
from rfnb.search.tree import Tree
from rfnb.search.tree_arrays import Hypothesis
from rfnb.search.words import number


class KeptPrefix(TypedDict):
    """A hypothesis in one of two beams after a step."""

    text: str
    rank: int
    score: Number


class RankedScore(TypedDict):
    """A final hypothesis in one of two searches."""

    rank: int
    score: Number


class ComparedHypothesis(TypedDict):
    """A hypothesis that was left at the end of one or both of two searches."""

    labels: list[str]  # from the first one that is shown; "▣" stands for an end label that does not count
    more: int  # how many labels follow that are not shown
    common: int  # how many of those that are shown it has in common with the first hypothesis
    sides: list[RankedScore | None]  # in the first and the second search


class ComparedSequence(TypedDict):
    """One sequence in two searches."""

    name: str
    agree: bool
    words: str
    same_output: bool  # whether the best hypotheses have the same text
    step: int | None  # the first one after which the beams differ
    beams: list[int]  # the sizes of the two beams
    only: list[list[KeptPrefix]]  # what only the first, and only the second, has after that step
    start: int  # the position of the first label that is shown: those before it are the same in all hypotheses
    by_step: bool  # whether each label has a step of its own
    hypotheses: list[ComparedHypothesis]  # the output of the first search, that of the second, then the others by rank


class SearchComparisonView(TypedDict):
    """Two searches of the same sequences."""

    kind: Literal["search_comparison"]
    agree: bool
    summary: list[str]  # in words
    sequences: list[ComparedSequence]  # those that differ
    alone: list[list[str]]  # the sequences that only the first, and only the second search has
    note: str | None


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


def describe(compared: SearchComparison | BeamsCompared, most: int = MOST) -> SearchComparisonView:
    """The sequences that differ as JSON, by the first step that does; most: how many of them."""
    unpaired: list[tuple[str, ...]] = [(), ()]
    if isinstance(compared, BeamsCompared):
        sequences, extra = [compared], 0
    else:
        sequences, extra = compared.differing[:most], len(compared.differing) - most
        unpaired = [compared.only_a, compared.only_b]
    return {
        "kind": "search_comparison",
        "agree": compared.agree,
        "summary": compared.text.splitlines(),
        "sequences": [_sequence(sequence) for sequence in sequences],
        "alone": [list(names[:MOST]) for names in unpaired],
        "note": f"{count_of(extra, 'more sequence')}; rf.show(comparison, most=…)" if extra > 0 else None,
    }


def _sequence(each: BeamsCompared) -> ComparedSequence:
    hypotheses = _hypotheses(each.trees)
    start = _start([labels for labels, _ in hypotheses])
    return {
        "name": each.name,
        "agree": each.agree,
        "words": each.words,
        "same_output": each.same_output,
        "step": each.step,
        "beams": [tree.beam for tree in each.trees],
        "only": [list(map(_prefix, only[:HYPOTHESES])) for only in (each.only_a, each.only_b)],
        "start": start,
        "by_step": all(tree.own.blank is None for tree in each.trees),
        "hypotheses": [_described(labels, sides, hypotheses[0][0], start) for labels, sides in hypotheses],
    }


Sides = list[Hypothesis | None]
Found = tuple[tuple[str, ...], Sides]


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


def _described(labels: tuple[str, ...], sides: Sides, first: tuple[str, ...], start: int) -> ComparedHypothesis:
    visible = labels[start : start + LABELS]
    ranked: list[RankedScore | None] = [
        None if hypothesis is None else {"rank": hypothesis.rank, "score": rounded(hypothesis.score) or 0}
        for hypothesis in sides
    ]
    return {
        "labels": list(visible),
        "more": max(0, len(labels) - start - LABELS),
        "common": min(len(visible), max(0, _common(labels, first) - start)),
        "sides": ranked,
    }


def _prefix(prefix: BeamPrefix) -> KeptPrefix:
    return {"text": prefix.text, "rank": prefix.rank, "score": rounded(prefix.score) or 0}


# -- text


def to_text(view: SearchComparisonView) -> str:
    """The first differences, and the hypotheses side by side."""
    lines = list(view["summary"])
    for sequence in (sequence for sequence in view["sequences"] if sequence["hypotheses"]):
        lines += ["", f"  {printable_name(sequence['name'])}", *(f"    {line}" for line in aligned(_grid(sequence)))]
    return "\n".join([*lines, *note_text(view["note"])])


def to_repr(view: SearchComparisonView) -> str:
    """The first differences in a few words."""
    return "\n".join(view["summary"])


def to_table(view: SearchComparisonView) -> Table:
    """A row for each hypothesis of each sequence."""
    rows = [
        [sequence["name"], sequence["step"], *_ranks(hypothesis), _labels(sequence, hypothesis)]
        for sequence in view["sequences"]
        for hypothesis in sequence["hypotheses"]
    ]
    return Table(
        ["sequence", "step", *(f"{column} {side}" for side in SIDES for column in ("rank", "score")), "labels"], rows
    )


def _ranks(found: ComparedHypothesis) -> list[object]:
    return [
        cell for side in found["sides"] for cell in ((None, None) if side is None else (side["rank"], side["score"]))
    ]


def _labels(each: ComparedSequence, found: ComparedHypothesis) -> str:
    return " ".join([*["…"] * (each["start"] > 0), *found["labels"], *["…"] * (found["more"] > 0)])


def _grid(each: ComparedSequence) -> list[list[str]]:
    """The header with the positions of labels, and a row for each hypothesis."""
    return [
        [*(cell for side in SIDES for cell in (side, "score")), *_positions(each)],
        *(_row(each, hypothesis) for hypothesis in each["hypotheses"]),
    ]


def _positions(each: ComparedSequence) -> list[str]:
    """The steps of the labels, with a mark at the first one after which the beams differ."""
    count = max((len(hypothesis["labels"]) for hypothesis in each["hypotheses"]), default=0)
    steps = range(each["start"], each["start"] + count)
    words = [f"≠ {step}" if each["by_step"] and step == each["step"] else str(step) for step in steps]
    return ["…", *words] if each["start"] else words


def _row(each: ComparedSequence, found: ComparedHypothesis) -> list[str]:
    labels = [printable_name(label) for label in found["labels"]] or ["(no labels)"]
    tail = ["…"] if found["more"] else []
    return [*_side_cells(found), *(["…"] if each["start"] else []), *labels, *tail]


def _side_cells(found: ComparedHypothesis) -> list[str]:
    return [
        cell
        for side in found["sides"]
        for cell in (("–", "") if side is None else (str(side["rank"]), number(real(side["score"]))))
    ]


# -- HTML


def to_html(view: SearchComparisonView) -> Html:
    """The first difference with the hypotheses of both; later ones folded."""
    word = chip("agree", style.PALETTE[2]) if view["agree"] else chip("differ", style.ALARM)
    sequences = view["sequences"]
    single = len(sequences) == 1 and len(view["summary"]) == 1
    return el(
        "div",
        el("div", word, el("b", sequences[0]["name"]) if single else view["summary"][0], style=style.HEAD),
        [_sequence_html(sequence, named=not single) for sequence in sequences[:1]],
        [
            fold(f"{sequence['name']}: {sequence['words']}", _inside(sequence), style="margin-top:4px")
            for sequence in sequences[1:]
        ],
        [
            quiet(f"only in the {side}: {', '.join(names)}", tag="div")
            for side, names in zip(SIDES, view["alone"], strict=True)
            if names
        ],
        el("div", quiet(LEGEND), style="font-size:12px")
        if any(sequence["hypotheses"] for sequence in sequences)
        else None,
        note_html(view["note"]),
        style=style.BOX,
    )


LEGEND = (
    "grey: as in the output of the first, bold: the first label that differs · ≠ the first step that differs · "
    "tinted: only in one of them · ▣ ends"
)


def _sequence_html(each: ComparedSequence, named: bool) -> Html:
    name = [el("b", each["name"]), ": "] if named else []
    beams = "the beams agree" if each["step"] is None else f"the beams differ first at step {each['step']}"
    outputs = f"the outputs {'agree' if each['same_output'] else 'differ'}"
    return el("div", el("div", name, f"{beams}, {outputs}"), _inside(each), style=FRAME)


FRAME = f"border-left:3px solid {style.tint(style.GREY, 0.5)};padding-left:10px;margin:4px 0"


def _inside(each: ComparedSequence) -> Html:
    """What only one of them has after the first step that differs, and the hypotheses."""
    step = each["step"]
    facts: list[tuple[str, Child]] = [
        (f"step {step}, only {side}", [_pill(prefix, colour) for prefix in only])
        for side, only, colour in zip(SIDES, each["only"], COLOURS, strict=True)
        if only
    ]
    return el("div", facts_html(facts), _hypotheses_html(each), style="overflow-x:auto;max-width:100%")


def _pill(prefix: KeptPrefix, colour: str) -> Html:
    words = f" rank {prefix['rank']} · {number(real(prefix['score']))}"
    return el("span", el("b", prefix["text"] or "(no labels)"), quiet(words), style=style.pill(colour))


def _hypotheses_html(each: ComparedSequence) -> Html | None:
    """A row for each hypothesis, label below label: quiet what it has in common with the first one, then bold."""
    if not each["hypotheses"]:
        return quiet("no hypothesis is left in either", tag="div")
    step = each["step"]
    marked = step if step is not None and each["by_step"] and step >= each["start"] else None
    heads = [
        el("th", f"{side} (beam {beam})", colspan=2, style=f"{style.HEADER_CELL};text-align:left")
        for side, beam in zip(SIDES, each["beams"], strict=True)
    ]
    start = each["start"] - (each["start"] > 0)
    positions = [
        el("th", word, style=_look(style.HEADER_CELL, start + i == marked)) for i, word in enumerate(_positions(each))
    ]
    rows = [_row_html(each, hypothesis, marked, i == 0) for i, hypothesis in enumerate(each["hypotheses"])]
    head = el("tr", heads, positions, style=style.PLAIN_ROW)
    return el("table", el("thead", head), el("tbody", rows), style=style.TABLE)


def _row_html(each: ComparedSequence, found: ComparedHypothesis, marked: int | None, first: bool) -> Html:
    ranks = [el("td", word, style=_side_look(found, i // 2, i % 2)) for i, word in enumerate(_side_cells(found))]
    labels: list[Html] = [el("td", quiet("…"), style=LABEL)] if each["start"] else []
    common = -1 if first else found["common"]
    for i, label in enumerate(found["labels"] or ["(no labels)"]):
        text = quiet(label) if i < common else el("b", label) if i == common else label
        labels.append(el("td", text, style=_look(LABEL, each["start"] + i == marked)))
    missing = range(len(found["labels"]) or 1, max(len(hypothesis["labels"]) for hypothesis in each["hypotheses"]))
    labels += [el("td", style=_look(LABEL, each["start"] + i == marked)) for i in missing]
    if found["more"]:
        labels.append(el("td", quiet(f"… {found['more']} more"), style=LABEL))
    return el("tr", ranks, labels, style=style.PLAIN_ROW)


LABEL = f"{style.CELL};text-align:left;white-space:nowrap"


def _look(look: str, marked: bool) -> str:
    edge = f";border-left:2px solid {style.ALARM}" if marked else ""
    return f"{look};text-align:left{edge}"


def _side_look(found: ComparedHypothesis, side: int, score: int) -> str:
    """Tinted if only this search has the hypothesis."""
    unique = found["sides"][side] is not None and found["sides"][1 - side] is None
    tint = f";background-color:{style.tint(COLOURS[side], 0.2)}" if unique else ""
    return f"{style.CELL}{tint};text-align:{'left' if not score else 'right'};padding-right:{14 if score else 6}px"
