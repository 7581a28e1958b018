"""Texts of words of a lexicon, which labels spell, with the scores of a language model over the words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from rfnb.core.advice.similar_dims import broadcast_allowed, mark_beam
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import leaves, map_leaves, map_pairs
from rfnb.core.tensor.arguments import CountFrom1
from rfnb.core.tensor.op import guard_methods
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import DimError, ParameterError
from rfnb.ops.concat import concat
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import full, range_over_dim
from rfnb.ops.index import gather, top_k
from rfnb.ops.math import (
    compare_bc,
    equal,
    greater_equal,
    is_neg_infinite,
    logical_and as both,
    logical_not as no,
    logical_or as one_of,
    maximum,
    not_equal,
    where,
)
from rfnb.ops.reduce import reduce_any, reduce_max
from rfnb.ops.shape import expand_dims, merge_dims, replace_dim, set_feature_dim, set_sparse_dim
from rfnb.search.score.ngram import NGram
from rfnb.search.score.scorer import PartialScorer, SearchState, parts_of, state_after
from rfnb.search.sources import over
from rfnb.search.variants.constraints import Moves, number_of, numbers_of

START, DEAD, ROOT = range(3)
"""The first nodes: where a text begins, where no word leads to, and after a separator."""


class Lexicon:
    """Hypotheses whose labels spell words of a lexicon, one after the other, with the score of their words.

    >>> time, phone = rf.Dim(3, name="time"), rf.Dim(4, name="phone", vocab=["-", "K", "AE", "T"])
    >>> probs = rf.convert_to_tensor([[0.1, 0.8, 0, 0.1], [0.1, 0, 0.9, 0], [0.5, 0.4, 0, 0.1]], dims=[time, phone])
    >>> lexicon = rf.search.Lexicon({"cat": ["K", "AE", "T"], "at": ["AE", "T"]}, phone)
    >>> options = {"spatial_dim": time, "axis": phone, "blank": 0, "scorers": {"words": lexicon}}
    >>> found = rf.search.ctc_beam(rf.log(probs), **options)
    >>> best = found.tree[0].best  # "K AE" has a higher probability, but is not a word
    >>> best.text, lexicon.words_of(best.labels)
    ('K AE T', ['cat'])

    The words of labels are those with the best score, where they may be cut or read in several ways: without labels
    between the words, or if words sound the same. A word is scored where the next one begins, or at the end; hypotheses
    without a word die, and the last word of a text is whole.

    Args:
        spellings: the labels of each word: a text, or a list of labels or of their numbers; for several, a set of texts
            or a list of lists. A list of words: each is spelled by its text.
        labels: the dim of the labels, or of the classes of CTC.
        words: the dim of the words, that of `scorer`; by default those of `spellings`, as `lexicon.words`.
        scorer: a model over words, as a part of `loop.choice`: `rf.search.NGram(path, words)`, a module, a scorer of
            your own. Its end is that of the text: its score of `words.vocab.eos_id`, or what its `final` gives.
        separator: the label between two words, if there is one.
        end: the label that ends a hypothesis; None if there is none, as in CTC.
        start: the word before the first one, which the scorer sees.
        analyses: how many ways to read its labels are kept of each hypothesis.

    Raises ParameterError for a word without labels, or with one that does not exist; DimError for a word that `words`
    does not have.
    """

    scores_ends = True

    def __init__(
        self,
        spellings: Mapping[str, object] | Iterable[str],
        labels: Dim,
        *,
        words: Dim | None = None,
        scorer: object = None,
        separator: int | str | None = None,
        end: int | str | None = None,
        start: int | str = 0,
        analyses: CountFrom1 = 4,
        device: str | None = None,
    ):
        by_word = dict(spellings) if isinstance(spellings, Mapping) else {word: word for word in spellings}
        self.labels, self.words = labels, words or Dim(len(by_word), name="words", vocab=list(by_word))
        value: Any = None if scorer is None else parts_of({"words": scorer})[0].value
        self.scorer = _NGramWords(value) if isinstance(value, NGram) else value
        self.separator = None if separator is None else number_of(separator, labels)
        self.end = None if end is None else number_of(end, labels)
        self.start = number_of(start, self.words)
        self._analysis, self._rank = Dim(analyses, name="analysis"), Dim(analyses, name="rank")
        numbers = _numbers(by_word, self.words)
        rows = [(numbers[word], row) for word, spelling in by_word.items() for row in _rows(word, spelling, labels)]
        self._spelled: dict[tuple[int, ...], list[int]] = {}
        for word, row in dict.fromkeys(rows):
            self._spelled.setdefault(row, []).append(word)
        self._counts, vocab = sorted({len(row) for row in self._spelled}), self.words.vocab
        self._eos = None if vocab is None or vocab.eos_id in numbers.values() else vocab.eos_id
        bounds = {self.separator, self.end} - {None}
        if any(bounds & set(row) for _, row in rows):
            raise ParameterError("Lexicon: a word has the separator or the end label", got=sorted(by_word))
        self._make(rows, device)

    def _make(self, rows: Sequence[tuple[int, Sequence[int]]], device: str | None) -> None:
        """Makes the tensors of the trie."""
        size, targets, ends = self.labels.get_dim_value(), dict[int, int](), dict[int, list[int]]()
        for word, row in rows:
            node = START
            for label in row:
                node = targets.setdefault(node * size + label, ROOT + 1 + len(targets))
            if word not in ends.setdefault(node, []) and (self.scorer is not None or not ends[node]):
                ends[node].append(word)
        count = ROOT + 1 + len(targets)
        first = {key: to for key, to in targets.items() if key < size}
        repeats = {ROOT * size + key: to for key, to in first.items()}
        self._moves = Moves(targets | repeats, self.labels, device)
        self._node = Dim(count, name="node of the lexicon")
        self._reading = Dim(max(map(len, ends.values()), default=1), name="reading")
        table = np.full((count, self._reading.get_dim_value()), -1)
        for node, numbers in ends.items():
            table[node, : len(numbers)] = numbers
        self._words_at = convert_to_tensor(table, dims=[self._node, self._reading], device=device)
        begins = np.isin(np.arange(size), [*first])
        self._begins = convert_to_tensor(begins, dims=[self.labels], device=device)

    @property
    def only_falls(self) -> bool:
        """Whether no score is positive."""
        return self.scorer is None or bool(getattr(self.scorer, "only_falls", False))

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The state before the first label: one analysis, without words. {…, beam, analysis}"""
        mark_beam(batch_dims[-1])
        dims, device = [*batch_dims, self._analysis], self._words_at.device
        model = None if self.scorer is None else _each(self.scorer.initial_state(batch_dims=dims), dims)
        is_first = equal(range_over_dim(self._analysis, device=device), 0)
        none: dict[str, Any] = {"dims": dims, "device": device}
        return State(
            node=full(**none, fill_value=START, dtype="int64"),
            value=where(is_first, full(**none, fill_value=0.0), -np.inf),
            word=full(**none, fill_value=self.start, dtype="int64"),
            before=model,
            after=model,
            closed=full(dims=[*dims, self._reading], fill_value=-np.inf, device=device),
            over=full(dims=batch_dims, fill_value=False, device=device),
            first=full(dims=batch_dims, fill_value=True, device=device),
        )

    @broadcast_allowed()
    def score(self, label: Tensor, state: State) -> tuple[Tensor, State]:
        """What each label adds to the score of the words. {…, beam} → {…, beam, labels}"""
        state = self._next(set_sparse_dim(label, None), state)
        every = set_sparse_dim(range_over_dim(self.labels, device=label.device), None)
        goes_on = not_equal(self._moves.to(state.node, every, DEAD), DEAD)
        best = reduce_max(where(goes_on, state.value, -np.inf), axis=self._analysis)
        closed = reduce_max(state.closed, axis=[self._analysis, self._reading])
        if self.separator is None:
            best = maximum(best, where(self._begins, closed, -np.inf))
        else:
            best = where(equal(every, self.separator), closed, best)
        if self.end is not None:
            best = where(equal(every, self.end), self._whole(state), best)
        scores = self._more(best, state).copy_transpose([*label.dims, self.labels])
        return set_feature_dim(scores, self.labels), state

    @broadcast_allowed()
    def final(self, state: State) -> Tensor:
        """The score of the last word and of the end of the text, if no label was it. {…, beam}"""
        return where(state.over, 0.0, self._more(self._whole(state), state))

    def words_of(self, labels: str | Sequence[int | str]) -> list[str] | None:
        """The words of labels in their best analysis, of at most 1,000 that are tried; None if they spell no words."""
        readings = [*islice(self._readings(tuple(numbers_of(labels, self.labels))), 1000)]
        if not readings:
            return None
        best = readings[0] if self.scorer is None else max(readings, key=self._score_of)
        return [str(word) if self.words.vocab is None else str(self.words.vocab.decode(word)) for word in best]

    def _readings(self, labels: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """The words that labels may be."""
        if not labels:
            yield ()
        for count in (count for count in self._counts if count <= len(labels)):
            words, remaining = self._spelled.get(labels[:count], ()), labels[count:]
            if self.separator is not None and remaining:
                if remaining[0] != self.separator or len(remaining) == 1:
                    continue
                remaining = remaining[1:]
            for word in words:
                yield from ((word, *tail) for tail in self._readings(remaining))

    def _score_of(self, words: Sequence[int]) -> float:
        """The score of a text of words by the scorer."""
        single, reading = Dim(1, name="text"), Dim(1, name="reading")
        state, last, total = self.scorer.initial_state(batch_dims=[single]), self.start, 0.0

        def number(word: int, dims: Sequence[Dim]) -> Tensor:
            return full(dims=dims, fill_value=word, dtype="int64", sparse_dim=self.words, device=self._words_at.device)

        for word in words:
            scores, state = self._of_words(number(last, [single]), state, number(word, [single, reading]))
            total, last = total + float(scores.raw_tensor), word
        return total + float(self._at_end(number(last, [single]), state).raw_tensor)

    def _of_words(self, last: Tensor, before: SearchState, words: Tensor) -> tuple[Tensor, SearchState]:
        """The scores of words by the scorer, {…, beam, reading}, and its state after the last one. last: {…, beam}"""
        if isinstance(self.scorer, PartialScorer):
            after = self.scorer.advance(last, before)
            return self.scorer.partial(words, after), after
        scores, after = self.scorer.score(last, before)
        if self.words not in scores.dims_set:
            if scores.feature_dim is None or scores.feature_dim.dimension != self.words.dimension:
                raise DimError(
                    "Lexicon: the scorer does not score the words", got=scores.describe_dims(),
                    expected=self.words.describe(),
                )  # fmt: skip
            scores = replace_dim(scores, in_dim=scores.feature_dim, out_dim=self.words)[0]
        return gather(scores, indices=words, axis=self.words), after

    def _at_end(self, last: Tensor, before: SearchState) -> Tensor:
        """The score of the end of a text after its last word. {…}"""
        if self._eos is not None:
            eos, end_dim = full(dims=[], fill_value=self._eos, dtype="int64", device=last.device), Dim(1, name="end")
            words = set_sparse_dim(expand_dims(eos, [*last.dims, end_dim]), self.words)
            return gather(self._of_words(last, before, words)[0], indices=0, axis=end_dim)
        if not hasattr(self.scorer, "final"):
            return full(dims=[], fill_value=0.0, device=last.device)
        final: Tensor = self.scorer.final(state_after(self.scorer, last, before))
        return final

    def _whole(self, state: State) -> Tensor:
        """The score of the words if the text ends here. {…, beam}"""
        empty, closed = where(equal(state.node, START), state.value, -np.inf), state.closed
        if self.scorer is not None:
            words = set_sparse_dim(self._words_of(state.node), self.words)
            after = _each(state.after, words.dims)
            closed = closed + self._at_end(words, after)
            empty = empty + self._at_end(set_sparse_dim(state.word, self.words), state.before)
        best = reduce_max(closed, axis=[self._analysis, self._reading])
        return maximum(best, reduce_max(empty, axis=self._analysis))

    def _more(self, best: Tensor, state: State) -> Tensor:
        """What a score of words adds to that of the labels so far; -∞ where there is none."""
        value = reduce_max(state.value, axis=self._analysis)
        dead = is_neg_infinite(value)
        return where(dead, -np.inf, best - where(dead, 0.0, value))

    def _words_of(self, node: Tensor) -> Tensor:
        """The words that end at nodes; 0 where there are fewer. {…, reading}"""
        return maximum(gather(self._words_at, indices=node, axis=self._node), 0)

    def _next(self, label: Tensor, state: State) -> State:
        """The analyses after one more label, and the scores of the words that may end there. {…, beam, analysis}"""
        longer = self._extended(label, state)

        def chosen(old: Tensor, new: Tensor) -> Tensor:
            return where(state.first, old, new).copy_transpose(old.dims)

        fields: dict[str, Any] = {name: _pairs(chosen, state[name], new) for name, new in longer.items()}
        node = fields["node"]
        order = [*node.dims, self._reading]
        exists = greater_equal(gather(self._words_at, indices=node, axis=self._node), 0)
        added: Any = 0.0
        if self.scorer is not None:
            words = set_sparse_dim(self._words_of(node), self.words)
            added, after = self._of_words(set_sparse_dim(fields["word"], self.words), fields["before"], words)
            fields["after"] = _each(after, node.dims)
        else:
            fields["after"] = None
        closed = where(exists, fields["value"] + added, -np.inf).copy_transpose(order)
        over = state.over if self.end is None else one_of(state.over, both(equal(label, self.end), no(state.first)))
        first = full(dims=state.first.dims, fill_value=False, device=node.device)
        return State(**fields, closed=closed, over=over, first=first)

    def _extended(self, label: Tensor, state: State) -> dict[str, object]:
        """The best ways to read the labels with one more: in the word that was begun, or in a new one."""
        analysis, reading = self._analysis, self._reading
        dims = state.value.dims
        new = self._moves.to(full(dims=[], fill_value=START, dtype="int64", device=label.device), label, DEAD)
        if self.separator is not None:
            new = where(equal(label, self.separator), ROOT, DEAD)
        words = self._words_of(state.node)
        columns = {
            "node": (self._moves.to(state.node, label, DEAD), new),
            "value": (state.value, state.closed),
            "word": (state.word, words),
        }
        joint: Any = None
        joined = dict[str, Tensor]()
        for name, (stays, begins) in columns.items():
            flat, dim = merge_dims(_full(begins, [*dims, reading]), dims=[analysis, reading])
            column, union = concat((_full(stays, dims), analysis), (flat, dim))
            joint = joint or Dim(union.get_dim_value(), name="candidate analysis")
            joined[name] = replace_dim(column, in_dim=union, out_dim=joint)[0]
        number: Any = set_sparse_dim(range_over_dim(joint, device=label.device), None)
        count = analysis.get_dim_value()
        begins_word = greater_equal(number, count)
        parent = where(begins_word, (number - count) // reading.get_dim_value(), number)

        def of_parents(old: Tensor, new: Tensor) -> Tensor:
            old, new = (gather(x, indices=parent, axis=analysis) for x in (old, new))
            return where(begins_word, new, old).copy_transpose(old.dims)

        before = _pairs(of_parents, state.before, state.after)
        joined["value"] = where(equal(joined["node"], DEAD), -np.inf, joined["value"])
        joined["value"] = self._without_doubles(joined, before, joint)
        places: Any = top_k(joined["value"], axis=joint, k_dim=self._rank)[1]

        def taken(x: object) -> Any:
            if not isinstance(x, Tensor):
                return x
            behind = [dim for dim in x.dims if dim not in (*dims, joint)]
            entries = gather(x, indices=places, axis=joint)
            entries = entries.copy_transpose([*(self._rank if dim is analysis else dim for dim in dims), *behind])
            return replace_dim(entries, in_dim=self._rank, out_dim=analysis)[0]

        best = {name: taken(column) for name, column in joined.items()}
        best["node"] = where(is_neg_infinite(best["value"]), DEAD, best["node"])
        return best | {"before": map_leaves(taken, before)}

    def _without_doubles(self, joined: Mapping[str, Tensor], before: SearchState, joint: Dim) -> Tensor:
        """The values of analyses, -∞ for those to which the same may come as to a better one."""
        value = joined["value"]
        columns = [joined["node"], *(() if self.scorer is None else (joined["word"], *leaves(before)))]
        if any(set(x.dims) != set(value.dims) or x.dtype.startswith("float") for x in columns):
            return value
        twin = Dim(joint.get_dim_value(), name="other analysis")

        def others(x: Tensor) -> Tensor:
            return replace_dim(x, in_dim=joint, out_dim=twin)[0]

        number = set_sparse_dim(range_over_dim(joint, device=value.device), None)
        tied = both(compare_bc(others(value), "equal", value), compare_bc(others(number), "less", number))
        double = one_of(compare_bc(others(value), "greater", value), tied)
        for x in columns:
            double = both(double, compare_bc(others(x), "equal", x))
        return where(reduce_any(double, axis=twin), -np.inf, value).copy_transpose(value.dims)


guard_methods(Lexicon, "__init__", "words_of")


class _NGramWords:
    """An n-gram model that is asked for single words."""

    only_falls = True

    def __init__(self, lm: NGram):
        self.lm, self.initial_state, self.final = lm, lm.initial_state, lm.final

    def advance(self, label: Tensor, state: State) -> State:
        context = where(state.first, state.context, self.lm.after(state.context, label))
        first = full(dims=[], fill_value=False, device=context.device)
        return State(context=context, first=first)

    def partial(self, labels: Tensor, state: State) -> Tensor:
        return self.lm.of_label(state.context, labels)


def _full(x: Tensor, dims: Sequence[Dim]) -> Tensor:
    """With these dims, in order, and its others after them."""
    return over(x, [*dims, *(dim for dim in x.dims if dim not in dims)])


def _each(state: SearchState, dims: Sequence[Dim]) -> Any:
    """The state of a scorer, of which each analysis has its own."""
    return map_leaves(lambda leaf: _full(leaf, dims) if isinstance(leaf, Tensor) else leaf, state)


def _pairs(fn: Callable[[Tensor, Tensor], Tensor], a: object, b: object) -> object:
    """A function on the Tensors of two states; other parts are as in the first one."""
    return map_pairs(lambda one, other: fn(one, other) if isinstance(one, Tensor) else one, a, b)


def _numbers(texts: Iterable[str], words: Dim) -> dict[str, int]:
    """The number of each word."""
    numbers = {} if words.vocab is None else {text: number for number, text in enumerate(words.vocab.labels)}
    lacking = next((word for word in texts if word not in numbers), None)
    if lacking is not None:
        raise DimError("Lexicon: `words` lacks a word", got=repr(lacking), expected=words.describe())
    return {word: numbers[word] for word in texts}


def _rows(word: str, value: Any, labels: Dim) -> list[tuple[int, ...]]:
    """The spellings of a word, as numbers of labels."""
    is_group = isinstance(value, set | frozenset) or (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(entry, list | tuple) for entry in value)
    )
    rows = [tuple(numbers_of(entry, labels)) for entry in (value if is_group else [value])]
    if not rows or not all(rows):
        raise ParameterError("Lexicon: a word has no labels", got=repr(word), expected='such as {"the": "DH AH"}')
    return rows
