"""What a hypothesis has already, and what that changes: repetitions, presence, words that must not come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.advice.similar_dims import broadcast_allowed
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import CountFrom0, CountFrom1, Finite
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import DimError, ParameterError
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import full, range_over_dim, zeros
from rfnb.ops.index import gather, scatter
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import cast, equal, greater, greater_equal, less, logical_and, logical_or, not_equal, where
from rfnb.ops.reduce import reduce_all, reduce_sum
from rfnb.ops.shape import set_sparse_dim
from rfnb.ops.slice import shift_left, shift_right
from rfnb.search.variants.constraints import ANY, Constraint, Prefix, beside, labels_of, numbers_of, padded

Before = Tensor | Prefix | Sequence[Prefix]
"""Labels before the first one, for all sequences or for each."""


class History:
    """The last labels of each hypothesis, as the state of a scorer.

    Args:
        within: how many of them.
        before: those before the first one, such as a prompt.
    """

    def __init__(self, within: int, before: Before | None):
        self.before, self.last = before, Dim(within, name="last labels")

    def start(self, dims: Sequence[Dim]) -> State:
        """The state before the start label."""
        labels = full(dims=[*dims, self.last], fill_value=ANY, dtype="int64")
        return State(labels=labels, started=zeros(dims, dtype="bool"))

    def after(self, label: Tensor, state: State) -> State:
        """The state after one more label; the first one, the start label, does not count."""
        labels, started = beside(state.labels, label), beside(state.started, label)
        new = where(started, cast(set_sparse_dim(label, None), "int64"), ANY)
        longer = shift_left(labels, axis=self.last, pad_value=new)
        if self.before is not None:
            longer = where(started, longer, self._prompt(label)).copy_transpose(longer.dims)
        return State(labels=longer, started=logical_or(started, True))

    def _prompt(self, label: Tensor) -> Tensor:
        """The last labels before the first one; `ANY` where there are fewer. {…, last labels}"""
        before = self.before
        labels = beside(before, label) if isinstance(before, Tensor) else padded("before", before, label)
        axes = [dim for dim in labels.dims if dim not in label.dims_set]
        if len(axes) != 1:
            raise DimError(
                "before: which dim counts the labels?", got=labels.describe_dims(),
                expected=f"one dim that the labels {label.describe_dims()} lack",
            )  # fmt: skip
        count: Any = reduce_sum(cast(not_equal(labels, ANY), "int64"), axis=axes[0])
        if isinstance(before, Tensor):
            count = axes[0].get_dim_value() if axes[0].is_static() else get_size_tensor(axes[0], device=label.device)
        if not axes[0].size.max:
            return full(dims=[self.last], fill_value=ANY, dtype="int64", device=label.device)
        place = range_over_dim(self.last, dtype="int64", device=label.device) - self.last.get_dim_value() + count
        place = set_sparse_dim(place, None)
        entries = gather(cast(set_sparse_dim(labels, None), "int64"), indices=place, axis=axes[0], clip_to_valid=True)
        return where(less(place, 0), ANY, entries)

    def counts(self, state: State, labels: Dim) -> Tensor:
        """How often each label occurred. {…, beam, labels} int32"""
        return self.marked(state, greater_equal(state.labels, 0), labels)

    def marked(self, state: State, which: Tensor, labels: Dim) -> Tensor:
        """How often each label is among some of the last ones. which: {…, beam, last labels} bool"""
        places = where(greater_equal(state.labels, 0), state.labels, 0)
        return scatter(cast(which, "int32"), indices=places, indices_dim=self.last, out_dim=labels)


@dataclass(frozen=True, eq=False)
class Repetition:
    """A change of the scores of labels that a hypothesis has already.

    Args:
        history: of the labels.
        penalty: what negative scores are multiplied by, and positive ones divided by.
    """

    history: History
    penalty: float

    @property
    def only_falls(self) -> bool:
        """Whether no score rises."""
        return self.penalty >= 1

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The state of hypotheses without labels; the last of `batch_dims` is the beam."""
        return self.history.start(batch_dims)

    @broadcast_allowed()
    def change(self, scores: Tensor, label: Tensor, state: State) -> tuple[Tensor, State]:
        """The new scores, and the new state. {…, beam, labels}, {…, beam} → {…, beam, labels}"""
        state = self.history.after(label, state)
        counts = self.history.counts(state, labels_of(label))
        changed = where(less(scores, 0.0), scores * self.penalty, scores / self.penalty)
        return where(greater(counts, 0), changed, scores), state


