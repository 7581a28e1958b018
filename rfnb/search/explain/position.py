"""Where a reference is in the beam, whether search or model is to blame, and the life of any hypothesis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.errors import SearchError
from rfnb.printable import printable_name
from rfnb.search.explain.reference import (
    Fall,
    Forced,
    Life,
    Reference,
    follow,
    forced_scores,
    references_of,
    scaled_parts,
)
from rfnb.search.text_result import TextResult, number
from rfnb.search.trace import NOT_REPLAYED, NOT_RUN, Hypothesis, Node, Trace, by_length

if TYPE_CHECKING:
    from rfnb.search.tree import Tree


VERDICTS = ("correct", "search error", "model error", "tie", "over the limit", "no hypothesis", "undecided")
"""What may be said of a reference."""

ROUNDING = 1e-5
"""Scores that differ by less, relative to their size, count as equal: they were computed in different batches."""


@dataclass(frozen=True, eq=False, repr=False)
class Where(TextResult):
    """Where a reference is in the beam.

    Args:
        tree: the tree of the sequence.
        reference: the reference; of several, the one that came furthest.
        life: its prefix at each step, and where it fell out.
        found: the final hypothesis that is the reference; None if there is none.
        score: the final score of the reference, if it is known.
        verdict: "correct"; "search error": the reference has a better score than the output; "model error": the output
            has a better score; "tie"; "over the limit": the reference needs more steps than are allowed, or the output
            did not end within them, and the score of the reference is not known; "no hypothesis": none is left;
            "undecided": the score of the reference is not known.
        because: the verdict's reason, as a sentence.
        label_scores: what the model gives to each label of the reference and to its end, where the model was run for
            it: pairs of text and score; none after −inf.
    """

    tree: Tree
    reference: Reference
    life: Life
    found: Hypothesis | None
    score: float | None
    verdict: str
    because: str
    label_scores: tuple[tuple[str, float], ...] = ()

    @property
    def output(self) -> Hypothesis | None:
        """The best hypothesis of the search."""
        return self.tree.best

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The node of the reference's prefix at each step, until it falls out."""
        return self.life.nodes

    @property
    def fall(self) -> Fall | None:
        """Where the reference fell out of the beam; None if it did not."""
        return self.life.fall

    @property
    def forced(self) -> str:
        """The scores of the labels of the reference, where the model was run for it."""
        scores = ", ".join(f"{printable_name(text)} {number(score)}" for text, score in self.label_scores)
        return f"scores of the reference's labels: {scores}" if scores else ""

    def table(self) -> list[dict[str, Any]]:
        """A row for each step: rank and score of the reference's prefix, how far it is below the best and above the
        last that was kept, and how many were."""
        return self.life.table(self.tree)

    @property
    def text(self) -> str:
        """The verdict, the steps and the fall."""
        lines = [f'{printable_name(self.tree.name)}: "{printable_name(self.reference.text)}": {self.verdict}']
        lines += [f"  {printable_name(self.because)}", *([f"  {self.forced}"] if self.label_scores else [])]
        lines += self.life.lines(self.tree)
        return "\n".join([*lines, *([f"  {printable_name(self.fall.words)}"] if self.fall else [])])


def where(tree: Tree, reference: object, forced: float | Sequence[float] | None) -> Where:
    """Where the reference is, of several the one that came furthest; forced: its final score, or those of all."""
    references = references_of(reference, tree)
    if forced is None:
        scores = forced_scores([tree], [references])[0]
    else:
        values = np.asarray(forced, np.float64).reshape(-1).tolist()
        scores = [None if np.isnan(score) else Forced(score) for score in values]
    if len(scores) != len(references):
        raise SearchError("where: `forced` has a score for each reference", got=len(scores), expected=len(references))
    results = [_where(tree, item, score) for item, score in zip(references, scores, strict=True)]
    return max(results, key=_came_far)


def _came_far(position: Where) -> tuple[object, ...]:
    """How far a reference came: its rank at the end, else the number of steps at which it had a place, and how it
    compared then. The score of the model decides only between references that came equally far."""
    rank = -position.found.rank if position.found else -np.inf
    lost = position.fall.candidate if position.fall else None
    compared = [node.compared for node in (*position.nodes[-1:], lost) if node is not None]
    return rank, len(position.nodes), compared, -np.inf if position.score is None else position.score


