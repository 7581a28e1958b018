"""Beam search with a model of any library: a function that makes one step with raw tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.ground import backends
from rfnb.core.ground.nested import leaves, map_leaves
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.arguments import CountFrom0, CountFrom1, not_a_tensor
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.core.vocab import Vocab
from rfnb.errors import ParameterError, SearchError
from rfnb.loop.body.hypotheses import Searched
from rfnb.ops.concat import concat
from rfnb.ops.create import full
from rfnb.ops.index import gather
from rfnb.ops.shape import replace_dim, set_feature_dim
from rfnb.search.beam import (
    BeamState,
    advance,
    advance_apart,
    advance_arrays,
    check_step,
    first_label_only,
    first_rows,
    raw_in_order,
    stopped,
)
from rfnb.search.repeated_decode import RepeatedDecode, SearchRecorder, copied, injected
from rfnb.search.result import CollectPlan, Found, collect
from rfnb.search.rules import BeamRules, ChoiceOptions, Ended, places_for, rules_of
from rfnb.search.score.scorer import ScorePart, most_gain, parts_of, refuse_finals, scores_ends, state_after
from rfnb.search.score.sum import Scored, add_up, of_chosen
from rfnb.search.sources import InputType, log_scores, over
from rfnb.search.tensor_step import Shared, TensorStep
from rfnb.search.trace import FINAL, NOT_REPLAYED, by_scale
from rfnb.search.variants.constraints import Constraint

Step = Callable[[Any, Any], tuple[Any, Any]]

Change = Callable[[Tensor, Tensor], Tensor]
"""A function on the log-probabilities {…, beam, labels}; it gets the labels so far too."""


@guarded
def decode(
    step: Step,
    state: object = None,
    *,
    beam: CountFrom1 = 4,
    start: int | str | Sequence[int],
    end: int | str | Sequence[int | str] | None,
    limit: int | Sequence[int],
    labels: object = None,
    batch: CountFrom0 | Dim | None = None,
    tags: Sequence[str] | None = None,
    input_type: InputType = "logits",
    length_normalization_exponent: float = 1.0,
    length_normalization_offset: float = 0.0,
    include_eos: bool = False,
    candidates: int = 8,
    scorers: Mapping[str, object] | None = None,
    partial_candidates: CountFrom1 | None = None,
    constraints: Sequence[Constraint] = (),
    change: Change | None = None,
    groups: int = 1,
    diversity: float = 0.5,
    threshold: float | None = None,
    ended: Ended = "compete",
    patience: float | None = None,
    early_stop: int = 0,
    most_gain: float | None = None,
    record: bool = False,
    copy_state: Callable[[Any], object] | None = None,
    **others: object,
) -> Found:
    """Beam search with `step(prev, state) → (scores, state)`, where all tensors are those of torch, or Tensors.

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
        state: tensors with the batch as first axis, or nested lists, tuples, dicts and dataclasses of them; they
            are repeated for the beam, and follow their hypotheses. Arrays of numpy stay arrays. Or an object with
            `reorder_cache(index)`, as the caches of Hugging Face have it, which is called for both. Leave out what is
            the same for all hypotheses of a sequence. If there are Tensors {batch, …} in it, the step gets `prev` and
            those as Tensors {batch, beam, …}, and returns such; Tensors without batch and beam, such as the position
            of an `rf.TransformerDecoder`, are the same for all hypotheses.
        beam: the number of hypotheses.
        start: the first label, or one for each sequence. end: the label that ends a hypothesis,
            or several of them; None if there is none.
        limit: the most labels of a hypothesis, or one limit for each sequence.
        labels: a list, an `rf.Vocab` or a tokenizer, for texts; or the dim of the labels, that of the scorers.
        batch: the number of sequences, if no tensor of the state shows it; or their dim, that of Tensors {batch, …} in
            scorers and constraints. By default that of Tensors in the state, or `rf.batch_dim` if it has this size.
            tags: their names.
        input_type: what the scores are: "logits" (or log-probabilities), "log_prob" (as they are), "prob".
        length_normalization_exponent: hypotheses are compared by score / length ** exponent; 0: by their scores. With
            length_normalization_offset, by score / ((offset + length) / (offset + 1)) ** exponent (Wu et al. 2016).
        include_eos: whether the end label counts as a label of the hypothesis.
        candidates: how many of the candidates that found no place are kept of each step, for the tree.
        scorers: parts that are added to the scores of `step`, as for `loop.choice`: {"lm": (lm, 0.4), "length": 0.1};
            "model" may have a scale. partial_candidates: see there.
        constraints: such as `rf.search.no_repeat(3)`, in any order.
        change: a function (scores, labels so far) → scores, for the sum of all parts, {batch, beam, labels}, and the
            labels from `start` on, {batch, beam, so far}, such as
            `lambda scores, so_far: rf.search.sampled(scores, axis=scores.feature_dim, top_p=0.9)`.
        groups, diversity, threshold: as of `rf.search.beam_step`.
        ended: "apart": ended hypotheses have places of their own, beside those of the `beam` hypotheses that go on.
            patience, early_stop, most_gain: when a search stops, as of `loop.choice`.
        record: whether it is a run, `found.run`, as that of `rf.steps`; and can be run again, from a copy of the first
            state, for `tree.keep`, pruned candidates of any rank, and the scores of references. copy_state: makes the
            copies; by default, of tensors, arrays and numbers in containers.

    Raises SearchError if what `step` returns does not fit, ParameterError for numbers out of range.
    """
    arguments: dict[str, Any] = {**locals(), "record": False}
    del arguments["others"]
    if copy_state is not None and not callable(copy_state):
        raise ParameterError("decode: `copy_state` is not a function", got=repr(copy_state), hint="copy.deepcopy")
    if record:
        arguments["state"] = (copy_state or copied)(state)
    for name in others:
        near = did_you_mean(name, arguments)
        raise ParameterError("decode: there is no such option", got=name, hint=OTHER_NAMES.get(name) or near)
    options = ChoiceOptions(
        length_normalization_exponent=length_normalization_exponent,
        length_normalization_offset=length_normalization_offset, groups=groups, diversity=diversity,
        threshold=threshold, ended=ended, living=beam if ended == "apart" else None, patience=patience,
        early_stop=early_stop, most_gain=most_gain, input_type=input_type, candidates=candidates,
    )  # fmt: skip
    options.check("decode")
    label_dim = labels if isinstance(labels, Dim) else None
    labels = labels if label_dim is None else label_dim.vocab
    vocab = None if labels is None else labels if isinstance(labels, Vocab) else Vocab(labels)
    if any(isinstance(leaf, Tensor) for leaf in leaves(state)):
        step = with_tensors = TensorStep(step, state, beam, label_dim, batch if isinstance(batch, Dim) else None)
        state, tags, batch = with_tensors.state, tags or with_tensors.tags, with_tensors.batch
    if isinstance(batch, Dim):
        tags = tags or batch.size.tags
    else:
        batch = _dim_of(batch_of(state, start, limit, tags) if batch is None else batch)
    sequences = batch.get_dim_value()
    if tags is not None and len(tags) != sequences:
        raise ParameterError("decode: `tags` has a name for each sequence", got=len(tags), expected=sequences)
    parts = Scorers(scorers, constraints, partial_candidates or 2 * beam)
    if early_stop:
        refuse_finals("decode", parts.parts)
    end_labels: Any = end if _is_list(end) else [end]
    ends = [] if end is None else numbers_of("end", end, len(end_labels), vocab).tolist()
    places = places_for(beam, options)
    rules = rules_of("decode", options, places, ends=ends, gain=None if change is not None else parts.gain)
    search = Decoding(
        rules, options, parts, change, places=places, limits=numbers_of("limit", limit, sequences, None),
        start=numbers_of("start", start, sequences, vocab), batch=batch, labels=label_dim, vocab=vocab,
        include_eos=include_eos,
    )  # fmt: skip
    prev = search.state.labels[:, :beam].reshape(-1)
    search.device_of_state = next((str(leaf.device) for leaf in leaves(state) if hasattr(leaf, "device")), None)
    state = map_leaves(_Rows(np.repeat(np.arange(sequences), beam), sequences).of, state)
    if not record:
        decode_steps(search, step, prev, state)
        return search.found(tags)
    label = label_dim if label_dim is not None or vocab is None else Dim(len(vocab), name="labels", vocab=vocab)
    recorded = SearchRecorder(decode_steps, label)
    with recorded:
        decode_steps(search, step, prev, state)
    result = search.found(tags)
    copies, constraints = copy_state or copied, tuple(constraints)

    def again(**options: object) -> Found:
        with search.backend.no_gradients():
            return decode(**{**arguments, **options, "state": copies(arguments["state"])})

    repeated = RepeatedDecode(again, result.trace, rules, constraints, changed=change is not None)
    result = replace(result, trace=replace(result.trace, again=repeated))
    repeated.take_run(recorded.run_of(result, batch, tags))
    return result


def decode_steps(search: Decoding, step: Step, prev: np.ndarray, state: object) -> None:
    """Makes all steps of a search. prev: the label before, of each hypothesis. [batch · beam]"""
    while search.goes_on():
        scores, state = search.made(prev, step, state)
        prev, rows = search.extend(scores)
        state = search.followed(rows, state)


OTHER_NAMES = {
    "length_normalization": "length_normalization_exponent=0, for scores that are not normalized",
    "length_penalty": "length_normalization_exponent=…; 0 compares scores that are not normalized",
    "repetition_penalty": 'scorers={"repetition": rf.search.repetition_penalty(1.2)}',
    "presence_penalty": 'scorers={"presence": rf.search.presence_penalty(0.5)}',
    "no_repeat_ngram_size": "constraints=[rf.search.no_repeat(3)]",
    "bad_words_ids": "constraints=[rf.search.bad_words([…], labels=…)]",
    "min_new_tokens": "constraints=[rf.search.lengths(end=…, minimum=…)]",
    "num_beams": "beam=4",
    "beam_size": "beam=4",
    "max_length": "limit=50, which does not count `start`",
    **dict.fromkeys(["max_new_tokens", "max_seq_len"], "limit=50"),
    "bos_token_id": "start=1",
    "eos_token_id": "end=2",
}
"""Options of other libraries, and ours."""


class Decoding:
    """A search that steps without a loop: its hypotheses so far, and what is kept of each step.

    Args:
        rules: those of the search.
        options: input_type, candidates.
        scorers: the parts of the scores beside that of the model.
        change: of the scores, after all parts.
        places: the size of the beam.
        limits: the most labels of each sequence. [batch]
        start: the label before the first one. [batch]
        batch: the dim of the sequences.
        labels: the dim of the labels, if it is known.
        vocab: their texts.
        include_eos: whether the label that ends a hypothesis counts.
    """

    def __init__(
        self,
        rules: BeamRules,
        options: ChoiceOptions,
        scorers: Scorers,
        change: Change | None,
        *,
        places: int,
        limits: np.ndarray,
        start: np.ndarray,
        batch: Dim,
        labels: Dim | None,
        vocab: Vocab | None,
        include_eos: bool,
    ):
        shape = len(limits), places
        self.backend = backends.selected()
        self.rules, self.options, self.scorers, self.change = rules, options, scorers, change
        self.limits, self.vocab, self.include_eos = limits, vocab, include_eos
        self.dims, self.labels = (batch, Dim(places, name="beam")), labels or Dim(None, name="labels")
        self.of_batch = current_lengths([batch])
        self.going = rules.living or places
        self._in_order = np.arange(shape[0] * self.going)
        scores = np.full(shape, -np.inf, "float32")
        scores[:, :: places // rules.groups] = 0
        last, counts = np.repeat(start[:, None], places, axis=1), np.ones(shape, "float32")
        self.initial = self.state = BeamState(last, None, scores, counts, np.zeros(shape, bool))
        self.lengths, self.steps = np.zeros(shape, "int64"), 0
        self.kept: dict[str, list[np.ndarray]] = {}  # labels, parents and parts with those of pruned candidates
        self.device: str | None = None  # of the scores
        self.device_of_state: str | None = None
        self._candidates = 0  # with those without a place
        self._is_end = np.zeros(0, bool)  # of each label
        self._first_label: RawTensor = None  # see `advance_arrays`
        self._as_they_are = not (scorers.parts or scorers.scales or scorers.constraints or change)
        self._is_apart = bool(rules.living and rules.ends) and rules.threshold is None
        self.injections = {injection.step: injection for injection in injected.get()}
        self._is_by_rank = rules.by_rank
        self._checked: object = None  # type, dtype and shape of the scores of a step
        self._is_quick = False  # whether arrays of the model's scores are all that a step needs
        self._so_far = last[:, :, None]  # the labels of each hypothesis, if `change` gets them
        self._look()

    def _look(self) -> None:
        """Finds which hypotheses have ended, or have as many labels as their sequence may have."""
        self.past = self.state.ended | (self.steps >= self.limits)[:, None]
        self.done = bool(self.past.all())

    def goes_on(self) -> bool:
        """Whether there is another step."""
        return not self.done

    def extend(self, raw: object) -> tuple[np.ndarray, np.ndarray]:
        """A step with the scores of the model. Returns the labels, [N], and the rows that they extend."""
        beam, past, going = self.past.shape[1], self.past, self.going
        wide, parts = self._injected(raw) if self.steps in self.injections else self._best(raw)
        labels, parents = wide.labels[:, :beam], wide.parents[:, :beam]
        scores, counts = wide.scores[:, :beam], wide.counts[:, :beam]
        rows = parents + first_rows(len(past), beam)
        had, end_label = past.take(rows), self._is_end.take(labels)
        if self.rules.sure:
            scores = self._stopped(BeamState(labels, parents, scores, counts, had))
        elif self.rules.most_ended is not None:
            over = had | end_label
            stops = (over & (scores != -np.inf)).sum(axis=1) >= self.rules.most_ended
            if stops.any():
                scores = np.where(stops[:, None] & ~over, np.float32(-np.inf), scores)
        ends = (np.isfinite(scores) & end_label) > had
        if self.scorers.finals:
            scores = self._with_finals(parents, scores, ends, parts)
        self.lengths = self.lengths.take(rows) + ~(had if self.include_eos else had | ends)
        self.state = BeamState(
            labels, parents, scores, counts, self.state.ended.take(rows) | ends | (scores == -np.inf)
        )
        arrays = {"labels": wide.labels, "parents": wide.parents, "scores": scores, "ended": past, "ends": ends}
        arrays["pruned scores"] = wide.scores[:, beam:]
        for name, part in (arrays | parts).items():
            self.kept.setdefault(name, []).append(part)
        if self.change is not None:
            before = np.take_along_axis(self._so_far, parents[:, :, None], axis=1)
            self._so_far = np.concatenate([before, labels[:, :, None]], axis=2)
        self.steps += 1
        self._look()
        if not self._as_they_are:
            self.scorers.follow(self._tensor(parents), self.dims[1])
        if not self.rules.ends and (self.steps >= self.limits).any():
            for name, worth in self._settled(labels).items():
                self.kept.setdefault(FINAL + name, [np.zeros_like(scores)] * (self.steps - 1)).append(worth)
        if going < beam:  # only those that go on; they extend such ones
            labels, rows = labels[:, :going], np.minimum(parents[:, :going], going - 1) + first_rows(len(past), going)
        return labels.reshape(-1), rows.reshape(-1)

    def made(self, prev: np.ndarray, step: Step, state: object) -> tuple[Any, Any]:
        """The scores and the state that `step` gives for the last labels, [N]."""
        try:
            result: object = step(self.backend.from_numpy_raw(prev, self.device_of_state), state)
        except RuntimeError as error:
            shapes = [tuple(leaf.shape) for leaf in leaves(state) if len(getattr(leaf, "shape", ())) > 2]
            if shapes and not self.steps:
                error.add_note(
                    f"decode: the first axis of each part of the state counts the {len(prev)} hypotheses: {shapes[0]}. "
                    "A state of torch.nn.LSTM or GRU has its layers first: give state.transpose(0, 1), and turn it "
                    "back in `step`"
                )
            elif not self.steps:
                error.add_note(
                    f"decode: `step` is called for {len(prev)} hypotheses, batch · beam. What it takes from elsewhere, "
                    "such as the output of an encoder, goes into the state, which is repeated for the beam"
                )
            raise
        if not isinstance(result, tuple) or len(result) != 2:
            raise SearchError(
                "decode: `step` returns something other than two values",
                got=type(result).__name__ + (f" of {len(result)}" if isinstance(result, tuple) else ""),
                expected="scores, state",
                hint="return scores, state; a step without a state: return scores, None",
            )
        return result

    def followed(self, rows: np.ndarray, state: object) -> Any:
        """The state of the hypotheses that extend these rows; the first step also checks it."""
        moves = self.steps == 1 or not (rows == self._in_order).all()
        return map_leaves(_Rows(rows, len(rows)).of, state) if moves else state

    def _settled(self, last: np.ndarray, *, empty: bool = False) -> dict[str, np.ndarray]:
        """What the end of the search is worth to each hypothesis, by name. [batch, beam]

        last: their last labels. empty: they have none, and `last` is the start.
        """
        scores = self.scorers.settled(self._tensor(last, self.labels), self.dims, empty=empty)
        return {name: self._array(score) for name, score in scores.items()}

    def _array(self, score: Tensor) -> np.ndarray:
        """[batch, beam]"""
        array: np.ndarray = self.backend.to_numpy_raw(over(score, self.dims)._raw)
        return array

    def _tensor(self, array: np.ndarray, sparse_dim: Dim | None = None, dims: Sequence[Dim] | None = None) -> Tensor:
        """{batch, beam}, or with other dims."""
        raw, signature = self.backend.from_numpy_raw(array, self.device), align.sig(dims or self.dims, sparse_dim)
        return tensor_of(raw, signature, self.of_batch)

    def _stopped(self, state: BeamState) -> np.ndarray:
        """The scores, without those of hypotheses that go on where the search stops."""
        limits = self._tensor(self.limits, dims=self.dims[:1])
        tensors = BeamState(*map(self._tensor, state))
        return self._array(
            stopped(tensors, self.dims[1], self.rules, had_ended=tensors.ended, count=self.steps + 1, limit=limits)
        )

    def _with_finals(
        self, parents: np.ndarray, scores: np.ndarray, ends: np.ndarray, parts: dict[str, np.ndarray]
    ) -> np.ndarray:
        """The scores with what their end is worth to hypotheses that end; it is added to the parts too."""
        for name, final in (self.scorers.finals if self.rules.ends else {}).items():
            worth = np.take_along_axis(self._array(final), parents, axis=1)
            self.kept.setdefault(FINAL + name, []).append(worth)
            added = np.where(ends, worth, 0.0).astype(scores.dtype)
            scores = scores + by_scale(added, self.scorers.scales.get(name, 1.0))
            if f"part {name}" in parts:
                parts[f"part {name}"][:, : ends.shape[1]] += added
        return scores

    def _best(self, raw: RawTensor) -> tuple[BeamState, dict[str, np.ndarray]]:
        """The best candidates, those that find no place too, and the parts of their scores."""
        self._check(raw)
        (last, _, sums, counts, _), backend = self.state, self.backend
        state = BeamState(last, None, sums, counts, self.past)
        if self._is_quick:
            scores = backend.array_raw(backend.log_probs_raw(raw.reshape(len(self.past), self.going, -1), 2))
            if self._is_by_rank:
                return self._best_of(scores, state), {}
            dims: Any = {"is_end": self._is_end, "places": self._candidates}
            return advance_apart(state, scores, self.rules, backend, step=self.steps, device=self.device, **dims), {}
        scored, log_probs = None, log_scores(self._scores(raw), self.labels, self.options.input_type)
        if not self._as_they_are:
            scored = self.scorers.add_up(log_probs, self._tensor(state.labels, self.labels), self.dims, self.labels)
            log_probs = scored.total if self.change is None else self._changed(self.change, scored.total)
        if not isinstance(log_probs, Tensor):
            raise not_a_tensor("decode: the result of `change`", log_probs)
        check_step(log_probs, self._tensor(state.scores), self.labels, self.dims[1], Dim(1, name="beam"))
        best = self._best_of(raw_in_order(log_probs, [*self.dims, self.labels]), state)
        if not self._is_by_rank:
            best = self._placed(log_probs, state, best)
        return best, {} if scored is None or self.change is not None else self._parts_of(scored, best)

    def _changed(self, change: Change, scores: Tensor) -> Tensor:
        """The scores after `change`. {batch, beam, labels}"""
        so_far = self._tensor(self._so_far, self.labels, [*self.dims, Dim(self._so_far.shape[2], name="so far")])
        return change(set_feature_dim(over(scores, [*self.dims, self.labels]), self.labels), so_far)

    def _injected(self, raw: object) -> tuple[BeamState, dict[str, np.ndarray]]:
        """The best candidates, of which another one has a place."""
        self._check(raw)
        count, injection = self._candidates, self.injections[self.steps]
        self._candidates = self.past.shape[1] * self.labels.get_dim_value()
        wide, parts = self._best(raw)
        self._candidates = count
        order, row = injection.order(wide, self.past.shape[1]), injection.sequence

        def ordered(array: object) -> Any:
            if array is None:
                return None
            array = np.array(array)
            array[row] = array[row][order]
            return array[:, :count]

        return BeamState(*map(ordered, wide)), {name: ordered(part) for name, part in parts.items()}

    def _best_of(self, scores: object, state: BeamState) -> BeamState:
        if self._first_label is None and not isinstance(scores, np.ndarray):
            self._first_label = first_label_only(self.backend, self.labels, scores)
        return advance_arrays(
            state, scores, self.rules, self.backend, first_label=self._first_label, places=self._candidates,
            step=self.steps, device=self.device,
        )  # fmt: skip

    def _placed(self, log_probs: Tensor, state: BeamState, best: BeamState) -> BeamState:
        """Candidates that get their places in another way, and after them the best of the others."""
        scores, counts, ended = (self._tensor(array) for array in state[2:])
        before = BeamState(None, None, scores, counts if self.rules.exponent else None, ended)
        after = Dim(self.past.shape[1], name="beam")
        dims: Any = {"axis": self.labels, "beam": self.dims[1], "out_beam": after}
        result = advance(before, log_probs, self.rules, count=self.steps + 1, **dims)
        parts = [self.backend.to_numpy_raw(part._raw) for part in result if part is not None]
        return _first(BeamState(parts[0], parts[1], parts[2], parts[-1]), best, self.labels.get_dim_value())

    def _parts_of(self, scored: Scored, best: BeamState) -> dict[str, np.ndarray]:
        """The parts of the scores of candidates. [batch, candidates]"""
        dims, numpy = (self.dims[0], Dim(best.labels.shape[1], name="candidates")), self.backend.to_numpy_raw
        labels, parents = (self._tensor(array, dims=dims) for array in best[:2])
        parts = {name: scored.parts[name] for name in self.scorers.scales}
        arrays = {name: of_chosen(x, self.labels, self.dims[1], labels, parents) for name, x in parts.items()}
        return {f"part {name}": numpy(x.copy_transpose(dims)._raw).copy() for name, x in arrays.items()}

    def _check(self, raw: RawTensor) -> None:
        """Refuses scores of another shape; the first ones tell how many labels there are, and the device."""
        kind = type(raw), getattr(raw, "dtype", None), getattr(raw, "shape", None)
        if kind == self._checked:
            return
        shape, hypotheses = tuple(getattr(raw, "shape", ())), len(self.limits) * self.going
        usable = len(shape) == 2 and backends.backend_of_raw(raw) is self.backend
        if not usable or shape[0] != hypotheses or not shape[1] or shape[1] != (self.labels.dimension or shape[1]):
            raise SearchError(
                f"decode: `step` returns scores of another shape at step {self.steps}",
                got=f"{type(raw).__name__} {shape or ''}".strip(),
                expected=f"a tensor ({hypotheses}, {self.labels.dimension or 'labels'}): batch · beam, and the labels",
            )
        if self.rules.ends and self.rules.ends[-1] >= shape[1]:
            raise SearchError(
                "decode: `step` returns no score of the label `end`",
                got=f"end={self.rules.ends[-1]}, scores of {shape[1]} labels",
                expected=f"0 to {shape[1] - 1}; None if no label ends a hypothesis",
            )
        if self.vocab is not None and not self.vocab.fits(shape[1]):
            raise SearchError(
                "decode: `labels` are not those of the scores that `step` returns",
                got=f"{len(self.vocab)} labels, scores of {shape[1]}",
                expected="one label for each score, in their order",
            )
        if self.labels.dimension is None:
            self.labels = Dim(shape[1], name="labels", vocab=self.vocab)
        if not self._candidates:
            self._is_end = np.isin(np.arange(shape[1]), self.rules.ends)
            places = self.past.shape[1]
            self._candidates = min(places + self.options.candidates, places * shape[1])
            self.device = self.backend.get_device_raw(raw)
        plain = (
            self._as_they_are
            and self.options.input_type == "logits"
            and raw.dtype is self.backend.as_dtype_raw("float32")
        )
        self._checked, self._is_quick = kind, plain and (self._is_by_rank or self._is_apart)

    def _scores(self, raw: RawTensor) -> Tensor:
        """The scores of the model, {batch, beam, labels}."""
        batch, places = self.past.shape
        going = self.dims[1] if self.going == places else Dim(self.going, name="living")
        signature = align.sig([self.dims[0], going, self.labels])
        scores = tensor_of(raw.reshape(batch, self.going, -1), signature, self.of_batch)
        if going is self.dims[1]:
            return scores
        ended = Dim(places - self.going, name="ended")  # the model does not see them, and their scores do not count
        zeros = full(dims=[self.dims[0], ended, self.labels], fill_value=0, dtype=scores.dtype, device=scores.device)
        joined, union = concat((scores, going), (zeros, ended))
        return replace_dim(joined, in_dim=union, out_dim=self.dims[1])[0]

    def found(self, tags: Sequence[str] | None) -> Found:
        """What the search found."""
        make = self.backend.from_numpy_raw
        batch, beam = self.dims
        lengths = EMPTY.bind({batch: Size([], len(self.limits), tags=tags)})
        at_start = not self.rules.ends and self.labels.dimension is not None and not self.limits.all()
        plan = CollectPlan(
            self.backend, self.rules, self.vocab, self.dims, lengths, make(self.initial.scores, None),
            self.scorers.scales, "decode", why_not=NOT_REPLAYED,
            at_start=self._settled(self.initial.labels, empty=True) if at_start else {},
        )  # fmt: skip
        data = {name: np.concatenate(x).reshape(len(x), *x[0].shape) for name, x in self.kept.items()}
        for name in [name for name in data if name in ("labels", "parents") or name.startswith("part ")]:
            data[f"pruned {name}"], data[name] = (
                data[name][:, :, beam.size.max :],
                data[name][:, :, : beam.size.max],
            )
        size = Size([batch, beam], np.where(np.isneginf(self.state.scores), 0, self.lengths))
        limit = Size([batch], self.limits)
        return collect(
            plan,
            Searched(
                {name: make(part, None) for name, part in data.items()},
                make(self.state.ended, None),
                size,
                self.include_eos,
                limit,
            ),
        )


def _first(chosen: BeamState, best: BeamState, count: int) -> BeamState:
    """The chosen hypotheses, and after them the best of the others. count: that of the labels."""
    chosen_numbers, numbers = (part.labels + part.parents * count for part in (chosen, best))
    chosen_numbers = np.where(np.isneginf(chosen.scores), -1, chosen_numbers)
    doubles = (numbers[:, :, None] == chosen_numbers[:, None, :]).any(axis=2)
    order = np.argsort(doubles, axis=1, kind="stable")[:, : doubles.shape[1] - chosen_numbers.shape[1]]
    best = best._replace(scores=np.where(doubles, -np.inf, best.scores))
    tail = [np.take_along_axis(part, order, axis=1) for part in best[:4]]
    return BeamState(*(np.concatenate(pair, axis=1) for pair in zip(chosen[:4], tail, strict=True)))


class _Rows:
    """Rows of the first axis of the parts of a state, which has `count` entries."""

    def __init__(self, rows: np.ndarray, count: int):
        self.rows, self.count, self.backend = rows, count, backends.selected()
        self.on: dict[Any, Any] = {}  # by device

    def of(self, leaf: Any) -> Any:
        """The rows of a part."""
        if type(leaf) is self.backend.RawTensorType and leaf.shape[:1] == (self.count,):
            return self.backend.index_raw(leaf, self._rows_on(leaf.device), 0)
        if leaf is None or isinstance(leaf, bool | int | float | str | Dim | Shared):
            return leaf
        reorder = getattr(leaf, "reorder_cache", None)
        if reorder is not None:
            moved = reorder(self.backend.from_numpy_raw(self.rows, None))
            return leaf if moved is None else moved
        shape = getattr(leaf, "shape", ())
        if isinstance(leaf, np.ndarray) and shape[:1] == (self.count,):
            return leaf[self.rows]
        if not shape or shape[0] != self.count:
            raise SearchError(
                "decode: the first axis of each part of the state counts the hypotheses",
                got=tuple(shape) or type(leaf).__name__,
                expected=f"({self.count}, …), or an object with reorder_cache(index)",
                hint="leave out what is the same for all hypotheses: lambda prev, state: model(prev, state, encoded)",
            )
        return self.backend.index_raw(leaf, self._rows_on(leaf.device), 0)

    def _rows_on(self, device: object) -> RawTensor:
        rows = self.on.get(device)
        if rows is None:
            rows = self.on[device] = self.backend.from_numpy_raw(self.rows, str(device))
        return rows


def numbers_of(name: str, values: Any, count: int, vocab: Vocab | None) -> np.ndarray:
    """A number, or a label, for each of `count` sequences. [count] int64"""
    values = values.tolist() if hasattr(values, "tolist") else values
    entries = list(values) if _is_list(values) else [values] * count
    numbers = [_label(name, entry, vocab) if isinstance(entry, str) else entry for entry in entries]
    if len(numbers) != count or not all(type(entry) is int and entry >= 0 for entry in numbers):
        raise ParameterError(
            f"decode: `{name}` does not give a number for each sequence",
            got=repr(values),
            expected=f"an integer of 0 or more, or a list of {count}",
        )
    size = None if vocab is None else len(vocab)
    if size is not None and any(entry >= size for entry in numbers):
        raise ParameterError(f"decode: `{name}` is not a label", got=repr(values), expected=f"0 to {size - 1}")
    return np.asarray(numbers, "int64")


def _is_list(value: object) -> bool:
    """Whether there is a value for each sequence: a list, an array or a tensor."""
    return (isinstance(value, Sequence) and not isinstance(value, str)) or len(getattr(value, "shape", ())) == 1


def _label(name: str, text: str, vocab: Vocab | None) -> int:
    if vocab is None:
        raise ParameterError(f"decode: `{name}` is a text", got=text, hint="decode(…, labels=[…]): the labels in order")
    return vocab.encode([text])[0]


def batch_of(state: object, *others: Any) -> int:
    """The number of sequences, by the first axis of the state or by the lists that have one entry for each."""
    shapes = [leaf.shape for leaf in leaves(state) if len(getattr(leaf, "shape", ())) > 0]
    sizes = [int(shape[0]) for shape in shapes]
    sizes += [len(entries) for entries in others if _is_list(entries)]
    if not sizes:
        raise ParameterError("decode: the number of sequences is unknown", hint="decode(…, batch=1)")
    return sizes[0]


def _dim_of(count: int) -> Dim:
    """The dim of so many sequences: that of the caller's own batch, if its size is the same."""
    matches = batch_dim.is_defined() and batch_dim.get_dim_value() == count
    return batch_dim if matches else Dim(count, name="batch")


