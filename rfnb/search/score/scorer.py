"""What a scorer must do to take part in `loop.choice`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor


@runtime_checkable
class Scorer(Protocol):
    """Scores labels by what it remembers of each hypothesis: any object with these two methods.

    It is called once while the body is traced, so that it consists of ops, like the rest of the body. Its state follows
    the hypotheses.

    >>> class Repetition:  # 1 for the label that would repeat the last one
    ...     def initial_state(self, *, batch_dims):
    ...         return None
    ...     def score(self, label, state):
    ...         return rf.cast(rf.range_over_dim(phone) == label, "float32"), state
    >>> phone, beam = rf.Dim(3, name="phone", vocab=["<s>", "a", "b"]), rf.Dim(2, name="beam")
    >>> scores = rf.convert_to_tensor([-9.0, -0.2, -2.0], dims=[phone])
    >>> loop = rf.Loop(max_seq_len=3)
    >>> with loop:
    ...     parts = {"model": scores, "again": (Repetition(), -2.0)}
    ...     chosen = loop.choice(parts, beam=beam, input_type="log_prob", length_normalization=False)
    >>> best = loop.found.tree[0].best
    >>> best.text, {name: round(score, 1) for name, score in best.parts.items()}
    ('aba', {'model': -2.4, 'again': 0.0})

    A scorer may also have `final(state) → {…, beam}`. It is added to the score of a hypothesis at its end; −∞ says that
    it may not end there. `state` is that after the last call of `score`. In a search over frames, or if no label ends
    the hypotheses, `score` is called once more for their last labels, so that it is the state after all of them;
    unless it reads values of the body, which differ at each step. With `scores_ends = True`, the scores of the label
    that ends a hypothesis have all that `final` gives, so that only hypotheses that no label ends get it.
    """

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> Any:
        """The state before the first label: a Tensor, an `rf.State`, nested ones, or None. The last of `batch_dims` is
        the beam."""

    def score(self, label: Tensor, state: Any) -> tuple[Tensor, Any]:
        """Scores of the next labels, such as log-probabilities, {…, beam, labels}, and the new state.

        label: the last one of each hypothesis, {…, beam}; in the first step, the option `start=` of `loop.choice`.
        """


@runtime_checkable
class PartialScorer(Protocol):
    """A scorer that costs much for each label. It is asked only for candidates, the best labels of each hypothesis by
    the other scores; their number is the option `partial_candidates=` of `loop.choice`.

    >>> class Bigrams:
    ...     def initial_state(self, *, batch_dims):
    ...         return rf.zeros(batch_dims, dtype="int64")
    ...     def advance(self, label, state):
    ...         return rf.set_sparse_dim(label, None)
    ...     def partial(self, labels, state):  # 1 if the next label is the one after the last
    ...         return rf.cast(rf.set_sparse_dim(labels, None) == state + 1, "float32")
    >>> label, beam = rf.Dim(4, name="label", vocab=list("abcd")), rf.Dim(2, name="beam")
    >>> scores, loop = rf.convert_to_tensor([-2.0, -1.5, -1.4, -1.3], dims=[label]), rf.Loop(max_seq_len=3)
    >>> with loop:
    ...     parts = {"model": scores, "slow": (Bigrams(), 0.5)}
    ...     chosen = loop.choice(parts, beam=beam, input_type="log_prob", partial_candidates=3)
    >>> loop.found.nbest(1)
    [['bcd']]
    """

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> Any:
        """The state before the first label, as for a `Scorer`."""

    def advance(self, label: Tensor, state: Any) -> Any:
        """The state after `label`, the last one of each hypothesis, {…, beam}; called once in each step."""

    def partial(self, labels: Tensor, state: Any) -> Tensor:
        """Scores of the candidates `labels`, {…, beam, candidates} → the same. state: what `advance` returned."""


def state_after(scorer: Scorer | PartialScorer, label: Tensor, state: Any) -> Any:
    """The state of a scorer after one more label. {…, beam}"""
    return scorer.advance(label, state) if isinstance(scorer, PartialScorer) else scorer.score(label, state)[1]


def scores_ends(scorer: Any) -> bool:
    """Whether the scores of the label that ends a hypothesis have all that `final` gives."""
    return bool(getattr(scorer, "scores_ends", False))
