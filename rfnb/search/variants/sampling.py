"""Labels drawn by chance, and beams of different sequences, drawn from the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rfnb.core.advice.similar_dims import broadcast_allowed
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import DimError, ParameterError
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.index import gather, top_k_mask, top_p_mask
from rfnb.ops.math import (
    abs as magnitude,
    equal,
    exp,
    is_neg_infinite,
    log1p,
    logical_and,
    logical_not,
    logical_or,
    maximum,
    neg,
    where,
)
from rfnb.ops.reduce import log_softmax, reduce_argmax, reduce_max
from rfnb.ops.shape import expand_dim
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
