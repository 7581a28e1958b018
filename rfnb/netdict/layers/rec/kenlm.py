"""kenlm: the scores of an n-gram model, in the steps of a loop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.core.vocab import read_labels
from rfnb.errors import NetworkError
from rfnb.netdict.config.values import Unknown
from rfnb.netdict.layer import SteppingLayer
from rfnb.netdict.options import REQUIRED, value
from rfnb.netdict.resolve import required
from rfnb.ops.concat import cum_concat_step
from rfnb.ops.control import raw_call
from rfnb.ops.create import zeros
from rfnb.ops.shape import set_feature_dim, set_sparse_dim
from rfnb.search.score.ngram import LN10, read_arpa

START, UNKNOWN = "<s>", "<unk>"

Score = Callable[[tuple[str, ...]], float]


class KenLm(SteppingLayer, layer_class="kenlm", can_leave=False):
    """The log-probability that an n-gram model gives to a label after all labels so far. {…}, sparse → {…}

    With `dense_output`, those of all labels that may come next. → {…, labels}
    """

    lm_file: object = value(REQUIRED)
    vocab_file: object = value(REQUIRED)
    vocab_unknown_label: str = value("UNK", str)
    bpe_merge_symbol: str | None = value(None, str)
    input_step_offset: int = value(0, int)
    dense_output: bool = value(False, bool)

    def setup(self, x: Tensor) -> None:
        """Reads the files."""
        required(self.loop, "kenlm is a layer of a loop", expected='in the "unit" of a rec layer')
        lm_file, vocab_file = (_path(name, getattr(self, name)) for name in ("lm_file", "vocab_file"))
        self.words = read_labels(vocab_file).labels
        if x.sparse_dim is None or x.sparse_dim.get_dim_value() > len(self.words):
            got = f"{x.describe_dims()}, {len(self.words)} labels in the file"
            raise NetworkError("kenlm: the source has other labels than the file", got=got)
        complete = x.sparse_dim.dimension == len(self.words)
        self.labels = x.sparse_dim if complete else self.pool.feature(len(self.words), x.dims)
        self.result_feature = self.labels if self.dense_output else None
        self.score = scores_of(lm_file)

    def first_state(self, x: Tensor) -> State:
        """No label yet."""
        so_far = Dim(0, name="so far")
        return State(labels=zeros([*x.dims, so_far], dtype="int32"), so_far=so_far)

    def step(self, state: State, x: Tensor) -> tuple[Tensor, State]:
        """{…} → {…}, or with dense_output {…, labels}"""
        x = set_sparse_dim(x, None)
        history, so_far = cum_concat_step(x, prev_accum=state["labels"], axis=state["so_far"])
        history = history.copy_transpose([*x.dims, so_far])
        new = State(labels=history, so_far=so_far)
        dims = [*x.dims, *([self.labels] if self.dense_output else [])]
        y = zeros(dims) if x.device == "meta" else raw_call(self._scores, history, out_dims=dims)
        return set_feature_dim(y, self.labels) if self.dense_output else y, new

    def _scores(self, history: Any) -> object:
        """The scores for raw labels, {…, so far}."""
        backend = backend_of_raw(history)
        numbers = backend.to_numpy_raw(history)
        score = self._of_all if self.dense_output else self._of_newest
        rows = numbers.reshape(-1, numbers.shape[-1])[:, self.input_step_offset :].tolist()
        scores = np.asarray([score([self.words[label] for label in row]) for row in rows], "float32")
        shape = (*numbers.shape[:-1], *([len(self.words)] if self.dense_output else []))
        return backend.from_numpy_raw(scores.reshape(shape), str(history.device))

    def _of_newest(self, labels: list[str]) -> float:
        return self.score(self._text(labels)) - self.score(self._text(labels[:-1]))

    def _of_all(self, labels: list[str]) -> list[float]:
        """The scores of all labels, taken as they are, as the next word, or as the rest of an unfinished one."""
        text, merge = self._text(labels), self.bpe_merge_symbol
        if merge and labels and labels[-1].endswith(merge):
            words, word = text[:-1], text[-1]
            base = self.score((*words, word + merge))
            return [self.score((*words, word + label)) - base for label in self.words]
        return [self.score((*text, label)) - self.score(text) for label in self.words]

    def _text(self, labels: list[str]) -> tuple[str, ...]:
        """The words that some labels stand for."""
        text = "".join(f"{label} " for label in labels)
        text = text.replace(f"{self.bpe_merge_symbol} ", "") if self.bpe_merge_symbol else text
        return tuple(filter(None, text.split(" ")))


def _path(name: str, given: object) -> str:
    """The path of a file, which a function may give. Raises NetworkError if it is none."""
    path = given() if callable(given) and not isinstance(given, Unknown) else given
    if not isinstance(path, str):
        hint = f'from_config(…, functions={{"{getattr(given, "name", name)}": function}})'
        raise NetworkError(f"kenlm: {name} is not the path of a file", got=f"{path!r:.60}", hint=hint)
    return path


def scores_of(path: str) -> Score:
    """The function that gives the log-probability of words at the beginning of a sentence, which goes on.

    The package `kenlm` computes it if it is installed and can read the file; an ARPA file can be read without it.
    """
    with suppress(ImportError, OSError):
        model: Any = import_module("kenlm").Model(path)
        return lru_cache(maxsize=100_000)(lambda words: model.score(" ".join(words), bos=True, eos=False) * LN10)
    arpa = read_arpa(path)
    start, unknown = arpa.words.get(START), arpa.words.get(UNKNOWN)

    @lru_cache(maxsize=100_000)
    def score(words: tuple[str, ...]) -> float:
        if not words:
            return 0.0
        numbers = [arpa.words.get(word, unknown) for word in words]
        if numbers[-1] is None:
            raise NetworkError("kenlm: the model lacks a word", got=words[-1], expected=f"{UNKNOWN} in the file")
        gram = (*([] if start is None else [start]), *numbers)[-len(arpa.log_probs) :]
        backoff = 0.0
        while gram not in arpa.log_probs[len(gram) - 1]:
            backoff += arpa.backoffs.get(gram[:-1], 0.0)  # type: ignore[arg-type]
            gram = gram[1:]
        return score(words[:-1]) + backoff + arpa.log_probs[len(gram) - 1][gram]  # type: ignore[index]

    return score
