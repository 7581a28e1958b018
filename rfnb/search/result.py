"""What a search returns, collected from what it leaves behind."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.ground.text import count_of, first_of
from rfnb.core.tensor.op import guard_methods, guarded
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.core.vocab import Vocab
from rfnb.errors import LoopError, SearchError
from rfnb.printable import printable_name
from rfnb.search import file
from rfnb.search.explain.compare import compare_searches, compare_trees, same_hypotheses
from rfnb.search.explain.fork import run_of
from rfnb.search.explain.rerank import Doubt, rescaled
from rfnb.search.rules import BeamRules
from rfnb.search.search_steps import SearchSteps
from rfnb.search.text_result import TextResult
from rfnb.search.trace import FINAL, NOT_RECORDED, Candidates, Trace, by_length, by_scale
from rfnb.search.tree import Tree, Trees, nbest_lines
from rfnb.search.variants.candidates import join_labels
from rfnb.trace.compare.compare import OTHERS

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend
    from rfnb.loop.body.hypotheses import FirstNan, Searched
    from rfnb.trace.run.run import Run


SHOWN, BEST = 3, 4
"""Sequences, and hypotheses of each, that the text of a search shows."""


@dataclass(frozen=True, eq=False, repr=False)
class Found(TextResult):
    """What a search returns: hypotheses, their scores, and all that was tried.

    >>> before, label = (rf.Dim(3, name=name, vocab=["</s>", "a", "b"]) for name in ("before", "label"))
    >>> table = rf.convert_to_tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]], dims=[before, label])
    >>> loop, beam = rf.Loop(max_seq_len=9), rf.Dim(2, name="beam")
    >>> loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    >>> with loop:
    ...     logits = rf.gather(table, indices=loop.state.prev, axis=before)
    ...     chosen = loop.choice(logits, beam=beam, input_type="logits")
    ...     loop.state.prev = chosen.labels
    ...     loop.end(chosen.labels == 0, include_eos=False)
    >>> found = loop.found
    >>> found.nbest(2), found.tree[0].best.text, found.tree[0].where("b").verdict
    ([['ab', 'b']], 'ab', 'model error')

    Args:
        trace: what the search kept of each step.
        scores: the final scores, {batch, beam}; −inf for a place without a hypothesis.
        lengths: how many labels of each hypothesis count, {batch, beam}.
        beam: the dim of the final hypotheses.
        doubts: after `rerank`, the pruned candidates that the beam would have kept with the new scales; None if pruned
            candidates were not recorded, so that this is not known.

    Without Tensors, as after `rf.search.load`, scores and lengths are arrays, [batch, beam].
    """

    trace: Trace
    scores: Tensor | np.ndarray = None  # type: ignore[assignment]
    lengths: Tensor | np.ndarray = None  # type: ignore[assignment]
    beam: Dim | None = None
    doubts: tuple[Doubt, ...] | None = ()

    def __post_init__(self) -> None:
        if not isinstance(self.trace, Trace):
            raise SearchError(
                "Found: `trace` is not the trace of a search", got=type(self.trace).__name__, expected="found.trace"
            )
        for name, array in (("scores", self.trace.final_scores), ("lengths", self.trace.lengths)):
            if getattr(self, name) is None:
                object.__setattr__(self, name, array)

    @property
    def tree(self) -> Trees:
        """The tree of each sequence, by position or tag: `found.tree["laugh"]`."""
        return Trees(self.trace)

    @property
    def run(self) -> Run:
        """The recorded run of the search, for `found.run.fork(…)`. Raises SearchError if there is none."""
        return run_of(self.trace)

    def __len__(self) -> int:
        """How many sequences were searched."""
        return len(self.trace.steps)

    @property
    def flags(self) -> list[str]:
        """Short descriptions of problems: "no hypothesis left at step 3: laugh", for all sequences of which it is true.

        In that step, no label was allowed for any hypothesis: all scores were −inf. "no hypothesis may end where the
        search ended": those that were left there begin with allowed labels, but a scorer gives −inf to their end.
        """
        died: dict[str, list[str]] = {}
        for tree in sorted((tree for tree in self.tree if not tree.hypotheses), key=lambda tree: tree.died_at or 0):
            words = "no hypothesis may end where the search ended"
            words = words if tree.refused.any() else f"no hypothesis left at step {tree.died_at}"
            died.setdefault(words, []).append(tree.name)
        return [f"{words}: {first_of([*map(printable_name, names)], SHOWN)}" for words, names in died.items()]

    def nbest(self, n: int = 4, text: bool = True) -> list[list[Any]]:
        """For each sequence the `n` best hypotheses, the best first, as text or as tuples of labels.

        There are fewer if fewer are left. A text has no spaces where all labels are single characters: for an error
        rate by label, take the labels, `text=False`, or `rf.search.report(found, references).error_rate`.
        """
        if n < 1:
            raise SearchError("nbest: `n` is the number of hypotheses", got=n, expected="1 or more")
        return [[item.text if text else item.labels for item in tree.hypotheses[:n]] for tree in self.tree]

    def best(self, x: Tensor) -> Tensor:
        """The entry of the best hypothesis, {…, beam} → {…}; of equal scores, the first.

        An axis whose lengths differ by hypothesis has those of the best one in the result. Raises SearchError
        if `x` does not have the dim of the final hypotheses, or if the search was loaded from a file.
        """
        from rfnb.ops.index import gather
        from rfnb.ops.reduce import reduce_argmax

        if self.beam is None or not isinstance(self.scores, Tensor):
            raise SearchError("best: a search without Tensors has no beam", hint='found.nbest(1), found.tree["…"].best')
        if self.beam not in x.dims:
            raise SearchError("best: the Tensor does not have the beam of this search", got=x.dims, expected=self.beam)
        return gather(x, indices=reduce_argmax(self.scores, axis=self.beam), axis=self.beam)

    def rerank(
        self,
        scales: Mapping[str, float] | None = None,
        *,
        length_normalization_exponent: float | None = None,
        **more: float,
    ) -> Found:
        """The same hypotheses with other scales, in the order of their new scores, without the model.

        `found.rerank(lm=0.6)`, or `found.rerank({"my lm": 0.6})`. Scores that are not named keep their scales. With
        other scales, the beam might have kept other candidates: `doubts` lists those that were recorded and would have
        found a place, and whether they might have won.

        Raises SearchError for a score that was not recorded.
        """
        scales = {**(scales or {}), **more}
        trace, doubts = rescaled(self.tree, scales, length_normalization_exponent)
        return Found(trace, _like(self.scores, trace.final_scores, self.beam), self.lengths, self.beam, doubts)

    def force(self, model: object, tokenizer: object = None, **inputs: object) -> Found:
        """The same search of Hugging Face's `generate` with its model, which is run for what the search does not hold.

        `found.tree[0].where("…")` then has the score of any reference, and of each of its labels, by one pass of the
        model; and `found.tree[0].keep(3, "…")` goes on from any label. Models that cannot score all labels in one pass,
        as XLNet, run once for each label. Raises SearchError if the search is not one of `generate`, or was read from a
        file.

        Args:
            model: the model of the call.
            tokenizer: for texts, of a search without; or an `rf.Vocab`.
            inputs: those of the call, such as `inputs=ids`, or `**tokenizer(…)`.
        """
        if self.trace.forcing is None:
            raise SearchError(
                "force: this search is not one of `generate`, or was read from a file",
                hint="rf.search.from_generate(…)",
            )
        vocab = tokenizer if tokenizer is None or isinstance(tokenizer, Vocab) else Vocab(tokenizer)
        trace = replace(self.trace, model=self.trace.forcing(model, inputs), vocab=vocab or self.trace.vocab)
        return replace(self, trace=trace)

    def same_hypotheses(self, other: Found, pairs: Sequence[tuple[int, int]]) -> Any:
        """The places of hypotheses with the same labels in two searches, by step; for `rf.compare` of two runs."""
        return same_hypotheses(self.tree, other.tree, pairs)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes the search to a file "x.rfbeam", which `rf.search.load` reads without the model; returns the path.

        Raises RunFileError if the file cannot be written; an existing one is then unchanged.
        """
        return file.write(self.trace.with_candidates(), path)

    @property
    def text(self) -> str:
        """The best hypotheses of the first sequences."""
        trees = self.tree[:SHOWN]
        lines = [f"search: {count_of(len(self), 'sequence')}, {self.trace.beam_text}"]
        for tree in trees:
            lines += [printable_name(tree.name), *nbest_lines(tree, BEST)]
        lines += [f"… {count_of(len(self) - SHOWN, 'more sequence')}"] if len(self) > SHOWN else []
        lines += self.flags
        if self.doubts is None:
            lines.append("pruned candidates were not recorded: with these scales, others might have had a place")
        elif self.doubts:
            may_win = sum(doubt.may_win for doubt in self.doubts)
            lines.append(
                f"{count_of(len(self.doubts), 'pruned candidate')} would have had a place; {may_win} might win"
            )
        return "\n".join(lines)