def _where(tree: Tree, reference: Reference, by_model: Forced | None) -> Where:
    forced = None if by_model is None else by_model.score
    life = follow(tree, reference.labels)
    final = next((hypothesis for hypothesis in tree.hypotheses if content(hypothesis, tree) == reference.labels), None)
    if final is not None and (final.complete or forced is None):
        forced = final.score
    elif forced is None and life.fall is None and life.nodes and tree.refused[life.nodes[-1].place]:
        forced = -np.inf
    elif forced is None:
        forced = _score_at_end(tree, life, len(reference.labels))
    verdict, because = _verdict(tree, reference, life, final, forced)
    pairs: tuple[tuple[str, float], ...] = ()
    if by_model is not None:
        sums = [*takewhile(np.isfinite, by_model.sums), *([-np.inf] if -np.inf in by_model.sums else [])]
        pairs = tuple(zip(map(tree.label, by_model.labels), np.diff(sums, prepend=0.0).tolist(), strict=False))
    return Where(tree, reference, life, final, forced, verdict, because, pairs)


def content(hypothesis: Hypothesis, tree: Tree) -> tuple[int, ...]:
    """The labels of a hypothesis without an end label."""
    labels = hypothesis.labels
    return labels[:-1] if labels and hypothesis.complete and labels[-1] in tree.end_labels else labels


def _verdict(
    tree: Tree, reference: Reference, life: Life, final: Hypothesis | None, forced: float | None
) -> tuple[str, str]:
    output = tree.best
    if output is None:
        died = "" if tree.died_at is None else f" after step {tree.died_at}"
        return "no hypothesis", f"no hypothesis is left{died}"
    if final is output:
        return "correct", "the best hypothesis is the reference"
    length, limit = len(reference.labels) + bool(tree.end_labels), limit_of(tree)
    if limit is not None and length > limit:
        return "over the limit", f"the reference needs {length} steps, {limit} are allowed"
    score = "a score that is not known" if forced is None else f"the score {number(forced)}"
    unended = "" if output.complete or tree.own.framewise else f"the limit of {tree.steps} steps without an end"
    better = _output(output) + (f", which reached {unended}" if unended else "")
    scores = f"the reference has {score}, {better}"
    if forced is not None and forced - output.score > rounding(forced, output.score):
        return "search error", scores
    if forced is not None and output.score - forced <= rounding(forced, output.score):
        return "tie", f"both have the score {number(output.score)}"
    if forced is not None:
        return "model error", scores
    bound = most_possible(tree, life, length)
    if bound is not None and output.score - bound > rounding(bound, output.score):
        return "model error", f"scores only fall: the reference has at most {number(bound)}, {better}"
    if unended:
        return "over the limit", f"the output reached {unended}"
    return "undecided", f"{scores}; {_how_to_decide(tree.trace)}"


def _how_to_decide(trace: Trace) -> str:
    """What to write so that the score of the reference is known."""
    if trace.replayed is not None:
        return "give `forced`"
    if trace.why_not == NOT_RUN:
        return "found.force(model, inputs=…) computes it, or give `forced`"
    if trace.why_not == NOT_REPLAYED:
        return "give `forced`: the best score of rf.search.decode(…, constraints=[rf.search.forced(…)]), or record=True"
    return "rf.Loop(…, debug=True) computes it, or give `forced`"


def _output(output: Hypothesis) -> str:
    return f"the output {number(output.score)}"


def rounding(a: float, b: float) -> float:
    """The difference up to which two scores count as equal."""
    return ROUNDING * max(abs(a), abs(b), 1.0) if np.isfinite([a, b]).all() else 0.0


def limit_of(tree: Tree) -> int | None:
    """The most steps that the sequence might have taken; None if this is not known."""
    if tree.own.limit is not None:
        return int(tree.own.limit[0])
    best = tree.best
    return tree.steps if tree.own.framewise or (best is not None and not best.complete) else None


