"""A beam search over dicts, which is short enough to be the truth; and the Traces of what it did."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rfnb.core.vocab import Vocab
from rfnb.search.trace import Candidates, Trace

END = 0
Model = Callable[[tuple[int, ...]], dict[int, dict[str, float]]]
"""From a prefix, the scores of each label that may follow, by part."""


@dataclass
class Entry:
    labels: tuple[int, ...] = ()
    parent: int = 0
    label: int = END
    score: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    done: bool = False
    copy: bool = False


def search(model: Model, beam: int, limit: int, scales: dict[str, float], exponent: float = 0.0):
    """For each step the beam and the candidates that were pruned, the best first."""

    def rank(entry):
        return entry.score / max(len(entry.labels), 1) ** exponent

    kept, steps = [Entry()], []
    while kept and len(steps) < limit and not all(entry.done for entry in kept):
        candidates = []
        for place, entry in enumerate(kept):
            if entry.done:
                candidates.append(Entry(entry.labels, place, END, entry.score, dict.fromkeys(scales, 0.0), True, True))
                continue
            for label, parts in sorted(model(entry.labels).items()):
                score = entry.score + sum(scale * parts[name] for name, scale in scales.items())
                candidates.append(Entry((*entry.labels, label), place, label, score, parts, label == END))
        candidates = sorted((c for c in candidates if c.score > -math.inf), key=rank, reverse=True)  # stable
        steps.append((candidates[:beam], candidates[beam:]))
        kept = candidates[:beam]
    return steps, kept, [rank(entry) for entry in kept]


def traced(
    models: Sequence[Model],
    beam: int,
    limit: int = 6,
    scales: dict[str, float] | None = None,
    exponent: float = 0.0,
    include_eos: bool = False,
    candidates: int | None = None,
    ends: bool = True,
    vocab: Sequence[str] | None = None,
    tags: Sequence[str] | None = None,
) -> Trace:
    """The Trace of the searches with these models as one batch. candidates: how many pruned ones are recorded."""
    scales = {"model": 1.0} if scales is None else scales
    runs = [search(model, beam, limit, scales, exponent) for model in models]
    longest = max((len(steps) for steps, _, _ in runs), default=0)
    most = candidates or 0

    def filled(which: int, size: int, value, rest, kind):
        array = np.full((longest, len(runs), size), rest, kind)
        for b, (steps, _, _) in enumerate(runs):
            for s, step in enumerate(steps):
                for k, entry in enumerate(step[which][:size]):
                    array[s, b, k] = value(entry)
        return array

    def parts(which, size):
        return {name: filled(which, size, lambda e, name=name: e.parts[name], 0.0, np.float64) for name in scales}

    def arrays(which, size):
        labels = filled(which, size, lambda e: e.label, 0, np.int64)
        parents = filled(which, size, lambda e: e.parent, 0, np.int64)
        return labels, parents, filled(which, size, lambda e: e.score, -np.inf, np.float64)

    def final(value, rest, kind):
        array = np.full((len(runs), beam), rest, kind)
        for b, (_, kept, ranks) in enumerate(runs):
            for k, (entry, rank) in enumerate(zip(kept, ranks, strict=True)):
                array[b, k] = value(entry, rank)
        return array

    labels, parents, scores = arrays(0, beam)
    return Trace(
        labels=labels,
        parents=parents,
        scores=scores,
        ended=filled(0, beam, lambda e: e.copy, False, bool),
        final_scores=final(lambda e, rank: rank, -np.inf, np.float64),
        lengths=final(lambda e, _: len(e.labels) - (e.done and not include_eos), 0, np.int64),
        complete=final(lambda e, _: e.done, False, bool),
        include_eos=include_eos,
        steps=np.array([len(steps) for steps, _, _ in runs], np.int64),
        vocab=None if vocab is None else Vocab(vocab),
        tags=tags,
        length_normalization_exponent=exponent,
        parts=parts(0, beam),
        scales=scales,
        pruned=None if candidates is None else Candidates(*arrays(1, most), parts(1, most)),
        ends=filled(0, beam, lambda e: e.done and not e.copy, False, bool) if ends else None,
        limit=np.full(len(runs), limit),
        end_label=END if ends else None,
    )


def random_model(seed: int, labels: int = 4, names: Sequence[str] = ("model",), grid: float | None = None) -> Model:
    """A model with log probabilities by chance. grid: rounds them to multiples, which makes ties."""

    def model(prefix):
        random = np.random.default_rng([seed, 77, *prefix])
        found = {}
        for name in names:
            logits = random.normal(size=labels) * 1.5
            found[name] = logits - np.log(np.exp(logits).sum())
            if grid:
                found[name] = np.round(found[name] / grid) * grid
        return {label: {name: float(found[name][label]) for name in names} for label in range(labels)}

    return model


def forced(model: Model, labels: Sequence[int], scales: dict[str, float], exponent: float = 0.0) -> float:
    """The final score of a sequence of labels and its end."""
    full, score = (*labels, END), 0.0
    for i, label in enumerate(full):
        parts = model(full[:i])[label]
        score += sum(scale * parts[name] for name, scale in scales.items())
    return score / len(full) ** exponent