def _like(scores: Any, array: np.ndarray, beam: Dim | None) -> Any:
    """An array of [batch, beam] as a Tensor with the dims of `scores`, if that is one."""
    if beam is None or isinstance(scores, np.ndarray):
        return array
    from rfnb.ops.convert import convert_to_tensor

    dims = [dim for dim in scores.dims if dim != beam]
    shaped = array.reshape([*(dim.get_dim_value() for dim in dims), array.shape[1]])
    return convert_to_tensor(shaped.astype(scores.dtype), dims=[*dims, beam], device=scores.device)


@guarded
def load(path: str | os.PathLike[str]) -> Found:
    """Loads the search in a file of `found.save("x.rfbeam")`, without model, code or data.

    >>> before, label = (rf.Dim(3, name=name, vocab=["</s>", "a", "b"]) for name in ("before", "label"))
    >>> table = rf.convert_to_tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]], dims=[before, label])
    >>> loop, beam = rf.Loop(max_seq_len=9), rf.Dim(2, name="beam")
    >>> loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    >>> with loop:
    ...     logits = rf.gather(table, indices=loop.state.prev, axis=before)
    ...     chosen = loop.choice(logits, beam=beam, input_type="logits")
    ...     loop.state.prev = chosen.labels
    ...     loop.end(chosen.labels == 0, include_eos=False)
    >>> found = rf.search.load(loop.found.save(folder / "table.rfbeam"))
    >>> found.nbest(1), found.scores.shape
    ([['ab']], (1, 2))

    Raises RunFileError if the file does not exist, or does not contain a readable search. It is only data, so files
    from anywhere may be loaded.
    """
    return Found(file.read(path))


