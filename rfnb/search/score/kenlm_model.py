"""N-gram models in the binary files of KenLM."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from rfnb.backend.base.tape import untaped
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.raw import backend_of_raw
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.op import guard_methods
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import SearchError
from rfnb.ops.create import full
from rfnb.ops.index import gather
from rfnb.ops.math import equal, logical_or, where
from rfnb.ops.shape import set_sparse_dim
from rfnb.ops.slice import shift_left
from rfnb.search.score.ngram import END, LN10, words_of
from rfnb.trace.record.record import current_recorder, unwrap

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

    def _scores(self, history: object, labels: Any) -> Any:
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
