"""Stochastic beams: different sequences, drawn from the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rfnb.core.advice.similar_dims import broadcast_allowed
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import DimError
from rfnb.ops.create import zeros
from rfnb.ops.index import gather
from rfnb.ops.math import abs as magnitude, exp, is_neg_infinite, log1p, logical_or, maximum, neg, where
from rfnb.ops.reduce import reduce_max
from rfnb.ops.shape import expand_dim
from rfnb.search.sources import gumbel


@dataclass(frozen=True, eq=False)
class Stochastic:
    """A scorer that adds noise to `log_probs`; `stochastic` explains it."""

    log_probs: Tensor
    axis: Dim
    needs_plain_sums = True  # the scores of hypotheses are compared as they are, not normalized by length

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The state of hypotheses without labels: log_prob and perturbed, of each label of the step before."""
        every = expand_dim(zeros(batch_dims, dtype=self.log_probs.dtype), self.axis)
        return State(log_prob=every, perturbed=every, started=zeros(batch_dims, dtype="bool"))

    @broadcast_allowed()
    def score(self, label: Tensor, state: State) -> tuple[Tensor, State]:
        """The noise of each label, and the new state. {…, beam} → {…, beam, labels}"""
        parent, bound = (gather(state[name], indices=label, axis=self.axis) for name in ("log_prob", "perturbed"))
        root = gumbel(bound)  # in the first step, that of no labels, whose log-probability is 0
        bound = where(state.started, bound, root)
        log_prob = parent + self.log_probs
        offset = _below(log_prob + gumbel(log_prob), self.axis, bound)
        noise = offset - self.log_probs + where(state.started, 0.0, root)
        noise = where(is_neg_infinite(self.log_probs), 0.0, noise)
        started = logical_or(state.started, True)
        return noise, State(log_prob=log_prob, perturbed=bound + offset, started=started)


@guarded
def stochastic(log_probs: Tensor, *, axis: Dim) -> Stochastic:
    """Noise by which a beam has different sequences, drawn without replacement. {…, beam, axis}

    A beam search by the sum of `log_probs` and noise, without length normalization, keeps the sequences with the
    largest Gumbel-perturbed log-probabilities of all: as if each was drawn by the probability of the model, except
    those drawn before (https://arxiv.org/abs/1903.06059). The scores of hypotheses are these perturbed ones.

    >>> label = rf.Dim(3, name="label")
    >>> log_probs = rf.log_softmax(rf.convert_to_tensor([3.0, 1.0, 0.0], dims=[label]), axis=label)
    >>> noise = rf.search.stochastic(log_probs, axis=label)
    >>> scores, _ = noise.score(rf.zeros([], dtype="int64"), noise.initial_state(batch_dims=[]))
    >>> scores.dims == (label,)
    True

    Args:
        log_probs: of the labels in this step, summing to 1 for each hypothesis; perhaps those of
            `rf.search.truncated`. Constraints are best applied to them: what other scores prune was drawn in vain.

    Raises DimError if `log_probs` lacks `axis`. The choice raises ParameterError if scores are normalized by length.
    """
    if axis not in log_probs.dims_set:
        raise DimError("stochastic: `log_probs` lacks the labels", got=log_probs.describe_dims(), expected=axis.name)
    return Stochastic(log_probs, axis)


def _below(perturbed: Tensor, axis: Dim, most: Tensor) -> Tensor:
    """Perturbed log-probabilities on the condition that their largest is `most`, as differences from it. {…, axis}

    The differences are -softplus(v), v = most - g + log(1 - exp(g - max g)), which is stable (appendix of the paper).
    """
    largest = reduce_max(perturbed, axis=axis)
    v = most - perturbed + log1p(neg(exp(perturbed - largest)))
    impossible = logical_or(is_neg_infinite(perturbed), is_neg_infinite(most))
    return where(impossible, -np.inf, neg(maximum(v, 0.0)) - log1p(exp(neg(magnitude(v)))))