def most_possible(tree: Tree, life: Life, needed: int) -> float | None:
    """The highest final score that a sequence of `needed` labels may have; None if scores do not only fall."""
    fall, exponent = life.fall, tree.own.length_normalization_exponent
    scores = [node.score for node in life.nodes[-1:]]
    if fall is not None and fall.candidate is not None:
        scores.append(fall.candidate.score)
    elif fall is not None and fall.reason == "not recorded" and fall.last is not None and not exponent:
        scores.append(fall.last.score)
    if fall is not None and fall.reason == "not allowed":
        return -np.inf
    if not scores or not only_fall(tree):
        return None
    return float(min(scores) / by_length(needed, exponent, tree.own.length_normalization_offset))


def only_fall(tree: Tree) -> bool:
    """Whether no label ever raised a score, and final scores are those of the last step. Not with a blank: there, other
    alignments of the same labels may come."""
    if tree.own.blank is not None:
        return False
    if not tree.steps:
        return True
    parents = np.zeros_like(tree.scores)
    parents[1:] = np.take_along_axis(tree.scores[:-1], tree.parents[1:], axis=1)
    falls = tree.scores[tree.alive] <= parents[tree.alive] + ROUNDING
    return bool(falls.all()) and _last_is_final(tree)


def _last_is_final(tree: Tree) -> bool:
    """Whether final scores are those of the last step."""
    final = [(hypothesis.score, tree.compared[-1, hypothesis.place]) for hypothesis in tree.hypotheses]
    return all(abs(a - b) <= rounding(a, b) for a, b in final)


def _score_at_end(tree: Tree, life: Life, length: int) -> float | None:
    """The final score of a reference that ended and then, or by that, fell out of the beam; None if it is not known."""
    candidates = [*life.nodes[-1:], *([life.fall.candidate] if life.fall and life.fall.candidate else [])]
    ended = next((node for node in candidates if node.ends or node.ended), None)
    if ended is None or tree.own.blank is not None or not _last_is_final(tree):
        return None
    exponent, offset = tree.own.length_normalization_exponent, tree.own.length_normalization_offset
    return float(ended.score / by_length(length + bool(tree.end_labels), exponent, offset))


@dataclass(frozen=True, eq=False, repr=False)
class Why(TextResult):
    """The life of a hypothesis, or of a prefix of some.

    Args:
        tree: the tree of the sequence.
        labels: its labels.
        life: its node at each step, and where it fell out.
        final: the hypothesis that was left at the end; None if it was not.
        apart: the step at which its labels differ first from those of the best hypothesis; None if they do not.
        parts: how much better the best hypothesis is by each scorer, scaled; empty if it is not among the final ones.
        last_step: the last step at which a continuation of it had a place.
    """

    tree: Tree
    labels: tuple[int, ...]
    life: Life
    final: Hypothesis | None
    apart: int | None
    parts: dict[str, float]
    last_step: int | None

    def table(self) -> list[dict[str, Any]]:
        """A row for each step: its rank and score, how far it is below the best and above the last that was kept, and
        how many were."""
        return self.life.table(self.tree)

    @property
    def text(self) -> str:
        """What became of it, and its steps."""
        name = f'"{printable_name(self.tree.text_of(self.labels))}"'
        lines = [f"{printable_name(self.tree.name)}: {name}: {printable_name(self.fate)}"]
        return "\n".join([*lines, *map(printable_name, self.life.lines(self.tree))])

    @property
    def fate(self) -> str:
        """What became of it, as words."""
        if self.final is not None:
            return self._final_words(self.final)
        if self.last_step is not None and self.last_step >= self.tree.steps - 1:
            alive = not self.life.nodes or self.life.nodes[-1].survives
            return (
                "hypotheses that continue it were left at the end" if alive else "it may not end where the search ended"
            )
        if self.last_step is not None and self.last_step > len(self.labels) - 1:
            return f"its last continuation had a place at step {self.last_step}"
        return self.life.fall.words if self.life.fall else "it lost its place"

    def _final_words(self, final: Hypothesis) -> str:
        best = self.tree.best
        if best is None or final is best:
            return f"the best hypothesis, score {number(final.score)}"
        parts = ", ".join(f"{name} {number(part)}" for name, part in self.parts.items())
        by = f" by {parts}" if parts else ""
        since = "" if self.apart is None else f", from step {self.apart} on"
        gap = number(best.score - final.score)
        return f"hypothesis {final.rank}, score {number(final.score)}, {gap} below the best{by}{since}"


