"""What a scorer must do to take part in a search, and the parts of a score: `{"model": x, "lm": (scorer, 0.4)}`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, Protocol, runtime_checkable

from rfnb.core.advice.torch_equivalents import likely_features
from rfnb.core.dims.dim import Dim, single_step_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DimError, ParameterError
from rfnb.ops.reduce import log_softmax
from rfnb.ops.shape import set_sparse_dim

SearchState = Any
"""What a scorer remembers of each hypothesis: Tensors, or containers of them."""


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

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> SearchState:
        """The state before the first label: a Tensor, an `rf.State`, nested ones, or None. The last of `batch_dims` is
        the beam."""

    def score(self, label: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
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

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> SearchState:
        """The state before the first label, as for a `Scorer`."""

    def advance(self, label: Tensor, state: SearchState) -> SearchState:
        """The state after `label`, the last one of each hypothesis, {…, beam}; called once in each step."""

    def partial(self, labels: Tensor, state: SearchState) -> Tensor:
        """Scores of the candidates `labels`, {…, beam, candidates} → the same. state: what `advance` returned."""


@runtime_checkable
class ChangingScorer(Protocol):
    """A change of the sum of all other parts of a score, by what it remembers of each hypothesis. What it adds to the
    sum is a part of its own; labels that are ruled out stay so.

    >>> class Sharper:  # the same label as before gets half of its log-probability
    ...     def initial_state(self, *, batch_dims):
    ...         return None
    ...     def change(self, scores, label, state):
    ...         again = rf.range_over_dim(scores.feature_dim) == label
    ...         return rf.where(again, scores * 0.5, scores), state
    >>> label, beam = rf.Dim(3, name="label", vocab=["<s>", "a", "b"]), rf.Dim(2, name="beam")
    >>> scores, loop = rf.convert_to_tensor([-9.0, -1.0, -1.5], dims=[label]), rf.Loop(max_seq_len=3)
    >>> with loop:
    ...     parts = {"model": scores, "again": Sharper()}
    ...     chosen = loop.choice(parts, beam=beam, input_type="log_prob", length_normalization=False)
    >>> best = loop.found.tree[0].best
    >>> best.text, best.parts
    ('aaa', {'model': -3.0, 'again': 1.0})
    """

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> SearchState:
        """The state before the first label, as for a `Scorer`."""

    def change(self, scores: Tensor, label: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """The new scores of the next labels, and the new state.

        scores: the sum of the other parts, {…, beam, labels}, whose feature dim are the labels. label: as for a
        `Scorer`.
        """


def state_after(scorer: Scorer | PartialScorer, label: Tensor, state: SearchState) -> SearchState:
    """The state of a scorer after one more label. {…, beam}"""
    return scorer.advance(label, state) if isinstance(scorer, PartialScorer) else scorer.score(label, state)[1]


def scores_ends(scorer: object) -> bool:
    """Whether the scores of the label that ends a hypothesis have all that `final` gives."""
    return bool(getattr(scorer, "scores_ends", False))


class ModuleScorer:
    """Scores labels by a module that has `default_initial_state(batch_dims=)`, and that gives the scores of the next
    labels over its feature dim, `module(label, state=…, spatial_dim=rf.single_step_dim) → (scores, state)`.

    Logits are normalized, {…, beam, labels}; log-probabilities stay as they are. `loop.choice` makes one of each module
    that it is given.
    """

    only_falls = True  # scores are log-probabilities

    def __init__(self, module: Any):
        self.module = module

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> SearchState:
        """The initial state of the module."""
        return self.module.default_initial_state(batch_dims=batch_dims)

    def score(self, label: Tensor, state: SearchState) -> tuple[Tensor, SearchState]:
        """Log-probabilities of the next labels. {…, beam} → {…, beam, labels}"""
        labels = getattr(self.module, "vocab_dim", None)
        if isinstance(labels, Dim) and label.sparse_dim is not labels:
            label = set_sparse_dim(label, labels)
        scores, state = self.module(label, state=state, spatial_dim=single_step_dim)
        if scores.feature_dim is None:
            raise DimError(
                "choice: the scores of a module have no feature dim",
                got=scores.describe_dims(),
                hint=f"rf.set_feature_dim(scores, {likely_features(scores) or 'labels'}) at the end of its __call__",
            )
        return log_softmax(scores, axis=scores.feature_dim), state


@dataclass(frozen=True)
class ScorePart:
    """One part. value: a Tensor of scores, a scorer, a change, or None for the number of labels."""

    name: str
    value: Tensor | Scorer | PartialScorer | ChangingScorer | None
    scale: float


def read_parts(by_name: Mapping[str, object]) -> list[ScorePart]:
    """The parts whose scale is not 0. Raises ParameterError for what is none, and if none scores the labels."""
    parts = parts_of(by_name)
    if all(part.value is None or isinstance(part.value, ChangingScorer) for part in parts):
        raise ParameterError(
            "choice: no part scores the labels", got=by_name, hint='loop.choice({"model": scores, "lm": (lm, 0.4)}, …)'
        )
    return parts


def parts_of(by_name: Mapping[str, object]) -> list[ScorePart]:
    """The parts whose scale is not 0. Raises ParameterError for what is none."""
    parts = [_part(name, value) for name, value in by_name.items()]
    return [part for part in parts if part.scale]


def _part(name: Any, entry: Any) -> ScorePart:
    if not isinstance(name, str) or not name:
        raise ParameterError("choice: the name of a part is not a string", got=name, expected='{"model": scores, …}')
    if name == "length" and isinstance(entry, Real):
        return ScorePart(name, None, _scale(name, entry))
    value, scale = entry if isinstance(entry, tuple) and len(entry) == 2 else (entry, 1.0)
    return ScorePart(name, _value(name, value), _scale(name, scale))


def _scale(name: str, scale: object) -> float:
    if isinstance(scale, bool) or not isinstance(scale, Real) or not math.isfinite(scale):
        raise ParameterError(f"choice: the scale of {name!r} is not a finite number", got=scale)
    return float(scale)


def _value(name: str, value: object) -> Tensor | Scorer | PartialScorer | ChangingScorer:
    if isinstance(value, Tensor | Scorer | PartialScorer | ChangingScorer):
        return value
    if callable(value) and hasattr(value, "default_initial_state"):
        return ModuleScorer(value)
    raise ParameterError(
        f"choice: {name!r} is neither a Tensor nor a scorer",
        got=value if isinstance(value, Real) else type(value).__name__,
        expected="a Tensor, a scorer with initial_state and score, or a module with default_initial_state",
        hint=f'"{name}": (scorer, {value}), a scorer and its scale; only "length" is a number' * isinstance(value, Real)
        or None,
    )


def label_dim_of(tensors: list[Tensor]) -> Dim | None:
    """The feature dim of the first Tensor that has one."""
    return next((x.feature_dim for x in tensors if x.feature_dim is not None), None)


def most_gain(parts: list[ScorePart], known: float | None, given: float | None) -> float | None:
    """The most that a label may add to the sum of the parts; None if that is not known.

    known: what it is for log-probabilities, None if their sums are not the scores. given: by the user.
    """
    if given is not None or known is None:
        return given
    total = 0.0
    for part in parts:
        if part.value is None:
            total += max(part.scale, 0.0)
        elif part.scale < 0 or not (isinstance(part.value, Tensor) or getattr(part.value, "only_falls", False)):
            return None
    return total


def refuse_finals(what: str, parts: list[ScorePart]) -> None:
    """Raises ParameterError for scorers by which the end of a hypothesis changes its score."""
    for part in parts:
        if hasattr(part.value, "final") and not scores_ends(part.value):
            raise ParameterError(
                f"{what}: with {part.name!r}, the end of a hypothesis changes its score, so none is certain before",
                hint="leave out early_stop",
            )