MODEL = "model"
"""The name of the scores that `step` returns."""


class Scorers:
    """The parts of a score beside that of the model, and the states that they need.

    Args:
        given: as for `loop.choice`; of the model, only the scale: {"model": 0.8, "lm": (lm, 0.4)}.
        constraints: those that no scale changes, and that are not among the parts that are kept.
        candidates: how many labels of each hypothesis the costly ones see.
    """

    def __init__(self, scorers: Mapping[str, object] | None, constraints: Sequence[Constraint], candidates: int):
        scale = 1.0 if scorers is None else scorers.get(MODEL, 1.0)
        if isinstance(scale, bool) or not isinstance(scale, int | float) or not math.isfinite(scale):
            raise ParameterError(
                "decode: the scores of the model come from `step`", got=type(scale).__name__, hint='"model": its scale'
            )
        self.parts = [] if scorers is None else parts_of({name: x for name, x in scorers.items() if name != MODEL})
        for part in self.parts:
            if isinstance(part.value, Tensor):
                raise ParameterError(
                    f"decode: {part.name!r} is a Tensor",
                    expected='a scorer, a module, or a number for "length"',
                    hint="add such scores to those that `step` returns",
                )
        self.constraints = [ScorePart(f"constraint {i}", value, 1.0) for i, value in enumerate(constraints)]
        self.scale, self.candidates = float(scale), candidates
        self.scales = {} if scorers is None else {MODEL: self.scale} | {part.name: part.scale for part in self.parts}
        self.finals: dict[str, Tensor] = {}  # what the end of each hypothesis is worth
        self._states: dict[str, Any] = {}
        self._dims: Sequence[Dim] = ()
        self._last: Any = None

    @property
    def gain(self) -> float | None:
        """The most that a label may add to a score; None if that is not known."""
        return most_gain(self.parts, None if self.scale < 0 else 0.0, None)

    def add_up(self, scores: Tensor, last: Tensor, dims: Sequence[Dim], axis: Dim) -> Scored:
        """The scores of the next labels. {…, beam, axis}, last: the last label of each hypothesis, {…, beam}"""
        scored, self._last, self._dims = Scored(axis), last, dims
        for parts in ([ScorePart(MODEL, scores, self.scale), *self.parts], self.constraints):
            add_up(
                scored, parts, dims, self, input_type="log_prob", candidates=self.candidates, device=scores.device
            )  # fmt: skip
        return scored

    def of(self, part: ScorePart) -> tuple[Tensor, Any]:
        """The last label of each hypothesis, {…, beam}, and the state of a scorer."""
        return self._last, self._states[part.name] if part.name in self._states else _initial(part, self._dims)

    def take(self, part: ScorePart, new: object) -> None:
        """Takes the new state of a scorer, of the hypotheses before the step."""
        value: Any = part.value
        self._states[part.name] = new
        if hasattr(value, "final") and not scores_ends(value):
            self.finals[part.name] = value.final(new)

    def settled(self, last: Tensor, dims: Sequence[Dim], *, empty: bool) -> dict[str, Tensor]:
        """What the end is worth to each hypothesis by the parts that score ends, if no label ends them. {…, beam}

        last: the last label of each hypothesis, {…, beam}. empty: it is the start, and they have none.
        """
        finals: dict[str, Tensor] = {}
        for part in (*self.parts, *self.constraints):
            value: Any = part.value
            if hasattr(value, "final"):
                state = _initial(part, dims) if empty else self._states[part.name]
                finals[part.name] = value.final(state_after(value, last, state))
        return finals

    def follow(self, parents: Tensor, beam: Dim) -> None:
        """Takes the states of the hypotheses that were extended. parents: {…, beam}"""

        def followed(state: Any) -> object:
            moves = isinstance(state, Tensor) and beam in state.dims_set
            return gather(state, indices=parents, axis=beam) if moves else state

        self._states = {name: map_leaves(followed, state) for name, state in self._states.items()}


def _initial(part: ScorePart, dims: Sequence[Dim]) -> Any:
    value: Any = part.value
    return value.initial_state(batch_dims=list(dims))
