"""N-gram models as tensors, which score all labels at once, with their files in the ARPA format; and those of KenLM."""

from __future__ import annotations

import gzip
import itertools
import math
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import numpy as np

from rfnb.backend.base.tape import untaped
from rfnb.core.advice.similar_dims import mark_beam
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.op import guard_methods
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.core.vocab import Vocab
from rfnb.errors import DimError, SearchError
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.create import full
from rfnb.ops.index import gather, search_sorted
from rfnb.ops.math import equal, less, logical_or, where
from rfnb.ops.shape import set_feature_dim, set_sparse_dim
from rfnb.ops.slice import shift_left
from rfnb.trace.record.record import current_recorder, unwrap

SECTION, COUNT = re.compile(r"\\(\d+)-grams:"), re.compile(r"ngram\s+(\d+)\s*=\s*(\d+)")
LN10 = math.log(10.0)


@dataclass
class Arpa:
    """An n-gram model. words: number by word. log_probs: for each order, the natural log-probability of each n-gram, as
    numbers of its words. backoffs: those that are not 0, by n-gram."""

    words: dict[str, int] = field(default_factory=dict)
    log_probs: list[dict[tuple[int, ...], float]] = field(default_factory=list)
    backoffs: dict[tuple[int, ...], float] = field(default_factory=dict)


def read_arpa(path: str | Path) -> Arpa:
    """The n-gram model of a file, which may be compressed (".gz").

    Raises SearchError, with the line, for what is not ARPA.
    """
    lines = _Lines(Path(path))
    model, counts = Arpa(), _counts(lines)
    while lines.line != "\\end\\":
        _section(lines, model, counts)
    if len(model.log_probs) != len(counts):
        raise lines.error("an order is missing", f"\\{len(model.log_probs) + 1}-grams:")
    return model


class _Lines:
    """The lines of a file that are not empty, one at a time, with their number."""

    def __init__(self, path: Path):
        self.path, self.number, self.line = path, 0, ""
        self._rest = self._read()

    def _read(self) -> Iterator[str]:
        opened = gzip.open if self.path.suffix == ".gz" else open
        try:
            with opened(self.path, "rt", encoding="utf-8-sig") as file:
                for self.number, line in enumerate(file, 1):
                    if text := line.strip(" \t\r\n"):  # other spaces belong to words
                        yield text
        except (OSError, EOFError, UnicodeDecodeError) as error:
            raise SearchError(f"ARPA: {self.path.name} cannot be read", got=str(error)) from error

    def next(self, expected: str) -> str:
        """The next line. Raises SearchError at the end of the file."""
        line = next(self._rest, None)
        if line is None:
            self.line = "the end of the file"
            raise self.error("the file is not complete", expected)
        self.line = line
        return line

    def error(self, what: str, expected: str | None = None) -> SearchError:
        return SearchError(f"ARPA: {self.path.name}, line {self.number}: {what}", got=self.line[:80], expected=expected)


def _counts(lines: _Lines) -> list[int]:
    """How many n-grams the file says it has of each order."""
    while lines.next("\\data\\") != "\\data\\":
        pass  # whatever stands before it is a comment
    counts: list[int] = []
    while (match := COUNT.fullmatch(lines.next("\\1-grams:"))) is not None:
        if int(match[1]) != len(counts) + 1:
            raise lines.error("orders do not follow each other", f"ngram {len(counts) + 1}=…")
        counts.append(int(match[2]))
    if not counts:
        raise lines.error("no counts of n-grams", "ngram 1=…")
    return counts


def _section(lines: _Lines, model: Arpa, counts: list[int]) -> None:
    """Reads the n-grams of one order, and the line after them."""
    order = len(model.log_probs) + 1
    match = SECTION.fullmatch(lines.line)
    if match is None or int(match[1]) != order or order > len(counts):
        expected = f"\\{order}-grams:" if order <= len(counts) else "\\end\\"
        raise lines.error("unexpected line", expected)
    section: dict[tuple[int, ...], float] = {}
    model.log_probs.append(section)
    while not lines.next("\\end\\").startswith("\\"):
        fields = re.split("[ \t]+", lines.line)
        if not order + 1 <= len(fields) <= order + 2:
            raise lines.error(f"not a {order}-gram", f"log-probability, {order} words, perhaps a backoff weight")
        words = _numbers(lines, model, fields[1 : order + 1])
        if words in section:
            raise lines.error(f"the {order}-gram occurs twice")
        section[words] = _number(lines, fields[0], "log-probability")
        if len(fields) == order + 2:
            backoff = _number(lines, fields[-1], "backoff weight")
            if backoff:
                model.backoffs[words] = backoff
    if len(section) != counts[order - 1]:
        raise lines.error(f"{len(section)} {order}-grams came before", f"{counts[order - 1]}, as its head says")


