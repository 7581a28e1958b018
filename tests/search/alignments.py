"""All alignments of tiny problems, and a prefix beam search over dicts: the truth for searches with a blank."""

from __future__ import annotations

import itertools
import math


def log_sum(scores):
    total = sum(map(math.exp, scores))
    return math.log(total) if total else -math.inf


MERGES = {"sum": log_sum, "max": max}


def labels_of(path, blank, label_loop):
    """The labels of an alignment."""
    before = (None, *path)
    return tuple(v for v, old in zip(path, before, strict=False) if v != blank and not (label_loop and v == old))


def all_sequences(model, frames, labels, blank, merge, label_loop=False):
    """All label sequences with their scores, the best first. model: from a frame and the labels so far, the scores."""
    found = {}
    for path in itertools.product(range(labels), repeat=frames):
        score = 0.0
        for t, label in enumerate(path):
            score += float(model(t, labels_of(path[:t], blank, label_loop))[label])
        found.setdefault(labels_of(path, blank, label_loop), []).append(score)
    merged = {sequence: MERGES[merge](scores) for sequence, scores in found.items()}
    return sorted(merged.items(), key=lambda one: -one[1])


def prefix_search(model, frames, labels, beam, blank, merge, label_loop=False, lm=None, last=None):
    """The best label sequences with their scores, after a beam search: for each prefix the scores of its alignments
    that end in blank, and in a label. lm: from a prefix, the scores that are added for one more label. last: the beam
    after the last frame."""
    either = MERGES[merge]
    kept = {(): (0.0, -math.inf)}
    for t in range(frames):
        found = {}

        def add(prefix, kind, score, found=found):
            found.setdefault(prefix, ([], []))[kind].append(score)

        for prefix, (in_blank, in_label) in kept.items():
            both = either([in_blank, in_label])
            for label, score in enumerate(map(float, model(t, prefix))):
                new = score + (0.0 if lm is None else float(lm(prefix)[label]))
                if label == blank:
                    add(prefix, 0, both + score)
                elif label_loop and prefix[-1:] == (label,):
                    add(prefix, 1, in_label + score)
                    add((*prefix, label), 1, in_blank + new)
                else:
                    add((*prefix, label), 1, both + new)
        scores = {
            prefix: tuple(either(given) if given else -math.inf for given in kinds) for prefix, kinds in found.items()
        }
        best = sorted(scores.items(), key=lambda one: -either(one[1]))
        best = best[: last if last is not None and t == frames - 1 else beam]
        kept = {prefix: kinds for prefix, kinds in best if max(kinds) > -math.inf}
    return sorted(((prefix, either(kinds)) for prefix, kinds in kept.items()), key=lambda one: -one[1])
