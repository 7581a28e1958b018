"""The language model inside of a model with an encoder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from rfnb.core.advice.torch_equivalents import likely_features
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import map_leaves
from rfnb.core.tensor.arguments import OneOf
from rfnb.core.tensor.op import guard_methods
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, ParameterError
from rfnb.ops.reduce import log_softmax, reduce_mean
from rfnb.ops.shape import expand_dim

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
        if by not in ("zero", "mean"):
            raise ParameterError("InternalLM: unknown `by`", got=by, expected='"zero" or "mean"')
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

    def score(self, label: Tensor, state: Any) -> tuple[Tensor, Any]:
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