def _numbers(lines: _Lines, model: Arpa, words: list[str]) -> tuple[int, ...]:
    """The numbers of the words of an n-gram, whose beginning must be an n-gram too."""
    if len(words) == 1:
        return (model.words.setdefault(words[0], len(model.words)),)
    for word in words:
        if word not in model.words:
            raise lines.error(f"{word!r} is not among the 1-grams")
    numbers = tuple(model.words[word] for word in words)
    if numbers[:-1] not in model.log_probs[len(words) - 2]:
        raise lines.error(f"its context {' '.join(words[:-1])!r} is not among the {len(words) - 1}-grams")
    return numbers


def _number(lines: _Lines, text: str, what: str) -> float:
    """A number to base 10 as natural logarithm."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if math.isnan(number) or number == math.inf or (what == "log-probability" and number > 1e-4):
        raise lines.error(f"{text!r} is not a {what}", "a logarithm to base 10")
    return number * LN10


START, END = "<s>", "</s>"


class NGram:
    """An n-gram model with backoff (Katz 1987), from a file in the ARPA format, as a scorer.

    >>> _ = (folder / "lm.arpa").write_text('''\\\\data\\\\
    ... ngram 1=4
    ... ngram 2=2
    ...
    ... \\\\1-grams:
    ... -99 <s> -0.5
    ... -1.0 </s>
    ... -0.5 a -0.2
    ... -0.6 b
    ...
    ... \\\\2-grams:
    ... -0.1 <s> a
    ... -0.3 a b
    ...
    ... \\\\end\\\\''')
    >>> letter, beam = rf.Dim(3, name="letter", vocab=["</s>", "a", "b"]), rf.Dim(1, name="beam")
    >>> lm = rf.search.NGram(folder / "lm.arpa", letter)
    >>> scores, state = lm.score(None, lm.initial_state(batch_dims=[beam]))  # after <s>
    >>> [round(score, 1) for score in (scores / np.log(10)).raw_tensor[0].tolist()]  # </s>, a, b
    [-1.5, -0.1, -1.1]

    Scores are natural logarithms, {…, beam, labels}. The first label of the search does not count: hypotheses begin
    after "<s>", and where no label ends them, as in a search over frames, "</s>" is scored at their end, if the file
    has these.

    Args:
        path: the file, which may be compressed (".gz").
        labels: the dim of the labels, whose texts are the words of the file.
        words: the words of labels that the file names otherwise: {"<eos>": "</s>"}.
        unknown: the word, such as "<unk>", of all labels that the file does not know.

    Raises SearchError for a broken file, with its line; DimError with the label that the file does not know.
    """

    only_falls = True  # scores are log-probabilities
    scores_ends = True

    def __init__(
        self,
        path: str | Path,
        labels: Dim,
        *,
        words: Mapping[str, str] | None = None,
        unknown: str | None = None,
        device: str | None = None,
    ):
        model = read_arpa(path)
        self._of(model, labels, words_of(labels, model.words, words or {}, unknown, "NGram"), device)

    @classmethod
    def of_words(cls, model: Arpa, device: str | None = None) -> NGram:
        """A model whose labels are its words."""
        ngram = cls.__new__(cls)
        ngram._of(model, Dim(len(model.words), name="word", vocab=list(model.words)), list(model.words), device)
        return ngram

    def _of(self, model: Arpa, labels: Dim, texts: Sequence[str], device: str | None) -> None:
        self.labels, self.order, self._size = labels, len(model.log_probs), len(model.words)
        nodes = _nodes(model)
        self._start = nodes.get((model.words[START],), 0) if START in model.words else 0
        self._make(model, nodes, np.asarray([model.words[text] for text in texts]), device)

    def _make(self, model: Arpa, nodes: dict[tuple[int, ...], int], words: np.ndarray, device: str | None) -> None:
        """Makes the tensors. A node is a context; an entry is an n-gram, as its context and its last word."""
        entries = [
            (nodes[gram[:-1]] * self._size + gram[-1], log_prob, nodes[_longest(gram, nodes)])
            for log_probs in model.log_probs
            for gram, log_prob in log_probs.items()
        ]
        keys, log_probs, following = (np.asarray(column) for column in zip(*sorted(entries), strict=True))
        self._entry, self._node = Dim(len(keys), name="n-gram"), Dim(len(nodes), name="context")
        suffixes = [nodes[_longest(gram[1:], nodes)] for gram in nodes]
        backoffs = [model.backoffs.get(gram, 0.0) for gram in nodes]

        def tensor(array: object, dim: Dim, dtype: str) -> Tensor:
            return convert_to_tensor(np.asarray(array, dtype), dims=[dim], device=device)

        self._keys, self._following = (tensor(x, self._entry, "int64") for x in (keys, following))
        self._log_probs = tensor(log_probs, self._entry, "float32")
        self._suffixes, self._backoffs = tensor(suffixes, self._node, "int64"), tensor(backoffs, self._node, "float32")
        self._words = tensor(words, self.labels, "int64")
        self._end = model.words.get(END)
        self._end_unigram = None if self._end is None else model.log_probs[0][self._end,]
        over = [gram[-1:] == (self._end,) for gram in nodes]
        self._over = tensor(over, self._node, "bool")
        unigrams = np.asarray([model.log_probs[0][(word,)] for word in words], "float32")
        self._unigrams = tensor(unigrams, self.labels, "float32")

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The context of the first label. {…, beam}"""
        mark_beam(batch_dims[-1])
        device = self._keys.device
        context = full(dims=batch_dims, fill_value=self._start, dtype="int64", device=device)
        return State(context=context, first=full(dims=[], fill_value=True, device=device))

    def score(self, label: Tensor | None, state: State) -> tuple[Tensor, State]:
        """Log-probabilities of the next labels. {…, beam} → {…, beam, labels}"""
        context = state.context
        if label is not None:
            context = where(state.first, context, self.after(context, label))
        scores = self._log_probs_of(context, self._words, self._unigrams)
        first = full(dims=[], fill_value=False, device=context.device)
        return set_feature_dim(scores, self.labels), State(context=context, first=first)

    def final(self, state: State) -> Tensor:
        """The log-probability of the end of the text, if no label was it. {…, beam}"""
        context = state.context
        if self._end is None:
            return full(dims=[], fill_value=0.0, device=context.device)
        word = full(dims=[], fill_value=self._end, dtype="int64", device=context.device)
        unigram = full(dims=[], fill_value=self._end_unigram, dtype="float32", device=context.device)
        return where(self.is_over(context), 0.0, self._log_probs_of(context, word, unigram))

    def is_over(self, context: Tensor) -> Tensor:
        """Whether the last word was the end of the text. {…}"""
        return gather(self._over, indices=context, axis=self._node)

    def of_label(self, context: Tensor, label: Tensor) -> Tensor:
        """Log-probabilities of given labels after contexts. {…}"""
        label = set_sparse_dim(label, self.labels)
        words, unigrams = (gather(x, indices=label, axis=self.labels) for x in (self._words, self._unigrams))
        return self._log_probs_of(context, words, unigrams)

    def _log_probs_of(self, context: Tensor, words: Tensor, unigrams: Tensor) -> Tensor:
        scores = unigrams
        for node in reversed(self._contexts(context)):
            place, exists = self._entries(node, words)
            backed_off = gather(self._backoffs, indices=node, axis=self._node) + scores
            scores = where(exists, gather(self._log_probs, indices=place, axis=self._entry), backed_off)
        return scores

    def _contexts(self, context: Tensor) -> list[Tensor]:
        """A context and its suffixes, the longest first, but for the empty one."""
        nodes = [context]
        for _ in range(self.order - 2):
            nodes.append(gather(self._suffixes, indices=nodes[-1], axis=self._node))
        return nodes[: self.order - 1]

    def _entries(self, node: Tensor, words: Tensor) -> tuple[Tensor, Tensor]:
        """Where the words stand after a context among the n-grams, and whether they do."""
        keys = node * self._size + words
        place = search_sorted(self._keys, keys, axis=self._entry, out_dtype="int64")
        place = where(less(place, len(self)), place, 0)
        return place, equal(gather(self._keys, indices=place, axis=self._entry), keys)

    def after(self, context: Tensor, label: Tensor) -> Tensor:
        """The context after one more label. {…, beam}"""
        word = gather(self._words, indices=set_sparse_dim(label, self.labels), axis=self.labels)
        longer = gather(self._following, indices=self._entries(context * 0, word)[0], axis=self._entry)
        for node in reversed(self._contexts(context)):
            place, exists = self._entries(node, word)
            longer = where(exists, gather(self._following, indices=place, axis=self._entry), longer)
        return longer

    def __len__(self) -> int:
        """How many n-grams the model has."""
        return self._entry.get_dim_value()

    def __repr__(self) -> str:
        return f"NGram(order {self.order}, {len(self)} n-grams, {self.labels.describe()})"


