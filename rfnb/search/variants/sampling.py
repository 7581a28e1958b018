"""Labels drawn by chance."""

from __future__ import annotations

import numpy as np

from rfnb.core.advice.similar_dims import broadcast_allowed
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.ops.create import range_over_dim
from rfnb.ops.math import equal, exp, is_neg_infinite, logical_and, logical_not, where
from rfnb.ops.reduce import log_softmax, reduce_argmax, reduce_max
from rfnb.ops.sort import top_k_mask, top_p_mask
from rfnb.search.sources import gumbel


@broadcast_allowed()
@guarded
def truncated(
    log_probs: Tensor,
    *,
    axis: Dim,
    temperature: float | Tensor = 1.0,
    top_k: int | Tensor | None = None,
    top_p: float | Tensor | None = None,
) -> Tensor:
    """The log-probabilities of the likely labels alone, which sum to 1 again; -∞ for others. {…, axis} → {…, axis}

    >>> label = rf.Dim(3, name="label")
    >>> log_probs = rf.log(rf.convert_to_tensor([0.6, 0.3, 0.1], dims=[label]))
    >>> [round(x, 3) for x in rf.exp(rf.search.truncated(log_probs, axis=label, top_k=2)).tolist()]
    [0.667, 0.333, 0.0]

    Args:
        log_probs: or logits, which need not sum to 1. Labels with -∞ keep it; if all have, so does the result.
        temperature: probabilities to the power of 1 / temperature. Below 1, likely labels become more likely.
        top_k: the number of labels that are left. top_p: their probability, after `temperature` and `top_k`: the most
            likely labels until it is reached (https://arxiv.org/abs/1904.09751).

    Raises ParameterError for numbers out of range.
    """
    for name, number, least in (("temperature", temperature, 0), ("top_k", top_k, 0), ("top_p", top_p, 0)):
        if isinstance(number, int | float) and not number > least:
            raise ParameterError(
                f"truncated: `{name}` is too small", got=number, expected="more than 0",
                hint="top_k=1: the most likely label",
            )  # fmt: skip
    scores = _normalized(log_probs / temperature, axis)
    if top_k is not None:
        scores = _normalized(where(top_k_mask(scores, axis=axis, k=top_k), scores, -np.inf), axis)
    if top_p is not None:
        scores = _normalized(where(top_p_mask(exp(scores), axis=axis, p=top_p), scores, -np.inf), axis)
    return scores


@broadcast_allowed()
@guarded
def sampled(
    log_probs: Tensor,
    *,
    axis: Dim,
    temperature: float | Tensor = 1.0,
    top_k: int | Tensor | None = None,
    top_p: float | Tensor | None = None,
) -> Tensor:
    """The scores with one label drawn, all others -∞. {…, axis} → {…, axis}

    A choice with these scores extends each hypothesis by the label that was drawn, and its score is that of the model.
    For several samples of each sequence, the states have another dim, and a beam of size 1.

    >>> label = rf.Dim(3, name="label")
    >>> log_probs = rf.log_softmax(rf.convert_to_tensor([3.0, 1.0, 0.0], dims=[label]), axis=label)
    >>> rf.is_neg_infinite(rf.search.sampled(log_probs, axis=label, top_k=1)).tolist()
    [False, True, True]

    Args:
        log_probs: the scores, by whose softmax the label is drawn.
        temperature, top_k, top_p: as of `rf.search.truncated`.

    Raises ParameterError for numbers out of range.
    """
    likely = truncated(log_probs, axis=axis, temperature=temperature, top_k=top_k, top_p=top_p)
    label = reduce_argmax(likely + gumbel(likely), axis=axis)
    is_drawn = equal(range_over_dim(axis, dtype=label.dtype, device=likely.device), label)
    return where(logical_and(is_drawn, logical_not(is_neg_infinite(likely))), log_probs, -np.inf)


def _normalized(scores: Tensor, axis: Dim) -> Tensor:
    """The log of their softmax; -∞ if all are."""
    impossible = is_neg_infinite(reduce_max(scores, axis=axis))
    return where(impossible, -np.inf, log_softmax(scores, axis=axis))
