"""The life of a hypothesis: what rank it had at each step, what it lost by, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.errors import SearchError
from rfnb.printable import printable_name
from rfnb.search.explain.life import Life, follow, references_of, scaled_parts
from rfnb.search.explain.where import content
from rfnb.search.tree_arrays import Hypothesis, Node
from rfnb.search.words import InWords, number

if TYPE_CHECKING:
    from rfnb.search.tree import Tree


@dataclass(frozen=True, eq=False, repr=False)
class Why(InWords):
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
