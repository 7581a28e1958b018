"""Beam search with a model of any library: a function that makes one step with raw tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.ground import raw as raw_registry
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.core.vocab.vocab import Vocab
from rfnb.errors import ParameterError, SearchError
from rfnb.loop.steps.beams import Searched
from rfnb.search.beam import beam_step
from rfnb.search.collect import SearchPlan, collect
from rfnb.search.found import Found
from rfnb.search.sources import InputType, log_scores

Step = Callable[[Any, Any], tuple[Any, Any]]


def decode(
    step: Step,
    state: Any = None,
    *,
    beam: int = 4,
    start: int | str | Sequence[int],
    end: int | str | None,
    limit: int | Sequence[int],
    labels: Any = None,
    batch: int | None = None,
    tags: Sequence[str] | None = None,
    input_type: InputType = "logits",
    length_normalization_exponent: float = 1.0,
    include_eos: bool = False,
    candidates: int = 8,
) -> Found:
    """Beam search with `step(prev, state) → (scores, state)`, where all tensors are those of torch.

    With N = batch · beam, the hypotheses of the first sequence first: `prev` has the last labels, [N] int64; the scores
    of the next ones are [N, labels].

    >>> following = torch.tensor([[0.0, 2.0, 1.0], [0.0, 0.5, 2.0], [3.0, 0.0, 0.0]])
    >>> found = rf.search.decode(
    ...     lambda prev, state: (following[prev], state),
    ...     batch=1, beam=2, start=0, end="</s>", limit=9, labels=["</s>", "a", "b"],
    ... )
    >>> found.nbest(2)
    [['ab', 'b']]

    Args:
        step: makes one step for all hypotheses. Use `torch.no_grad()` around the call.
        state: tensors with the batch as first axis, or nested lists, tuples and dicts of them; they are repeated for
            the beam, and follow their hypotheses. Or an object with `reorder_cache(index)`, as the caches of Hugging
            Face have it, which is called for both. Leave out what is the same for all hypotheses of a sequence.
        beam: the number of hypotheses.
        start: the first label, or one for each sequence. end: the label that ends a hypothesis; None if there is none.
        limit: the most labels of a hypothesis, or one limit for each sequence.
        labels: a list, an `rf.Vocab` or a tokenizer; for texts.
        batch: the number of sequences, if no tensor of the state shows it. tags: their names.
        input_type: what the scores are: "logits" (or log-probabilities), "log_prob" (as they are), "prob".
        length_normalization_exponent: hypotheses are compared by score / length ** exponent; 0: by their scores.
        include_eos: whether the end label counts as a label of the hypothesis.
        candidates: how many of the candidates that found no place are kept of each step, for the tree.

    Raises SearchError if what `step` returns does not fit, ParameterError for numbers out of range.
    """
    for name, number, least in (("beam", beam, 1), ("candidates", candidates, 0)):
        if number < least:
            raise ParameterError(f"decode: `{name}` is too small", got=number, expected=f"{least} or more")
    vocab = None if labels is None else labels if isinstance(labels, Vocab) else Vocab(labels)
    sequences = _batch(state, start, limit, tags) if batch is None else batch
    search = _Search(
        sequences, beam, candidates, length_normalization_exponent, input_type, include_eos,
        end=None if end is None else int(_numbers("end", end, 1, vocab)[0]),
        limits=_numbers("limit", limit, sequences, None),
    )  # fmt: skip
    prev = np.repeat(_numbers("start", start, sequences, vocab), beam)
    device = next((str(leaf.device) for leaf in leaves(state) if hasattr(leaf, "device")), None)
    state = map_leaves(partial(_taken, np.repeat(np.arange(sequences), beam), sequences), state)
    while not search.done:
        raw, state = step(search.backend.from_numpy_raw(prev, device), state)
        prev, rows = search.extend(raw)
        state = map_leaves(partial(_taken, rows, len(rows)), state)
    return search.found(vocab, tags)


class _Search:
    """The hypotheses of a search so far, [batch, beam], and what is kept of each step."""

    def __init__(
        self,
        batch: int,
        beam: int,
        candidates: int,
        exponent: float,
        input_type: InputType,
        include_eos: bool,
        *,
        end: int | None,
        limits: np.ndarray,
    ):
        self.backend = raw_registry.selected()
        self.exponent, self.input_type, self.include_eos = exponent, input_type, include_eos
        self.end, self.limits, self.candidates, self.steps = end, limits, candidates, 0
        self.dims = Dim(batch, name="batch"), Dim(beam, name="beam")
        self.scores = np.full((batch, beam), -np.inf, "float32")
        self.scores[:, :1] = 0
        self.ended, self.counts = np.zeros((batch, beam), bool), np.ones((batch, beam), "float32")
        self.lengths = np.zeros((batch, beam), "int64")
        self._first = np.arange(batch)[:, None] * beam  # the row of the first hypothesis of each sequence
        self.initial, self.labels, self._places = self.scores, Dim(None, name="labels"), Dim(None, name="beam")
        self.kept: dict[str, list[np.ndarray]] = {}

    @property
    def past(self) -> np.ndarray:
        """Hypotheses that have ended, or have as many labels as their sequence may have."""
        return self.ended | (self.steps >= self.limits)[:, None]

    @property
    def done(self) -> bool:
        """Whether no hypothesis goes on."""
        return bool(self.past.all())

    def extend(self, raw: Any) -> tuple[np.ndarray, np.ndarray]:
        """A step with the scores of the model. Returns the labels, [N], and the rows that they extend."""
        beam, past = self.scores.shape[1], self.past
        wide, found = self._best(raw, past)
        labels, parents, scores = (part[:, :beam] for part in wide)
        rows = parents + self._first
        had, was, lengths = (each.take(rows) for each in (past, self.ended, self.lengths))
        ends = ~had & np.isfinite(scores) & (labels == (-1 if self.end is None else self.end))
        self.lengths = lengths + (~had & (True if self.include_eos else ~ends))
        self.ended, self.scores, self.counts = was | ends | np.isneginf(scores), scores, found[:, :beam]
        names = ("labels", "parents", "scores", "ended", "ends")
        for name, part in zip(names, (labels, parents, scores, past, ends), strict=True):
            self.kept.setdefault(name, []).append(part)
        for name, part in zip(names[:3], wide, strict=True):
            self.kept.setdefault(f"pruned {name}", []).append(part[:, beam:])
        self.steps += 1
        return labels.reshape(-1), rows.reshape(-1)

    def _best(self, raw: Any, past: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
        """Labels, parents and scores of the best candidates, those that find no place too; and their label counts."""
        scores = self._scores(raw)
        base, ended, counts = (
            tensor_of(self.backend.from_numpy_raw(each, scores.device), align.sig(self.dims), EMPTY)
            for each in (self.scores, past, self.counts)
        )
        found = beam_step(
            log_scores(scores, self.labels, self.input_type), base, ended=ended, axis=self.labels, beam=self.dims[1],
            out_beam=self._places, counts=counts if self.exponent else None, step=self.steps,
            exponent=self.exponent,
        )  # fmt: skip
        parts = [self.backend.to_numpy_raw(part._raw) for part in found if part is not None]
        return parts[:3], parts[-1]

    def _scores(self, raw: Any) -> Tensor:
        """The scores of the model, {batch, beam, labels}."""
        shape, hypotheses = tuple(getattr(raw, "shape", ())), self.scores.size
        if len(shape) != 2 or shape[0] != hypotheses or shape[1] != (self.labels.dimension or shape[1]):
            raise SearchError(
                f"decode: `step` returns scores of another shape at step {self.steps}",
                got=shape or type(raw).__name__,
                expected=f"({hypotheses}, {self.labels.dimension or 'labels'}): batch · beam, and the labels",
            )
        if self.labels.dimension is None:
            beam, self.labels = self.scores.shape[1], Dim(shape[1], name="labels")
            self._places = Dim(min(beam + self.candidates, beam * shape[1]), name="beam")  # with the pruned candidates
        return tensor_of(raw.reshape(*self.scores.shape, -1), align.sig([*self.dims, self.labels]), EMPTY)

    def found(self, vocab: Vocab | None, tags: Sequence[str] | None) -> Found:
        """What the search found."""
        make = self.backend.from_numpy_raw
        batch, beam = self.dims
        lengths = EMPTY.bind({batch: Size([], len(self.limits), tags=tags)})
        plan = SearchPlan(self.backend, vocab, self.dims, lengths, self.exponent, make(self.initial, None))
        kept = {name: make(np.stack(parts), None) for name, parts in self.kept.items()}
        size, limit = Size([batch, beam], self.lengths), Size([batch], self.limits)
        return collect(plan, Searched(kept, make(self.ended, None), size, self.include_eos, limit))


def _taken(rows: np.ndarray, count: int, leaf: Any) -> Any:
    """A part of a state at `rows` of its first axis, which has `count` entries."""
    if leaf is None or isinstance(leaf, bool | int | float | str):
        return leaf
    reorder = getattr(leaf, "reorder_cache", None)
    backend = raw_registry.selected()
    if reorder is not None:
        moved = reorder(backend.from_numpy_raw(rows, None))
        return leaf if moved is None else moved
    shape = tuple(getattr(leaf, "shape", ()))
    if not shape or shape[0] != count:
        raise SearchError(
            "decode: the first axis of each part of the state counts the hypotheses",
            got=shape or type(leaf).__name__,
            expected=f"({count}, …), or an object with reorder_cache(index)",
            hint="leave out what is the same for all hypotheses: lambda prev, state: model(prev, state, encoded)",
        )
    return backend.index_raw(leaf, backend.from_numpy_raw(rows, str(leaf.device)), 0)


def _numbers(name: str, given: Any, count: int, vocab: Vocab | None) -> np.ndarray:
    """A number, or a label, for each of `count` sequences. [count] int64"""
    several = list(given) if _is_list(given) else [given] * count
    found = [_label(name, one, vocab) if isinstance(one, str) else int(one) for one in several]
    if len(found) != count or min(found, default=0) < 0:
        raise ParameterError(f"decode: `{name}`", got=given, expected=f"a number of 0 or more, or {count} of these")
    return np.asarray(found, "int64")


def _is_list(given: Any) -> bool:
    return isinstance(given, Sequence | np.ndarray) and not isinstance(given, str)


def _label(name: str, text: str, vocab: Vocab | None) -> int:
    if vocab is None:
        raise ParameterError(f"decode: `{name}` is a text", got=text, hint="decode(…, labels=[…]): the labels in order")
    return vocab.encode([text])[0]


def _batch(state: Any, *others: Any) -> int:
    """The number of sequences, by the first axis of the state or by the lists that have one entry for each."""
    shapes = [leaf.shape for leaf in leaves(state) if len(getattr(leaf, "shape", ())) > 0]
    found = [int(shape[0]) for shape in shapes]
    found += [len(each) for each in others if _is_list(each)]
    if not found:
        raise ParameterError("decode: the number of sequences is unknown", hint="decode(…, batch=1)")
    return found[0]
