"""A table of steps: the rank and score of a sequence of labels in each, and how far it was from being pruned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from rfnb.display.beam.picture import drawn_steps
from rfnb.display.kit.blocks import Block, Fold, Grid, Line, Only, Row
from rfnb.display.kit.note import Notes
from rfnb.display.kit.words import Span, bold, quiet, web
from rfnb.display.markup import style
from rfnb.display.markup.elements import Table
from rfnb.display.markup.html import Html, el
from rfnb.display.markup.numbers import Number, plain, real
from rfnb.printable import printable_name
from rfnb.search.explain.life import Fall, Life, competing, scaled_parts
from rfnb.search.trace import Node
from rfnb.search.tree import Tree
from rfnb.search.words import number


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


def read_life(tree: Tree, life: Life, apart: int | None, notes: Notes) -> LifeSteps:
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


def _kept(tree: Tree, node: Node, known: dict[str, Any], names: list[str]) -> LifeStep:
    full = known["kept"] > 1 and bool(tree.alive[node.step].all())
    parts = scaled_parts(tree, node) if names else {}
    return LifeStep(
        node.step, node.text, "last" if full and known["margin"] == 0 else "kept", node.ended, node.rank, known["kept"],
        rounded(node.compared), rounded(known["gap"]), rounded(known["last"]), rounded(known["margin"]),
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


def life_blocks(life: LifeSteps) -> list[Block]:
    """The table, in HTML with a bar for each step; of a long life, its first rows are folded there."""
    if not life.steps:
        return []
    rows = _rows(life)
    hidden = max(0, len(life.steps) - ROWS)
    first, last = ([row for at, row in rows if (at < hidden) is early] for early in (True, False))
    return [
        Only("text", [_grid(life, [row for _, row in rows])]),
        Only("html", [
            Fold(f"{hidden} earlier steps", [_grid(life, first)]) if hidden else None,
            _grid(life, last),
            Line(quiet(_legend(life)), look="font-size:12px"),
        ]),
    ]  # fmt: skip


def _grid(life: LifeSteps, rows: list[Row]) -> Grid:
    columns = _columns(life)
    looks, heads = ([f"{look};text-align:left"] * 2 + [look] * (len(columns) - 2) for look in (CELL, style.HEADER_CELL))
    return Grid(rows, columns, looks, head=heads)


CELL = f"{style.CELL};white-space:nowrap"


def _columns(life: LifeSteps) -> list[str]:
    """The names of the columns."""
    pruned = ["best pruned"] if _has_pruned(life) else []
    return ["step", "label", "rank", "score", "below best", "last kept", "margin", *pruned, *life.scorers]


def _rows(life: LifeSteps) -> list[tuple[int, Row]]:
    """A row for each step, with its number, and one for those before it that are not shown."""
    rows: list[tuple[int, Row]] = []
    for i, (before, step) in enumerate(zip([None, *life.steps], life.steps, strict=False)):
        if before is not None and step.step - before.step > 1:
            rows.append((i, Row([quiet("⋯")])))
        rows.append((i, _row(step, life)))
    return rows


def _row(step: LifeStep, life: LifeSteps) -> Row:
    pruned = [_number(step.pruned)] if _has_pruned(life) else []
    parts = [*map(_number, step.parts), *[""] * (len(life.scorers) - len(step.parts))]
    label = _label(step) if step.ended and step.state != "instead" else bold(_label(step))
    scores = map(_number, (step.score, step.gap, step.last))
    look = f"background-color:{style.tint(TINTS[step.state], 0.14)}" if step.state in TINTS else style.PLAIN_ROW
    if step.step == life.apart and step.state != "instead":
        look += f";border-top:2px solid {style.tint(style.WARN, 0.8)}"
    return Row(
        [_marked(step, life), label, [_rank(step), web(_bar(step))], *scores, _margin(step), *pruned, *parts], look
    )


def life_table(life: LifeSteps) -> Table:
    """A row for each step, with its numbers."""
    names = ["step", "label", "state", "rank", "kept", "score", "gap", "last", "margin", "pruned"]
    empty = [None] * len(life.scorers)
    rows = [[*(getattr(step, name) for name in names), *(step.parts or empty)] for step in life.steps]
    return Table([*names, *life.scorers], rows)


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


def labels(text: str) -> Span:
    """A sequence of labels; of a long one, the beginning and the end."""
    return bold(f"{text[: TEXT // 2]} … {text[-TEXT // 4 :]}" if len(text) > TEXT else text or "(no labels)")


TEXT = 160
"""Characters of a sequence of labels, from which on its middle is left out in a heading."""
