"""The views of what a search explains, as in `rfnb/search/explain`: where a reference was lost, the life of a
hypothesis, and two searches side by side. The first two share a table of steps: the rank and score of a sequence of
labels in each, and how far it was from being pruned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from rfnb.core.ground.text import count_of
from rfnb.display.beam import view as beam
from rfnb.display.beam.picture import drawn_steps
from rfnb.display.kit import blocks as page
from rfnb.display.kit.view import View
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, bounded_in, el, wide
from rfnb.display.markup.numbers import Number, plain, real
from rfnb.printable import printable_name
from rfnb.search.explain.compare import BeamPrefix, BeamsCompared, SearchComparison
from rfnb.search.explain.position import Where, Why
from rfnb.search.explain.reference import Fall, Life, competing, scaled_parts
from rfnb.search.text_result import number
from rfnb.search.trace import Hypothesis, Node
from rfnb.search.tree import Tree


@dataclass(frozen=True)
class LifeStep:
    """A sequence of labels after a step of the search.

    Args:
        step: the step.
        label: of this step; of those that were kept instead, all labels so far.
        state: "kept", "last" (at the last place of a full beam), "fell" or "instead".
        ended: whether it is the copy of a hypothesis that had ended.
        rank: 1 is the best.
        kept: how many were kept.
        score: as it was compared.
        gap: how far it is below the best.
        last: the score of the last that was kept.
        margin: how far it is above that one.
        at_least: whether rank and margin are bounds, as the candidate ranks below those that were recorded.
        pruned: the score of the best candidate that was pruned, if it was recorded.
        parts: the score over all labels so far, by scorer, scaled.
    """

    step: int
    label: str
    state: str
    ended: bool
    rank: int | None
    kept: int
    score: Number | None
    gap: Number | None
    last: Number | None = None
    margin: Number | None = None
    at_least: bool = False
    pruned: Number | None = None
    parts: Sequence[Number] = ()


class LifeSteps(NamedTuple):
    """The life of a sequence of labels, step by step.

    scorers: several parts of the scores, with their scales. apart: the first step at which its labels differ from those
    of the best hypothesis.
    """

    scorers: list[str]
    steps: list[LifeStep]
    apart: int | None


ROWS = 24
"""Rows that are not folded; the last ones."""


def read_life(tree: Tree, life: Life, apart: int | None, notes: page.Notes) -> LifeSteps:
    """The steps; of many, the first and last ones and those around the fall."""
    fall = life.fall
    names = list(tree.part_sums) if len(tree.part_sums) > 1 else []
    every = [_kept(tree, node, row, names) for node, row in zip(life.nodes, life.table(tree), strict=False)]
    visible = set(drawn_steps(tree.steps, None if fall is None else fall.step))
    steps = [step for step in every if step.step in visible]
    if len(every) > len(steps):
        notes.add(f"{len(steps)} of {len(every)} steps are shown")
    if fall is not None:
        steps += _fallen(tree, fall, names)
    if names and tree.own.length_normalization_exponent:
        notes.add("scores are normalized by length, their parts are not")
    return LifeSteps([_scorer(name, float(tree.own.scales.get(name, 1.0))) for name in names], steps, apart)


def _kept(tree: Tree, node: Node, facts: dict[str, Any], names: list[str]) -> LifeStep:
    full = facts["kept"] > 1 and bool(tree.alive[node.step].all())
    parts = scaled_parts(tree, node) if names else {}
    return LifeStep(
        node.step, node.text, "last" if full and facts["margin"] == 0 else "kept", node.ended, node.rank, facts["kept"],
        rounded(node.compared), rounded(facts["gap"]), rounded(facts["last"]), rounded(facts["margin"]),
        pruned=_best_pruned(tree, node.step), parts=[plain(parts[name]) for name in names],
    )  # fmt: skip


def _best_pruned(tree: Tree, step: int) -> Number | None:
    """The score of the best pruned candidate, if the search kept it: steps are not computed again for it."""
    pruned = tree.pruned(step, 1) if tree.own.pruned is not None else []
    return rounded(pruned[0].compared) if pruned else None


def _fallen(tree: Tree, fall: Fall, names: list[str]) -> list[LifeStep]:
    """The step at which the labels lost their place, and the last of those that were kept instead."""
    is_end, last = fall.label is None, fall.last
    best = float(tree.compared[fall.step].max(initial=-math.inf))
    count = int(competing(tree, fall.step, is_end).sum())
    score = fall.candidate.compared if fall.candidate else -math.inf if fall.reason == "not allowed" else None
    candidate_parts, last_parts = (
        [plain(parts[name]) for name in names if name in parts]
        for parts in (scaled_parts(tree, node) if node and names else {} for node in (fall.candidate, last))
    )
    margin = None if fall.margin is None else rounded(0 - fall.margin)
    gap = None if score is None else rounded(best - score)
    fell = LifeStep(
        fall.step, fall.text, "fell", is_end, fall.rank, count, rounded(score), gap,
        None if last is None else rounded(last.compared), margin, fall.at_least, parts=candidate_parts,
    )  # fmt: skip
    if last is None:
        return [fell]
    instead = LifeStep(
        fall.step, fall.last_text, "instead", last.ended, last.rank, count, rounded(last.compared),
        rounded(best - last.compared), parts=last_parts,
    )  # fmt: skip
    return [fell, instead]


def rounded(score: float | None) -> Number | None:
    """A score with six digits, for JSON."""
    return None if score is None else plain(float(f"{score:.6g}"))


def closest(tree: Tree, life: Life) -> str | None:
    """When the labels were closest to being pruned; None if no step pruned anything."""
    steps = [_kept(tree, node, row, []) for node, row in zip(life.nodes, life.table(tree), strict=False)]
    pruning = [step for step in steps if step.pruned is not None]
    if pruning:
        gaps = [real(step.score) - real(step.pruned) for step in pruning]
        at = gaps.index(min(gaps))
        words = f"{number(gaps[at])} above the best that was pruned"
        return f"closest to being pruned at step {pruning[at].step}: rank {_rank(pruning[at])}, {words}"
    candidates = [step for step in steps if step.kept > 1 and step.margin is not None]
    if not candidates:
        return None
    least = min(candidates, key=lambda step: (real(step.margin), -(step.rank or 0)))
    margin = real(least.margin)
    words = f"{number(margin)} above the last that was kept" if margin else "the last that was kept"
    return f"closest to being pruned at step {least.step}: rank {_rank(least)}, {words}"


# -- blocks


def life_blocks(life: LifeSteps) -> list[page.Block]:
    """The table, in HTML with a bar for each step; of a long life, its first rows are folded there."""
    if not life.steps:
        return []
    rows = _rows(life)
    hidden = max(0, len(life.steps) - ROWS)
    first, last = ([row for at, row in rows if (at < hidden) is early] for early in (True, False))
    return [
        page.Only("text", [_grid(life, [row for _, row in rows])]),
        page.Only("html", [
            page.Fold(f"{hidden} earlier steps", [_grid(life, first)]) if hidden else None,
            _grid(life, last),
            page.Line(page.quiet(_legend(life)), look="font-size:12px"),
        ]),
    ]  # fmt: skip


def _grid(life: LifeSteps, rows: list[page.Row]) -> page.Grid:
    columns = _columns(life)
    looks, heads = ([f"{look};text-align:left"] * 2 + [look] * (len(columns) - 2) for look in (CELL, style.HEADER_CELL))
    return page.Grid(rows, columns, looks, head=heads)


CELL = f"{style.CELL};white-space:nowrap"


def _columns(life: LifeSteps) -> list[str]:
    """The names of the columns."""
    pruned = ["best pruned"] if _has_pruned(life) else []
    return ["step", "label", "rank", "score", "below best", "last kept", "margin", *pruned, *life.scorers]


def _rows(life: LifeSteps) -> list[tuple[int, page.Row]]:
    """A row for each step, with its number, and one for those before it that are not shown."""
    rows: list[tuple[int, page.Row]] = []
    for i, (previous, step) in enumerate(zip([None, *life.steps], life.steps, strict=False)):
        if previous is not None and step.step - previous.step > 1:
            rows.append((i, page.Row([page.quiet("⋯")])))
        rows.append((i, _row(step, life)))
    return rows


def _row(step: LifeStep, life: LifeSteps) -> page.Row:
    pruned = [_number(step.pruned)] if _has_pruned(life) else []
    parts = [*map(_number, step.parts), *[""] * (len(life.scorers) - len(step.parts))]
    label = _label(step) if step.ended and step.state != "instead" else page.bold(_label(step))
    scores = map(_number, (step.score, step.gap, step.last))
    look = f"background-color:{style.tint(TINTS[step.state], 0.14)}" if step.state in TINTS else style.PLAIN_ROW
    if step.step == life.apart and step.state != "instead":
        look += f";border-top:2px solid {style.tint(style.WARN, 0.8)}"
    return page.Row(
        [_marked(step, life), label, [_rank(step), page.web(_bar(step))], *scores, _margin(step), *pruned, *parts], look
    )


def life_table(life: LifeSteps) -> page.Table:
    """A row for each step, with its numbers."""
    names = ["step", "label", "state", "rank", "kept", "score", "gap", "last", "margin", "pruned"]
    empty = [None] * len(life.scorers)
    rows = [[*(getattr(step, name) for name in names), *(step.parts or empty)] for step in life.steps]
    return page.Table([*names, *life.scorers], rows)


def _has_pruned(life: LifeSteps) -> bool:
    return any(step.pruned is not None for step in life.steps)


def _scorer(name: str, scale: float) -> str:
    return printable_name(name) + ("" if scale == 1 else f" ×{number(scale)}")


def _marked(step: LifeStep, life: LifeSteps) -> str:
    if step.state == "instead":
        return ""
    return f"{'✂ ' if step.state == 'fell' else '≠ ' if step.step == life.apart else ''}{step.step}"


def _label(step: LifeStep) -> str:
    if step.state == "instead":
        return f'kept: "{step.label}"'
    return "(ended)" if step.ended else step.label


def _rank(step: LifeStep) -> str:
    return "" if step.rank is None else f"{'>' if step.at_least else ''}{step.rank} of {step.kept}"


def _margin(step: LifeStep) -> str:
    if step.margin is None:
        return ""
    margin = real(step.margin)
    return f"{'<' if step.at_least else ''}{'+' if margin > 0 else ''}{number(margin)}"


def _number(score: Number | None) -> str:
    return "" if score is None else number(real(score))


TINTS = {"last": style.WARN, "fell": style.ALARM, "instead": style.GREY}
"""The colours of rows, by their state."""
WIDE = 48
"""Pixels of a bar."""


def _bar(step: LifeStep) -> Html:
    """Full for the best hypothesis, empty for the last that was kept."""
    look = f"display:inline-block;height:8px;width:{WIDE}px;margin-left:8px"
    if step.gap is None or step.margin is None or step.state == "instead":
        return el("span", style=look)
    gap, margin = real(step.gap), real(step.margin)
    spread = gap + margin
    share = 1.0 if gap == 0 else 0.0 if margin <= 0 or not math.isfinite(spread) else margin / spread
    fill_look = f"display:block;height:8px;width:{max(round(share * WIDE), 1)}px"
    filled = el("span", style=f"{fill_look};background-color:{style.tint(style.PALETTE[0], 0.75)}")
    return el("span", filled, style=f"{look};background-color:{style.tint(style.GREY, 0.22)}")


def _legend(life: LifeSteps) -> str:
    states = {step.state for step in life.steps}
    words = ["bar: full for the best, empty for the last that was kept"]
    words += ["orange: at the last place of the beam"] if "last" in states else []
    words += ["✂ fell out"] if "fell" in states else []
    words += ["≠ from here on, other labels than the best"] if life.apart is not None else []
    return " · ".join(words)


def labels(text: str) -> page.Span:
    """A sequence of labels; of a long one, the beginning and the end."""
    return page.bold(f"{text[: TEXT // 2]} … {text[-TEXT // 4 :]}" if len(text) > TEXT else text or "(no labels)")


TEXT = 160
"""Characters of a sequence of labels, from which on its middle is left out in a heading."""


STATES = {
    "best": ("the output", style.PALETTE[2]),
    "left": ("left at the end", style.PALETTE[0]),
    "continued": ("continued", style.GREY),
    "lost": ("lost", style.ALARM),
}
"""What became of a hypothesis: the word for it, and its colour."""


@page.shows("why", "rfnb.search.explain.position.Why")
def page_of_why(why: Why) -> page.Page:
    """What became of it, and the table of steps."""
    notes, tree, summary = page.Notes(), why.tree, why.text.splitlines()
    life = read_life(tree, why.life, why.apart, notes)
    word, colour = STATES[_state(why)]
    near = closest(tree, why.life)
    heading = [
        page.head(tree.name, f" · {count_of(tree.steps, 'step')}, {tree.trace.beam_text}"),
        page.Line(page.chip(word, colour), labels(tree.text_of(why.labels))),
        page.Line(why.fate),
        page.Line(page.quiet(near)) if near else None,
    ]
    blocks = [
        page.Only("text", list(map(page.Line, summary[:1]))),
        page.Only("html", heading),
        *life_blocks(life),
        page.Only("text", [page.Line(near, indent=2)]) if near else None,
        page.Note(notes.text()),
    ]
    return page.Page("why", tree.name, blocks, life_table(life), list(map(page.Line, summary)))


def _state(why: Why) -> Literal["best", "left", "continued", "lost"]:
    if why.final is not None:
        return "best" if why.final is why.tree.best else "left"
    return "continued" if why.last_step is not None and why.last_step >= why.tree.steps - 1 else "lost"


ADVICE = {
    "search error": "the model prefers the reference: a wider beam can help",
    "model error": "the model prefers the output: a wider beam cannot help",
    "tie": "the model prefers neither",
    "over the limit": "the limit of steps decides: a higher one can help",
    "no hypothesis": "the search was left without an output",
}
"""What verdicts mean."""


@page.shows("where", "rfnb.search.explain.position.Where")
def page_of_where(where: Where, pruned: int | None = None) -> page.Page:
    """The verdict, the table of steps, the n-best list and the picture of the tree.

    pruned: how many of the pruned candidates the picture has.
    """
    notes, fall = page.Notes(), list(_fall(where))
    life = read_life(where.tree, where.life, None, notes)
    tree = bounded_in(beam.describe(where, pruned=pruned))
    summary, steps = where.text.splitlines(), life_blocks(life)
    text: list[page.Block] = [
        *map(page.Line, summary[: 2 + bool(where.forced)]),
        *steps,
        *(page.Line(printable_name(line), indent=2) for line in fall),
        page.Note(notes.text() or tree["note"]),
        *map(page.Line, beam.tree_lines(tree)),
    ]
    verdict = page.chip(where.verdict, beam.verdict_colour(where.verdict))
    html: list[page.Block] = [
        beam.head(tree),
        page.Line(verdict, "reference: ", labels(where.reference.text)),
        page.Line(" · ".join(filter(None, [ADVICE.get(where.verdict), where.because]))),
        page.Line(where.forced) if where.forced else None,
        page.Line("✂ ", "; ".join(fall)) if fall else None,
        *steps,
        *beam.search_blocks(tree),
        beam.as_text(text),
        page.Note(notes.text()) if notes.text() else beam.still_note(tree),
    ]
    blocks = [page.Only("text", text), page.Only("html", html)]
    return page.Page("where", "", blocks, life_table(life), list(map(page.Line, summary)), View(tree))


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


@page.shows(
    "search_comparison", "rfnb.search.explain.compare.SearchComparison", "rfnb.search.explain.compare.BeamsCompared"
)
def page_of_comparison(compared: SearchComparison | BeamsCompared, most: int = MOST) -> page.Page:
    """The first difference with the hypotheses of both; later ones folded. most: how many sequences."""
    unpaired: list[tuple[str, ...]] = [(), ()]
    if isinstance(compared, BeamsCompared):
        sequences, extra = [compared], 0
    else:
        sequences, extra = compared.differing[:most], len(compared.differing) - most
        unpaired = [compared.only_a, compared.only_b]
    summary, pairs = compared.text.splitlines(), [_pair(sequence) for sequence in sequences]
    single = len(pairs) == len(summary) == 1
    word = page.chip("agree", style.PALETTE[2]) if compared.agree else page.chip("differ", style.ALARM)
    listed = [pair for pair in pairs if pair.hypotheses]
    text: list[page.Block] = list(map(page.Line, summary))
    for pair in listed:
        title = page.Line(printable_name(pair.compared.name), indent=2)
        text += [page.Line(""), title, page.Grid(_compared_grid(pair), indent=4)]
    unpaired_lines = [
        f"only in the {side}: {', '.join(names[:MOST])}" for side, names in zip(SIDES, unpaired, strict=True) if names
    ]
    html: list[page.Block] = [
        page.Line(word, page.bold(sequences[0].name) if single else summary[0], look=style.HEAD),
        *(
            page.Group([page.Line(_headline(pair.compared, named=not single)), *_inside(pair)], FRAME)
            for pair in pairs[:1]
        ),
        *(
            page.Group([page.Fold(f"{pair.compared.name}: {pair.compared.words}", _inside(pair))], LATER)
            for pair in pairs[1:]
        ),
        *(page.Line(page.quiet(words)) for words in unpaired_lines),
        page.Line(page.quiet(LEGEND), look="font-size:12px") if listed else None,
    ]
    note = page.Note(f"{count_of(extra, 'more sequence')}; rf.show(comparison, most=…)" if extra > 0 else None)
    blocks: list[page.Block] = [page.Only("text", text), page.Only("html", html), note]
    return page.Page("search_comparison", "", blocks, _table(pairs), short=list(map(page.Line, summary)))


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


def _headline(compared: BeamsCompared, named: bool) -> list[page.Words]:
    step = compared.step
    beams = "the beams agree" if step is None else f"the beams differ first at step {step}"
    outputs = f"the outputs {'agree' if compared.same_output else 'differ'}"
    return [[page.bold(compared.name), ": "] if named else None, f"{beams}, {outputs}"]


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


def _texts(tree: Tree, hypothesis: Hypothesis) -> tuple[str, ...]:
    """The labels of a hypothesis as texts, with a sign for an end label that does not count."""
    return (*map(tree.label, hypothesis.labels), *[END] * (hypothesis.taken > len(hypothesis.labels)))


def _order(sides: Sides) -> tuple[float, ...]:
    ranks = [float("inf") if hypothesis is None else hypothesis.rank for hypothesis in sides]
    return (min(ranks), *ranks)


def _start(several: list[tuple[str, ...]]) -> int:
    """The position of the first label that is shown: of long hypotheses, a few before they differ."""
    if max(map(len, several), default=0) <= LABELS:
        return 0
    common = min((_common(several[0], labels) for labels in several[1:]), default=0)
    return max(0, common - BEFORE)


def _common(labels: tuple[str, ...], others: tuple[str, ...]) -> int:
    """The number of labels with which both begin."""
    differ = (i for i, (a, b) in enumerate(zip(labels, others, strict=False)) if a != b)
    return next(differ, min(len(labels), len(others)))


def _table(pairs: list[Pair]) -> page.Table:
    """A row for each hypothesis of each sequence."""
    rows = [
        [pair.compared.name, pair.compared.step, *_ranks(sides), " ".join(_labels(pair, labels))]
        for pair in pairs
        for labels, sides in pair.hypotheses
    ]
    columns = [f"{column} {side}" for side in SIDES for column in ("rank", "score")]
    return page.Table(["sequence", "step", *columns, "labels"], rows)


def _ranks(sides: Sides) -> list[object]:
    return [cell for side in sides for cell in ((None, None) if side is None else (side.rank, rounded(side.score)))]


def _labels(pair: Pair, labels: tuple[str, ...]) -> list[str]:
    """The labels that are shown, with signs for others before and after."""
    visible = labels[pair.start : pair.start + LABELS]
    return [*["…"] * (pair.start > 0), *visible, *["…"] * (len(labels) > pair.start + LABELS)]


def _compared_grid(pair: Pair) -> list[list[str]]:
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


def _inside(pair: Pair) -> list[page.Block]:
    """What only one of them has after the first step that differs, and the hypotheses."""
    compared = pair.compared
    facts: list[tuple[str, page.Words]] = [
        (f"step {compared.step}, only {side}", [_pill(prefix, colour) for prefix in only[:HYPOTHESES]])
        for side, only, colour in zip(SIDES, (compared.only_a, compared.only_b), COLOURS, strict=True)
        if only
    ]
    if not pair.hypotheses:
        return [page.Facts(facts), page.Line(page.quiet("no hypothesis is left in either"))]
    return [page.Group([page.Facts(facts), _hypotheses_grid(pair)], "overflow-x:auto;max-width:100%")]


def _pill(prefix: BeamPrefix, colour: str) -> page.Span:
    words = page.quiet(f" rank {prefix.rank} · {number(prefix.score)}")
    return page.Span([page.bold(prefix.text or NONE), words, page.web(" ")], style.pill(colour))


def _hypotheses_grid(pair: Pair) -> page.Figure:
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
        common = -1 if at == 0 else _common(labels, pair.hypotheses[0][0]) - pair.start + shift
        cells = [el("td", word, style=_side_look(sides, i // 2, i % 2)) for i, word in enumerate(_side_cells(sides))]
        words = _labels(pair, labels) or [NONE]
        for i, label in enumerate([*words, *[""] * (len(positions) - len(words))]):
            is_shared, differs = i < common or label == "…", i == common and label
            text = page.quiet(label) if is_shared else page.bold(label) if differs else label
            cells.append(el("td", page.markup(text), style=_look(LABEL, i == marked)))
        rows.append(el("tr", cells, style=style.PLAIN_ROW))
    head = el("thead", el("tr", heads, style=style.PLAIN_ROW))
    return page.Figure(wide(el("table", head, el("tbody", rows), style=style.TABLE)))


LABEL = f"{style.CELL};text-align:left;white-space:nowrap"


def _look(look: str, marked: bool) -> str:
    edge = f";border-left:2px solid {style.ALARM}" if marked else ""
    return f"{look};text-align:left{edge}"


def _side_look(sides: Sides, side: int, score: int) -> str:
    """Tinted if only this search has the hypothesis."""
    unique = sides[side] is not None and sides[1 - side] is None
    tint = f";background-color:{style.tint(COLOURS[side], 0.2)}" if unique else ""
    return f"{style.CELL}{tint};text-align:{'left' if not score else 'right'};padding-right:{14 if score else 6}px"
