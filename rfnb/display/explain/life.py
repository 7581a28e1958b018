"""A table of steps: the rank and score of a sequence of labels in each, and how far it was from being pruned.

The JSON of all that a search explains stands here too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, TypedDict

from rfnb.display.beam.picture import drawn_steps
from rfnb.display.beam.schema import BeamView
from rfnb.display.kit.note import Notes
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table, aligned, fold, quiet
from rfnb.display.markup.html import Child, Html, el
from rfnb.display.markup.numbers import Number, plain, real
from rfnb.printable import printable_name
from rfnb.search.explain.life import Fall, Life, competing, scaled_parts
from rfnb.search.tree import Tree
from rfnb.search.tree_arrays import Node
from rfnb.search.words import number


class Scorer(TypedDict):
    """One of several parts of the scores."""

    name: str
    scale: float


class LifeStep(TypedDict):
    """A sequence of labels after a step of the search."""

    step: int
    label: str  # of this step; of those that were kept instead, all labels so far
    state: Literal["kept", "last", "fell", "instead"]  # last: at the last place of a full beam
    ended: bool  # the copy of a hypothesis that had ended
    rank: int | None  # 1: the best
    kept: int  # how many were kept
    score: Number | None  # as it was compared
    gap: Number | None  # how far it is below the best
    last: Number | None  # the score of the last that was kept
    margin: Number | None  # how far it is above that one
    at_least: bool  # rank and margin are bounds, as the candidate ranks below those that were recorded
    pruned: Number | None  # the score of the best candidate that was pruned, if it was recorded
    parts: list[Number]  # the score over all labels so far, by scorer, scaled


class LifeView(TypedDict):
    """The life of a sequence of labels, step by step."""

    scorers: list[Scorer]  # empty if there is only one
    steps: list[LifeStep]
    apart: int | None  # the first step at which its labels differ from those of the best hypothesis
    closest: str | None  # when it was closest to being pruned, as a sentence


class WhereView(TypedDict):
    """Where a reference is in the beam."""

    kind: Literal["where"]
    summary: list[str]  # in words
    reference: str
    verdict: str
    advice: str | None  # what the verdict means
    because: str
    fall: str | None  # where it fell out, as a sentence
    needed: int | None  # the size of the beam that would have kept it in that step
    unknown: bool  # whether its score in that step was not recorded
    life: LifeView
    beam: BeamView
    note: str | None


class WhyView(TypedDict):
    """The life of a hypothesis."""

    kind: Literal["why"]
    name: str  # of the sequence
    steps: int
    beam: int
    summary: list[str]  # in words
    text: str
    state: Literal["best", "left", "continued", "lost"]
    fate: str
    life: LifeView
    note: str | None


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


ROWS = 24
"""Rows that are not folded; the last ones."""


def describe_life(tree: Tree, life: Life, apart: int | None, notes: Notes) -> LifeView:
    """The steps as JSON: of many, the first and last ones and those around the fall."""
    fall = life.fall
    names = list(tree.part_sums) if len(tree.part_sums) > 1 else []
    every = [_kept(tree, node, row, names) for node, row in zip(life.nodes, life.table(tree), strict=False)]
    closest = _closest(every)
    visible = set(drawn_steps(tree.steps, None if fall is None else fall.step))
    steps = [step for step in every if step["step"] in visible]
    if len(every) > len(steps):
        notes.add(f"{len(steps)} of {len(every)} steps are shown")
    if fall is not None:
        steps += _fallen(tree, fall, names)
    if names and tree.own.length_normalization_exponent:
        notes.add("scores are normalized by length, their parts are not")
    scorers: list[Scorer] = [{"name": name, "scale": float(tree.own.scales.get(name, 1.0))} for name in names]
    return {"scorers": scorers, "steps": steps, "apart": apart, "closest": closest}


def _kept(tree: Tree, node: Node, known: dict[str, Any], names: list[str]) -> LifeStep:
    full = known["kept"] > 1 and bool(tree.alive[node.step].all())
    parts = scaled_parts(tree, node) if names else {}
    return {
        "step": node.step,
        "label": node.text,
        "state": "last" if full and known["margin"] == 0 else "kept",
        "ended": node.ended,
        "rank": node.rank,
        "kept": known["kept"],
        "score": rounded(node.compared),
        "gap": rounded(known["gap"]),
        "last": rounded(known["last"]),
        "margin": rounded(known["margin"]),
        "at_least": False,
        "pruned": _best_pruned(tree, node.step),
        "parts": [plain(parts[name]) for name in names],
    }


def _best_pruned(tree: Tree, step: int) -> Number | None:
    """The score of the best pruned candidate, if the search kept it: steps are not computed again for it."""
    pruned = tree.pruned(step, 1) if tree.own.pruned is not None else []
    return rounded(pruned[0].compared) if pruned else None


def _fallen(tree: Tree, fall: Fall, names: list[str]) -> list[LifeStep]:
    """The step at which the labels lost their place, and the last of those that were kept instead."""
    is_end = fall.label is None
    best = float(tree.compared[fall.step].max(initial=-math.inf))
    count = int(competing(tree, fall.step, is_end).sum())
    score = fall.candidate.compared if fall.candidate else -math.inf if fall.reason == "not allowed" else None
    candidate_parts, last_parts = (
        [plain(parts[name]) for name in names if name in parts]
        for parts in (scaled_parts(tree, node) if node and names else {} for node in (fall.candidate, fall.last))
    )
    last = None if fall.last is None else fall.last.compared
    steps: list[LifeStep] = [
        {
            "step": fall.step,
            "label": fall.text,
            "state": "fell",
            "ended": is_end,
            "rank": fall.rank,
            "kept": count,
            "score": rounded(score),
            "gap": None if score is None else rounded(best - score),
            "last": rounded(last),
            "margin": None if fall.margin is None else rounded(0 - fall.margin),
            "at_least": fall.at_least,
            "pruned": None,
            "parts": candidate_parts,
        }
    ]
    if fall.last is not None and last is not None:
        instead: LifeStep = {
            "step": fall.step, "label": fall.last_text, "state": "instead", "ended": fall.last.ended,
            "rank": fall.last.rank, "kept": count, "score": rounded(last), "gap": rounded(best - last),
            "last": None, "margin": None, "at_least": False, "pruned": None, "parts": last_parts,
        }  # fmt: skip
        steps.append(instead)
    return steps


def rounded(score: float | None) -> Number | None:
    """A score with six digits, for JSON."""
    return None if score is None else plain(float(f"{score:.6g}"))


def _closest(steps: list[LifeStep]) -> str | None:
    """When the labels were closest to being pruned; None if no step pruned anything."""
    pruning = [step for step in steps if step["pruned"] is not None]
    if pruning:
        gaps = [real(step["score"]) - real(step["pruned"]) for step in pruning]
        at = gaps.index(min(gaps))
        words = f"{number(gaps[at])} above the best that was pruned"
        return f"closest to being pruned at step {pruning[at]['step']}: rank {_rank(pruning[at])}, {words}"
    candidates = [step for step in steps if step["kept"] > 1 and step["margin"] is not None]
    if not candidates:
        return None
    least = min(candidates, key=lambda step: (real(step["margin"]), -(step["rank"] or 0)))
    margin = real(least["margin"])
    words = f"{number(margin)} above the last that was kept" if margin else "the last that was kept"
    return f"closest to being pruned at step {least['step']}: rank {_rank(least)}, {words}"


# -- text


def _columns(view: LifeView) -> list[str]:
    """The names of the columns."""
    pruned = ["best pruned"] if _has_pruned(view) else []
    return [
        "step",
        "label",
        "rank",
        "score",
        "below best",
        "last kept",
        "margin",
        *pruned,
        *map(_scorer, view["scorers"]),
    ]


def _words(step: LifeStep, view: LifeView) -> list[str]:
    """A step as words, one for each column."""
    pruned = [_number(step["pruned"])] if _has_pruned(view) else []
    parts = [*map(_number, step["parts"]), *[""] * (len(view["scorers"]) - len(step["parts"]))]
    first = [_marked(step, view), _label(step), _rank(step)]
    scores = map(_number, (step["score"], step["gap"], step["last"]))
    return [*first, *scores, _margin(step), *pruned, *parts]


def life_lines(view: LifeView) -> list[str]:
    """The table as text."""
    if not view["steps"]:
        return []
    rows = [row for skips, step in _rows(view["steps"]) for row in [*[["⋯"]] * skips, _words(step, view)]]
    return [f"  {line}" for line in aligned([_columns(view), *rows])]


def _rows(steps: list[LifeStep]) -> list[tuple[bool, LifeStep]]:
    """Each step, and whether there are steps before it that are not shown."""
    return [
        (before is not None and step["step"] - before["step"] > 1, step)
        for before, step in zip([None, *steps], steps, strict=False)
    ]


def life_table(view: LifeView) -> Table:
    """A row for each step, with its numbers."""
    names = ["step", "label", "state", "rank", "kept", "score", "gap", "last", "margin", "pruned"]
    rows: list[list[Any]] = []
    for step in view["steps"]:
        parts: Sequence[object] = step["parts"] or [None] * len(view["scorers"])
        rows.append([*(dict(step)[name] for name in names), *parts])
    return Table([*names, *map(_scorer, view["scorers"])], rows)


def _has_pruned(view: LifeView) -> bool:
    return any(step["pruned"] is not None for step in view["steps"])


def _scorer(scorer: Scorer) -> str:
    scale = "" if scorer["scale"] == 1 else f" ×{number(scorer['scale'])}"
    return f"{printable_name(scorer['name'])}{scale}"


def _marked(step: LifeStep, view: LifeView) -> str:
    if step["state"] == "instead":
        return ""
    mark = "✂ " if step["state"] == "fell" else "≠ " if step["step"] == view["apart"] else ""
    return f"{mark}{step['step']}"


def _label(step: LifeStep) -> str:
    if step["state"] == "instead":
        return f'kept: "{printable_name(step["label"])}"'
    return "(ended)" if step["ended"] else printable_name(step["label"])


def _rank(step: LifeStep) -> str:
    if step["rank"] is None:
        return ""
    return f"{'>' if step['at_least'] else ''}{step['rank']} of {step['kept']}"


def _margin(step: LifeStep) -> str:
    if step["margin"] is None:
        return ""
    margin = real(step["margin"])
    less = "<" if step["at_least"] else ""
    return f"{less}{'+' if margin > 0 else ''}{number(margin)}"


def _number(score: Number | None) -> str:
    return "" if score is None else number(real(score))


# -- HTML


def life_html(view: LifeView) -> list[Html]:
    """The table with a bar for each step; of a long life, the first rows are folded."""
    steps = view["steps"]
    if not steps:
        return []
    hidden = max(0, len(steps) - ROWS)
    parts = [_table(view, steps[hidden:]), el("div", quiet(_legend(view)), style="font-size:12px")]
    if hidden:
        parts.insert(0, fold(f"{hidden} earlier steps", _table(view, steps[:hidden])))
    return parts


def _table(view: LifeView, steps: list[LifeStep]) -> Html:
    step, label, rank, *tail = _columns(view)
    head = el("tr", _cells([step, label], [rank, "", *tail], style.HEADER_CELL, "th"), style=style.PLAIN_ROW)
    rows = [row for skips, entry in _rows(steps) for row in [*[SKIPPED] * skips, _row(entry, view)]]
    table = el("table", el("thead", head), el("tbody", rows), style=style.TABLE)
    return el("div", table, style="overflow-x:auto;max-width:100%")


def _cells(left: Sequence[Child], right: Sequence[Child], look: str, tag: str = "td") -> list[Html]:
    return [
        *(el(tag, cell, style=f"{look};text-align:left;white-space:nowrap") for cell in left),
        *(el(tag, cell, style=look if tag == "th" else f"{look};white-space:nowrap") for cell in right),
    ]


def _row(step: LifeStep, view: LifeView) -> Html:
    number_, label, rank, *tail = _words(step, view)
    text = label if step["ended"] and step["state"] != "instead" else el("b", label)
    look = style.PLAIN_ROW
    if step["state"] in TINTS:
        look = f"background-color:{style.tint(TINTS[step['state']], 0.14)}"
    if step["step"] == view["apart"] and step["state"] != "instead":
        look += f";border-top:2px solid {style.tint(style.WARN, 0.8)}"
    words = [number_, text], [rank, _bar(step), *tail]
    return el("tr", _cells(*words, style.CELL), style=look)


SKIPPED = el("tr", el("td", quiet("⋯"), style=f"{style.CELL};text-align:left"), style=style.PLAIN_ROW)
"""Stands for steps that are not shown."""
TINTS = {"last": style.WARN, "fell": style.ALARM, "instead": style.GREY}
"""The colours of rows, by their state."""
WIDE = 48
"""Pixels of a bar."""


def _bar(step: LifeStep) -> Html | None:
    """Full for the best hypothesis, empty for the last that was kept."""
    if step["gap"] is None or step["margin"] is None or step["state"] == "instead":
        return None
    gap, margin = real(step["gap"]), real(step["margin"])
    spread = gap + margin
    share = 1.0 if gap == 0 else 0.0 if margin <= 0 or not math.isfinite(spread) else margin / spread
    fill_look = f"display:block;height:8px;width:{max(round(share * WIDE), 1)}px"
    filled = el("span", style=f"{fill_look};background-color:{style.tint(style.PALETTE[0], 0.75)}")
    track_look = f"display:inline-block;height:8px;width:{WIDE}px;background-color:{style.tint(style.GREY, 0.22)}"
    return el("span", filled, style=track_look)


def _legend(view: LifeView) -> str:
    states = {step["state"] for step in view["steps"]}
    words = ["bar: full for the best, empty for the last that was kept"]
    words += ["orange: at the last place of the beam"] if "last" in states else []
    words += ["✂ fell out"] if "fell" in states else []
    words += ["≠ from here on, other labels than the best"] if view["apart"] is not None else []
    return " · ".join(words)


def labels_html(text: str) -> Html:
    """A sequence of labels; of a long one, the beginning and the end."""
    long = len(text) > TEXT
    return el("b", f"{text[: TEXT // 2]} … {text[-TEXT // 4 :]}" if long else text or "(no labels)")


TEXT = 160
"""Characters of a sequence of labels, from which on its middle is left out in a heading."""
