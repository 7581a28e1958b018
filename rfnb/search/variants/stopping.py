"""When the search of a sequence stops though some of its hypotheses go on: as nothing better can come, or by count."""

from __future__ import annotations

from typing import Any

import numpy as np

from rfnb.core.advice.broadcast_errors import broadcast_allowed
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.ops.index import gather
from rfnb.ops.math import (
    cast,
    equal,
    greater,
    greater_equal,
    is_neg_infinite,
    less,
    logical_and as both,
    logical_not as no,
    logical_or as one_of,
    maximum,
    minimum,
    where,
)
from rfnb.ops.reduce import reduce_max, reduce_sum
from rfnb.ops.sort import top_k


@broadcast_allowed()
def stopped(
    scores: Tensor,
    labels: Tensor,
    counts: Tensor | None,
    beam: Dim,
    *,
    had_ended: Tensor,
    end: int | None,
    most_ended: int | None,
    sure: int,
    exponent: float,
    offset: float,
    most_gain: float,
    step: Tensor | int,
    limit: Tensor | int | None,
) -> Tensor:
    """The scores of the hypotheses after a step, but −∞ for those that go on where the search stops. {…, beam}

    Args:
        labels, counts: the label that each got, and how many it has; None if scores are not normalized.
        had_ended: which had ended before the step, {…, beam}. end: the label that ends others in this step.
        most_ended: the search stops when so many have ended.
        sure: it stops when so many have ended that are better than all that those that go on can still become. These
            get at most `most_gain` for each label, and have at most `limit` labels, {…} or a number.
        exponent, offset: as of `beam_step`.
    """
    over = had_ended if end is None else one_of(had_ended, equal(labels, end))
    alive = no(is_neg_infinite(scores))
    finished = both(over, alive)
    stops: Any = None
    if most_ended is not None:
        stops = greater_equal(reduce_sum(cast(finished, "int64"), axis=beam), most_ended)
    if sure:
        count = step + 1
        compared = scores
        if exponent and counts is not None:
            compared = scores / _by_length(counts, exponent, offset)
        last = Dim(sure, name="sure")
        best, _, _ = top_k(where(finished, compared, -np.inf).copy_transpose(scores.dims), axis=beam, k_dim=last)
        threshold = gather(best, indices=sure - 1, axis=last)
        bounds = where(over, -np.inf, bound(scores, count, limit, exponent, offset, most_gain))
        certain = greater(threshold, reduce_max(bounds, axis=beam))
        stops = certain if stops is None else one_of(stops, certain)
    if stops is None:
        return scores
    return where(both(stops, no(over)), -np.inf, scores).copy_transpose(scores.dims)


def bound(scores: Tensor, count: Any, limit: Any, exponent: float, offset: float, most_gain: float) -> Tensor:
    """The highest final score that hypotheses with `count` labels may get, if each label adds at most `most_gain`."""
    highest = scores + most_gain * (limit - count) if most_gain > 0 else scores
    if not exponent:
        return highest
    shortest, longest = (_by_length(length, exponent, offset) for length in (count, limit))
    least_divisor, largest = _ordered(shortest, longest)
    return where(less(highest, 0.0), highest / largest, highest / least_divisor)


def _ordered(a: Any, b: Any) -> tuple[Any, Any]:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return minimum(a, b), maximum(a, b)
    return min(a, b), max(a, b)


def _by_length(length: Any, exponent: float, offset: float) -> Any:
    """What scores are divided by (Wu et al. 2016), but for a constant factor."""
    length = cast(length, "float32") if isinstance(length, Tensor) else length
    return (length + offset) ** exponent
