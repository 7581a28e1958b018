"""The hypotheses of a search that steps without a loop, such as `rf.search.decode`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Size
from rfnb.core.ground import raw as raw_registry
from rfnb.core.tensor.tensor import Tensor, tensor_of
from rfnb.core.vocab import Vocab
from rfnb.errors import SearchError
from rfnb.loop.steps.beams import Searched
from rfnb.ops.concat import concat
from rfnb.ops.create import full
from rfnb.ops.shape import expand_dims, replace_dim
from rfnb.search.beam import BeamState, BeamStep, advance, check_step, first_label_only, raw_in_order
from rfnb.search.collect import CollectPlan, collect
from rfnb.search.found import Found
from rfnb.search.outside.best import Before, Best, best_candidates
from rfnb.search.places import stopped
from rfnb.search.rules import BeamRules
from rfnb.search.score.add_up import Scored, of_chosen
from rfnb.search.score.outside import Scorers
from rfnb.search.sources import InputType, log_scores
from rfnb.search.trace import FINAL, NOT_REPLAYED, by_scale
from rfnb.search.variants.outside import Variant


class DecodedHypotheses:
    """The hypotheses of a search so far, [batch, beam], and what is kept of each step."""

    def __init__(
        self,
        batch: int,
        beam: int,
        candidates: int,
        rules: BeamRules,
        input_type: InputType,
        include_eos: bool,
        variant: Variant,
        vocab: Vocab | None,
        scorers: Scorers | None,
        *,
        limits: np.ndarray,
        first: np.ndarray,
    ):
        self.backend = raw_registry.selected()
        self.rules, self.input_type, self.include_eos = rules, input_type, include_eos
        self.scorers, self.going, self.end = scorers, rules.living or beam, rules.end
        self.limits, self.candidates, self.steps = limits, candidates, 0
        self.dims = Dim(batch, name="batch"), Dim(beam, name="beam")
        self.scores = np.full((batch, beam), -np.inf, "float32")
        self.scores[:, :: beam // rules.groups] = 0
        self.ended, self.counts = np.zeros((batch, beam), bool), np.ones((batch, beam), "float32")
        self.lengths = np.zeros((batch, beam), "int64")
        self._first = np.arange(batch)[:, None] * beam  # the row of the first hypothesis of each sequence
        self.initial, self.labels, self._places = self.scores, Dim(None, name="labels"), 0
        self.variant, self.vocab = variant, vocab
        self.last = self.first = np.repeat(first[:, None], beam, axis=1)
        self.scales = {} if scorers is None else scorers.scales
        self.kept: dict[str, list[np.ndarray]] = {}  # labels, parents and parts with those of pruned candidates
        self.device: str | None = None  # of the scores
        self._first_label: Any = None  # see `best_candidates`
        self._as_they_are = scorers is None and not variant.changes and rules.by_rank
        self._over: Any = np.zeros(batch, bool)  # sequences none of whose hypotheses goes on
        self._look()

    def _look(self) -> None:
        """Finds which hypotheses have ended, or have as many labels as their sequence may have. The step after the last
        of a sequence still puts them in order; then they stay as they are."""
        before, self.past = self._over, self.ended | (self.steps >= self.limits)[:, None]
        self._over = self.past.all(axis=1)
        self.done, self._still = bool(self._over.all()), before & self._over

    def extend(self, raw: Any) -> tuple[np.ndarray, np.ndarray]:
        """A step with the scores of the model. Returns the labels, [N], and the rows that they extend."""
        beam, past, going = self.scores.shape[1], self.past, self.going
        wide, parts = self._best(raw, past)
        labels, parents, scores, counts = (part[:, :beam] for part in wide)
        rows = parents + self._first
        had, was, lengths = (array.take(rows) for array in (past, self.ended, self.lengths))
        if self.rules.stops:
            scores = self._stopped(labels, scores, counts, had)
        ends = ~had & np.isfinite(scores) & (labels == (-1 if self.end is None else self.end))
        scores = self._with_finals(parents, scores, ends, parts)
        self.lengths = lengths + (~had & (True if self.include_eos else ~ends))
        self.ended, self.scores, self.counts = was | ends | (scores == -np.inf), scores, counts
        arrays = {"labels": wide.labels, "parents": wide.parents, "scores": scores, "ended": past, "ends": ends}
        arrays["pruned scores"] = wide.scores[:, beam:]
        for name, part in (arrays | parts).items():
            self.kept.setdefault(name, []).append(part)
        self.steps += 1
        self._look()
        self.last = labels
        if self.variant.states:
            self.variant.follow(parents, self.dims)
        if self.scorers is not None:
            self.scorers.follow(self._tensor(parents), self.dims[1])
        if self.end is None and (self.steps >= self.limits).any():
            for name, worth in self._settled(self.last).items():
                self.kept.setdefault(FINAL + name, [np.zeros_like(scores)] * (self.steps - 1)).append(worth)
        if going < beam:  # only those that go on; they extend such ones
            labels = labels[:, :going]
            rows = np.minimum(parents[:, :going], going - 1) + np.arange(len(parents))[:, None] * going
        return labels.reshape(-1), rows.reshape(-1)

    def _settled(self, last: np.ndarray, *, empty: bool = False) -> dict[str, np.ndarray]:
        """What the end of the search is worth to each hypothesis, by name. [batch, beam]

        last: their last labels. empty: they have none, and `last` is the start.
        """
        label = self._tensor(last, sparse_dim=self.labels)
        scores = {} if self.scorers is None else self.scorers.settled(label, self.dims, empty=empty)
        scores |= self.variant.settled(label, self.dims, empty=empty)
        return {name: self._array(score) for name, score in scores.items()}

    def _array(self, score: Tensor) -> np.ndarray:
        """[batch, beam]"""
        lacking = [dim for dim in self.dims if dim not in score.dims_set]
        score = expand_dims(score, lacking) if lacking else score
        array: np.ndarray = self.backend.to_numpy_raw(score.copy_transpose(self.dims)._raw)
        return array

    def _tensor(self, array: np.ndarray, sparse_dim: Dim | None = None) -> Tensor:
        """{batch, beam}"""
        return tensor_of(self.backend.from_numpy_raw(array, self.device), align.sig(self.dims, sparse_dim), EMPTY)

    def _stopped(self, labels: np.ndarray, scores: np.ndarray, counts: np.ndarray, had: np.ndarray) -> np.ndarray:
        """The scores, without those of hypotheses that go on where the search stops."""
        limits = tensor_of(self.backend.from_numpy_raw(self.limits, self.device), align.sig(self.dims[:1]), EMPTY)
        arrays = (self._tensor(array) for array in (labels, labels, scores, counts))
        had_ended, state = self._tensor(had), BeamStep(*arrays)
        stop = stopped(state, self.dims[1], self.rules, had_ended=had_ended, step=self.steps, limit=limits)
        result: np.ndarray = self.backend.to_numpy_raw(stop._raw)
        return result

    def _with_finals(
        self, parents: np.ndarray, scores: np.ndarray, ends: np.ndarray, parts: dict[str, np.ndarray]
    ) -> np.ndarray:
        """The scores with what their end is worth to hypotheses that end; it is added to the parts too."""
        finals = {} if self.scorers is None else self.scorers.finals
        for name, final in ({} if self.end is None else finals | self.variant.finals).items():
            worth = np.take_along_axis(self._array(final), parents, axis=1)
            self.kept.setdefault(FINAL + name, []).append(worth)
            added = np.where(ends, worth, 0.0).astype(scores.dtype)
            scores = scores + by_scale(added, self.scales.get(name, 1.0))
            if f"part {name}" in parts:
                parts[f"part {name}"][:, : ends.shape[1]] += added
        return scores

    def _best(self, raw: Any, past: np.ndarray) -> tuple[Best, dict[str, np.ndarray]]:
        """The best candidates, those that find no place too, and the parts of their scores."""
        self._check(raw)
        backend, scored = self.backend, None
        if self._as_they_are and self.input_type == "logits" and backend.get_dtype_name_raw(raw) == "float32":
            log_probs, scores = None, raw.reshape(*self.scores.shape, -1)
            if self._still.any():
                return self._best_of_others(scores), {}
            scores = backend.log_probs_raw(scores, 2)
        else:
            log_probs = log_scores(self._scores(raw), self.labels, self.input_type)
            if self.scorers is not None:
                labels = self._tensor(self.last, sparse_dim=self.labels)
                scored = self.scorers.add_up(log_probs, labels, self.dims, self.labels)
                log_probs = scored.total
            log_probs = self.variant.scores(log_probs, self.last, self.dims, self.labels)
            check_step(log_probs, self._tensor(self.scores), self.labels, self.dims[1], Dim(1, name="beam"))
            scores = raw_in_order(log_probs, [*self.dims, self.labels])
        best = self._best_of(scores, Before(self.scores, past, self.counts))
        if log_probs is not None and not self.rules.by_rank:
            best = self._chosen(log_probs, past, best)
        return best, {} if scored is None or self.variant.change is not None else self._parts_of(scored, best)

    def _best_of(self, scores: Any, before: Before) -> Best:
        if self._first_label is None:
            self._first_label = first_label_only(self.backend, self.labels, scores)
        return best_candidates(
            self.backend, scores, before, first_label=self._first_label, places=self._places, step=self.steps,
            exponent=self.rules.exponent, offset=self.rules.offset, device=self.device,
        )  # fmt: skip

    def _best_of_others(self, scores: Any) -> Best:
        """The best candidates, where the hypotheses of some sequences stay as they are. scores: of the model."""
        rows = np.flatnonzero(~self._still)
        scores = self.backend.index_raw(scores, self.backend.from_numpy_raw(rows, self.device), 0)
        before = Before(self.scores, self.past, self.counts)
        part = self._best_of(self.backend.log_probs_raw(scores, 2), Before(*(array[rows] for array in before)))
        return part.among(rows, before)

    def _chosen(self, log_probs: Tensor, past: np.ndarray, best: Best) -> Best:
        """Candidates that get their places in another way, and behind them the best of the others."""
        base, ended, counts = (self._tensor(array) for array in (self.scores, past, self.counts))
        state = BeamState(base, ended, counts if self.rules.exponent else None)
        after = Dim(self.scores.shape[1], name="beam")
        dims: Any = {"axis": self.labels, "beam": self.dims[1], "out_beam": after}
        result = advance(state, log_probs, self.rules, step=self.steps, **dims)
        parts = self._parts(result)
        return _first(Best(parts[0], parts[1], parts[2], parts[-1]), best, self.labels.get_dim_value())

    def _parts_of(self, scored: Scored, found: Best) -> dict[str, np.ndarray]:
        """The parts of the scores of candidates. [batch, candidates]"""
        dims = self.dims[0], Dim(found.labels.shape[1], name="candidates")
        labels, parents = (
            tensor_of(self.backend.from_numpy_raw(array, self.device), align.sig(dims), EMPTY) for array in found[:2]
        )
        arrays = {name: of_chosen(x, self.labels, self.dims[1], labels, parents) for name, x in scored.parts.items()}
        numpy = self.backend.to_numpy_raw
        return {f"part {name}": numpy(x.copy_transpose(dims)._raw).copy() for name, x in arrays.items()}

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

    def _check(self, raw: Any) -> None:
        """Refuses scores of another shape; the first ones tell how many labels there are, and the device."""
        shape, hypotheses = tuple(getattr(raw, "shape", ())), len(self.scores) * self.going
        usable = len(shape) == 2 and raw_registry.backend_of_raw(raw) is self.backend
        if not usable or shape[0] != hypotheses or not shape[1] or shape[1] != (self.labels.dimension or shape[1]):
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
        if self.vocab is not None and not self.vocab.fits(shape[1]):
            raise SearchError(
                "decode: `labels` are not those of the scores that `step` returns",
                got=f"{len(self.vocab)} labels, scores of {shape[1]}",
                expected="one label for each score, in their order",
            )
        if self.labels.dimension is None:
            self.labels = Dim(shape[1], name="labels", vocab=self.vocab)
        if not self._places:
            places = self.scores.shape[1]
            self._places = min(places + self.candidates, places * shape[1])  # with the pruned candidates
            self.device = self.backend.get_device_raw(raw)

    def _scores(self, raw: Any) -> Tensor:
        """The scores of the model, {batch, beam, labels}."""
        batch, places = self.scores.shape
        going = self.dims[1] if self.going == places else Dim(self.going, name="living")
        scores = tensor_of(raw.reshape(batch, self.going, -1), align.sig([self.dims[0], going, self.labels]), EMPTY)
        if going is self.dims[1]:
            return scores
        ended = Dim(places - self.going, name="ended")  # the model does not see them, and their scores do not count
        zeros = full(dims=[self.dims[0], ended, self.labels], fill_value=0, dtype=scores.dtype, device=scores.device)
        joined, union = concat((scores, going), (zeros, ended))
        return replace_dim(joined, in_dim=union, out_dim=self.dims[1])[0]

    def found(self, vocab: Vocab | None, tags: Sequence[str] | None) -> Found:
        """What the search found."""
        make = self.backend.from_numpy_raw
        batch, beam = self.dims
        lengths = EMPTY.bind({batch: Size([], len(self.limits), tags=tags)})
        initial = make(self.initial, None)
        at_start = self.end is None and self.labels.dimension is not None and not self.limits.all()
        plan = CollectPlan(
            self.backend, self.rules, vocab, self.dims, lengths, initial, self.scales, "decode", why_not=NOT_REPLAYED,
            at_start=self._settled(self.first, empty=True) if at_start else {},
        )  # fmt: skip
        data = {name: np.stack(parts) for name, parts in self.kept.items()}
        for name in [name for name in data if name in ("labels", "parents") or name.startswith("part ")]:
            data[f"pruned {name}"], data[name] = (
                data[name][:, :, beam.size.max :],
                data[name][:, :, : beam.size.max],
            )
        size = Size([batch, beam], np.where(np.isneginf(self.scores), 0, self.lengths))
        limit = Size([batch], self.limits)
        return collect(
            plan,
            Searched(
                {name: make(part, None) for name, part in data.items()},
                make(self.ended, None),
                size,
                self.include_eos,
                limit,
            ),
        )


def _first(chosen: Best, best: Best, count: int) -> Best:
    """The chosen hypotheses, and after them the best of the others. count: that of the labels."""
    chosen_numbers, numbers = (part.labels + part.parents * count for part in (chosen, best))
    chosen_numbers = np.where(np.isneginf(chosen.scores), -1, chosen_numbers)
    doubles = (numbers[:, :, None] == chosen_numbers[:, None, :]).any(axis=2)
    order = np.argsort(doubles, axis=1, kind="stable")[:, : doubles.shape[1] - chosen_numbers.shape[1]]
    best = best._replace(scores=np.where(doubles, -np.inf, best.scores))
    tail = [np.take_along_axis(part, order, axis=1) for part in best]
    return Best(*(np.concatenate(pair, axis=1) for pair in zip(chosen, tail, strict=True)))
