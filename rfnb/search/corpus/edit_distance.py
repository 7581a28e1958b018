"""How many labels differ between a reference and hypotheses; and labels that a hypothesis repeats."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np


def edit_distances(reference: Sequence[int], hypotheses: Sequence[Sequence[int]]) -> list[int]:
    """The least number of labels to insert, delete or replace, for each hypothesis.

    >>> edit_distances([1, 2, 3], [[1, 2, 3], [1, 3], [], [4, 1, 2, 2]])
    [0, 1, 3, 2]
    """
    sizes = np.array([len(hypothesis) for hypothesis in hypotheses], np.int64)
    width = int(sizes.max(initial=0))
    labels = np.full((len(sizes), width), -1, np.int64)
    for row, hypothesis in zip(labels, hypotheses, strict=True):
        row[: len(hypothesis)] = hypothesis
    columns = np.arange(width + 1)
    distances = np.tile(columns, (len(sizes), 1))
    for i, label in enumerate(reference, 1):
        deletions = np.full((len(sizes), 1), i)
        changed = np.minimum(distances[:, :-1] + (labels != label), distances[:, 1:] + 1)
        without = np.concatenate([deletions, changed], axis=1) - columns
        distances = np.minimum.accumulate(without, axis=1) + columns
    return np.take_along_axis(distances, sizes[:, None], axis=1)[:, 0].tolist()


def repetitions(labels: Sequence[int], n: int = 3) -> int:
    """How often `n` labels in a row occur again.

    >>> repetitions([1, 2, 3, 1, 2, 3]), repetitions([1, 1, 1, 1, 1]), repetitions([1, 2, 3])
    (1, 2, 0)
    """
    counts = Counter(zip(*(labels[i:] for i in range(n)), strict=False))
    return sum(counts.values()) - len(counts)
