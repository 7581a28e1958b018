"""The scores of labels that a choice gets: of several sources, of several kinds, with noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.arguments import FloatTensor
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.ops.index import gather, top_k
from rfnb.ops.math import cast, log, neg
from rfnb.ops.random import random_uniform
from rfnb.ops.shape import expand_dims, merge_dims, replace_dim, set_sparse_dim

InputType = Literal["prob", "log_prob", "logits"]


def log_scores(scores: Tensor, axis: Dim, input_type: InputType) -> Tensor:
    """Scores of labels that add up, which takes more than half precision."""
    if scores.dtype in ("float16", "bfloat16"):
        scores = cast(scores, "float32")
    if input_type == "logits":
        return log_probs(scores, axis=axis)
    if input_type == "prob":
        return log(scores)
    if input_type == "log_prob":
        return scores
    raise ParameterError("choice: unknown `input_type`", got=input_type, expected='"prob", "log_prob" or "logits"')


@op(frames="any")
def log_probs(scores: FloatTensor, *, axis: Dim) -> Tensor:
    """log softmax over `axis`; where all labels have the score -∞, as nothing is allowed, they keep it."""
    return backend_of_raw(scores._raw).log_probs(scores, axis=axis)


def over(x: Tensor, dims: Sequence[Dim]) -> Tensor:
    """A Tensor with all of these dims, in order. Raises DimError if it has others."""
    lacking = [dim for dim in dims if dim not in x.dims_set]
    return (expand_dims(x, lacking) if lacking else x).copy_transpose(dims)


def gumbel(like: Tensor) -> Tensor:
    """Noise by which the largest of scores with noise is a sample of their softmax (Gumbel-max). {…} → {…}"""
    least = 1e-30  # log(0) is not a sample
    uniform = random_uniform(like.dims, dtype=like.dtype, device=like.device, minval=least, maxval=1.0)
    return neg(log(neg(log(uniform))))


@dataclass(frozen=True)
class Combinations:
    """Combinations of a label of each source. scores: their sums, {…, axis}. labels_of: the labels that each source
    has left, {…, one of ranks}; ranks: a dim for each source, whose product is `axis`, the first slowest."""

    scores: Tensor
    axis: Dim
    labels_of: Sequence[Tensor]
    ranks: Sequence[Dim]

    def labels(self, numbers: Any, follow: Callable[[Tensor], Tensor]) -> list[Tensor]:
        """The label of each source in some combinations. follow: gives each of them the value of its parent."""
        labels_by_source: list[Tensor] = []
        for i, (labels, rank) in enumerate(zip(self.labels_of, self.ranks, strict=True)):
            later = math.prod(dim.get_dim_value() for dim in self.ranks[i + 1 :])
            number = numbers // later % rank.get_dim_value()
            number = set_sparse_dim(number, rank)
            labels_by_source.append(gather(follow(labels), indices=number, axis=rank))
        return labels_by_source


def combinations(scores: Sequence[Tensor], axes: Sequence[Dim], sizes: Sequence[int]) -> Combinations:
    """All combinations of the best labels of each source."""
    if len(sizes) != len(scores):
        raise ParameterError("choice: `source_beam_sizes` has a size for each source", got=sizes, expected=len(scores))
    best: list[Tensor] = []
    labels: list[Tensor] = []
    ranks: list[Dim] = []
    for i, (source, axis, size) in enumerate(zip(scores, axes, sizes, strict=True)):
        rank = Dim(min(size, axis.get_dim_value()), name=f"best of source {i}")
        values, numbers, _ = top_k(source, axis=axis, k_dim=rank)
        assert isinstance(numbers, Tensor)
        best.append(values)
        labels.append(numbers)
        ranks.append(rank)
    total = best[0]
    for values in best[1:]:
        total = total + values
    merged, dim = merge_dims(total, dims=ranks)
    axis = Dim(math.prod(rank.get_dim_value() for rank in ranks), name="combinations")
    return Combinations(replace_dim(merged, in_dim=dim, out_dim=axis)[0], axis, labels, ranks)
