"""`rf.search.from_generate`: the tree of a search of `generate`, with or without beams, from its output."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.tensor.arguments import Count
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import RawTensor
from rfnb.core.vocab import Vocab
from rfnb.errors import SearchError
from rfnb.search.generate.beams import NO_HYPOTHESIS, BeamsStep, RepeatedSearch
from rfnb.search.generate.output import (
    CLOSE,
    Output,
    check_scores,
    check_sizes,
    limits,
    prompts_of,
    read_output,
    search_again,
)
from rfnb.search.generate.rerun import ModelRerun
from rfnb.search.generate.scores import KeptScores, StepScores
from rfnb.search.generate.settings import WHAT, Settings, contradiction, read_settings
from rfnb.search.result import Found
from rfnb.search.trace import BY_STEP, NOT_RUN, Candidates, Trace


@guarded
def from_generate(
    out: Any,
    tokenizer: object = None,
    generation_config: object = None,
    *,
    kept: KeptScores | None = None,
    candidates: Count = 8,
    model: Any = None,
    **generate_keywords: object,
) -> Found:
    """The search of Hugging Face's `generate`, from its output: all beams, with the candidates that were pruned.

    The output needs `output_scores=True` and `return_dict_in_generate=True`. The model is not run.

    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(vocab_size=9, n_embd=8, n_head=1, n_layer=1, eos_token_id=0)).eval()
    >>> options = {"num_beams": 2, "max_new_tokens": 3, "pad_token_id": 0, "sequence_bias": {(0,): -99.0}}
    >>> out = model.generate(
    ...     torch.tensor([[1, 2]]), **options, output_scores=True, return_dict_in_generate=True
    ... )
    >>> found = rf.search.from_generate(out, list("$abcdefgh"), model.generation_config, **options)
    >>> tree = found.tree[0]
    >>> tree.text_of(tree.prompt), len(tree.hypotheses), tree.best.score == out.sequences_scores[0]
    ('ab', 2, tensor(True))

    Args:
        out: what `model.generate(…)` returned.
        tokenizer: for texts; or a list of labels, or an `rf.Vocab`.
        generation_config: the configuration of the call: `model.generation_config`, or the one that was given.
        kept: the best candidates of each step, if they were kept by `rf.capture(model, search=True)`.
        candidates: how many pruned candidates of each step are in the tree.
        model: it is run for what the output does not say, with the inputs among the keywords: `inputs=ids`, or
            `**tokenizer(…)`. Then `found.tree[0].where("…")` knows the score of any reference, and
            `found.tree[0].keep(3, "…")` generates on from a candidate that was pruned, or from any label. Or give it
            later: `found.force(model, inputs=ids)`.
        generate_keywords: the keywords of the call, such as `num_beams=4`; they come before the configuration.

    A search with K beams has K places for hypotheses that go on, and K for those that have ended. One without beams is
    a tree with a branch for each result; its scores are log-probabilities after all processors, and
    `found.trace.entropies` says how sure each step was.

    Raises SearchError for a setting that is missing or does not give this output, and for searches that cannot be made
    again: those with groups, constraints, assistants or other stopping criteria. Sampled beams need
    `rf.capture(model, search=True)`, as the output does not hold all labels that were drawn.
    """
    output = read_output(out, kept)
    settings = read_settings(generation_config, generate_keywords, beams=output.beams)
    batch = check_sizes(output, settings)
    vocab = tokenizer if tokenizer is None or isinstance(tokenizer, Vocab) else Vocab(tokenizer)
    if not output.beams:
        trace = trace_of_branches(output, settings, batch, candidates, vocab)
    elif settings.sampled and len(output.drawn) != output.steps:
        raise SearchError(
            f"{WHAT}: the output does not hold the labels that sampled beams were made of",
            hint="with rf.capture(model, search=True) as seen: … keeps them; seen.search",
        )
    else:
        check_scores(output, settings)
        trace = trace_of_beams(search_again(output, settings, candidates), candidates, vocab)
    trace = replace(trace, prompts=prompts_of(output, settings.pad, batch), why_not=NOT_RUN)
    prompts = getattr(out, "sequences", out)[:: len(output.sequences) // batch, : output.prompt]

    def forcing(model: Any, inputs: Mapping[str, object]) -> ModelRerun:
        inputs = generate_keywords | {**inputs}
        mixin = getattr(sys.modules.get("transformers.generation.utils"), "GenerationMixin", ())
        parts = model.modules() if callable(getattr(model, "modules", None)) else ()
        model = next((module for module in parts if isinstance(module, mixin)), model)
        if not isinstance(model, mixin):
            raise SearchError(f"{WHAT}: `model` has no method `generate`", got=type(model).__name__)
        if type(model).generate.__module__ != "transformers.generation.utils" and "logits_processor" not in inputs:
            raise SearchError(
                f"{WHAT}: this model has a `generate` of its own, which adds to the scores", got=type(model).__name__,
                hint="with rf.capture(model, search=True) as seen: … ; seen.search[0].force(model, …)",
            )  # fmt: skip
        return ModelRerun(model, generation_config, inputs, settings, batch, prompts)

    result = Found(replace(trace, forcing=forcing))
    return result if model is None else result.force(model)


def trace_of_beams(searched: RepeatedSearch, candidates: int, vocab: Vocab | None) -> Trace:
    """The trace of a search with K beams: K places for those that go on, and K for those that have ended.

    The search of a sequence is over where nothing is banked any more, though `generate` goes on for others.
    """
    settings, beams, steps = searched.settings, searched.settings.beams, searched.steps
    batch, last = len(steps[0].bank), steps[-1]
    frozen = np.array([step.frozen for step in steps])
    counts: np.ndarray = np.where(frozen.any(axis=0), frozen.argmax(axis=0) + 1, len(steps))
    columns: list[_Column] = []
    for at, step in enumerate(steps):
        stops: np.ndarray = np.equal(counts, at + 1)
        columns.append(_column(step, columns[-1] if columns else None, settings, stops, candidates))
    arrays: Any = {name: np.array([getattr(column, name) for column in columns]) for name in _Column._fields}
    at_end = counts - 1, np.arange(batch)
    over, alive = arrays["over"][at_end], arrays["scores"][at_end] > -np.inf
    final = np.concatenate([np.full_like(last.bank, -np.inf), last.bank], axis=1)
    return Trace(
        **{name: arrays[name] for name in BY_STEP if name in arrays},
        final_scores=np.where(alive, final, -np.inf).astype(np.float32),
        lengths=np.where(alive, arrays["taken"][at_end] - over, 0),
        complete=alive & over,
        include_eos=False,
        steps=counts,
        vocab=vocab,
        length_normalization_exponent=settings.length_penalty,
        pruned=Candidates(arrays["pruned_labels"], arrays["pruned_parents"], arrays["pruned_scores"]),
        limit=None if searched.limit is None else np.full(batch, searched.limit),
        end_label=settings.ends,
        living=beams,
        stops=True,
        sampled=settings.sampled,
    )


class _Column(NamedTuple):
    """The arrays of a trace for one step, [batch, places], and those of its pruned candidates.

    over: whether a hypothesis has ended by an end label, in this step or before. taken: the number of its labels.
    """

    labels: np.ndarray
    parents: np.ndarray
    scores: np.ndarray
    ended: np.ndarray
    ends: np.ndarray
    over: np.ndarray
    taken: np.ndarray
    pruned_labels: np.ndarray
    pruned_parents: np.ndarray
    pruned_scores: np.ndarray


def _column(step: BeamsStep, before: _Column | None, settings: Settings, stops: np.ndarray, candidates: int) -> _Column:
    """One step. stops: the sequences whose search is over, so that no beam goes on. [batch]"""
    best, (batch, beams) = step.best, step.bank.shape
    slots = np.broadcast_to(np.arange(beams, 2 * beams), (batch, beams))  # those of the bank, which may be copied
    copied = (np.full((batch, 2 * beams), -np.inf), np.zeros((batch, 2 * beams), int))
    copied_scores, copied_taken = (x[:, beams:] for x in (copied if before is None else (before.scores, before.taken)))
    length = 1 if before is None else int(before.taken.max()) + 1
    pool = [
        np.concatenate(pair, axis=1)
        for pair in (
            (best.labels, np.zeros_like(slots)),
            (best.parents, slots),
            (np.where(best.scores > NO_HYPOTHESIS, best.scores, -np.inf), copied_scores),
            (np.full_like(best.labels, length), copied_taken),
        )
    ]
    count = best.labels.shape[1]
    places = np.where(step.banked < beams, count + step.banked, step.banked - beams)
    places = np.concatenate([step.running, places], axis=1)
    labels, parents, scores, counts = (np.take_along_axis(x, places, axis=1) for x in pool)
    exists = np.concatenate([~stops[:, None] & (step.running_scores > NO_HYPOTHESIS), step.finished], axis=1)
    scores, copies = np.where(exists, scores, -np.inf), places >= count
    ends = np.isin(labels, settings.ends) & ~copies & (scores > -np.inf)
    rows, columns = np.nonzero(scores > -np.inf)
    pruned_scores = pool[2].copy()
    pruned_scores[rows, places[rows, columns]] = -np.inf
    compared = pruned_scores / np.maximum(pool[3], 1) ** settings.length_penalty
    order = np.argsort(-compared, axis=1, kind="stable")[:, :candidates]
    pruned = (np.take_along_axis(x, order, axis=1) for x in (pool[0], pool[1], pruned_scores))
    return _Column(labels, parents, scores.astype(np.float32), copies, ends, copies | ends, counts, *pruned)


def steps_of(out: Output, most: int) -> tuple[StepScores, ...]:
    """The best candidates of each step, with the labels that were taken."""
    if out.kept is not None:
        return out.kept
    assert out.scores is not None
    return tuple(_step(raw, out.sequences[:, out.prompt + i], most) for i, raw in enumerate(out.scores))


def _step(raw: RawTensor, taken: np.ndarray, most: int) -> StepScores:
    scores = raw.float().gather(1, raw.new_tensor(taken, dtype=raw.argmax().dtype)[:, None])[:, 0]
    step = StepScores.of(raw.float(), most, distribution=True)
    return replace(step, taken=taken, taken_scores=scores.cpu().numpy())


def trace_of_branches(out: Output, settings: Settings, batch: int, candidates: int, vocab: Vocab | None) -> Trace:
    """The trace of a search without beams, with a place for each result of a sequence.

    Scores are sums of log-probabilities, as labels were chosen by: after all processors.
    """
    branches = len(out.sequences) // batch
    steps = steps_of(out, candidates + branches)
    shape = len(steps), batch, branches
    labels, label_scores = (np.array([getattr(step, name) for step in steps]) for name in ("taken", "taken_scores"))
    ends = np.isin(labels, settings.ends)
    ended: np.ndarray = np.greater(np.cumsum(ends, axis=0) - ends, 0)
    check_ends(out, settings, labels, ended, ends)
    best = np.array([step.scores[:, 0] for step in steps])
    worse = ~ended & (label_scores < best - CLOSE * np.maximum(np.abs(best), 1.0))
    if worse.any() and not settings.sampled:
        raise contradiction("do_sample", False, True, f"as the label of step {np.nonzero(worse)[0][0]} is not the best")
    totals, entropies = (np.array([getattr(step, name) for step in steps]) for name in ("log_total", "entropy"))
    logs = np.where(ended, 0.0, label_scores - totals)
    scores, counts = np.cumsum(logs, axis=0), (~ended).sum(axis=0)
    parents = np.broadcast_to(np.arange(branches), shape).copy()
    parents[:1] = 0
    over: np.ndarray = (ended | ends)[-1].reshape(batch, branches)
    return Trace(
        labels=np.where(ended, 0, labels).reshape(shape),
        parents=parents,
        scores=scores.reshape(shape),
        ended=ended.reshape(shape),
        ends=(ends & ~ended).reshape(shape),
        final_scores=scores[-1].reshape(batch, branches),
        lengths=counts.reshape(batch, branches) - over,
        complete=over,
        include_eos=False,
        steps=counts.reshape(batch, branches).max(axis=1),
        vocab=vocab,
        pruned=_beside(steps, scores - logs, totals, ended, shape, candidates),
        limit=None if settings.limit(out.prompt) is None else np.full(batch, settings.limit(out.prompt)),
        end_label=settings.ends,
        sampled=settings.sampled,
        entropies=np.where(ended, 0.0, entropies).reshape(shape),
    )


def check_ends(out: Output, settings: Settings, labels: np.ndarray, ended: np.ndarray, ends: np.ndarray) -> None:
    """Raises SearchError if results end elsewhere than the settings say. Arrays: [steps, rows]"""
    limit, steps = settings.limit(out.prompt), len(labels)
    if limit is not None and steps > limit:
        raise limits(settings, out)
    if settings.pad is not None and (ended & (labels != settings.pad)).any():
        _, row = np.argwhere(ended & (labels != settings.pad))[0]
        raise contradiction("eos_token_id", settings.ends, why=f"as labels follow its end in result {row}")
    if limit is not None and steps < limit and not (ended | ends)[-1].any():
        raise limits(settings, out)
    if ended.all(axis=1).any() or (limit is not None and steps < limit and not (ended | ends)[-1].all()):
        raise contradiction("eos_token_id", settings.ends, why=f"as the search ended after {steps} steps")


def _beside(
    steps: tuple[StepScores, ...], before: np.ndarray, totals: np.ndarray, ended: np.ndarray, shape: Any, most: int
) -> Candidates:
    """The best candidates of each step that were not taken, by their scores."""
    count, batch, branches = shape
    labels = np.array([step.labels for step in steps])
    scores = np.array([step.scores for step in steps]) - totals[:, :, None] + before[:, :, None]
    twins = labels == np.array([step.taken for step in steps])[:, :, None]
    owners = np.broadcast_to(np.arange(branches)[None, None, :, None], (count, batch, branches, labels.shape[2])).copy()
    first = labels[:1].reshape(1, batch, branches, -1)  # all branches begin with the candidates of the first
    starts = np.asarray(steps[0].taken).reshape(1, batch, 1, 1, branches)
    twins = twins.reshape(owners.shape)
    twins[:1] |= (first[..., None] == starts).any(axis=-1) | (owners[:1] > 0)
    owners[:1] = 0
    scores = np.where(twins | ended.reshape(*shape, 1), -np.inf, scores.reshape(owners.shape)).reshape(count, batch, -1)
    order = np.argsort(-scores, axis=2, kind="stable")[:, :, :most]
    parts = (labels.reshape(scores.shape), owners.reshape(scores.shape), scores)
    labels, parents, scores = (np.take_along_axis(part, order, axis=2) for part in parts)
    return Candidates(labels, parents, scores)
