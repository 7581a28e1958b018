"""Scorers of `rf.search.decode` are those of `loop.choice`, and agree with a search over dicts."""

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import ParameterError
from tests.examples import examples
from tests.search.score.test_sum import END, Costly, Counting, search, truth

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def models(seed, batch, labels, with_final):
    random = np.random.default_rng(seed)
    table = np.log(random.dirichlet(np.ones(labels), size=(batch, labels))).astype("float32")
    other = np.log(random.dirichlet(np.ones(labels), size=(2, 11))).astype("float32")
    label = rf.Dim(labels, name="label")
    return table, {"lm": Counting(other[0], label, with_final), "costly": Costly(other[1], label)}


def decoded(table, scorers, scales, beam, limit, exponent, **options):
    scores = torch.tensor(table)
    size = scores.shape[2]

    def step(prev, rows):
        return scores[rows, prev], rows

    label = rf.Dim(size, name="label")
    for scorer in scorers.values():
        scorer.__init__(scorer.table, label, hasattr(scorer, "final"))
    parts = {"model": scales["model"], "length": scales["length"]}
    parts |= {name: (scorer, scales[name]) for name, scorer in scorers.items()}
    return rf.search.decode(
        step, torch.arange(len(table)), beam=beam, start=0, end=END, limit=limit, labels=label,
        input_type="log_prob", scorers=parts, length_normalization_exponent=exponent, include_eos=True, **options,
    )  # fmt: skip


@pytest.mark.slow
@examples(40)
@given(
    seed=st.integers(0, 1000), batch=st.integers(1, 3), labels=st.integers(2, 4), beam=st.integers(1, 4),
    limit=st.integers(1, 5), exponent=st.sampled_from([0.0, 1.0]), final=st.booleans(),
    candidates=st.sampled_from([None, 2]),
)  # fmt: skip
def test_agrees_with_a_search_over_dicts_and_with_a_loop(seed, batch, labels, beam, limit, exponent, final, candidates):
    table, scorers = models(seed, batch, labels, final)
    scales = {"model": 0.7, "lm": 0.4, "costly": -0.2, "length": 0.1}
    given = {"partial_candidates": candidates}
    found = decoded(table, scorers, scales, beam, limit, exponent, **given)
    in_loop = search(table, scorers, scales, beam, limit, exponent, **given).found
    for sequence, tree in enumerate(found.tree):
        expected = truth(table[sequence], scorers, scales, beam, limit, exponent, candidates or 2 * beam)
        ours = sorted((tuple(one.labels), one.score) for one in tree.hypotheses)
        theirs = sorted((labels, score) for labels, score, _ in expected)
        assert [labels for labels, _ in ours] == [labels for labels, _ in theirs]
        assert [score for _, score in ours] == pytest.approx([score for _, score in theirs], abs=1e-4)
        parts = {labels: parts for labels, _, parts in expected}
        for one in tree.hypotheses:
            assert one.parts == pytest.approx(parts[tuple(one.labels)], abs=1e-4)
            assert one.sum == pytest.approx(sum(scales[name] * part for name, part in one.parts.items()), abs=1e-4)
        best = in_loop.tree[sequence].hypotheses
        assert [one.labels for one in best] == [one.labels for one in tree.hypotheses]


class EndCosts:
    """Each label costs nothing, and the end of a hypothesis 1."""

    def __init__(self, label):
        self.label = label

    def initial_state(self, *, batch_dims):
        return rf.zeros(batch_dims)

    def score(self, label, state):
        return rf.expand_dim(state, self.label), state

    def final(self, state):
        return state - 1.0


@pytest.mark.parametrize("end", [0, 2])
def test_an_end_is_scored_once_also_if_it_is_the_label_of_ended_copies(end):
    label = rf.Dim(3, name="label")
    scores = torch.full([3], -3.0).index_fill(0, torch.tensor(end), -1.0)
    found = rf.search.decode(
        lambda prev, rows: (scores.expand(len(prev), 3), rows), torch.zeros(1), beam=3, start=1, end=end, limit=4,
        labels=label, input_type="log_prob", scorers={"end": EndCosts(label)}, length_normalization_exponent=0.0,
        include_eos=True,
    )  # fmt: skip
    best, *others = found.tree[0].hypotheses
    assert (best.labels, best.score) == ((end,), -2.0)
    assert [one.score for one in others] == [-5.0, -5.0]


