"""Words that a hypothesis may be, as a trie."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.index import gather
from rfnb.ops.math import cast, equal, not_equal, where
from rfnb.ops.sort import search_sorted
from rfnb.search.variants.constraint import Constraint, Requirement, beside, labels_of, number_of, numbers_of


@guarded
def trie(words: Iterable[str | Sequence[int | str]], *, labels: Dim, end: int | str | None) -> Constraint:
    """Hypotheses that are one of `words`.

    >>> label = rf.Dim(4, name="label", vocab=["</s>", "a", "b", "c"])
    >>> words = rf.search.trie(["ab", "acc", "ac"], labels=label, end="</s>")
    >>> state = words.initial_state(batch_dims=[])
    >>> for last in [0, 1, 3]:  # the start, and "ac"
    ...     scores, state = words.score(rf.convert_to_tensor(last, sparse_dim=label), state)
    >>> scores.tolist()
    [0.0, -inf, -inf, 0.0]

    Args:
        words: each a text, or a sequence of labels.
        labels: the dim of the labels. end: the label that ends a hypothesis, which follows each word; None if nothing
            ends them, so that hypotheses die if another label follows their word.

    Where no label ends hypotheses, as in a search over frames, only whole words are left at the end. A hypothesis that
    reaches the limit of steps without its end label may be the beginning of a word.


    Memory is that of the different beginnings of the words. Raises ParameterError for a label that does not exist.
    """
    ending = [] if end is None else [number_of(end, labels)]
    count = labels.get_dim_value()
    edges, finals = _edges((numbers_of(word, labels) for word in words), ending, count)
    edge, node = Dim(len(edges[0]), name="edges of the trie"), Dim(len(finals), name="nodes of the trie")
    keys, targets = (convert_to_tensor(array, dims=[edge]) for array in edges)
    words_end = convert_to_tensor(finals, dims=[node])

    def target(node: Tensor, label: Tensor) -> Tensor:
        key = node * count + cast(label, "int64")
        place = search_sorted(beside(keys, label), key, axis=edge)
        exists = equal(gather(beside(keys, label), indices=place, axis=edge), key)
        return where(exists, gather(beside(targets, label), indices=place, axis=edge), DEAD)

    def allows(label: Tensor, before: Tensor) -> tuple[Tensor, Tensor]:
        before = beside(before, label)
        child = where(equal(before, START), ROOT, target(before, label))
        every = range_over_dim(labels_of(label), device=label.device)
        return not_equal(target(child, every), DEAD), child

    def may_end(state: Tensor) -> Tensor:
        return gather(beside(words_end, state), indices=state, axis=node)

    return Requirement(partial(zeros, dtype="int64"), allows, may_end)


START, ROOT, DEAD = range(3)
"""The first nodes: before the start label, after it, and where no word leads to."""


def _edges(
    words: Iterable[Sequence[int]], after: Sequence[int], labels: int
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The edges of the trie of words and what follows them, sorted: node · labels + label, and the node that the edge
    leads to; and for each node whether it is a whole word."""
    targets: dict[int, int] = {}
    finals: set[int] = set()
    for word in words:
        node = ROOT
        for number, label in enumerate([*word, *after]):
            finals.update([node] if number == len(word) else [])
            node = targets.setdefault(node * labels + label, DEAD + 1 + len(targets))
        finals.add(node)
    keys = np.sort(np.fromiter(targets, "int64", len(targets)))
    beyond = np.iinfo("int64").max  # so that each key has a place among them
    edges = np.append(keys, beyond), np.array([*(targets[key] for key in keys.tolist()), DEAD], "int64")
    return edges, np.isin(np.arange(DEAD + 1 + len(targets)), [*finals])
