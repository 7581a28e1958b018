"""Beam search with a model of any library: a function that makes one step with raw tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
from rfnb.ops.concat import concat
from rfnb.ops.create import full
from rfnb.ops.shape import replace_dim
from rfnb.search.beam import BeamStep, beam_step
from rfnb.search.checks.arguments import check_count, check_numbers, check_offset
from rfnb.search.checks.given import batch_of, numbers_of
from rfnb.search.collect import SearchPlan, collect
from rfnb.search.found import Found
from rfnb.search.score.add_up import Scored, of_chosen
from rfnb.search.score.outside import Scorers
from rfnb.search.score.parts import refuse_finals
from rfnb.search.sources import InputType, log_scores
from rfnb.search.variants.constraint import Constraint
from rfnb.search.variants.endings import Ended, Endings, EndOptions, endings, places_for
from rfnb.search.variants.groups import check_groups
from rfnb.search.variants.outside import Change, Variant

Step = Callable[[Any, Any], tuple[Any, Any]]

NOT_REPLAYED = "rf.search.decode does not record its steps, as `step` may change its state in place"
"""Why no hypothesis can be kept, and no run forked, after `decode`."""


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
    length_normalization_offset: float = 0.0,
    include_eos: bool = False,
    candidates: int = 8,
    scorers: Mapping[str, Any] | None = None,
    partial_candidates: int | None = None,
    constraints: Sequence[Constraint] = (),
    change: Change | None = None,
    groups: int = 1,
    diversity: float = 0.5,
    threshold: float | None = None,
    ended: Ended = "compete",
    patience: float | None = None,
    early_stop: int = 0,
    most_gain: float | None = None,
    **others: Any,
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
        labels: a list, an `rf.Vocab` or a tokenizer, for texts; or the dim of the labels, that of the scorers.
        batch: the number of sequences, if no tensor of the state shows it. tags: their names.
        input_type: what the scores are: "logits" (or log-probabilities), "log_prob" (as they are), "prob".
        length_normalization_exponent: hypotheses are compared by score / length ** exponent; 0: by their scores. With
            length_normalization_offset, by score / ((offset + length) / (offset + 1)) ** exponent (Wu et al. 2016).
        include_eos: whether the end label counts as a label of the hypothesis.
        candidates: how many of the candidates that found no place are kept of each step, for the tree.
        scorers: parts that are added to the scores of `step`, as for `loop.choice`: {"lm": (lm, 0.4), "length": 0.1};
            "model" may have a scale. partial_candidates: see there.
        constraints: such as `rf.search.no_repeat(3)`, in any order.
        change: a function (scores, labels) → scores of the log-probabilities, Tensors {batch, beam, labels}, such as
            `lambda scores, labels: rf.search.sampled(scores, axis=labels, top_p=0.9)`.
        groups, diversity, threshold: as of `rf.search.beam_step`.
        ended: "apart": ended hypotheses have places of their own, beside those of the `beam` hypotheses that go on.
            patience, early_stop, most_gain: when a search stops, as of `loop.choice`.

    Raises SearchError if what `step` returns does not fit, ParameterError for numbers out of range.
    """
    for name in others:
        raise ParameterError("decode: there is no such option", got=name, hint=OTHER_NAMES.get(name))
    for name, count, least in (("beam", beam, 1), ("candidates", candidates, 0), ("batch", batch or 0, 0)):
        check_count("decode", name, count, least)
    exponent, offset = length_normalization_exponent, length_normalization_offset
    check_numbers("decode", length_normalization_exponent=exponent, length_normalization_offset=offset)
    check_offset("decode", offset)
    own = labels if isinstance(labels, Dim) else None
    labels = labels if own is None else own.vocab
    vocab = None if labels is None else labels if isinstance(labels, Vocab) else Vocab(labels)
    sequences = batch_of(state, start, limit, tags) if batch is None else batch
    if tags is not None and len(tags) != sequences:
        raise ParameterError("decode: `tags` has a name for each sequence", got=len(tags), expected=sequences)
    options = EndOptions(
        ended=ended, living=beam if ended == "apart" else None, patience=patience, early_stop=early_stop,
        most_gain=most_gain,
    )  # fmt: skip
    if groups != 1 and (ended == "apart" or early_stop):
        raise ParameterError("decode: `groups` is not possible with `ended` and `early_stop`", got=groups)
    parts = None if scorers is None else Scorers(scorers, partial_candidates or 2 * beam)
    if parts is not None and early_stop:
        refuse_finals("decode", parts.parts)
    gain = None if change is not None else 0.0 if parts is None else parts.gain
    number = None if end is None else int(numbers_of("end", end, 1, vocab)[0])
    places = places_for(beam, options)
    search = _Search(
        sequences, places, candidates, exponent, offset, input_type, include_eos,
        Variant(constraints, change, groups, diversity, threshold), vocab, parts,
        endings("decode", options, places, end=number, limit=None, gain=gain),
        end=number, first=numbers_of("start", start, sequences, vocab),
        limits=numbers_of("limit", limit, sequences, None),
    )  # fmt: skip
    search.labels = own or search.labels
    prev = search.last[:, :beam].reshape(-1)
    device = next((str(leaf.device) for leaf in leaves(state) if hasattr(leaf, "device")), None)
    state = map_leaves(partial(_taken, np.repeat(np.arange(sequences), beam), sequences), state)
    while not search.done:
        raw, state = search.pair(step(search.backend.from_numpy_raw(prev, device), state))
        prev, rows = search.extend(raw)
        state = map_leaves(partial(_taken, rows, len(rows)), state)
    return search.found(vocab, tags)


