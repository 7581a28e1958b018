"""What a recorded search did not keep, computed again from its run: candidates of any rank, forks, forced scores."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.tape import Var, untaped
from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.tensor.listener import listening
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.loop.step import place_of
from rfnb.ops.index import gather
from rfnb.ops.math import cast
from rfnb.search.beam import BeamState, advance
from rfnb.search.rules import BeamRules
from rfnb.search.trace import DEPTH, FINAL, Candidates, Sums, by_scale, joined

if TYPE_CHECKING:
    from rfnb.loop.body.hypotheses import SearchPlan
    from rfnb.loop.replay.replay import Replay
    from rfnb.trace.run.run import Run


INPUTS, RESULTS = ("choice scores", "base", "had ended", "counts before"), ("labels", "parents", "scores", "counts")
"""The values of a choice that a replay asks for: what it chooses from, and what it gives. Without length normalization
there are no counts."""

PART = "part "
"""Beginning of the names of scores by scorer, not scaled. {…, beam, labels}"""

CACHED = 64
"""Number of steps whose candidates are held."""


class SearchSteps:
    """The recorded steps of a search.

    The run is not kept alive: searches are often collected over many batches, and runs are large.

    Args:
        run: the run.
        axis: the dim of the labels.
        rules: those of the search.
        scales: of the parts of scores.
    """

    def __init__(self, run: Run, axis: Dim, rules: BeamRules, scales: Mapping[str, float]):
        self._run = weakref.ref(run)
        self.axis, self.rules, self.scales = axis, rules, scales
        self._ranked: dict[tuple[int, int], Candidates] = {}
        self._pruned: Candidates | None = None

    @property
    def run(self) -> Run | None:
        """The run, if it is still kept."""
        return self._run()

    @property
    def replay(self) -> Replay:
        """The steps of the run."""
        run = self._run()
        assert run is not None
        replay: Replay = run.replay  # type: ignore[assignment]
        return replay

    @property
    def search(self) -> SearchPlan:
        """What the search keeps of its steps."""
        search = self.replay.step.search
        assert search is not None
        return search

    @property
    def why_not(self) -> str | None:
        """Why the steps cannot be computed again as they were; None if they can."""
        if self._run() is None:
            return "its run is no longer kept"
        replay = self.replay
        if len(self.search.parents) > 1:
            return "its steps have several choices"
        if INPUTS[0] not in self.search.asked:
            return "its hypotheses merge"
        if replay.step.changes is not None:
            return replay.step.changes
        return None if replay.version_now() == replay.version else "the model has changed since"

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims of the scores, the last of which is the beam."""
        return self.search.beams.dims

    # -- candidates

    def pruned(self) -> Candidates | None:
        """The best pruned candidates of each step; None if they cannot be computed."""
        if self._pruned is None and self.why_not is None:
            candidates = [self.ranked(step, DEPTH) for step in range(self.replay.steps)]
            self._pruned = joined(candidates) if candidates else None
        return self._pruned

    def ranked(self, step: int, most: int) -> Candidates:
        """The best candidates that found no place in a step, [1, batch, most]. Their number is a multiple of DEPTH."""
        most = -(-most // DEPTH) * DEPTH
        candidates = self._ranked.pop((step, most), None) or self._compute(step, most)
        self._ranked[step, most] = candidates
        if len(self._ranked) > CACHED:
            self._ranked.pop(next(iter(self._ranked)))
        return candidates

    def _compute(self, step: int, most: int) -> Candidates:
        values = self.values(step, [*INPUTS, *RESULTS[:3], *self._parts()])
        beam, count = self.dims[-1].get_dim_value(), self.axis.get_dim_value()
        out = Dim(min(beam + most, beam * count), name="candidates")
        with self._eager():
            result = self.step(values, values["choice scores"], self.axis, out, step)
        labels, parents, scores = (self.array(row, out) for row in result[:3])
        ended = self.array(values["had ended"])
        places = [set(zip(*row, strict=True)) for row in zip(*self._chosen(values, ended), strict=True)]
        shape = 1, len(labels), most
        candidates = Candidates(np.zeros(shape, int), np.zeros(shape, int), np.full(shape, -np.inf, scores.dtype))
        for b, (survivors, columns) in enumerate(zip(places, zip(labels, parents, scores, strict=True), strict=True)):
            rows = zip(*(row.tolist() for row in columns), strict=True)
            pruned = [row for row in rows if (0 if ended[b, row[1]] else row[0], row[1]) not in survivors]
            for i, row in enumerate(pruned[:most]):
                candidates.labels[0, b, i], candidates.parents[0, b, i], candidates.scores[0, b, i] = row
        return Candidates(candidates.labels, candidates.parents, candidates.scores, self._scores_by(values, candidates))

    def _chosen(self, values: Mapping[str, Tensor], ended: np.ndarray) -> tuple[list[list[int]], list[list[int]]]:
        """Labels and parents of the hypotheses of a step, by sequence; the label of a copy is 0."""
        beam = self.search.beams.after[-1]
        labels, parents = (self.array(values[name], beam) for name in ("labels", "parents"))
        labels = np.where(np.take_along_axis(ended, parents, axis=1), 0, labels)
        free = np.isneginf(self.array(values["scores"], beam))
        if self.rules.threshold is None:  # those that the search stops at this step had a place
            free[:, : self.rules.living] &= np.isin(labels[:, : self.rules.living], self.rules.ends)
        labels = np.where(free, -1, labels)
        return labels.tolist(), parents.tolist()

    def _parts(self) -> list[str]:
        return [name for name in self.search.asked if name.startswith(PART)]

    def _scores_by(self, values: Mapping[str, Tensor], of: Candidates) -> dict[str, np.ndarray]:
        """The score of the label of each candidate by each scorer."""
        by_name, rows = {}, np.arange(of.labels.shape[1])[:, None]
        ended = np.take_along_axis(self.array(values["had ended"]), of.parents[0], axis=1)
        none = ended | np.isneginf(of.scores[0])
        for name in self._parts():
            part = self._whole(values[name])
            scores = part[rows, of.parents[0], of.labels[0]]
            by_name[name.removeprefix(PART)] = np.where(none, 0.0, scores)[None]
        return by_name

    def _whole(self, part: Tensor) -> np.ndarray:
        """Scores as an array, [batch, beam, labels]."""
        dims = (*self.dims, self.axis)
        present = [dim for dim in dims if dim in part.dims]
        array = self.replay.backend.to_numpy_raw(part.copy_transpose(present)._raw)
        sizes = [self._size(dim) for dim in dims]
        shape = [size if dim in part.dims else 1 for dim, size in zip(dims, sizes, strict=True)]
        return np.broadcast_to(array.reshape(shape), sizes).reshape(-1, *sizes[-2:])

    def scores_at(self, step: int, values: Mapping[str, Tensor], labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The score of each hypothesis extended by some labels, and how many labels it has then.

        labels: [batch, few] → [batch, beam, few]. A hypothesis that has ended has a score at the first of these only.
        """
        beam, choices = self.dims[-1].get_dim_value(), Dim(labels.shape[1], name="few")
        out = Dim(beam * labels.shape[1], name="candidates")
        with self._eager():
            scores = gather(values["choice scores"], indices=self._tensor(labels, choices), axis=self.axis)
            result = self.step(values, scores, choices, out, step)
        at, parents, totals = (self.array(column, out) for column in result[:3])
        counts = totals if result.counts is None else self.array(result.counts, out)
        rows, shape = np.arange(len(at))[:, None], (len(labels), beam, labels.shape[1])
        by_place = np.full(shape, -np.inf, totals.dtype), np.ones(shape, counts.dtype)
        for array, column in zip(by_place, (totals, counts), strict=True):
            array[rows, parents, at] = column
        return by_place

    def step(self, values: Mapping[str, Tensor], scores: Tensor, axis: Dim, out: Dim, step: int) -> BeamState:
        """The best extensions of the hypotheses by labels of `axis`."""
        state = BeamState(None, None, values["base"], values.get("counts before"), values["had ended"])
        return advance(state, scores, self.rules.ranking, axis=axis, beam=self.dims[-1], out_beam=out, count=step + 1)

    # -- another choice

    def forced(self, references: Mapping[int, Sequence[Labels]]) -> dict[int, Sums]:
        """The sums of the scores that the model gives to sequences of labels, by position in the batch; None if noise
        is added to them."""
        unknown: dict[int, Sums] = {b: [None] * len(sequences) for b, sequences in references.items()}
        return unknown if self.rules.noisy else forced(self, references)

    def extended(self, sequence: int, step: int, label: int) -> np.ndarray:
        """The score of each hypothesis of a sequence, extended by a label. [beam]"""
        scores, _ = self.scores_at(step, self.values(step, INPUTS), np.full((self.batch, 1), label))
        return scores[sequence, :, 0]

    def keep(self, sequence: int, step: int, label: int, parent: int) -> Run | None:
        """A fork in which a hypothesis with this label has the last place that is for such ones; None if it has the
        score −inf."""
        values = self.choice(step)
        scores, counts = self.scores_at(step, values, np.full((self.batch, 1), label))
        if not scores[sequence, parent, 0] > -np.inf:
            return None
        new = {"labels": label, "parents": parent, "scores": scores[sequence, parent, 0]}
        new |= {"counts": counts[sequence, parent, 0]} if "counts" in values else {}
        beam, arrays = self.search.beams.after[-1], {}
        copy = bool(self.array(values["had ended"])[sequence, parent])
        place = self.rules.last_place(scores.shape[1], step, label, parent, copy=copy)
        for name, value in new.items():
            array = self.array(values[name], beam).copy()
            array[sequence, place] = value
            arrays[name] = array
        run = self._run()
        assert run is not None
        return self.replay.fork_with(run, step, self.given(values, arrays))

    def given(self, values: Mapping[str, Tensor], arrays: Mapping[str, np.ndarray]) -> dict[Var, RawTensor]:
        """Results of a choice as the raw tensors of a step, by their Vars. arrays: [batch, beam]"""
        search, raws = self.search, {}
        for name, array in arrays.items():
            with self._eager():
                tensor = self._tensor(array, search.beams.after[-1], values[name])
                raws[search.asked[name].var] = cast(tensor, values[name].dtype)._raw
        return raws

    # -- values

    def values(self, step: int, names: Iterable[str], states: Sequence[RawTensor] | None = None) -> dict[str, Tensor]:
        """Values of a step by name, those that it has. states: those before the step, if other than the recorded."""
        recorded = self.search.asked
        names = [name for name in names if name in recorded]
        raws = self.replay.compute(step, [recorded[name].var for name in names], states)
        return {
            name: tensor_of(self.replay.backend.alias_raw(raw), recorded[name].sig, recorded[name].lengths)
            for name, raw in zip(names, raws, strict=True)
        }

    def after(
        self, step: int, states: Sequence[RawTensor], choices: Mapping[Var, RawTensor]
    ) -> tuple[list[RawTensor], np.ndarray]:
        """The carried values after a step in which some are `choices`, and what the end of the search would add to the
        scores of its hypotheses then. [batch, beam]"""
        search, carries = self.search, self.replay.after(step)
        ends = [] if place_of(self.replay.step.carried, "ended") is not None else [*search.kept]
        names = [name for name in ends if name.startswith(FINAL)]
        raws = self.replay.compute(step, [*carries, *(search.kept[name] for name in names)], states, given=choices)
        finals = np.zeros((self.batch, self.dims[-1].get_dim_value()))
        for name, raw in zip(names, raws[len(carries) :], strict=True):
            worth = self.replay.backend.to_numpy_raw(raw).reshape(finals.shape)
            finals = finals + by_scale(worth, self.scales.get(name.removeprefix(FINAL), 1.0))
        return list(raws[: len(carries)]), finals

    def choice(self, step: int, states: Sequence[RawTensor] | None = None) -> dict[str, Tensor]:
        """What the choice of a step chooses from, and what it gives."""
        return self.values(step, [*INPUTS, *RESULTS], states)

    def array(self, x: Tensor, beam: Dim | None = None) -> np.ndarray:
        """A value of the hypotheses as an array, [batch, beam]."""
        beam = beam or self.dims[-1]
        array: np.ndarray = self.replay.backend.to_numpy_raw(x.copy_transpose([*self.dims[:-1], beam])._raw)
        return array.reshape(self.batch, -1)

    def _tensor(self, array: np.ndarray, beam: Dim, like: Tensor | None = None) -> Tensor:
        """The Tensor of an array, [batch, beam]; with the dims in the order of `like`."""
        dims = [*self.dims[:-1], beam]
        raw = self.replay.backend.from_numpy_raw(
            array.reshape(*map(self._size, dims[:-1]), -1).copy(), None if like is None else like.device
        )
        tensor = tensor_of(raw, align.sig(dims), EMPTY)
        return tensor if like is None else tensor.copy_transpose(like.dims)

    @property
    def batch(self) -> int:
        """The number of sequences."""
        return int(np.prod([self._size(dim) for dim in self.dims[:-1]], dtype=int))

    def _size(self, dim: Dim) -> int:
        """The number of entries of a dim of the scores."""
        value = self.search.asked["choice scores" if dim is self.axis else "base"]
        size = value.lengths.size(dim)
        return dim.get_dim_value() if size is None else size.max

    @contextmanager
    def _eager(self) -> Iterator[None]:
        """Ops in this context are neither recorded nor differentiated."""
        replay = self.replay
        with replay.backend.modes(replay.modes, gradients=False), listening(None), untaped():
            yield


Labels = Sequence[int]
"""The labels of one reference, with the label that ends it."""


def forced(steps: SearchSteps, references: Mapping[int, Sequence[Labels]]) -> dict[int, Sums]:
    """The sums of the scores of each sequence of labels; None if it needs more steps than the loop allows.

    references: sequences of labels, with the label that ends them, by position in the batch. As many as the beam has
    places are computed at once for each.
    """
    limit, beam = steps.replay.bindings.limit.max, steps.dims[-1].get_dim_value()
    sums_by_row: dict[int, Sums] = {b: [None] * len(group) for b, group in references.items()}
    fits = {b: [i for i, labels in enumerate(group) if 0 < len(labels) <= limit] for b, group in references.items()}
    while any(fits.values()):
        chunk = {b: group[:beam] for b, group in fits.items() if group}
        fits = {b: group[beam:] for b, group in fits.items()}
        sums = _sums(steps, {b: [references[b][i] for i in group] for b, group in chunk.items()})
        for b, group in chunk.items():
            for place, i in enumerate(group):
                sums_by_row[b][i] = sums[: len(references[b][i]), b, place].tolist()
    return sums_by_row


def _sums(steps: SearchSteps, references: Mapping[int, Sequence[Labels]]) -> np.ndarray:
    """The sums of the scores after each step, [steps, batch, beam], of up to `beam` references for each sequence: each
    has its own place."""
    replay, beam = steps.replay, steps.dims[-1].get_dim_value()
    lengths = np.zeros((steps.batch, beam), int)
    labels = np.zeros((max(len(row) for rows in references.values() for row in rows), steps.batch, beam), int)
    for b, rows in references.items():
        for place, row in enumerate(rows):
            lengths[b, place] = len(row)
            labels[: len(row), b, place] = row
    sums, states = np.full(labels.shape, -np.inf), list(replay.states_before(0))
    places, scores_place = np.broadcast_to(np.arange(beam), lengths.shape), place_of(replay.step.carried, "search")
    assert scores_place is not None
    for step in range(len(labels)):
        values = steps.choice(step, states)
        choice = _choice(steps, step, values, labels[step], places if step else places * 0)
        choice["scores"] = np.where(step < lengths, choice["scores"], -np.inf)
        states, finals = steps.after(step, states, steps.given(values, choice))
        like = replay.step.carried[scores_place].before
        scores = steps.array(tensor_of(states[scores_place], like.sig, like.lengths))
        sums[step] = scores + np.where(lengths == step + 1, finals, 0.0)
    return sums


def _choice(
    steps: SearchSteps, step: int, values: Any, labels: np.ndarray, parents: np.ndarray
) -> dict[str, np.ndarray]:
    """The result of a choice that gives each place this label, after this parent. [batch, beam]"""
    scores, counts = steps.scores_at(step, values, labels)
    rows, places = np.indices(labels.shape)
    at = rows, parents, np.where(np.take_along_axis(steps.array(values["had ended"]), parents, axis=1), 0, places)
    result = {"labels": labels, "parents": parents, "scores": scores[at]}
    return result | ({"counts": counts[at]} if "counts" in values else {})