OTHERS.update({Found: compare_searches, Tree: compare_trees})
guard_methods(Found, "__init__", "best", "nbest", "rerank", "same_hypotheses", "save")


@dataclass(frozen=True)
class CollectPlan:
    """What is known of a search before it runs.

    Args:
        rules: those of the search.
        vocab: the texts of the labels.
        dims: those of the scores, the last of which is the beam.
        lengths: those of the dims.
        initial: the scores before the first step, a raw tensor.
        scales: of the parts of scores.
        what: the function that searches, for errors.
        axis: the dim of the labels.
        why_not: why its steps cannot be replayed, if they cannot.
        vocabs: the texts of the labels of each choice, if a step has several.
        at_start: what the end adds to hypotheses without labels, by the names of parts, not scaled; known if a sequence
            may have no steps. {…, beam}
    """

    backend: type[Backend]
    rules: BeamRules
    vocab: Vocab | None
    dims: tuple[Dim, ...]
    lengths: Lengths
    initial: RawTensor
    scales: Mapping[str, float] = field(default_factory=dict)
    what: str = "choice"
    axis: Dim | None = None
    why_not: str = NOT_RECORDED
    vocabs: list[Vocab | None] = field(default_factory=list)
    at_start: dict[str, np.ndarray] = field(default_factory=dict)


