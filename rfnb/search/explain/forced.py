"""The final scores that the model gives to references: by replay of a recorded search, in which these are chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rfnb.search.explain.reference import Reference
from rfnb.search.trace import by_length

if TYPE_CHECKING:
    from rfnb.search.tree import Tree

Scores = list[float | None]
"""The scores of the references of a sequence; None where a score is not known."""


def forced_scores(trees: Sequence[Tree], references: Sequence[Sequence[Reference]]) -> list[Scores]:
    """The final scores of the references of each tree. Trees of one search are computed together.

    A score is not known if the search was not recorded, if labels have blanks between them, if hypotheses do not end by
    a label that is known, if the reference has such a label inside, or if it needs more steps than are allowed.
    """
    scores: list[Scores] = [[None] * len(item) for item in references]
    searches = {id(tree.trace): tree.trace for tree in trees}
    for trace in searches.values():
        steps = trace.replayed
        rows = [i for i, tree in enumerate(trees) if tree.trace is trace]
        full = {i: [_full(trees[i], item) for item in references[i]] for i in rows}
        if steps is None or not any(item for sequences in full.values() for item in sequences):
            continue
        sums = steps.forced({trees[i].sequence: [item or () for item in sequences] for i, sequences in full.items()})
        for i, sequences in full.items():
            exponent, offset = trace.length_normalization_exponent, trace.length_normalization_offset
            pairs = zip(sequences, sums[trees[i].sequence], strict=True)
            scores[i] = [
                None if score is None or labels is None else float(score / by_length(len(labels), exponent, offset))
                for labels, score in pairs
            ]
    return scores


def _full(tree: Tree, reference: Reference) -> tuple[int, ...] | None:
    """The labels of a reference with its end; None if its score cannot be computed, or need not be."""
    trace, labels = tree.own, reference.labels
    if trace.blank is not None or (tree.best is not None and tree.best.labels == labels):
        return None
    if trace.framewise:
        return labels if len(labels) == tree.steps else None
    if len(tree.end_labels) != 1 or tree.end_labels & set(labels):
        return None
    limit = None if trace.limit is None else int(trace.limit[0])
    return (*labels, *tree.end_labels) if limit is None or len(labels) < limit else None
