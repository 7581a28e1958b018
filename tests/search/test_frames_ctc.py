"""`rf.search.ctc_beam` against all alignments, against a search over dicts, and against `rf.ctc_loss`."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError, ParameterError
from tests.examples import examples
from tests.search.alignments import all_sequences, prefix_search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def frames_of(lengths, labels, seed=0):
    """Log-probabilities of sequences with these lengths, and the dims of frames and labels."""
    generator = torch.Generator().manual_seed(seed)
    arrays = [torch.log_softmax(torch.randn(n, labels, generator=generator), -1) for n in lengths]
    time, axis = rf.Dim(None, name="time"), rf.Dim(labels, name="axis")
    return arrays, rf.convert_to_tensor(arrays, dims=[rf.batch_dim, time, axis]), time, axis


def check(found, expected):
    for tree, wanted in zip(found.tree, expected, strict=True):
        assert [each.score for each in tree.hypotheses] == pytest.approx([score for _, score in wanted], abs=1e-4)
        assert {each.labels for each in tree.hypotheses} == {labels for labels, _ in wanted}
    numbers = found.lengths.copy_transpose([*found.scores.dims]).raw_tensor
    for b, tree in enumerate(found.tree):
        assert all(numbers[b, each.place] == len(each.labels) for each in tree.hypotheses)


SIZES = {
    "lengths": st.lists(st.integers(0, 4), min_size=1, max_size=3),
    "labels": st.integers(1, 3),
    "blank": st.integers(0, 2),
    "merge": st.sampled_from(["sum", "max"]),
    "seed": st.integers(0, 1000),
}


@examples(60)
@given(**SIZES)
def test_a_beam_of_all_sequences_is_the_sum_over_all_alignments(lengths, labels, blank, merge, seed):
    blank = min(blank, labels - 1)
    arrays, log_probs, time, axis = frames_of(lengths, labels, seed)
    found = rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=blank, beam=40, merge=merge)
    sequences = [all_sequences(lambda t, _, x=x: x[t], len(x), labels, blank, merge, True) for x in arrays]
    check(found, sequences)


@examples(60)
@given(beam=st.integers(1, 6), **(SIZES | {"lengths": st.lists(st.integers(0, 9), min_size=1, max_size=3)}))
def test_agrees_with_a_prefix_search_over_dicts(lengths, labels, blank, merge, seed, beam):
    blank = min(blank, labels - 1)
    arrays, log_probs, time, axis = frames_of(lengths, labels, seed)
    found = rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=blank, beam=beam, merge=merge)
    check(found, [prefix_search(lambda t, _, x=x: x[t], len(x), labels, beam, blank, merge, True) for x in arrays])


def test_scores_and_gradients_are_those_of_the_loss():
    _, log_probs, time, axis = frames_of([5, 3], 3, 1)
    leaf = log_probs.raw_tensor.requires_grad_()
    log_probs = rf.convert_to_tensor(leaf, dims=log_probs.dims)
    found = rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=0, beam=100)
    best = found.best(found.scores)
    (gradient,) = torch.autograd.grad(best.raw_tensor.sum(), leaf)
    word = rf.Dim(None, name="word")
    texts = [torch.tensor(tree.best.labels) for tree in found.tree]
    targets = rf.convert_to_tensor(texts, dims=[rf.batch_dim, word], sparse_dim=axis)
    loss = rf.ctc_loss(
        logits=log_probs, logits_normalized=True, targets=targets, input_spatial_dim=time,
        targets_spatial_dim=word, blank_index=0,
    )  # fmt: skip
    torch.testing.assert_close(best.raw_tensor, -loss.raw_tensor)
    (expected,) = torch.autograd.grad(-loss.raw_tensor.sum(), leaf)
    assert torch.isfinite(gradient).all()
    torch.testing.assert_close(gradient, expected)


def test_all_hypotheses_of_a_batch_are_those_of_each_sequence_alone():
    lengths = [7, 0, 1, 4]
    arrays, log_probs, time, axis = frames_of(lengths, 5, 2)
    together = rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=4, beam=5)
    for number, array in enumerate(arrays):
        alone_time = rf.Dim(len(array), name="time")
        x = rf.convert_to_tensor(array, dims=[alone_time, axis])
        alone = rf.search.ctc_beam(x, spatial_dim=alone_time, axis=axis, blank=4, beam=5)
        pairs = zip(together.tree[number].hypotheses, alone.tree[0].hypotheses, strict=True)
        assert all((a.labels, a.score, a.places) == (b.labels, b.score, b.places) for a, b in pairs)


def test_permuted_dims_give_the_same():
    _, log_probs, time, axis = frames_of([4, 2], 3, 3)
    found = rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=0, beam=3)
    other = rf.search.ctc_beam(
        log_probs.copy_transpose([axis, time, rf.batch_dim]), spatial_dim=time, axis=axis, blank=0, beam=3
    )
    assert found.trace.scores.tolist() == other.trace.scores.tolist() and found.nbest(3) == other.nbest(3)


def test_without_merges_the_best_alignment_wins():
    arrays, log_probs, time, axis = frames_of([4], 3, 4)
    found = rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=1, beam=81, merge=None)
    assert len(found.tree[0].hypotheses) == 81 and found.trace.joined.max() == -1
    best = all_sequences(lambda t, _: arrays[0][t], 4, 3, 1, "max", True)[0]
    assert (found.tree[0].best.labels, pytest.approx(found.tree[0].best.score, abs=1e-5)) == best


@pytest.mark.parametrize("impossible", [(0, 1), (1, 0), (2, 1)])
def test_impossible_labels_leave_only_what_is_possible(impossible):
    _, log_probs, time, axis = frames_of([3], 3, 5)
    raw = log_probs.raw_tensor.clone()
    raw[(0, *impossible)] = -np.inf
    found = rf.search.ctc_beam(
        rf.convert_to_tensor(raw, dims=log_probs.dims), spatial_dim=time, axis=axis, blank=0, beam=40
    )
    expected = [one for one in all_sequences(lambda t, _: raw[0, t], 3, 3, 0, "sum", True) if one[1] > -np.inf]
    check(found, [expected])


def test_texts_of_labels_are_without_blank():
    _, log_probs, time, axis = frames_of([6, 5], 3, 6)
    found = rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=2, labels=["a", "b"])
    for tree in found.tree:
        assert [each.text for each in tree.hypotheses] == ["".join("ab"[i] for i in e.labels) for e in tree.hypotheses]
        assert {node.text for step in range(tree.steps) for node in tree.nodes(step)} <= {"a", "b", "<blank>"}


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"beam": 0}, ParameterError, "beam"),
        ({"blank": 3}, ParameterError, "blank"),
        ({"blank": -1}, ParameterError, "blank"),
        ({"merge": "mean"}, ParameterError, "merge"),
        ({"axis": None}, DimError, "the frames and the labels"),
        ({"spatial_dim": rf.Dim(3, name="other")}, DimError, "the frames and the labels"),
    ],
)
def test_wrong_arguments(wrong, error, words):
    _, log_probs, time, axis = frames_of([3], 3)
    with pytest.raises(error, match=words):
        rf.search.ctc_beam(log_probs, **{"spatial_dim": time, "axis": axis, "blank": 0, **wrong})


def test_probabilities_or_logits_are_warned_of_once():
    time, axis = rf.Dim(2, name="time"), rf.Dim(2, name="axis")
    logits = rf.convert_to_tensor([[3.0, -1.0], [-2.0, 1.0]], dims=[time, axis])
    with pytest.warns(UserWarning, match=r"not log probabilities\n.* 3 at time 0") as warned:
        for x in (logits, logits, rf.log_softmax(logits, axis=axis)):
            found = rf.search.ctc_beam(x, spatial_dim=time, axis=axis, blank=0)
    assert len(warned) == 1 and warned[0].filename == __file__ and found.scores.raw_tensor.max() < 0
    with pytest.warns(UserWarning, match=r"not log probabilities\n.* 0.9\d* at time 0"):
        rf.search.ctc_beam(rf.softmax(logits, axis=axis), spatial_dim=time, axis=axis, blank=0)


def test_a_scorer_that_does_not_score_blank_is_an_error_that_says_so():
    time, letter = rf.Dim(2, name="time"), rf.Dim(2, name="letter", vocab=["a", "b"])

    class Even:
        def initial_state(self, *, batch_dims):
            return None

        def score(self, label, state):
            return rf.zeros([letter], feature_dim=letter), state

    log_probs = rf.log_softmax(rf.random_normal([time, letter + 1]), axis=letter + 1)
    with pytest.raises(rf.errors.DimError, match="does not score the labels") as error:
        rf.search.ctc_beam(log_probs, spatial_dim=time, axis=letter + 1, blank=2, scorers={"even": Even()})
    assert error.value.hint == "blank is a label too: it needs a score, which does not count"