def collect(plan: CollectPlan, searched: Searched) -> Found:
    """What the search found."""
    numpy = plan.backend.to_numpy_raw
    initial = numpy(plan.initial)
    rules, run = plan.rules, searched.run
    if rules.living and searched.ended is None:
        raise LoopError(
            f'{plan.what}: `ended="apart"` needs the end of the hypotheses', hint="loop.end(chosen.labels == end)"
        )
    sizes = initial.shape[:-1]
    flat = (math.prod(sizes), initial.shape[-1])
    arrays = {name: numpy(raw) for name, raw in searched.kept.items()}
    arrays = {name: raw.reshape(len(raw), flat[0], raw.shape[-1]) for name, raw in arrays.items()}
    vocab = join_labels(arrays, plan.vocabs) if len(plan.vocabs) > 1 and "labels" in arrays else plan.vocab
    labels = arrays.get("labels")
    lengths = np.broadcast_to(searched.size.over(plan.dims), initial.shape)
    ended = np.zeros(initial.shape, bool) if searched.ended is None else numpy(searched.ended)
    counts = np.maximum(lengths + (ended & (not searched.include_eos)), 1)
    none = np.zeros((0, *flat), int)
    parents = arrays.get("parents", none)
    before = arrays.get("ended", none.astype(bool))
    steps = (~before).any(axis=2).sum(axis=0)
    alive = arrays["scores"][-1] if len(parents) else initial.reshape(flat)
    added = _at_the_end(plan, arrays, steps, ~ended.reshape(flat) & (alive > -np.inf))
    if "scores" in arrays:
        names = [dim.name for dim in plan.dims[:-1]]
        check_kept(plan.what, arrays["scores"], sizes, names, _tags(plan), searched.first_nan)
    if len(parents):
        steps = np.maximum(steps, _reordered(parents, arrays["scores"]))
    scores = _final_scores(plan, searched, counts, added)
    final_scores = numpy(plan.backend.alias_raw(scores._raw)).reshape(flat)
    had_ended = np.take_along_axis(before, parents, axis=2)
    trace = Trace(
        labels=none if labels is None else labels,
        parents=parents,
        scores=arrays.get("scores", none.astype(initial.dtype)),
        ended=had_ended,
        final_scores=final_scores,
        lengths=np.where(np.isneginf(final_scores), 0, lengths.reshape(flat)),
        complete=ended.reshape(flat) & np.isfinite(final_scores),
        include_eos=searched.include_eos,
        steps=steps,
        vocab=vocab,
        tags=_tags(plan),
        length_normalization_exponent=rules.exponent,
        length_normalization_offset=rules.offset,
        parts=_parts(plan, arrays, had_ended),
        scales=dict(plan.scales),
        pruned=_pruned(arrays),
        ends=arrays.get("ends"),
        limit=_limit(plan, searched, flat[0]),
        framewise=searched.ended is None,
        end_label=rules.ends[0] if len(rules.ends) == 1 else rules.ends or None,
        again=None if run is None or plan.axis is None else SearchSteps(run, plan.axis, rules, plan.scales),
        why_not=plan.why_not,
        blank=rules.blank,
        joined=arrays.get("joined"),
        living=rules.living,
        stops=rules.stops or rules.threshold is not None,
    )
    trace = trace if rules.blank is None else replace(trace, lengths=trace.label_counts())
    signature = align.sig(plan.dims)
    count = tensor_of(
        plan.backend.from_numpy_raw(trace.lengths.reshape(initial.shape).copy(), None), signature, plan.lengths
    )
    return Found(trace, scores=scores, lengths=count, beam=plan.dims[-1])


def _at_the_end(
    plan: CollectPlan, kept: dict[str, np.ndarray], steps: np.ndarray, going: np.ndarray
) -> np.ndarray | None:
    """Adds, in the last step of each sequence, what the end of the search is worth to hypotheses that had not ended.

    Returns what it adds to the scores by final place, [batch, beam]; None without such scores. Where that is −∞, the
    hypothesis is lost at the end, and keeps the score of its last step.
    """
    names = [name.removeprefix(FINAL) for name in kept if name.startswith(FINAL)] or [*plan.at_start]
    if not names:
        return None
    places, total = _places_at_the_end(kept, steps), np.zeros(going.shape)
    worth = {name: _worth(plan, kept, name, steps, places) for name in names}
    for name, added in worth.items():
        total += by_scale(added, plan.scales.get(name, 1.0))
    total = np.where(going, total, 0.0)
    if not places:
        return total
    stays = going & ~np.isneginf(total) & (steps > 0)[:, None]
    for name in ("scores", *(f"part {name}" for name in names if f"part {name}" in kept)):
        kept[name] = kept[name].copy()
        added = total if name == "scores" else worth[name.removeprefix("part ")]
        for step, place in places.items():
            rows = np.equal(step, steps - 1) | np.greater(step, steps - 1) & (name == "scores")
            at = np.nonzero(stays & rows[:, None])
            kept[name][step, at[0], place[at]] += added[at]
    return total


def _places_at_the_end(kept: Mapping[str, np.ndarray], steps: np.ndarray) -> dict[int, np.ndarray]:
    """The place of each final hypothesis at the last step of its sequence, and at those after it. [batch, beam]"""
    parents, places = kept.get("parents"), dict[int, np.ndarray]()
    if parents is None or not len(parents):
        return places
    place = np.broadcast_to(np.arange(parents.shape[2]), parents.shape[1:])
    for step in range(len(parents) - 1, max(int(steps.min()) - 2, -1), -1):
        places[step] = place
        before = np.take_along_axis(parents[step], place, axis=1)
        place = np.where((step >= steps)[:, None], before, place)
    return places


def _worth(
    plan: CollectPlan, kept: Mapping[str, np.ndarray], name: str, steps: np.ndarray, places: Mapping[int, np.ndarray]
) -> np.ndarray:
    """What a scorer gives to the end of each final hypothesis. [batch, beam]"""
    shape = len(steps), plan.dims[-1].get_dim_value()
    worth = plan.at_start[name].reshape(shape) if name in plan.at_start else np.zeros(shape)
    for step, place in places.items():
        finals = np.take_along_axis(kept[FINAL + name][step], place, axis=1)
        worth = np.where(np.equal(step, steps - 1)[:, None], finals, worth)
    return worth