guard_methods(NGram, "__init__")


def _nodes(model: Arpa) -> dict[tuple[int, ...], int]:
    """The number of each context, the empty one first."""
    grams = dict.fromkeys([(), *(gram for log_probs in model.log_probs[:-1] for gram in log_probs)])
    if END in model.words:
        grams[model.words[END],] = None  # of a unigram model too
    return {gram: number for number, gram in enumerate(grams)}


def _longest(gram: tuple[int, ...], nodes: Mapping[tuple[int, ...], int]) -> tuple[int, ...]:
    """The longest suffix that is a context."""
    while gram not in nodes:
        gram = gram[1:]
    return gram


def _word(vocab: Vocab, number: int, model: Container[str], words: Mapping[str, str]) -> str:
    """The word of a label; of several names "</s>", if it is one of them, otherwise one that is known."""
    text = vocab.decode(number)
    names = [text, *(name for name, label in vocab.aliases.items() if label == number)]
    return words.get(text) or (END if END in names else next((name for name in names if name in model), text))


def words_of(labels: Dim, model: Container[str], words: Mapping[str, str], unknown: str | None, who: str) -> list[str]:
    """The word of each label. Raises DimError with the label whose word is not known."""
    if labels.vocab is None:
        raise DimError(f"{who}: the labels have no texts", got=labels, hint='rf.Dim(…, name="labels", vocab=[…])')
    texts = [_word(labels.vocab, number, model, words) for number in range(labels.get_dim_value())]
    lacking = [(i, text) for i, text in enumerate(texts) if text not in model]
    if lacking and (unknown is None or unknown not in model):
        number, text = lacking[0]
        label = labels.vocab.decode(number)
        tail = f", and {len(lacking) - 1} more" if len(lacking) > 1 else ""
        raise DimError(
            f"{who}: the model does not know a label" if unknown is None else f"{who}: the model has no {unknown!r}",
            got=f"{text!r}, label {number}{tail}",
            expected="labels that are words of the model",
            hint=f'words={{"{label}": "</s>"}} names its word; unknown="<unk>" stands for all others',
        )
    return [text if text in model else str(unknown) for text in texts]


