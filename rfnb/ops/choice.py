"""Labels drawn at random."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op_call import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.math import add, log, minimum, mul, neg
from rfnb.ops.random import random_uniform
from rfnb.ops.reduce import reduce_argmax, reduce_sum
from rfnb.ops.sequence import cumsum
from rfnb.ops.shape import set_sparse_dim
from rfnb.ops.sort import search_sorted
from rfnb.ops.top_k import top_k


@guarded
def random_choice_with_replacement(dims: Sequence[Dim], *, probs: Tensor, axis: Dim) -> Tensor:
    """A label for each position of `dims`, drawn independently with the probabilities `probs`.

    {…, axis} → {dims} sparse in axis

    The probabilities need not sum to 1. Where they sum to 0 or NaN, the label is arbitrary.

    >>> word, draws = rf.Dim(3, name="word"), rf.Dim(4, name="draws")
    >>> probs = rf.convert_to_tensor([0.0, 1.0, 0.0], dims=[word])
    >>> rf.random_choice_with_replacement([draws], probs=probs, axis=word).raw_tensor.tolist()
    [1, 1, 1, 1]
    """
    missing = [dim for dim in probs.dims if dim is not axis and dim not in dims]
    if missing:
        raise DimError(
            f"random_choice_with_replacement: `dims` lacks {missing[0].name}, which `probs` has",
            got=align.show_dims(dims),
            expected=probs.describe_dims(),
        )
    total = cumsum(probs, spatial_dim=axis)
    point = random_uniform(dims, dtype=probs.dtype, device=probs.device)
    threshold = mul(point, reduce_sum(probs, axis=axis))
    index = search_sorted(total, threshold, axis=axis, side="right", out_dtype="int64")
    final = reduce_argmax(total, axis=axis)  # with a probability above 0
    return set_sparse_dim(minimum(index, final).copy_transpose(dims), axis)


@guarded
def random_choice_without_replacement(
    *, log_probs: Tensor, axis: Dim | Sequence[Dim], num_samples_dim: Dim, noise_scale: float | Tensor = 1.0
) -> Tensor | list[Tensor]:
    """Distinct labels, drawn with their probabilities.

    {…, axis} → {…, num_samples_dim} sparse in axis

    The Gumbel-top-k trick, https://arxiv.org/abs/1903.06059. The labels come in the order in which they were drawn.

    >>> word, draws = rf.Dim(3, name="word"), rf.Dim(2, name="draws")
    >>> log_probs = rf.log(rf.convert_to_tensor([0.5, 0.0, 0.5], dims=[word]))
    >>> sorted(rf.random_choice_without_replacement(
    ...     log_probs=log_probs, axis=word, num_samples_dim=draws).raw_tensor.tolist())
    [0, 2]

    Args:
        axis: for a list of dims, the result is a list of labels, one for each dim.
        noise_scale: with 0, the most probable labels are taken.
    """
    noise = random_uniform(log_probs.dims, minval=1e-30, dtype=log_probs.dtype, device=log_probs.device)
    gumbel = neg(log(neg(log(noise))))
    entries = math.prod(log_probs.size_of(dim).max for dim in ([axis] if isinstance(axis, Dim) else axis))
    if num_samples_dim.get_dim_value() > entries:
        raise DimError(
            "random_choice_without_replacement: `num_samples_dim` is larger than the number of entries",
            got=num_samples_dim.get_dim_value(),
            expected=f"at most {entries}",
        )
    return top_k(add(log_probs, mul(gumbel, noise_scale)), axis=axis, k_dim=num_samples_dim)[1]