def _reordered(parents: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """The number of steps up to the last one that changes the order of the hypotheses. [batch]

    What the end of a hypothesis is worth counts for its place in the step after it, and so does that others of its
    sequence were stopped.
    """
    moved = ((parents != np.arange(parents.shape[2])) & np.isfinite(scores)).any(axis=2)
    numbers: np.ndarray = np.where(moved, np.arange(1, len(moved) + 1)[:, None], 0).max(axis=0, initial=0)
    return numbers


def _parts(plan: CollectPlan, kept: Mapping[str, np.ndarray], ended: np.ndarray) -> dict[str, np.ndarray]:
    """The parts of the scores of labels that count."""
    parts = {name: kept[f"part {name}"] for name in plan.scales if f"part {name}" in kept}
    return {name: np.where(ended | np.isneginf(kept["scores"]), 0.0, part) for name, part in parts.items()}


def _final_scores(plan: CollectPlan, searched: Searched, counts: np.ndarray, more: np.ndarray | None) -> Tensor:
    """The scores of the final hypotheses, normalized by length if they were compared so. {…, beam}"""
    steps = searched.kept.get("scores", ())
    scores = tensor_of(steps[-1] if len(steps) else plan.initial, align.sig(plan.dims), plan.lengths)
    if more is not None:
        raw = plan.backend.from_numpy_raw(more.reshape(counts.shape).astype(scores.dtype), scores.device)
        scores = scores + scores.like(raw)
    if not plan.rules.exponent:
        return scores
    by = by_length(counts, plan.rules.exponent, plan.rules.offset)
    return scores.like(scores._raw / plan.backend.from_numpy_raw(by.astype(scores.dtype), scores.device))


def _pruned(kept: Mapping[str, np.ndarray]) -> Candidates | None:
    if "pruned parents" not in kept:
        return None
    parents, scores = kept["pruned parents"], kept["pruned scores"]
    none = np.take_along_axis(kept["ended"], parents, axis=2) | np.isneginf(scores)
    prefix = "pruned part "
    parts = {name.removeprefix(prefix): np.where(none, 0.0, kept[name]) for name in kept if name.startswith(prefix)}
    return Candidates(kept["pruned labels"], parents, scores, parts)


def _limit(plan: CollectPlan, searched: Searched, batch: int) -> np.ndarray | None:
    """The most steps of each sequence. [batch]"""
    if searched.limit is None or plan.dims[-1] in searched.limit.dims:
        return None
    values = searched.limit.over(plan.dims[:-1])
    return np.broadcast_to(values, [plan.lengths[dim].max for dim in plan.dims[:-1]]).reshape(batch)


def _tags(plan: CollectPlan) -> list[str] | None:
    """The names of the sequences, if there is one dim of them and it has names."""
    batch = plan.dims[:-1]
    size = plan.lengths.size(batch[0]) if len(batch) == 1 else None
    size = size or (batch[0].size if len(batch) == 1 and batch[0].is_defined() else None)
    return None if size is None or size.tags is None else list(size.tags)


def check_kept(
    what: str, scores: np.ndarray, sizes: Sequence[int], names: Sequence[str], tags: Any, first_nan: FirstNan | None
) -> None:
    """Raises SearchError if the score of a hypothesis that got a place is NaN.

    Args:
        scores: of the hypotheses after each step. [steps, batch, beam]
        sizes, names: of the dims of the batch. tags: the names of the sequences, if they are known.
        first_nan: finds the op that made the NaN, if the steps are recorded.
    """
    if not np.isnan(scores).any():
        return
    step, row, place = (int(at) for at in np.argwhere(np.isnan(scores))[0])
    at = tuple(map(int, np.unravel_index(row, sizes))) if sizes else ()
    sequence = ", ".join(f"{name} {number}" for name, number in zip(names, at, strict=True)) or "the only one"
    tag = f" ({str(tags[row])!r})" if tags is not None else ""
    origin = None if first_nan is None else first_nan(step, at, place)
    record = what == "choice" and first_nan is None
    raise SearchError(
        f"{what}: the score of a hypothesis is NaN after step {step}",
        got=f"sequence: {sequence}{tag}; hypothesis {place}, by its place in the beam"
        + ("" if origin is None else f"\nfirst made by {origin}"),
        hint="rf.Loop(…, debug=True) records the steps; this error then names the op" if record else None,
    )