@dataclass(frozen=True, eq=False)
class Presence:
    """A scorer by how often a hypothesis has a label already.

    Args:
        history: of the labels.
        once: the score of a label that occurred.
        each: what is added to it for each time.
    """

    history: History
    once: float
    each: float

    @property
    def only_falls(self) -> bool:
        """Whether no score is positive."""
        return self.once <= 0 and self.each <= 0

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The state of hypotheses without labels; the last of `batch_dims` is the beam."""
        return self.history.start(batch_dims)

    @broadcast_allowed()
    def score(self, label: Tensor, state: State) -> tuple[Tensor, State]:
        """The scores of the next labels, and the new state. {…, beam} → {…, beam, labels}"""
        state = self.history.after(label, state)
        counts = self.history.counts(state, labels_of(label))
        return where(greater(counts, 0), self.once + cast(counts, "float32") * self.each, 0.0), state


@guarded
def repetition_penalty(penalty: Finite, *, before: Before | None = None, within: CountFrom1 = 256) -> Repetition:
    """Labels that a hypothesis has already get a lower score: `penalty` times it if it is negative, as
    log-probabilities are, and a part of it if it is positive (https://arxiv.org/abs/1909.05858).

    It changes the sum of all other parts of a score; what it adds to it is a part as others are.

    >>> label, beam = rf.Dim(3, name="label", vocab=["</s>", "a", "b"]), rf.Dim(1, name="beam")
    >>> scores, loop = rf.convert_to_tensor([-3.0, -1.0, -1.5], dims=[label]), rf.Loop(max_seq_len=3)
    >>> with loop:
    ...     parts = {"model": scores, "repetition": rf.search.repetition_penalty(2.0)}
    ...     chosen = loop.choice(parts, beam=beam, input_type="log_prob", length_normalization=False)
    >>> best = loop.found.tree[0].best
    >>> best.text, best.parts  # the second "a" costs 2
    ('aba', {'model': -3.5, 'repetition': -1.0})

    Args:
        penalty: below 1, repetitions are rewarded.
        before: labels before the first one that count too, such as a prompt: a text or numbers for all sequences, a
            list with one of these for each, or a Tensor {…, prompt}, in which -1 is not a label. The start label counts
            only if it is among them.
        within: how many of the last labels count.

    Raises ParameterError if `penalty` is not above 0.
    """
    if not penalty > 0:
        raise ParameterError("repetition_penalty: `penalty` is not above 0", got=penalty, expected="such as 1.2")
    return Repetition(History(within, before), float(penalty))


@guarded
def presence_penalty(
    presence: Finite = 0.0, *, frequency: Finite = 0.0, before: Before | None = None, within: CountFrom1 = 256
) -> Presence:
    """Labels that a hypothesis has already cost `presence`, and `frequency` for each time that they occurred.

    >>> label, beam = rf.Dim(3, name="label", vocab=["</s>", "a", "b"]), rf.Dim(1, name="beam")
    >>> scores, loop = rf.convert_to_tensor([-3.0, -1.0, -1.5], dims=[label]), rf.Loop(max_seq_len=3)
    >>> with loop:
    ...     parts = {"model": scores, "presence": rf.search.presence_penalty(1.0)}
    ...     chosen = loop.choice(parts, beam=beam, input_type="log_prob", length_normalization=False)
    >>> best = loop.found.tree[0].best
    >>> best.text, best.parts
    ('aba', {'model': -3.5, 'presence': -1.0})

    Args:
        before, within: as of `rf.search.repetition_penalty`.
    """
    return Presence(History(within, before), -float(presence), -float(frequency))


@guarded
def no_repeat(n: CountFrom0, *, within: CountFrom1 = 256, before: Before | None = None) -> Constraint:
    """No `n` labels in a row occur twice in a hypothesis, as in https://arxiv.org/abs/1705.04304.

    The start label does not count as one of them.

    >>> label = rf.Dim(3, name="label", vocab=["</s>", "a", "b"])
    >>> once = rf.search.no_repeat(2)
    >>> state = once.initial_state(batch_dims=[])
    >>> for last in [0, 1, 2, 1]:  # the start, and "aba"
    ...     scores, state = once.score(rf.convert_to_tensor(last, sparse_dim=label), state)
    >>> scores.tolist()
    [0.0, 0.0, -inf]

    Args:
        within: how many of the last labels are compared. before: as of `rf.search.repetition_penalty`.

    Raises ParameterError if `n` is less than 1, or more than `within`.
    """
    if not 1 <= n <= within:
        raise ParameterError("no_repeat: `n` is out of range", got=n, expected=f"1 to within={within}")
    history = History(within, before)

    def allows(label: Tensor, state: State) -> tuple[Tensor, State]:
        state = history.after(label, state)
        labels, last = state.labels, history.last
        repeats = greater_equal(labels, 0)
        for back in range(1, n):
            earlier = gather(labels, indices=within - back, axis=last)
            matches = equal(shift_right(labels, axis=last, pad_value=ANY, amount=back), earlier)
            repeats = logical_and(repeats, logical_and(matches, greater_equal(earlier, 0)))
        return equal(history.marked(state, repeats, labels_of(label)), 0), state

    return Constraint(history.start, allows)


@guarded
def bad_words(words: Iterable[Prefix], *, labels: Dim, before: Before | None = None) -> Constraint:
    """No hypothesis has one of `words`.

    >>> label = rf.Dim(4, name="label", vocab=["</s>", "a", "b", "c"])
    >>> clean = rf.search.bad_words(["ab", "c"], labels=label)
    >>> state = clean.initial_state(batch_dims=[])
    >>> for last in [0, 1]:  # the start, and "a"
    ...     scores, state = clean.score(rf.convert_to_tensor(last, sparse_dim=label), state)
    >>> scores.tolist()
    [0.0, 0.0, -inf, -inf]

    Args:
        words: each a text, or a sequence of labels.
        labels: the dim of the labels. before: as of `rf.search.repetition_penalty`; a word may begin there.

    Raises ParameterError for a word without labels, or with one that does not exist.
    """
    rows = [numbers_of(word, labels) for word in words]
    if not all(rows):
        raise ParameterError("bad_words: a word has no labels", got=[row for row in rows if not row])
    longest = max(map(len, rows), default=1)
    begins = np.full((len(rows), longest), ANY)  # of each word all labels but the last one, at the right
    for place, row in zip(begins, rows, strict=True):
        place[longest - len(row) + 1 :] = row[:-1]
    history, word = History(longest, before), Dim(len(rows), name="bad words")
    prefixes = convert_to_tensor(begins, dims=[word, history.last])
    ends = convert_to_tensor(np.array([row[-1] for row in rows], "int64"), dims=[word])

    def allows(label: Tensor, state: State) -> tuple[Tensor, State]:
        state, begin = history.after(label, state), beside(prefixes, label)
        matches = reduce_all(logical_or(equal(begin, ANY), equal(begin, state.labels)), axis=history.last)
        last = beside(ends, label)
        banned = scatter(cast(matches, "int32"), indices=last, indices_dim=word, out_dim=labels_of(label))
        return equal(banned, 0), state

    return Constraint(history.start, allows)
