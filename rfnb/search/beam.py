"""One step of a beam search, as a function."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from rfnb.backend.base.tape import untaped
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.op import op
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.ops.index import gather
from rfnb.ops.math import is_neg_infinite, logical_and, logical_not, where
from rfnb.ops.shape import expand_dim
from rfnb.ops.top_k import top_k


class BeamStep(NamedTuple):
    """The hypotheses after a step. {…, out_beam}

    labels: the label that each got. parents: the hypothesis that it extends. scores: the sums of the scores. counts:
    how many labels each has; None if they were not given.
    """

    labels: Tensor
    parents: Tensor
    scores: Tensor
    counts: Tensor | None


@op()
def beam_step(
    scores: Tensor,
    base: Tensor,
    *,
    axis: Dim,
    beam: Dim,
    out_beam: Dim,
    ended: Tensor | None = None,
    counts: Tensor | None = None,
    step: Tensor | int = 0,
    exponent: float = 1.0,
) -> BeamStep:
    """The best extensions of all hypotheses by one label. {…, beam, axis}, {…, beam} → {…, out_beam}

    Candidates are ordered by score; of equal ones, that of the hypothesis, and then of the label, with the lower index
    comes first. A hypothesis that has ended competes with its score as it is; the label 0 that it gets does not count.

    >>> label, beam, after = rf.Dim(3, name="label"), rf.Dim(2, name="beam"), rf.Dim(2, name="after")
    >>> scores = rf.convert_to_tensor([[-3.0, -1.0, -2.0], [-1.0, -1.0, -1.0]], dims=[beam, label])
    >>> base = rf.convert_to_tensor([0.0, -0.5], dims=[beam])
    >>> found = rf.search.beam_step(scores, base, axis=label, beam=beam, out_beam=after)
    >>> found.labels.tolist(), found.parents.tolist(), found.scores.tolist()
    ([1, 0], [0, 1], [-1.0, -1.5])

    Args:
        scores: of each label, such as log-probabilities. base: of each hypothesis so far; -∞ for a place without one.
        ended: which hypotheses have ended. {…, beam} bool
        counts: how many labels each hypothesis has, {…, beam}. If given, candidates are compared by
            score / count ** exponent, and `step` is the number of this step.
    """
    if beam not in scores.dims_set:
        scores = expand_dim(scores, beam)
    compared = base
    if ended is not None:
        scores = where(ended, _first_label_only(scores, axis), scores)
        if counts is not None:
            compared = where(ended, base * ((step + 1) / counts) ** exponent, base)
    batch = [dim for dim in base.dims if dim is not beam]
    total = (compared + scores).copy_transpose([*batch, beam, axis])
    best, (parents, labels), _ = top_k(total, axis=[beam, axis], k_dim=out_beam, k=out_beam.get_dim_value())
    if counts is None:
        return BeamStep(labels, parents, best, None)
    if ended is None:
        return BeamStep(labels, parents, best, best * 0 + (step + 1))
    had = logical_and(gather(ended, indices=parents, axis=beam), logical_not(is_neg_infinite(best)))
    best = where(had, gather(base, indices=parents, axis=beam), best)
    return BeamStep(labels, parents, best, where(had, gather(counts, indices=parents, axis=beam), step + 1))


def _first_label_only(scores: Tensor, axis: Dim) -> Tensor:
    """0 for the first label, -∞ for the others. {axis}"""
    numbers = np.full(axis.get_dim_value(), -np.inf, scores.dtype)
    numbers[:1] = 0
    with untaped():
        return tensor_of(backend_of_raw(scores._raw).from_numpy_raw(numbers, scores.device), align.sig([axis]), EMPTY)
