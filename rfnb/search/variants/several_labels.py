"""Several labels in a step, by several choices or sources: kept apart, and shown together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rfnb.core.tensor.tensor import Tensor
from rfnb.core.vocab import Vocab

if TYPE_CHECKING:
    from rfnb.loop.body.body import Body
    from rfnb.loop.body.hypotheses import Hypotheses

LABELS = "labels of "
"""Beginning of the names of the labels that are kept of each choice."""

PRUNED = f"pruned {LABELS}"
"""Beginning of the names of the labels of pruned candidates, by choice."""


def keep_labels(body: Body, hypotheses: Hypotheses, labels: Sequence[Tensor]) -> None:
    """Keeps the labels of all choices of the step so far, {…, newest beam}, if there are several."""
    search = hypotheses.search
    search.labels[:] = labels
    search.vocabs[:] = [None if x.sparse_dim is None else x.sparse_dim.vocab for x in labels]
    if len(labels) > 1:
        order = hypotheses.scores.dims
        columns = {f"{LABELS}{i}": body.of_body(x.copy_transpose(order), "choice") for i, x in enumerate(labels)}
        hypotheses.kept |= columns


def keep_pruned_labels(body: Body, hypotheses: Hypotheses, labels: Sequence[Tensor]) -> None:
    """Keeps the labels of the pruned candidates of the last choice, {…, candidates}, likewise."""
    search = hypotheses.search
    search.pruned_labels[:] = labels
    if len(labels) > 1:
        order = search.pruned[-1].dims
        columns = {f"{PRUNED}{i}": body.of_body(x.copy_transpose(order), "choice") for i, x in enumerate(labels)}
        hypotheses.kept |= columns


def join_labels(kept: dict[str, np.ndarray], vocabs: Sequence[Vocab | None]) -> Vocab:
    """Makes one label of those that a hypothesis got in a step, and of those of a pruned candidate; returns the texts:
    "AE/1".

    Only combinations that occur have a number.
    """
    columns = np.stack([kept[f"{LABELS}{i}"] for i in range(len(vocabs))], axis=-1)
    if f"{PRUNED}0" in kept:
        pruned = np.stack([kept[f"{PRUNED}{i}"] for i in range(len(vocabs))], axis=-1)
        columns = np.concatenate([columns, pruned], axis=2)
    unique, numbers = np.unique(columns.reshape(-1, len(vocabs)), axis=0, return_inverse=True)
    texts = ["/".join(_text(*pair) for pair in zip(row, vocabs, strict=True)) for row in unique.tolist()]
    if len(set(texts)) < len(texts):  # labels with a slash
        texts = ["/".join(map(str, row)) for row in unique.tolist()]
    numbers = numbers.reshape(columns.shape[:-1])
    size = kept["labels"].shape[-1]
    kept["labels"], kept["pruned labels"] = numbers[..., :size], numbers[..., size:]
    return Vocab(texts)


def _text(number: int, vocab: Vocab | None) -> str:
    valid = vocab is not None and 0 <= number < len(vocab)
    return str(vocab.decode(number)) if vocab is not None and valid else str(number)
