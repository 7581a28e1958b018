"""A sequence of labels, followed through the beam: its place at each step, and where it fell out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.printable import printable_name
from rfnb.search.explain.frames import next_label, places_of_prefixes
from rfnb.search.node import Node
from rfnb.search.words import number

if TYPE_CHECKING:
    from rfnb.search.tree import Tree


DEEP = 256
"""Among so many pruned candidates a sequence of labels is looked for where it fell out, if its step can be replayed."""


@dataclass(frozen=True)
class Fall:
    """A step at which a sequence of labels did not get a place in the beam.

    Args:
        step: the step. label, text: the label that it needed there; None for the copy of a hypothesis that had ended.
        candidate: the candidate that was pruned, if it was recorded. Its rank is the size of the beam that would have
            kept it in this step.
        last: the last hypothesis that got a place; None if none did. last_text: the labels of it.
        margin: how much better that one was compared; None if this is not known.
        at_least: whether the margin and `rank` are only lower bounds, as the candidate ranks below the recorded ones.
        rank: of the candidate; None if this is not known.
        parts: how much better the last one was by each scorer, scaled, over all its labels.
        reason: "pruned"; "not recorded", if it was pruned and not recorded; "not allowed", if its score was −inf; or
            "stopped", as the search stopped at this step.
    """

    step: int
    label: int | None
    text: str
    candidate: Node | None
    last: Node | None
    last_text: str
    margin: float | None
    at_least: bool
    rank: int | None
    parts: dict[str, float] = field(default_factory=dict)
    reason: str = "pruned"

    @property
    def part(self) -> str | None:
        """The scorer that contributed most to the margin."""
        return max(self.parts, key=lambda name: self.parts[name]) if self.parts else None

    @property
    def words(self) -> str:
        """The fall as a sentence."""
        what = f'"{self.text}"' if self.label is not None else "the ended hypothesis"
        if self.reason == "not allowed":
            return f"fell out at step {self.step}: {what} had the score −inf"
        if self.reason == "stopped":
            return f"fell out at step {self.step}: {what} has no place, and the search stopped"
        if self.last is None:
            return f"fell out at step {self.step}: no hypothesis was left"
        more = ">" if self.at_least else ""
        rank = "" if self.rank is None else f" at rank {more}{self.rank}"
        tied = self.margin is not None and not self.margin and not more
        margin = "" if self.margin is None else "with the score of" if tied else f"{more}{number(self.margin)} below"
        by = "" if self.part is None else f", most by {self.part} ({number(self.parts[self.part])})"
        below = margin or "below"
        return f'fell out at step {self.step}: {what}{rank}, {below} "{self.last_text}", the last of the beam{by}'


@dataclass(frozen=True)
class Life:
    """A sequence of labels in the beam.

    nodes: the node of its prefix at each step, the best one if there are several. fall: the step at which it lost its
    place; None if it kept one to the end of the search.
    """

    nodes: tuple[Node, ...]
    fall: Fall | None

    def table(self, tree: Tree) -> list[dict[str, Any]]:
        """A row for each step: rank and score of the prefix, how far it is below the best and above the last that was
        kept, and how many were."""
        rows = [_row(node, tree) for node in self.nodes]
        if self.fall is not None and self.fall.candidate is not None:
            rows.append(_row(self.fall.candidate, tree))
        return rows

    def lines(self, tree: Tree) -> list[str]:
        """The rows as text."""
        rows = [
            [f"step {row['step']}", _label(row), f"rank {row['rank']}", number(row["compared"]), _gap(row["gap"])]
            for row in self.table(tree)
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _label(row: dict[str, Any]) -> str:
    return "(ended)" if row["ended"] else printable_name(str(row["text"]))


def _gap(gap: float) -> str:
    return f"{number(gap)} below the best" if gap > 0 else "the best"


def _row(node: Node, tree: Tree) -> dict[str, Any]:
    names = "step label text rank score compared parts pruned ended ends".split()
    row = {name: getattr(node, name) for name in names}
    kept = tree.compared[node.step, competing(tree, node.step, node.ended or node.ends)]
    last = float(kept.min()) if kept.size else None
    gap = float(np.max(tree.compared[node.step], initial=-np.inf)) - node.compared
    above = {"kept": kept.size, "last": last, "margin": None if last is None else node.compared - last}
    return row | {"gap": gap} | above


def competing(tree: Tree, step: int, done: bool) -> np.ndarray:
    """The places of a step for which a hypothesis competes; done: whether it has ended, as those that have ended may
    have places of their own. [beam] bool"""
    alive = tree.alive[step]
    return alive if tree.own.living is None else alive & ((tree.ended | tree.ends)[step] == done)


def follow(tree: Tree, labels: Sequence[int]) -> Life:
    """The life of a sequence of labels that is to end after them."""
    nodes: list[Node] = []
    before = None
    by_frame = None if tree.own.blank is None else places_of_prefixes(tree, labels)
    for step in range(tree.steps):
        here = _here(tree, labels, step, before) if by_frame is None else next(by_frame)
        if not here.any():
            return Life(tuple(nodes), _fall(tree, labels, step, before))
        places = np.flatnonzero(here)
        nodes.append(tree.node(step, int(places[np.argmin(tree.ranks[step, places])])))
        before = here
    return Life(tuple(nodes), None)


def _here(tree: Tree, labels: Sequence[int], step: int, before: np.ndarray | None) -> np.ndarray:
    """The places of a step at which the prefix of the labels is. [beam] bool"""
    ended, ends = tree.ended[step], tree.ends[step]
    goes_on = tree.alive[step] if before is None else tree.alive[step] & before[tree.parents[step]]
    if step < len(labels):
        may_end = step == len(labels) - 1 and not tree.end_labels
        return goes_on & ~ended & (tree.labels[step] == labels[step]) & (~ends | may_end)
    return goes_on & (ended | ends if step == len(labels) else ended)


def _fall(tree: Tree, labels: Sequence[int], step: int, before: np.ndarray | None) -> Fall:
    label, text = _wanted(tree, labels, step, before)
    most = None if tree.trace.replayed is None else DEEP
    pruned, kept = tree.pruned(step, most), tree.nodes(step)
    candidate = next((each for each in pruned if _fits(tree, each, label, before)), None)
    going = [node for node in kept if not (node.ended or node.ends)]
    if tree.own.stops and kept and not going and candidate is None and label is not None:
        return Fall(step, label, text, None, None, "", None, False, None, reason="stopped")
    rivals, places = kept, tree.beam
    if tree.own.living is not None:  # those that have ended take no place from those that go on
        rivals = going if label is not None else [node for node in kept if node.ended or node.ends]
        places = tree.own.living if label is not None else tree.beam - tree.own.living
    last = rivals[-1] if rivals else None
    known = candidate or next(reversed(pruned), None)
    all_allowed = 0 < len(rivals) < places and not tree.own.stops
    all_known = all_allowed or len(pruned) < (most or _recorded(tree))
    reason = "pruned" if candidate else "not allowed" if all_known else "not recorded"
    known = None if reason == "not allowed" else known
    return Fall(
        step=step,
        label=label,
        text=text,
        candidate=candidate,
        last=last,
        last_text="" if last is None or last.place is None else tree.prefix_text(tree.prefix(step, last.place)),
        margin=None if last is None or known is None else last.compared - known.compared,
        at_least=known is not None and candidate is None,
        rank=known.rank if known else None,
        parts=_differences(tree, candidate, last),
        reason=reason,
    )


def _wanted(tree: Tree, labels: Sequence[int], step: int, before: np.ndarray | None) -> tuple[int | None, str]:
    """The label that a prefix needs at a step; None for a copy, or if the end label is not known."""
    if tree.own.blank is not None:
        label = next_label(tree, labels, step, before)
        return label, "" if label is None else tree.label(label)
    if step < len(labels):
        return labels[step], tree.label(labels[step])
    done = before is not None and bool((before & (tree.ended | tree.ends)[step - 1]).any())
    if done or not tree.end_labels:
        return None, ""
    label = min(tree.end_labels)
    return label, tree.label(label)


def _fits(tree: Tree, candidate: Node, label: int | None, before: np.ndarray | None) -> bool:
    goes_on = before is None or candidate.parent is None or bool(before[candidate.parent])
    return goes_on and (candidate.ended if label is None else not candidate.ended and candidate.label == label)


def _recorded(tree: Tree) -> int:
    """How many pruned candidates were recorded of each step. If a step has fewer, all others had the score −inf."""
    return 0 if tree.own.pruned is None else tree.own.pruned.labels.shape[2]


def _differences(tree: Tree, candidate: Node | None, last: Node | None) -> dict[str, float]:
    """How much better the last hypothesis was than the candidate, by scorer, scaled."""
    if candidate is None or last is None:
        return {}
    mine, theirs = scaled_parts(tree, candidate), scaled_parts(tree, last)
    return {name: theirs[name] - mine[name] for name in theirs if name in mine}


def scaled_parts(tree: Tree, node: Node) -> dict[str, float]:
    """The score of a hypothesis by each scorer, scaled, over all its labels."""
    found = {}
    for name, sums in tree.part_sums.items():
        before = float(sums[node.step - 1, node.parent]) if node.parent is not None else 0.0
        own = 0.0 if node.ended else node.parts.get(name, 0.0)
        found[name] = (before + own) * tree.own.scales.get(name, 1.0)
    return found
