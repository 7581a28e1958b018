"""The score of a reference is what the model gives to it, label by label; from it, the verdict is known."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples
from tests.search.test_choice import STATE, Net, search
from tests.search.test_search_steps import SIZES, recorded

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

END = 1


def score_of(net, sequence, labels, exponent):
    """The score of labels and their end, by a plain loop."""
    h, total, before = np.zeros(STATE, "float32"), 0.0, 0
    for label in (*labels, END):
        h, log_probs = net.step(h, before, sequence)
        total, before = total + log_probs[label], label
    return total / (len(labels) + 1) ** exponent


def net_with_eos(labels, batch, seed):
    net = Net(labels, batch, seed)
    vocab = rf.Vocab.create_vocab_from_labels([chr(97 + i) for i in range(labels)], eos_label=END)
    net.label.vocab = vocab
    return net


REFERENCES = st.lists(st.lists(st.sampled_from([0, 2]), max_size=4), min_size=1, max_size=4)


@pytest.mark.slow
@examples(40)
@given(
    batch=st.integers(1, 3), beam=st.integers(1, 3), exponent=st.sampled_from([0.0, 1.0]), seed=st.integers(0, 999),
    data=st.data(),
)  # fmt: skip
def test_verdicts_need_no_forced_score(batch, beam, exponent, seed, data):
    net = net_with_eos(3, batch, seed)
    length = {"length_normalization": exponent != 0, "length_normalization_exponent": exponent or 1.0}
    found = search(net, batch, beam, 4, debug=True, **length)[0].found
    references = [data.draw(REFERENCES) for _ in range(batch)]
    report = rf.search.report(found, references)
    for tree, several in zip(found.tree, references, strict=True):
        b = tree.sequence
        for one in several:
            where, score = tree.where(one), score_of(net, b, one, exponent)
            assert where.verdict == tree.where(one, score).verdict
            if where.score is not None and len(one) < 4:
                assert where.score == pytest.approx(score, abs=1e-4)
            assert where.verdict != "undecided"
            if where.fall is not None:
                assert where.fall.candidate is not None and not where.fall.at_least
        together = tree.where(several)
        assert report.rows[b].where.verdict == together.verdict and report.rows[b].where.score == together.score
        if all(len(one) < 4 for one in several) and together.verdict == "search error":
            assert together.score == pytest.approx(score_of(net, b, together.reference.labels, exponent), abs=1e-4)


@examples(20)
@given(**SIZES)
def test_forced_through_its_own_hypotheses_a_search_gives_their_scores(labels, batch, beam, exponent, seed):
    _, loop = recorded(labels, batch, beam, exponent, seed)
    found = loop.found
    wanted = {tree.sequence: [tree.prefix(tree.steps - 1, one.place) for one in tree.hypotheses] for tree in found.tree}
    sums = found.trace.again.forced(wanted)
    for tree in found.tree:
        assert [after[-1] for after in sums[tree.sequence]] == pytest.approx(
            [one.sum for one in tree.hypotheses], abs=1e-5
        )


def test_what_is_not_known_stays_so():
    net = net_with_eos(3, 1, 1)
    found = search(net, 1, 1, 4, debug=True)[0].found
    tree, unrecorded = found.tree[0], search(net, 1, 1, 4)[0].found.tree[0]
    assert tree.where([0] * 9).verdict == "over the limit" and tree.where([0] * 9).score is None
    assert tree.where([0, END, 2]).score is None
    lost = next(one for one in ([0], [2], [2, 2], [0, 2]) if unrecorded.where(one).verdict == "undecided")
    assert tree.where(lost).verdict in ("search error", "model error", "tie") and unrecorded.where(lost).score is None
    assert "a score that is not known" in repr(unrecorded.where(lost)) and "debug=True" in repr(unrecorded.where(lost))


def test_over_frames_a_reference_has_a_label_for_each():
    net = Net(3, 2, 4)
    found = search(net, 2, 2, 3, end=None, debug=True, length_normalization=False)[0].found
    tree = found.tree[1]
    where = tree.where([2, 2, 2])
    h, total = np.zeros(STATE, "float32"), 0.0
    for before in (0, 2, 2):
        h, log_probs = net.step(h, before, 1)
        total += log_probs[2]
    if where.verdict != "correct":
        assert where.score == pytest.approx(total, abs=1e-4)
    assert tree.where([2, 2]).score is None