def test_pruned_candidates_have_parts_and_scales_can_be_changed():
    table, scorers = models(3, 2, 4, False)
    scales = {"model": 1.0, "lm": 0.4, "costly": 0.1, "length": 0.0}
    found = decoded(table, scorers, scales, 2, 4, 0.0)
    tree = found.tree[0]
    node = tree.pruned(1)[0]
    before = tree.scores[0, node.parent]
    assert set(node.parts) == {"model", "lm", "costly"} and not node.ended
    total = sum(scales[name] * part for name, part in node.parts.items())
    assert node.score == pytest.approx(before + total, abs=1e-4)
    best = found.rerank(lm=0.9).tree[0].best
    assert best.sum == pytest.approx(
        best.parts["model"] + 0.9 * best.parts["lm"] + 0.1 * best.parts["costly"], abs=1e-4
    )


@examples(20)
@given(seed=st.integers(0, 1000), apart=st.booleans(), exponent=st.sampled_from([0.0, 1.0]))
def test_each_sequence_is_the_same_alone(seed, apart, exponent):
    table, scorers = models(seed, 3, 4, False)
    scales = {"model": 0.7, "lm": 0.4, "costly": 0.2, "length": 0.1}
    options = {"ended": "apart", "patience": 1.0, "early_stop": 1} if apart else {}
    options |= {"most_gain": 0.1} if apart else {}
    whole = decoded(table, scorers, scales, 2, 5, exponent, **options)
    for i, tree in enumerate(whole.tree):
        alone = decoded(table[i : i + 1], scorers, scales, 2, 5, exponent, **options).tree[0]
        assert [one.labels for one in alone.hypotheses] == [one.labels for one in tree.hypotheses]
        assert [one.parts for one in alone.hypotheses] == [pytest.approx(one.parts) for one in tree.hypotheses]


def test_an_offset_as_in_a_loop():
    table, scorers = models(5, 2, 4, False)
    scales = {"model": 1.0, "lm": 0.4, "costly": 0.1, "length": 0.0}
    found = decoded(table, scorers, scales, 3, 5, 0.8, length_normalization_offset=5.0)
    in_loop = search(table, scorers, scales, 3, 5, 0.8, length_normalization_offset=5.0).found
    for ours, theirs in zip(found.tree, in_loop.tree, strict=True):
        assert [one.labels for one in ours.hypotheses] == [one.labels for one in theirs.hypotheses]
        assert [one.score for one in ours.hypotheses] == pytest.approx([one.score for one in theirs.hypotheses])


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"scorers": {"model": (1, 2)}}, "come from `step`"),
        ({"scorers": {"lm": 0.4}}, "neither a Tensor nor a scorer"),
        ({"scorers": {"lm": rf.zeros([])}}, "is a Tensor"),
        ({"length_normalization_offset": -1.0}, "offset"),
        ({"patience": 1.0}, "stay apart"),
        ({"ended": "apart", "patience": 0.0}, "above 0"),
        ({"ended": "apart", "end": None}, "label that ends"),
        ({"ended": "away"}, "unknown `ended`"),
        ({"early_stop": -1}, "number of hypotheses"),
        ({"early_stop": 1, "scorers": {"lm": Counting(np.zeros((11, 3)), rf.Dim(3, name="l"))}}, "most_gain"),
        ({"ended": "apart", "groups": 2}, "groups"),
    ],
)  # fmt: skip
def test_wrong_arguments(wrong, words):
    given = {"beam": 2, "start": 0, "end": 1, "limit": 3, "batch": 1} | wrong
    with pytest.raises(ParameterError, match=words):
        rf.search.decode(lambda prev, state: (torch.zeros(len(prev), 3), state), **given)
