"""What is kept of a step: the best of the candidates that find no place, and several labels by several choices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import map_leaves
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.vocab import Vocab
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import gather, top_k
from rfnb.ops.math import cast, compare_bc, is_neg_infinite, where
from rfnb.ops.reduce import reduce_any
from rfnb.ops.shape import set_sparse_dim
from rfnb.ops.slice import slice as slice_along

if TYPE_CHECKING:
    from rfnb.loop.body.body import Body
    from rfnb.loop.body.hypotheses import Hypotheses


PRUNED = "pruned "
"""Beginning of the names of what is kept of pruned candidates."""

PART = "part "
"""Beginning of the names of scores that are kept by scorer."""


class Pruned(NamedTuple):
    """Candidates without a place, the best first. {…, candidates}

    labels, parents, scores: as of `BeamStep`; scores are −∞ where there are fewer.
    """

    labels: Tensor
    parents: Tensor
    scores: Tensor


def with_candidates(after: Dim, count: int) -> Dim:
    """A dim of the hypotheses after a choice, and of the `count` pruned candidates that are kept."""
    return _dim(after.get_dim_value() + count) if count else after


@lru_cache(maxsize=64)
def _dim(size: int) -> Dim:
    """The same each time, so that plans are found again."""
    return Dim(size, name="candidates")


def parted(best: Any, wide: Dim, after: Dim) -> tuple[Any, Pruned | None]:
    """The hypotheses among the best candidates, and the other candidates. best: labels, parents, scores and others."""
    if wide is after:
        return best, None
    count = after.get_dim_value()
    hypotheses = map_leaves(
        lambda x: x if x is None or wide not in x.dims else slice_along(x, axis=wide, size=count, out_dim=after)[0],
        best,
    )
    return hypotheses, Pruned(*(slice_along(x, axis=wide, start=count)[0] for x in best[:3]))


def left_over(chosen: Any, best: Any, axis: Dim, after: Dim, wide: Dim) -> Pruned:
    """The best candidates without those that were chosen. {…, after}, {…, wide} → {…, candidates}"""
    size = axis.get_dim_value()

    def number(labels: Tensor, parents: Tensor) -> Tensor:
        return set_sparse_dim(parents, None) * size + set_sparse_dim(labels, None)

    places = where(is_neg_infinite(chosen.scores), -1, number(chosen.labels, chosen.parents))
    numbers = number(best.labels, best.parents)
    doubles = reduce_any(compare_bc(numbers, "equal", places), axis=after)
    dim = _dim(wide.get_dim_value() - after.get_dim_value())
    place = where(doubles, -float("inf"), -cast(range_over_dim(wide, device=best.scores.device), "float32"))
    at: Any
    order, at, _ = top_k(place.copy_transpose(best.scores.dims), axis=wide, k_dim=dim)  # scores are not normalized
    labels, parents, scores = (gather(x, indices=at, axis=wide) for x in best[:3])
    return Pruned(labels, parents, where(is_neg_infinite(order), -float("inf"), scores).copy_transpose(order.dims))


def keep_pruned(body: Body, hypotheses: Hypotheses, pruned: Pruned | None, before: Dim) -> None:
    """Keeps the pruned candidates of the newest choice of a step instead of those of the one before it.

    Scores by scorer of earlier choices are those of the hypotheses that they extend. before: the beam of these.
    """
    records = hypotheses.kept
    for name in [name for name in records if name.startswith(PRUNED)]:
        del records[name]
    hypotheses.search.pruned[:] = [] if pruned is None else pruned
    if pruned is None:
        return

    def of_parents(x: Tensor) -> Tensor:
        return gather(x, indices=pruned.parents, axis=before).copy_transpose(pruned.scores.dims)

    values = dict(zip(Pruned._fields, pruned, strict=True))
    if hypotheses.choices:
        values["parents"] = of_parents(records["parents"])
        values |= {name: of_parents(records[name]) for name in records if name.startswith(PART)}
    records |= {PRUNED + name: body.of_body(x, "choice") for name, x in values.items()}
    keep_pruned_labels(body, hypotheses, [*map(of_parents, hypotheses.search.labels), pruned.labels])


def pruned_of(hypotheses: Hypotheses) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The labels of the pruned candidates by the last choice, and what gives each the value of its parent."""
    labels, parents, _ = hypotheses.search.pruned
    beam = hypotheses.choices[-1].before
    return labels, lambda x: gather(x, indices=parents, axis=beam) if beam in x.dims else x


def follow_sums(hypotheses: Hypotheses) -> None:
    """Scores by scorer of earlier choices of the step become those of the newest hypotheses."""
    order = hypotheses.scores.dims
    for name in [name for name in hypotheses.kept if name.startswith((PART, "final "))]:
        followed: Any = hypotheses.follow(hypotheses.kept[name])
        hypotheses.kept[name] = followed.copy_transpose(order)


LABELS = "labels of "
"""Beginning of the names of the labels that are kept of each choice."""

PRUNED_LABELS = f"pruned {LABELS}"
"""Beginning of the names of the labels of pruned candidates, by choice."""


def keep_labels(body: Body, hypotheses: Hypotheses, labels: Sequence[Tensor]) -> None:
    """Keeps the labels of all choices of the step so far, {…, newest beam}, if there are several."""
    search = hypotheses.search
    search.labels[:] = labels
    search.vocabs[:] = [None if x.sparse_dim is None else x.sparse_dim.vocab for x in labels]
    _keep_columns(body, hypotheses, LABELS, labels, hypotheses.scores.dims)


def keep_pruned_labels(body: Body, hypotheses: Hypotheses, labels: Sequence[Tensor]) -> None:
    """Keeps the labels of the pruned candidates of the last choice, {…, candidates}, likewise."""
    hypotheses.search.pruned_labels[:] = labels
    _keep_columns(body, hypotheses, PRUNED_LABELS, labels, hypotheses.search.pruned[-1].dims)


def _keep_columns(
    body: Body, hypotheses: Hypotheses, name: str, labels: Sequence[Tensor], order: Sequence[Dim]
) -> None:
    """Keeps the labels of several choices, each under its number."""
    if len(labels) > 1:
        columns = (body.of_body(x.copy_transpose(order), "choice") for x in labels)
        hypotheses.kept |= {f"{name}{i}": column for i, column in enumerate(columns)}


def join_labels(kept: dict[str, np.ndarray], vocabs: Sequence[Vocab | None]) -> Vocab:
    """Makes one label of those that a hypothesis got in a step, and of those of a pruned candidate; returns the texts:
    "AE/1".

    Only combinations that occur have a number.
    """
    columns = np.stack([kept[f"{LABELS}{i}"] for i in range(len(vocabs))], axis=-1)
    if f"{PRUNED_LABELS}0" in kept:
        pruned = np.stack([kept[f"{PRUNED_LABELS}{i}"] for i in range(len(vocabs))], axis=-1)
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