NONE = -1
"""In place of a label before the first one."""


class KenLM:
    """An n-gram model in a binary file of KenLM, or any other that the package `kenlm` reads, as a `PartialScorer`.

    It is asked in Python, for one candidate after the other. An ARPA file is faster as `rf.search.NGram`, and does not
    need the package.

    >>> letter = rf.Dim(3, name="letter", vocab=["</s>", "a", "b"])
    >>> try:
    ...     rf.search.KenLM(folder / "no.bin", letter)
    ... except rf.errors.SearchError as error:  # there is no file, or no kenlm
    ...     print(str(error)[:5])
    KenLM

    Args:
        path: the file.
        labels: the dim of the labels, whose texts are the words of the model.
        words: the words of labels that the model names otherwise: {"<eos>": "</s>"}.
        unknown: the word, such as "<unk>", of all labels that the model does not know.

    Raises SearchError if `kenlm` is not installed, or the file cannot be read; DimError with the label that the model
    does not know.
    """

    only_falls = True  # scores are log-probabilities
    scores_ends = True

    def __init__(
        self, path: str | Path, labels: Dim, *, words: Mapping[str, str] | None = None, unknown: str | None = None
    ):
        try:
            self._kenlm = import_module("kenlm")
        except ImportError as error:
            raise SearchError(
                "KenLM: the package `kenlm` is not installed",
                got=str(error),
                hint="pip install kenlm; an ARPA file needs nothing: rf.search.NGram(path, labels)",
            ) from error
        try:
            self._model = self._kenlm.Model(str(path))
        except (OSError, RuntimeError) as error:
            raise SearchError(f"KenLM: {path} cannot be read", got=str(error)) from error
        self.labels = labels
        self._words = [*words_of(labels, self._model, words or {}, unknown, "KenLM"), END]
        self._history = Dim(max(self._model.order - 1, 1), name="history")
        self._state = lru_cache(maxsize=100_000)(self._state_after)

    def initial_state(self, *, batch_dims: Sequence[Dim]) -> State:
        """The last labels of each hypothesis: none. {…, beam, history}"""
        history = full(dims=[*batch_dims, self._history], fill_value=NONE, dtype="int64")
        return State(history=history, first=full(dims=[], fill_value=True))

    def advance(self, label: Tensor, state: State) -> State:
        """The history with one more label. {…, beam}"""
        history = shift_left(state.history, axis=self._history, pad_value=set_sparse_dim(label, None))
        history = where(state.first, state.history, history).copy_transpose(state.history.dims)
        return State(history=history, first=full(dims=[], fill_value=False))

    def partial(self, labels: Tensor, state: State) -> Tensor:
        """Log-probabilities of candidates. {…, beam, candidates} → the same"""
        candidates = next(dim for dim in labels.dims if dim not in state.history.dims)
        dims = [*(dim for dim in state.history.dims if dim is not self._history), candidates]
        history, words = unwrap(state.history), unwrap(labels.copy_transpose(dims))
        recorder = current_recorder()
        if recorder is None:
            return words.like(self._scores(history._raw, words._raw))
        with untaped(), recorder.tape.pause(), listening(None):
            raw = self._scores(history._raw, words._raw)
        recorder.tape.record(self._scores, (history._raw, words._raw), {}, raw)
        return recorder._wrap(set_sparse_dim(words, None).like(raw))

    def final(self, state: State) -> Tensor:
        """The log-probability of the end of the text, if no label was it. {…, beam}"""
        dims = [dim for dim in state.history.dims if dim is not self._history]
        candidates, last = Dim(1, name="end"), gather(state.history, indices=-1, axis=self._history)
        end = full(dims=[*dims, candidates], fill_value=len(self._words) - 1, dtype="int64", device=last.device)
        score = gather(self.partial(end, state), indices=0, axis=candidates)
        ends = [number for number, word in enumerate(self._words) if word == END]
        over = full(dims=[], fill_value=False, device=last.device)
        for number in ends:
            over = logical_or(over, equal(last, number))
        return where(over, 0.0, score)

    def _scores(self, history: object, labels: RawTensor) -> RawTensor:
        """The scores of raw labels, […, candidates], after raw histories, […, history]."""
        backend = backend_of_raw(labels)
        numbers = backend.to_numpy_raw(labels)
        rows = numbers.reshape(-1, numbers.shape[-1]).tolist()
        histories = backend.to_numpy_raw(history).reshape(len(rows), -1).tolist()
        out = self._kenlm.State()
        values = [
            [self._model.BaseScore(self._state(tuple(context)), self._words[label], out) for label in row]
            for context, row in zip(histories, rows, strict=True)
        ]
        scores = np.asarray(values, "float32").reshape(numbers.shape) * np.float32(LN10)
        return backend.from_numpy_raw(scores, str(labels.device))

    def _state_after(self, history: tuple[int, ...]) -> object:
        """What KenLM knows after some labels."""
        state, labels = self._kenlm.State(), list(itertools.dropwhile(lambda label: label == NONE, history))
        if len(labels) < len(history) or self._model.order == 1:
            self._model.BeginSentenceWrite(state)
        else:
            self._model.NullContextWrite(state)
        for label in labels:
            new = self._kenlm.State()
            self._model.BaseScore(state, self._words[label], new)
            state = new
        return state

    def __repr__(self) -> str:
        return f"KenLM(order {self._model.order}, {self.labels.describe()})"


guard_methods(KenLM, "__init__")
