"""Diverse groups and a threshold, against a search over dicts."""

import numpy as np
import pytest
from hypothesis import example, given, strategies as st

import rfnb as rf
from rfnb.errors import ParameterError
from tests.examples import examples
from tests.search.test_choice import STATE, Net
from tests.search.variants.test_constraints import END, search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def truth(net, sequence, size, limit, groups, diversity, threshold, exponent):
    """The hypotheses of one sequence, (labels, score), the best first; and the least difference of scores on which a
    place depends, which single precision may not see."""
    least_gap = np.inf
    beams = [[((), 0.0, False, np.zeros(STATE, "float32"))] for _ in range(groups)]
    for step in range(limit):
        chosen = np.zeros(len(net.u[0]))
        for g, beam in enumerate(beams):
            found = []
            for labels, score, ended, h in beam:
                if ended:
                    compared = score * ((step + 1) / len(labels)) ** exponent
                    found.append((compared, compared, (labels, score, True, h)))
                    continue
                new, log_probs = net.step(h, labels[-1] if labels else 0, sequence)
                for label, log_prob in enumerate(log_probs):
                    total = score + log_prob
                    one = ((*labels, label), total, label == END, new)
                    found.append((total - diversity * chosen[label], total, one))
            found = sorted(found, key=lambda each: -each[0])
            kept, others = found[: size // groups], found[size // groups :]
            least_gap = min([least_gap, *(kept[-1][0] - each[0] for each in others[:1])])
            beams[g] = [(compared, one) for _, compared, one in kept]
            for _, (labels, _, _, _) in beams[g]:
                if len(labels) == step + 1:
                    chosen[labels[-1]] += 1
        best = max((compared for beam in beams for compared, _ in beam), default=0.0)
        least = -np.inf if threshold is None else best - threshold
        gaps = [abs(compared - least) for beam in beams for compared, _ in beam if compared != least]
        least_gap = min([least_gap, *gaps])
        beams = [[one for compared, one in beam if compared >= least] for beam in beams]
        if all(ended for beam in beams for _, _, ended, _ in beam):
            break
    final = [
        (labels[:-1] if ended else labels, score / max(len(labels), 1) ** exponent)
        for beam in beams
        for labels, score, ended, _ in beam
    ]
    return sorted(final, key=lambda each: -each[1]), least_gap


@pytest.mark.slow
@example(labels=2, batch=2, groups=3, each=2, limit=5, diversity=0.53, exponent=1.0, threshold=0.71, seed=477)
@example(labels=3, batch=2, groups=3, each=2, limit=5, diversity=0.53, exponent=1.0, threshold=None, seed=459)
@example(labels=2, batch=2, groups=1, each=2, limit=5, diversity=0.0, exponent=1.0, threshold=2.3, seed=49)
@examples(60)
@given(
    labels=st.integers(2, 5), batch=st.integers(1, 2), groups=st.integers(1, 3), each=st.integers(1, 3),
    limit=st.integers(0, 5), diversity=st.sampled_from([0.0, 0.53, 3.1]), exponent=st.sampled_from([0.0, 1.0]),
    threshold=st.sampled_from([None, 0.0, 0.71, 2.3]), seed=st.integers(0, 1000),
)  # fmt: skip
def test_agrees_with_a_search_over_dicts(labels, batch, groups, each, limit, diversity, threshold, exponent, seed):
    net = Net(labels, batch, seed)
    options = {"groups": groups, "diversity": diversity, "threshold": threshold}
    options |= {"length_normalization": exponent != 0, "length_normalization_exponent": exponent}
    found = search(net, groups * each, limit, {}, **options).found
    for sequence, tree in enumerate(found.tree):
        expected, least_gap = truth(net, sequence, groups * each, limit, groups, diversity, threshold, exponent)
        if least_gap < 1e-4:
            continue  # which hypothesis has the place is a matter of rounding
        assert sorted(one.labels for one in tree.hypotheses) == sorted(text for text, _ in expected)
        scores = [one.score for one in tree.hypotheses]
        assert scores == pytest.approx([score for _, score in expected], abs=1e-4)


def test_without_diversity_all_groups_are_the_same_beam():
    net = Net(5, 2, 4)
    narrow = search(net, 2, 6, {}).found
    found = search(net, 6, 6, {}, groups=3, diversity=0.0).found
    for one, wide in zip(narrow.tree, found.tree, strict=True):
        assert sorted(each.text for each in wide.hypotheses) == sorted(each.text for each in one.hypotheses * 3)


def test_diversity_gives_each_group_a_first_label_of_its_own():
    net = Net(5, 2, 4)
    found = search(net, 4, 6, {}, groups=4, diversity=9.0, debug=True)
    for tree in found.found.tree:
        assert len({node.label for node in tree.nodes(0)}) == 4
    assert [found.run[step].check for step in range(found.run.steps)] == ["replay agrees"] * found.run.steps


def test_groups_and_constraints_go_together():
    net = Net(5, 2, 4)
    parts = {"once": rf.search.no_repeat(1), "lengths": rf.search.lengths(end=END, minimum=2)}
    found = search(net, 6, 6, parts, groups=2, threshold=2.0).found
    texts = [text for one in found.nbest(6) for text in one]
    assert texts and all(len(set(text)) == len(text) >= 2 for text in texts)


def test_a_threshold_spares_the_right_label():
    net = Net(5, 2, 4)
    gold = rf.convert_to_tensor([4, 4], dims=[rf.batch_dim], sparse_dim=net.label)
    options = {"target": gold, "cheating": True, "length_normalization": False}
    wide = search(net, 3, 4, {}, **options).found.trace
    found = search(net, 3, 4, {}, threshold=0.0, **options).found.trace
    assert np.isfinite(found.scores[0, :, -1]).all() and (found.labels[0, :, -1] == 4).all()
    assert np.isfinite(wide.scores[0]).sum() > np.isfinite(found.scores[0]).sum()


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"groups": 3}, "does not divide the beam"),
        ({"groups": 0}, "does not divide the beam"),
        ({"groups": 2, "keep_beams": True}, "does not go together"),
        ({"threshold": -1.0}, "is negative"),
    ],
)
def test_errors(options, text):
    with pytest.raises(ParameterError, match=text):
        search(Net(4, 2), 4, 3, {}, **options)


def test_groups_divide_the_beam_before_and_after():
    label, beam, after = rf.Dim(5, name="label"), rf.Dim(4, name="beam"), rf.Dim(3, name="after")
    with pytest.raises(ParameterError, match="a divisor of 4 and of 3"):
        rf.search.beam_step(rf.zeros([beam, label]), rf.zeros([beam]), axis=label, beam=beam, out_beam=after, groups=2)
