"""An n-gram model of words for labels that are parts of words: subwords or letters."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from rfnb.core.advice.similar_dims import broadcast_allowed, mark_beam
from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.op import guard_methods
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.core.vocab import SPACES
from rfnb.errors import DimError
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import full, range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.math import equal, where
from rfnb.ops.shape import set_feature_dim, set_sparse_dim
from rfnb.search.score.ngram import NGram, read_arpa
from rfnb.search.variants.constraints import Moves, number_of

Marker = Literal["▁", "@@", " "]


class WordNGram:
    """An n-gram model of words, from a file in the ARPA format, as a scorer of labels that are parts of words.

    The log-probability of a word is added where the word ends: at the label that begins the next word, at the end
    label, or, where a marker shows it, at its own last label. All other labels get 0.

    >>> _ = (folder / "words.arpa").write_text('''\\\\data\\\\
    ... ngram 1=5
    ... ngram 2=1
    ...
    ... \\\\1-grams:
    ... -99 <s> -0.5
    ... -1.0 </s>
    ... -0.5 new -0.2
    ... -0.6 news
    ... -2.0 <unk>
    ...
    ... \\\\2-grams:
    ... -0.1 <s> new
    ...
    ... \\\\end\\\\''')
    >>> piece, beam = rf.Dim(4, name="piece", vocab=["</s>", "▁ne", "w", "s"]), rf.Dim(1, name="beam")
    >>> lm = rf.search.WordNGram(folder / "words.arpa", piece)
    >>> state, found = lm.initial_state(batch_dims=[beam]), []
    >>> for label in [0, 1, 2]:  # the first one does not count; then "▁ne", "w"
    ...     scores, state = lm.score(rf.convert_to_tensor([label], dims=[beam], sparse_dim=piece), state)
    ...     found.append([round(score, 1) for score in (scores / np.log(10)).raw_tensor[0].tolist()])
    >>> found[0], found[1], found[2]  # for </s>, ▁ne, w, s: a word ends by "</s>" and by "▁ne"
    ([-1.5, 0.0, 0.0, 0.0], [-3.5, -2.5, 0.0, 0.0], [-1.3, -0.1, 0.0, 0.0])

    Args:
        path: the file, which may be compressed (".gz").
        labels: the dim of the labels, with texts. Texts of labels, without markers, are put together to words, however
            a word is cut.
        end: the label that ends a hypothesis; the last word and the end of the text are scored there. By default that
            of the vocabulary.
        marker: how labels show where words begin or end: "▁" before the first part of a word, as in sentencepiece, or
            alone; "@@" after all parts but the last one, as in subword-nmt; " " for a label between words, which may be
            "<space>" or "|" too. By default the one that occurs.
        unknown: the word of all others; without it in the file, they are ruled out. unknown_score: is added for these.

        lookahead: whether each label of a word gets a part of its score at once: the probability of the best word that
            may still come, without context, is put in as the word is spelled, and taken back where it ends (Ortmanns,
            Ney, Eiden, Language-Model Look-Ahead for Large Vocabulary Speech Recognition, 1996). The score of a whole
            word stays the same, but hypotheses in the middle of a word are compared with it in sight.

    Where no label ends a hypothesis, as in a search over frames, the last word and the end of the text are scored at
    its end.

    Raises SearchError for a broken file, with its line; DimError if labels do not show where words begin.
    """

    scores_ends = True

    def __init__(
        self,
        path: str | Path,
        labels: Dim,
        *,
        end: int | str | None = None,
        marker: Marker | None = None,
        unknown: str = "<unk>",
        unknown_score: float = 0.0,
        lookahead: bool = False,
        device: str | None = None,
    ):
        model = read_arpa(path)
        if labels.vocab is None:
            raise DimError(
                "WordNGram: the labels have no texts", got=labels, hint='rf.Dim(…, name="labels", vocab=[…])'
            )
        self.lm, self.labels = NGram.of_words(model, device), labels
        self.only_falls = unknown_score <= 0 and not lookahead
        size, vocab = labels.get_dim_value(), labels.vocab
        self.end = vocab.eos_id if end is None else number_of(end, labels)
        silent = {vocab.bos_id, vocab.eos_id, vocab.blank_id, vocab.pad_id, self.end}
        texts = ["" if i in silent else vocab.decode(i) for i in range(size)]
        begins, ends, texts = _cut(texts, marker)
        words = {word: number for word, number in model.words.items() if word not in ("<s>", "</s>", unknown)}
        trie = _WordTrie(words, texts)
        self._nothing, self._dead, self._over = 0, len(trie.words), len(trie.words) + 1  # over: after the end label
        unk = model.words.get(unknown)
        of_node = [*trie.words, None, None]

        def tensor(values: object, dim: Dim, dtype: str) -> Tensor:
            return convert_to_tensor(np.asarray(values, dtype), dims=[dim], device=device)

        moves = trie.moves + [(self._over, label, to) for node, label, to in trie.moves if node == self._nothing]
        self._moves = Moves({node * size + label: to for node, label, to in moves}, labels, device)
        self._node = Dim(len(of_node), name="begun word")
        self._words = tensor([(unk or 0) if word is None else word for word in of_node], self._node, "int64")
        penalty = -np.inf if unk is None else unknown_score
        self._more = tensor([penalty if word is None else 0.0 for word in of_node], self._node, "float32")
        self._open = tensor(
            [node not in (self._nothing, self._over) for node in range(len(of_node))], self._node, "bool"
        )
        self._has_text, self._begins = tensor([bool(x) for x in texts], labels, "bool"), tensor(begins, labels, "bool")
        self._ends = tensor(ends, labels, "bool") if any(ends) else None
        self._last = model.words.get("</s>")
        self._ahead = self._entered = None
        if lookahead:
            log_probs = model.log_probs[0]
            best = trie.best({number: log_probs[number,] for number in words.values()})
            floor = -np.inf if unk is None else log_probs[unk,] + unknown_score  # nothing known may come
            best = [0.0, *(floor if score == -np.inf else score for score in best[1:]), floor, 0.0]
            self._ahead = tensor([0.0 if score == -np.inf else score for score in best], self._node, "float32")
            self._entered = tensor(best, self._node, "float32")

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The state before the first word. {…, beam}"""
        mark_beam(batch_dims[-1])
        state = self.lm.initial_state(batch_dims=batch_dims)
        node = full(dims=batch_dims, fill_value=self._nothing, dtype="int64", device=self._words.device)
        return State(context=state.context, begun=node, first=state.first)

    @broadcast_allowed()
    def score(self, label: Tensor, state: State) -> tuple[Tensor, State]:
        """What each label adds. {…, beam} → {…, beam, labels}"""
        context, node = self._after(state.context, state.begun, set_sparse_dim(label, self.labels))
        context, node = where(state.first, state.context, context), where(state.first, state.begun, node)
        of_word, closed = self._closed(context, node)
        scores = where(self._begins, of_word, 0.0)
        if self.end is not None:
            scores = where(equal(self._numbers(), self.end), self._at_end(of_word, closed), scores)
        if self._ends is not None or self._ahead is not None:
            parent = where(self._begins, self._nothing, node)
            longer = self._spelled(parent, self._numbers())
            if self._ends is not None:
                of_words, _ = self._closed(context, longer)
                scores = where(self._ends, of_words, scores)
            if self._ahead is not None and self._entered is not None:
                gain = self._of(self._entered, longer) - self._of(self._ahead, parent)
                scores = scores + where(equal(parent, longer), 0.0, gain)
        first = full(dims=[], fill_value=False, device=context.device)
        scores = scores.copy_transpose([*node.dims, self.labels])
        return set_feature_dim(scores, self.labels), State(context=context, begun=node, first=first)

    def final(self, state: State) -> Tensor:
        """The score of the last word and of the end of the text, if no label was it. {…, beam}"""
        score = self._at_end(*self._closed(state.context, state.begun))
        return where(equal(state.begun, self._over), 0.0, score)

    def _at_end(self, of_word: Tensor, closed: Tensor) -> Tensor:
        """The score of the last word, and that of the end after it. {…}"""
        if self._last is None:
            return of_word
        label = full(dims=[], fill_value=self._last, dtype="int64", device=closed.device)
        return of_word + self.lm.of_label(closed, label)

    def _numbers(self) -> Tensor:
        return set_sparse_dim(range_over_dim(self.labels, device=self._words.device), None)

    def _after(self, context: Tensor, begun: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
        """The context and the begun word after one more label. {…, beam}"""
        begins = gather(self._begins, indices=label, axis=self.labels)
        context = where(begins, self._closed(context, begun)[1], context)
        begun = self._spelled(where(begins, self._nothing, begun), set_sparse_dim(label, None))
        if self._ends is not None:
            ends = gather(self._ends, indices=label, axis=self.labels)
            context = where(ends, self._closed(context, begun)[1], context)
            begun = where(ends, self._nothing, begun)
        return context, begun if self.end is None else where(equal(label, self.end), self._over, begun)

    def _closed(self, context: Tensor, begun: Tensor) -> tuple[Tensor, Tensor]:
        """The score of a begun word if it ends here, and the context after it. {…}"""
        open_ = self._of(self._open, begun)
        word, penalty = self._of(self._words, begun), self._of(self._more, begun)
        score = self.lm.of_label(context, word) + penalty
        if self._ahead is not None:
            score = score - self._of(self._ahead, begun)
        return where(open_, score, 0.0), where(open_, self.lm.after(context, word), context)

    def _of(self, x: Tensor, begun: Tensor) -> Tensor:
        """The entry of begun words. {…}"""
        return gather(x, indices=set_sparse_dim(begun, self._node), axis=self._node)

    def _spelled(self, begun: Tensor, label: Tensor) -> Tensor:
        """The begun word with one more label. {…}"""
        has_text = gather(self._has_text, indices=set_sparse_dim(label, self.labels), axis=self.labels)
        return where(has_text, self._moves.to(begun, label, self._dead), begun)

    def __repr__(self) -> str:
        return f"WordNGram({self.lm!r}, {self.labels.describe()})"


guard_methods(WordNGram, "__init__")


def _cut(texts: list[str], marker: Marker | None) -> tuple[list[bool], list[bool], list[str]]:
    """Which labels begin a word, which end one, and their texts without markers."""
    if marker is None:
        marker = next((sign for sign in ("▁", "@@", " ") if any(_marked(text, sign) for text in texts)), None)
    if marker is None or not any(_marked(text, marker) for text in texts):
        raise DimError(
            "WordNGram: labels do not show where words begin", got=", ".join(map(repr, texts[:8])),
            expected='"▁the" for the first part of a word, "th@@" for all parts but the last, or a label " "',
        )  # fmt: skip
    if marker == "@@":
        return (
            [False] * len(texts),
            [bool(x) and not x.endswith("@@") for x in texts],
            [x.removesuffix("@@") for x in texts],
        )
    begins = [_marked(text, marker) for text in texts]
    bare = [text.removeprefix("▁") if marker == "▁" else "" if begin else text
            for text, begin in zip(texts, begins, strict=True)]  # fmt: skip
    return begins, [False] * len(texts), bare


def _marked(text: str, marker: str) -> bool:
    if marker == " ":
        return text == " " or text in SPACES
    return text.startswith("▁") if marker == "▁" else text.endswith("@@")


class _WordTrie:
    """What labels can spell of words. words: for each begun word, the first of which is empty, the number of the word
    that it is, or None. moves: a begun word, a label, and the longer one."""

    def __init__(self, words: Mapping[str, int], texts: Sequence[str]):
        letters: dict[str, Any] = {}
        for word, number in words.items():
            _add(letters, word, number)
        spelling: dict[str, Any] = {}
        for number, text in enumerate(texts):
            if text:
                _add(spelling, text, number)
        self.words: list[int | None] = [None]
        self.moves: list[tuple[int, int, int]] = []
        self._letters = [0]  # of each begun word
        numbers, waiting = {id(letters): 0}, deque([letters])
        while waiting:
            node = waiting.popleft()
            for label, child in _walk(node, spelling):
                if id(child) not in numbers:
                    numbers[id(child)] = len(self.words)
                    self.words.append(child[END][0] if END in child else None)
                    self._letters.append(self._letters[numbers[id(node)]] + len(texts[label]))
                    waiting.append(child)
                self.moves.append((numbers[id(node)], label, numbers[id(child)]))

    def best(self, log_probs: Mapping[int, float]) -> list[float]:
        """The highest log-probability of the words that labels can make of each begun word."""
        best = [-np.inf if word is None else log_probs[word] for word in self.words]
        for node, _, child in sorted(self.moves, key=lambda move: -self._letters[move[0]]):
            best[node] = max(best[node], best[child])
        return best


END = ""
"""The key of the numbers of the texts that end at a node."""


def _add(root: dict[str, Any], text: str, number: int) -> None:
    for letter in text:
        root = root.setdefault(letter, {})
    root.setdefault(END, []).append(number)


def _walk(node: dict[str, Any], spelling: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The labels whose letters go on from a node, and where they lead."""
    waiting = [(node, spelling)]
    while waiting:
        place, part = waiting.pop()
        for label in part.get(END, ()):
            yield label, place
        waiting += [(place[x], part[x]) for x in part if x != END and x in place]
