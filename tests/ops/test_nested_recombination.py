"""Hypotheses with equal histories are joined into one: a search written by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import rfnb as rf

BLANK, MINUS_INF = 0, float("-inf")
LABEL = rf.Dim(3, name="label")


def recombined(score: rf.Tensor, words: rf.Tensor, hist: rf.Dim, beam: rf.Dim) -> rf.Tensor:
    """The scores {batch, beam}, where the best of equal hypotheses gets the sum of their probabilities."""
    others, dual = rf.replace_dim(words, in_dim=beam)
    same = rf.reduce_all(rf.compare_bc(words, "==", others), axis=hist)
    length = hist.get_size_tensor()
    same = rf.logical_and(same, rf.compare_bc(length, "==", rf.replace_dim(length, in_dim=beam, out_dim=dual)[0]))
    other_scores, _ = rf.replace_dim(score, in_dim=beam, out_dim=dual)
    of_same = rf.where(same, other_scores, MINUS_INF, allow_broadcast_all_sources=True)
    best = rf.compare_bc(rf.reduce_argmax(of_same, axis=dual), "==", rf.range_over_dim(beam))
    return rf.where(best, rf.reduce_logsumexp(of_same, axis=dual), MINUS_INF)


def search(log_probs: np.ndarray, size: int) -> list[dict[tuple[int, ...], float]]:
    """The hypotheses of each sequence and their log probabilities, with `log_probs` [batch, frame, label]."""
    batch, beam = rf.Dim(len(log_probs), name="sequences"), rf.Dim(1, name="beam")
    score = rf.zeros([batch, beam])
    hist = rf.Dim(rf.zeros([batch, beam], dtype="int32"), name="hist")
    state = rf.State(words=rf.zeros([batch, beam, hist], dtype="int64", sparse_dim=LABEL), hist=hist)
    for t in range(log_probs.shape[1]):
        frame = rf.convert_to_tensor(log_probs[:, t], dims=[batch, LABEL])
        score = rf.combine_bc(score, "+", frame)
        score, (parents, labels), best = rf.top_k(score, axis=[beam, LABEL], k=min(size, beam.dimension * 3))
        state = rf.nested.gather_nested(state, indices=parents)
        beam = best
        words, longer = rf.cum_concat_step(labels, prev_accum=state.words, axis=state.hist)
        emits = labels != BLANK
        state = rf.nested.mask_nested(rf.State(words=words, hist=longer), mask=emits, mask_value=state)
        score = recombined(score, state.words, state.hist, beam)
    words, lengths = state.words.copy_transpose([batch, beam, state.hist]).numpy(), state.hist.size.over([batch, beam])
    scores = score.copy_transpose([batch, beam]).numpy()
    alive = [
        [(tuple(words[b, k, : lengths[b, k]]), scores[b, k]) for k in range(beam.dimension)] for b in range(len(words))
    ]
    return [{history: total for history, total in row if total > MINUS_INF} for row in alive]


@pytest.mark.parametrize("seed", range(3))
def test_a_beam_that_holds_all_hypotheses_finds_their_sums(seed):
    probs = np.random.default_rng(seed).dirichlet(np.ones(3), size=(2, 4)).astype(np.float32)
    for row, found in zip(probs, search(np.log(probs), size=99), strict=True):
        sums: dict[tuple[int, ...], float] = {}
        for path in itertools.product(range(3), repeat=4):
            history = tuple(label for label in path if label != BLANK)
            sums[history] = sums.get(history, 0.0) + float(np.prod([row[t, label] for t, label in enumerate(path)]))
        assert {history: pytest.approx(total, rel=1e-4) for history, total in sums.items()} == {
            tuple(map(int, history)): float(np.exp(total)) for history, total in found.items()
        }