OTHER_NAMES = {
    "length_penalty": "length_normalization_exponent=…; 0 compares scores that are not normalized",
    "num_beams": "beam=4",
    "beam_size": "beam=4",
    "max_length": "limit=50, which does not count `start`",
    "max_new_tokens": "limit=50",
    "bos_token_id": "start=1",
    "eos_token_id": "end=2",
}
"""Options of other libraries, and ours."""


class _Search:
    """The hypotheses of a search so far, [batch, beam], and what is kept of each step."""

    def __init__(
        self,
        batch: int,
        beam: int,
        candidates: int,
        exponent: float,
        offset: float,
        input_type: InputType,
        include_eos: bool,
        variant: Variant,
        vocab: Vocab | None,
        scorers: Scorers | None,
        ends: Endings,
        *,
        end: int | None,
        limits: np.ndarray,
        first: np.ndarray,
    ):
        self.backend = raw_registry.selected()
        self.exponent, self.offset, self.input_type, self.include_eos = exponent, offset, input_type, include_eos
        self.scorers, self.endings, self.going = scorers, ends, ends.living or beam
        self.end, self.limits, self.candidates, self.steps = end, limits, candidates, 0
        self.dims = Dim(batch, name="batch"), Dim(beam, name="beam")
        self.scores = np.full((batch, beam), -np.inf, "float32")
        check_groups(variant.groups, beam)
        self.scores[:, :: beam // variant.groups] = 0
        self.ended, self.counts = np.zeros((batch, beam), bool), np.ones((batch, beam), "float32")
        self.lengths = np.zeros((batch, beam), "int64")
        self._first = np.arange(batch)[:, None] * beam  # the row of the first hypothesis of each sequence
        self.initial, self.labels, self._places = self.scores, Dim(None, name="labels"), Dim(None, name="beam")
        self.variant, self.vocab, self.last = variant, vocab, np.repeat(first[:, None], beam, axis=1)
        self.scales = {} if scorers is None else scorers.scales
        self.kept: dict[str, list[np.ndarray]] = {}
        self.device: str | None = None  # of the scores

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
        beam, past, going = self.scores.shape[1], self.past, self.going
        wide, found, parts = self._best(raw, past)
        labels, parents, scores = (part[:, :beam] for part in wide)
        rows = parents + self._first
        had, was, lengths = (each.take(rows) for each in (past, self.ended, self.lengths))
        if self.endings.stops:
            scores = self._stopped(labels, scores, found[:, :beam], had)
        ends = ~had & np.isfinite(scores) & (labels == (-1 if self.end is None else self.end))
        scores = self._with_finals(parents, scores, ends, parts)
        self.lengths = lengths + (~had & (True if self.include_eos else ~ends))
        self.ended, self.scores, self.counts = was | ends | np.isneginf(scores), scores, found[:, :beam]
        names = ("labels", "parents", "scores", "ended", "ends")
        kept = dict(zip(names, (labels, parents, scores, past, ends), strict=True))
        kept |= {f"pruned {name}": part[:, beam:] for name, part in zip(names[:3], wide, strict=True)}
        kept |= {f"part {name}": part[:, :beam] for name, part in parts.items()}
        kept |= {f"pruned part {name}": part[:, beam:] for name, part in parts.items()}
        for name, part in kept.items():
            self.kept.setdefault(name, []).append(part)
        self.steps += 1
        self.last = labels
        self.variant.follow(parents, self.dims)
        if self.scorers is not None:
            self.scorers.follow(self._tensor(parents), self.dims[1])
        if going < beam:  # only those that go on; they extend such ones
            labels = labels[:, :going]
            rows = np.minimum(parents[:, :going], going - 1) + np.arange(len(parents))[:, None] * going
        return labels.reshape(-1), rows.reshape(-1)

    def _tensor(self, array: np.ndarray, sparse_dim: Dim | None = None) -> Tensor:
        """{batch, beam}"""
        return tensor_of(self.backend.from_numpy_raw(array, self.device), align.sig(self.dims, sparse_dim), EMPTY)

    def _stopped(self, labels: np.ndarray, scores: np.ndarray, counts: np.ndarray, had: np.ndarray) -> np.ndarray:
        """The scores, without those of hypotheses that go on where the search stops."""
        most = tensor_of(self.backend.from_numpy_raw(self.limits, self.device), align.sig(self.dims[:1]), EMPTY)
        given = (self._tensor(array) for array in (labels, labels, scores, counts))
        found = replace(self.endings, limit=most).stop(
            BeamStep(*given), self.dims[1], self._tensor(had), self.steps, self.exponent, self.offset
        )
        return self._parts(found)[2]

    def _with_finals(
        self, parents: np.ndarray, scores: np.ndarray, ends: np.ndarray, parts: dict[str, np.ndarray]
    ) -> np.ndarray:
        """The scores with what their end is worth to hypotheses that end; it is added to the parts too."""
        for name, final in ({} if self.scorers is None else self.scorers.finals).items():
            worth = self.backend.to_numpy_raw(final.copy_transpose(self.dims)._raw)
            worth = np.take_along_axis(worth, parents, axis=1)
            self.kept.setdefault(f"final {name}", []).append(worth)
            added = np.where(ends, worth, 0.0).astype(scores.dtype)
            scores = scores + added * self.scales[name]
            if name in parts:
                parts[name][:, : ends.shape[1]] += added
        return scores

    def _best(self, raw: Any, past: np.ndarray) -> tuple[list[np.ndarray], np.ndarray, dict[str, np.ndarray]]:
        """Labels, parents and scores of the best candidates, those that find no place too; their label counts; and the
        parts of their scores."""
        scores = self._scores(raw)
        log_probs = log_scores(scores, self.labels, self.input_type)
        scored = None
        if self.scorers is not None:
            last = self._tensor(self.last, sparse_dim=self.labels)
            scored = self.scorers.add_up(log_probs, last, self.dims, self.labels)
            log_probs = scored.total
        log_probs = self.variant.scores(log_probs, self.last, self.dims, self.labels)
        beam, count = self.scores.shape[1], scores.size_of(self.labels).max
        base, ended, counts = (self._tensor(each) for each in (self.scores, past, self.counts))
        step = partial(
            beam_step, log_probs, base, ended=ended, axis=self.labels, beam=self.dims[1],
            counts=counts if self.exponent else None, step=self.steps, exponent=self.exponent, offset=self.offset,
        )  # fmt: skip
        found = self._parts(step(out_beam=self._places))
        if self.variant.places_differ or self.endings.living:
            variant, out_beam = self.variant, Dim(beam, name="beam")
            chosen = step(
                out_beam=out_beam, groups=variant.groups, diversity=variant.diversity, threshold=variant.threshold,
                **self.endings.selects,
            )  # fmt: skip
            found = _first(self._parts(chosen), found, count)
        parts = {} if scored is None or self.variant.change is not None else self._parts_of(scored, found)
        return found[:3], found[-1], parts

    def _parts_of(self, scored: Scored, found: list[np.ndarray]) -> dict[str, np.ndarray]:
        """The parts of the scores of candidates. [batch, candidates]"""
        dims = self.dims[0], Dim(found[0].shape[1], name="candidates")
        labels, parents = (
            tensor_of(self.backend.from_numpy_raw(array, self.device), align.sig(dims), EMPTY) for array in found[:2]
        )
        own = {name: of_chosen(part, self.labels, self.dims[1], labels, parents) for name, part in scored.parts.items()}
        return {name: self.backend.to_numpy_raw(part.copy_transpose(dims)._raw).copy() for name, part in own.items()}

    def _parts(self, found: BeamStep) -> list[np.ndarray]:
        return [self.backend.to_numpy_raw(part._raw) for part in found if part is not None]

    @staticmethod
    def pair(made: Any) -> tuple[Any, Any]:
        """What `step` has returned, if it is a pair."""
        if not isinstance(made, tuple) or len(made) != 2:
            raise SearchError(
                "decode: `step` returns something other than two values",
                got=type(made).__name__ + (f" of {len(made)}" if isinstance(made, tuple) else ""),
                expected="scores, state",
                hint="return scores, state; a step without a state: return scores, None",
            )
        return made

    def _scores(self, raw: Any) -> Tensor:
        """The scores of the model, {batch, beam, labels}."""
        shape, hypotheses = tuple(getattr(raw, "shape", ())), len(self.scores) * self.going
        known = len(shape) == 2 and raw_registry.backend_of_raw(raw) is self.backend
        if not known or shape[0] != hypotheses or not shape[1] or shape[1] != (self.labels.dimension or shape[1]):
            raise SearchError(
                f"decode: `step` returns scores of another shape at step {self.steps}",
                got=f"{type(raw).__name__} {shape or ''}".strip(),
                expected=f"a tensor ({hypotheses}, {self.labels.dimension or 'labels'}): batch · beam, and the labels",
            )
        if self.end is not None and self.end >= shape[1]:
            raise SearchError(
                "decode: `step` returns no score of the label `end`",
                got=f"end={self.end}, scores of {shape[1]} labels",
                expected=f"0 to {shape[1] - 1}; None if no label ends a hypothesis",
            )
        if self.labels.dimension is None:
            vocab = self.vocab if self.vocab is not None and self.vocab.fits(shape[1]) else None
            self.labels = Dim(shape[1], name="labels", vocab=vocab)
        batch, places = self.scores.shape
        if self._places.dimension is None:  # with the pruned candidates
            self._places = Dim(min(places + self.candidates, places * shape[1]), name="beam")
        going = self.dims[1] if self.going == places else Dim(self.going, name="living")
        found = tensor_of(raw.reshape(batch, self.going, -1), align.sig([self.dims[0], going, self.labels]), EMPTY)
        self.device = found.device
        if going is self.dims[1]:
            return found
        rest = Dim(places - self.going, name="ended")  # the model does not see them, and their scores do not count
        zeros = full(dims=[self.dims[0], rest, self.labels], fill_value=0, dtype=found.dtype, device=found.device)
        joined, both = concat((found, going), (zeros, rest))
        return replace_dim(joined, in_dim=both, out_dim=self.dims[1])[0]

    def found(self, vocab: Vocab | None, tags: Sequence[str] | None) -> Found:
        """What the search found."""
        make = self.backend.from_numpy_raw
        batch, beam = self.dims
        lengths = EMPTY.bind({batch: Size([], len(self.limits), tags=tags)})
        initial = make(self.initial, None)
        plan = SearchPlan(
            self.backend, vocab, self.dims, lengths, self.exponent, initial, what="decode", why_not=NOT_REPLAYED,
            scales=self.scales, offset=self.offset, living=self.endings.living, stops=self.endings.stops,
        )  # fmt: skip
        kept = {name: make(np.stack(parts), None) for name, parts in self.kept.items()}
        size = Size([batch, beam], np.where(np.isneginf(self.scores), 0, self.lengths))
        limit = Size([batch], self.limits)
        return collect(plan, Searched(kept, make(self.ended, None), size, self.include_eos, limit))


def _first(chosen: list[np.ndarray], best: list[np.ndarray], count: int) -> list[np.ndarray]:
    """The chosen hypotheses, and after them the best of the others. Each has labels, parents and scores, [batch, …]."""
    own, others = (labels + parents * count for labels, parents, *_ in (chosen, best))
    own = np.where(np.isneginf(chosen[2]), -1, own)
    known = (others[:, :, None] == own[:, None, :]).any(axis=2)
    left = np.argsort(known, axis=1, kind="stable")[:, : known.shape[1] - own.shape[1]]
    best = [part if i != 2 else np.where(known, -np.inf, part) for i, part in enumerate(best)]
    rest = [np.take_along_axis(part, left, axis=1) for part in best]
    return [np.concatenate(pair, axis=1) for pair in zip(chosen, rest, strict=True)]


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
