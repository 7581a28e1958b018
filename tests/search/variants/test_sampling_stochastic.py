"""Stochastic beams: samples without replacement, counted."""

from itertools import permutations

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import DimError, ParameterError

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

LABELS, LIMIT = 3, 2
TABLE = np.log(np.array([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.25, 0.25, 0.5]], "float32"))  # [label before, label]


def search(batch, beam_size, debug=False, table=TABLE, normalized=False):
    """`batch` searches with the same model; label 0 ends."""
    batch, beam, label = rf.Dim(batch, name="batch"), rf.Dim(beam_size, name="beam"), rf.Dim(LABELS, name="label")
    before = rf.Dim(LABELS, name="before")
    scores = rf.convert_to_tensor(table, dims=[before, label])
    loop = rf.Loop(max_seq_len=LIMIT, debug=debug)
    loop.state.prev = rf.zeros([batch, beam], dtype="int64", sparse_dim=label)
    with loop:
        log_probs = rf.gather(scores, indices=loop.state.prev, axis=before)
        parts = {"model": log_probs, "noise": rf.search.stochastic(log_probs, axis=label)}
        chosen = loop.choice(parts, beam=beam, axis=label, input_type="log_prob", length_normalization=normalized)
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == 0, include_eos=True)
    return loop


def sequences(table=TABLE):
    """All sequences and their log-probabilities."""
    found = {(0,): table[0, 0]}
    for first in range(1, LABELS):
        found |= {(first, second): table[0, first] + table[first, second] for second in range(LABELS)}
    return {labels: float(score) for labels, score in found.items() if score > -np.inf}


def test_sequences_are_drawn_without_replacement():
    rf.set_random_seed(5)
    count, size = 4000, 3
    tree = search(count, size).found.tree
    drawn = [tuple(one.labels for one in each.hypotheses) for each in tree]
    assert all(len(set(each)) == size for each in drawn)
    probs = {labels: np.exp(score) for labels, score in sequences().items()}
    assert sum(probs.values()) == pytest.approx(1, abs=1e-5)
    for first, second in permutations(probs, 2):
        exact = probs[first] * probs[second] / (1 - probs[first])
        share = np.mean([each[:2] == (first, second) for each in drawn])
        assert share == pytest.approx(exact, abs=4.5 * np.sqrt(exact * (1 - exact) / count))
    exact = dict.fromkeys(probs, 0.0)
    for a, b, c in permutations(probs, 3):
        exact[c] += probs[a] * probs[b] / (1 - probs[a]) * probs[c] / (1 - probs[a] - probs[b])
    for labels, share in exact.items():
        got = np.mean([each[2] == labels for each in drawn])
        assert got == pytest.approx(share, abs=4.5 * np.sqrt(share / count))


def test_scores_are_perturbed_log_probabilities_and_parts_add_up():
    rf.set_random_seed(6)
    count, every = 3000, sequences()
    tree = search(count, len(every)).found.tree
    noise = []
    for each in tree:
        assert {one.labels for one in each.hypotheses} == set(every)
        for one in each.hypotheses:
            assert one.parts["model"] == pytest.approx(every[one.labels], abs=1e-5)
            assert one.parts["model"] + one.parts["noise"] == pytest.approx(one.score, abs=1e-4)
            noise.append(one.parts["noise"])
    noise = np.reshape(noise, [count, -1])
    # The noise of all sequences are independent samples of Gumbel(0): mean 0.577, variance π² / 6.
    assert noise.mean() == pytest.approx(np.euler_gamma, abs=0.03) and noise.var() == pytest.approx(
        np.pi**2 / 6, abs=0.06
    )
    best = [each.best.score for each in tree]
    assert np.mean(best) == pytest.approx(np.euler_gamma, abs=0.08)


def test_a_wider_beam_than_sequences_and_impossible_labels():
    rf.set_random_seed(7)
    table = TABLE.copy()
    table[:, 2] = -np.inf
    found = search(5, 7, table=table).found
    for each in found.tree:
        assert {one.labels for one in each.hypotheses} == set(sequences(table))
    assert not np.isnan(found.trace.scores).any()


def test_replays_and_forks_agree():
    rf.set_random_seed(8)
    run = search(3, 2, debug=True).run
    assert [run[step].check for step in range(run.steps)] == ["replay agrees"] * run.steps
    assert run.fork(0).found.trace.scores.tolist() == run.found.trace.scores.tolist()


def test_the_labels_must_be_there():
    with pytest.raises(DimError, match="lacks the labels"):
        rf.search.stochastic(rf.zeros([rf.Dim(2, name="beam")]), axis=rf.Dim(3, name="label"))


def test_scores_must_not_be_normalized_by_length():
    with pytest.raises(ParameterError, match="length_normalization=False"):
        search(1, 2, normalized=True)