def why(tree: Tree, which: object) -> Why:
    """The life of a hypothesis: its position in `tree.hypotheses`, itself, a node, or its labels in any form."""
    if isinstance(which, Integral):
        if not -len(tree.hypotheses) <= int(which) < len(tree.hypotheses):
            had = f"0 to {len(tree.hypotheses) - 1}" if tree.hypotheses else "nothing, as no hypothesis is left"
            raise SearchError("why: there is no hypothesis with this position", got=which, expected=had)
        which = tree.hypotheses[int(which)]
    if isinstance(which, Node):
        return _of_node(tree, which)
    if isinstance(which, Hypothesis):
        if not tree.steps:
            return Why(tree, (), Life((), None), which, None, {}, None)
        return _of_node(tree, tree.node(tree.steps - 1, which.place), which)
    labels = references_of(which, tree)[0].labels
    final = next((hypothesis for hypothesis in tree.hypotheses if content(hypothesis, tree) == labels), None)
    return why(tree, final) if final is not None else _of_labels(tree, labels)


def _of_labels(tree: Tree, labels: tuple[int, ...]) -> Why:
    """The life of labels that no final hypothesis consists of; others may begin with them."""
    life = follow(tree, labels)
    if tree.own.blank is None and 0 < len(labels) <= len(life.nodes):
        return _of_node(tree, life.nodes[len(labels) - 1])
    return Why(tree, labels, life, None, _apart(tree, labels), {}, None)


def _of_node(tree: Tree, node: Node, final: Hypothesis | None = None) -> Why:
    path = _path(tree, node)
    labels = tuple(item.label for item in path if not item.ended and item.label != tree.own.blank)
    last_step = _last_step(tree, node)
    fall = None
    if final is None and (node.pruned or last_step == node.step):
        ends = bool(tree.end_labels) and any(item.ends for item in path)
        fall = follow(tree, labels[:-1] if ends else labels).fall
    return Why(
        tree=tree,
        labels=labels if final is None else final.labels,
        life=Life(tuple(item for item in path if not item.pruned), fall),
        final=final,
        apart=_apart(tree, labels),
        parts=_below_best(tree, final),
        last_step=last_step,
    )


def _path(tree: Tree, node: Node) -> list[Node]:
    """The nodes from the first step to this one."""
    path = [node]
    while path[-1].parent is not None:
        path.append(tree.node(path[-1].step - 1, path[-1].parent))
    return path[::-1]


def _last_step(tree: Tree, node: Node) -> int | None:
    """The last step at which the node or a continuation of it had a place."""
    if node.place is None:
        return None
    descendants = np.arange(tree.beam) == node.place
    for step in range(node.step + 1, tree.steps):
        descendants = descendants[tree.parents[step]] & tree.alive[step]
        if not descendants.any():
            return step - 1
    return tree.steps - 1


def _apart(tree: Tree, labels: Sequence[int]) -> int | None:
    """The first step at which labels differ from those of the best hypothesis; None with a blank, where a label has no
    step of its own."""
    if tree.best is None or not tree.steps or tree.own.blank is not None:
        return None
    best = tree.prefix(tree.steps - 1, tree.best.place)
    differ = (step for step, pair in enumerate(zip(best, labels, strict=False)) if pair[0] != pair[1])
    shorter = min(len(best), len(labels))
    return next(differ, shorter if len(best) != len(labels) else None)


def _below_best(tree: Tree, final: Hypothesis | None) -> dict[str, float]:
    if final is None or tree.best is None or not tree.steps:
        return {}
    parts, best = (scaled_parts(tree, tree.node(tree.steps - 1, hypothesis.place)) for hypothesis in (final, tree.best))
    return {name: best[name] - parts[name] for name in parts}
