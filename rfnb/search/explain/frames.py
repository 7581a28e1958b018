"""A sequence of labels in a search over frames, where a hypothesis may go on without a label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rfnb.search.tree import Tree


def places_of_prefixes(tree: Tree, labels: Sequence[int]) -> Iterator[np.ndarray]:
    """By step, the places from which the labels can still come: [beam] bool.

    Those are hypotheses whose labels are the first of these; of hypotheses that have ended, and in the last step, those
    with exactly these labels.
    """
    targets = np.array([*labels, -1])  # behind the labels, no label fits
    length, fits = np.zeros(tree.beam, int), np.ones(tree.beam, bool)
    for step in range(tree.steps):
        parents, counts = tree.parents[step], tree.counts[step]
        length, fits = length[parents], fits[parents]
        fits = fits & (~counts | (tree.labels[step] == targets[np.minimum(length, len(labels))]))
        length = length + counts
        over = tree.ended[step] | tree.ends[step] | (step == tree.steps - 1)
        yield tree.alive[step] & fits & (~over | (length == len(labels)))


def next_label(tree: Tree, labels: Sequence[int], step: int, places: np.ndarray | None) -> int | None:
    """The label that comes next for the longest of the prefixes at some places after the step before; blank if that has
    all labels."""
    counts = [len(tree.prefix(step - 1, int(place))) for place in np.flatnonzero(places)] if places is not None else [0]
    return labels[max(counts)] if max(counts) < len(labels) else tree.own.blank
