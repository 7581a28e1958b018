"""Scorers made of a model: what its attention left out (Wu et al. 2016), and its own language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from rfnb.core.advice.torch_equivalents import likely_features
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import map_leaves
from rfnb.core.tensor.arguments import OneOf
from rfnb.core.tensor.op import guard_methods
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError
from rfnb.ops.create import full, zeros
from rfnb.ops.math import log, maximum, minimum
from rfnb.ops.reduce import log_softmax, reduce_mean, reduce_sum
from rfnb.ops.shape import expand_dim


class Coverage:
    """Σ log(min(attention, 1)) over all frames, where `attention` is what a frame got in all steps; it is added at the
    end of a hypothesis. Outputs that leave out a part of the input have a low score.

    "Google's neural machine translation system" (Wu et al. 2016), equation 14, whose β is the scale. It is made in the
    body of the loop, of the attention weights of the step:
    `{"model": logits, "coverage": (rf.search.Coverage(weights, axis=time), 0.2)}`.

    >>> time, beam = rf.Dim(2, name="time"), rf.Dim(1, name="beam")
    >>> weights = rf.convert_to_tensor([[0.75, 0.25]], dims=[beam, time])
    >>> coverage = rf.search.Coverage(weights, axis=time)
    >>> _, state = coverage.score(None, coverage.initial_state(batch_dims=[beam]))
    >>> _, state = coverage.score(None, state)  # 1.5 and 0.5
    >>> rf.exp(coverage.final(state)).raw_tensor.tolist()
    [0.5]

    Args:
        weights: of the frames in this step. {…, beam, axis}
        axis: the dim of the frames.
        least: what a frame got at least, so that its logarithm is finite.
    """

    def __init__(self, weights: Tensor, *, axis: Dim, least: float = 1e-6):
        if axis not in weights.dims:
            raise DimError("Coverage: `weights` lacks the dim of the frames", got=weights.dims, expected=axis.name)
        self.weights, self.axis, self.least = weights, axis, least

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> Tensor:
        """No frame got anything. {…, beam, axis}"""
        return zeros([*batch_dims, self.axis], dtype=self.weights.dtype, device=self.weights.device)

    def score(self, label: Tensor | None, state: Tensor) -> tuple[Tensor, Tensor]:
        """0 for all labels, and what each frame got so far."""
        return full(dims=[], fill_value=0.0, device=state.device), state + self.weights

    def final(self, state: Tensor) -> Tensor:
        """The penalty. {…, beam, axis} → {…, beam}"""
        return reduce_sum(log(minimum(maximum(state, self.least), 1.0)), axis=self.axis)


guard_methods(Coverage, "__init__")


Step = Callable[[Tensor, Any, Any], tuple[Tensor, Any]]


class InternalLM:
    """What the decoder of a model expects without the input: its own step, with an encoder that says nothing. With a
    negative scale, it leaves room for an external language model (Variani et al. 2020; Meng et al. 2021).

    >>> time, feat, label = rf.Dim(3, name="time"), rf.Dim(2, name="feat"), rf.Dim(4, name="label")
    >>> batch, beam = rf.Dim(2, name="batch"), rf.Dim(2, name="beam")
    >>> encoded = rf.random_normal([batch, time, feat])
    >>> before, out = rf.random_normal([label, feat]), rf.Linear(feat, label)
    >>> def step(prev, state, encoded):
    ...     context = rf.reduce_mean(encoded, axis=time) + rf.gather(before, indices=prev, axis=label)
    ...     return out(context), state
    >>> ilm = rf.search.InternalLM(step, encoded, axis=time)
    >>> prev = rf.zeros([batch, beam], dtype="int64", sparse_dim=label)
    >>> scores, _ = ilm.score(prev, ilm.initial_state(batch_dims=[batch, beam]))
    >>> expected = rf.log_softmax(out(rf.gather(before, indices=prev, axis=label)), axis=label)
    >>> bool((scores - expected).raw_tensor.abs().max() < 1e-5)
    True

    Then `loop.choice({"model": logits, "lm": (lm, 0.4), "ilm": (ilm, -0.2)}, …)`.

    Args:
        step: one step of the decoder, `step(prev, state, encoded) → (scores, state)`, whose scores have the labels as
            feature dim; logits, or log-probabilities.
        encoded: what the encoder gives: a Tensor, or several in a dict, list or tuple.
        axis: the dim of its frames.
        initial_state: makes the state of the decoder, `initial_state(batch_dims=[…])`; default: there is none.
        by: what stands for the encoder: "zero", or the "mean" over the frames of each sequence.
    """

    def __init__(
        self,
        step: Step,
        encoded: object,
        *,
        axis: Dim,
        initial_state: Callable[..., object] | None = None,
        by: Annotated[str, OneOf("zero", "mean")] = "zero",
    ):
        self.step, self.axis, self.by, self._initial_state = step, axis, by, initial_state
        self.encoded = map_leaves(self._silent, encoded)

    def _silent(self, leaf: object) -> object:
        if not isinstance(leaf, Tensor) or self.axis not in leaf.dims:
            return leaf
        if self.by == "zero":
            return leaf * 0
        mean = reduce_mean(leaf, axis=self.axis)
        return expand_dim(mean, self.axis).copy_transpose(leaf.dims)

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> Any:
        """The initial state of the decoder."""
        return None if self._initial_state is None else self._initial_state(batch_dims=batch_dims)

    def score(self, label: Tensor, state: object) -> tuple[Tensor, Any]:
        """Log-probabilities of the next labels. {…, beam} → {…, beam, labels}"""
        scores, state = self.step(label, state, self.encoded)
        if scores.feature_dim is None:
            raise DimError(
                "InternalLM: the scores of `step` have no feature dim",
                got=scores.describe_dims(),
                hint=f"rf.set_feature_dim(scores, {likely_features(scores) or 'labels'})",
            )
        return log_softmax(scores, axis=scores.feature_dim), state


guard_methods(InternalLM, "__init__")
