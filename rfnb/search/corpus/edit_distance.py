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
    sizes = np.array([len(each) for each in hypotheses], np.int64)
    width = int(sizes.max(initial=0))
    labels = np.full((len(sizes), width), -1, np.int64)
    for row, each in zip(labels, hypotheses, strict=True):
        row[: len(each)] = each
    columns = np.arange(width + 1)
    found = np.tile(columns, (len(sizes), 1))
    for i, label in enumerate(reference, 1):
        first = np.full((len(sizes), 1), i)
        changed = np.minimum(found[:, :-1] + (labels != label), found[:, 1:] + 1)
        without = np.concatenate([first, changed], axis=1) - columns
        found = np.minimum.accumulate(without, axis=1) + columns
    return np.take_along_axis(found, sizes[:, None], axis=1)[:, 0].tolist()


def repetitions(labels: Sequence[int], n: int = 3) -> int:
    """How often `n` labels in a row occur again.

    >>> repetitions([1, 2, 3, 1, 2, 3]), repetitions([1, 1, 1, 1, 1]), repetitions([1, 2, 3])
    (1, 2, 0)
    """
    counts = Counter(zip(*(labels[i:] for i in range(n)), strict=False))
    return sum(counts.values()) - len(counts)
