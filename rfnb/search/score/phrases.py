"""Boosting of phrases: names, places, and what else a model rarely saw."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rfnb.core.advice.similar_dims import mark_beam
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import guard_methods
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import ParameterError
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import full, range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.math import where
from rfnb.ops.shape import set_feature_dim, set_sparse_dim
from rfnb.search.variants.constraints import Moves

Phrase = str | Sequence[str] | Sequence[int]


class Phrases:
    """Rewards hypotheses for each occurrence of a phrase, as a scorer: `boost` for each label of the phrase.

    The reward is given label by label, so that the beginning of a phrase is not pruned, and is taken back where the
    phrase is not continued, or where the hypothesis ends. An automaton finds all phrases at once (Aho and Corasick
    1975).

    >>> letter, beam = rf.Dim(4, name="letter", vocab=["</s>", "a", "b", "c"]), rf.Dim(1, name="beam")
    >>> phrases = rf.search.Phrases({"a b": 1.0, "b c c": 2.0}, letter)
    >>> state, found = phrases.initial_state(batch_dims=[beam]), []
    >>> for label in ["</s>", *"abc"]:  # the first one does not count
    ...     number = rf.convert_to_tensor([letter.vocab.encode([label])[0]], dims=[beam], sparse_dim=letter)
    ...     scores, state = phrases.score(number, state)
    ...     found.append(scores.raw_tensor[0].tolist())
    >>> found  # for </s>, a, b, c: at the beginning, after "a", "ab", "abc"
    [[0.0, 1.0, 2.0, 0.0], [-1.0, 0.0, 3.0, -1.0], [-2.0, -1.0, 0.0, 2.0], [-4.0, -3.0, -2.0, 2.0]]

    Args:
        phrases: texts, or lists of labels or of their numbers; or a dict from them to the boost of each.
        labels: the dim of the labels; its vocab cuts texts.
        boost: of all phrases that have none of their own.

    Raises ParameterError for an empty phrase; DimError for a label that does not exist.
    """

    scores_ends = True

    def __init__(
        self,
        phrases: Iterable[Phrase] | Mapping[Any, float],
        labels: Dim,
        *,
        boost: float = 1.0,
        device: str | None = None,
    ):
        if not isinstance(phrases, Mapping):
            phrases = {phrase if isinstance(phrase, str) else tuple(phrase): boost for phrase in phrases}
        self.labels, size = labels, labels.get_dim_value()
        trie = _Trie()
        for phrase, value in phrases.items():
            trie.add(_numbers(phrase, labels), float(value))
        trie.link()
        moves = {node * size + label: to for node, row in enumerate(trie.moves) for label, to in row}
        self._moves, self._node = Moves(moves, labels, device), Dim(len(trie.children), name="match")

        def tensor(values: object, dim: Dim, dtype: str) -> Tensor:
            return convert_to_tensor(np.asarray(values, dtype), dims=[dim], device=device)

        starts = [trie.children[0].get(label, 0) for label in range(size)]
        self._starts = tensor(starts, labels, "int64")
        self._held, self._given = tensor(trie.held, self._node, "float32"), tensor(trie.given, self._node, "float32")

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The state without any match. {…, beam}"""
        mark_beam(batch_dims[-1])
        device = self._starts.device
        match = full(dims=batch_dims, fill_value=0, dtype="int64", device=device)
        return State(match=match, first=full(dims=[], fill_value=True, device=device))

    def score(self, label: Tensor, state: State) -> tuple[Tensor, State]:
        """What each label adds to the reward. {…, beam} → {…, beam, labels}"""
        match = where(state.first, state.match, self._after(state.match, set_sparse_dim(label, None)))
        matches = self._after(match, set_sparse_dim(range_over_dim(self.labels, device=match.device), None))
        pending, rewards = (gather(x, indices=matches, axis=self._node) for x in (self._held, self._given))
        reward = pending + rewards - gather(self._held, indices=match, axis=self._node)
        first = full(dims=[], fill_value=False, device=match.device)
        return set_feature_dim(reward, self.labels), State(match=match, first=first)

    def final(self, state: State) -> Tensor:
        """Takes back what the beginning of a phrase was given. {…, beam}"""
        return -gather(self._held, indices=state.match, axis=self._node)

    def _after(self, match: Tensor, label: Tensor) -> Tensor:
        """The longest match after one more label."""
        return self._moves.to(match, label, gather(self._starts, indices=label, axis=self.labels))


guard_methods(Phrases, "__init__")


class _Trie:
    """The phrases as a tree of labels. held: what is given for a match that is not complete. given: what an end of
    phrases gives for good. moves: for each node, (label, node) that do not start anew."""

    def __init__(self) -> None:
        self.children: list[dict[int, int]] = [{}]
        self.held, self.given = [0.0], [0.0]
        self.moves: list[list[tuple[int, int]]] = []

    def add(self, labels: Sequence[int], boost: float) -> None:
        """Adds a phrase; each label is worth `boost`."""
        node = 0
        for count, label in enumerate(labels, 1):
            following = self.children[node].get(label)
            if following is None:
                following = self.children[node][label] = len(self.children)
                self.children.append({})
                self.held.append(0.0)
                self.given.append(0.0)
            node = following
            if count < len(labels):
                self.held[node] = max(self.held[node], count * boost)
        self.given[node] += len(labels) * boost

    def link(self) -> None:
        """Finds where a match goes on with a label that does not continue it: as the longest shorter match."""
        shorter = [0] * len(self.children)
        self.moves = [[] for _ in self.children]
        waiting = deque(self.children[0].values())
        while waiting:
            node = waiting.popleft()
            self.given[node] += self.given[shorter[node]]
            self.held[node] = max(self.held[node], self.held[shorter[node]])
            row = dict(self.moves[shorter[node]]) | self.children[node]
            self.moves[node] = list(row.items())
            for label, child in self.children[node].items():
                moves = dict(self.moves[shorter[node]])
                shorter[child] = moves.get(label, self.children[0].get(label, 0))
                waiting.append(child)


def _numbers(phrase: Any, labels: Dim) -> list[int]:
    """The numbers of the labels of a phrase."""
    texts = isinstance(phrase, str) or all(isinstance(label, str) for label in phrase)
    if texts and len(phrase) and labels.vocab is None:
        raise ParameterError("Phrases: the labels have no texts", got=phrase, hint="rf.Dim(…, vocab=[…])")
    numbers = labels.vocab.encode(phrase) if texts and labels.vocab is not None else [int(label) for label in phrase]
    if not numbers or not all(0 <= label < labels.get_dim_value() for label in numbers):
        raise ParameterError("Phrases: a phrase is empty or has a label that does not exist", got=phrase)
    return numbers
