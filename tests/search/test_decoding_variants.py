"""Variants of `rf.search.decode`, against those of a loop."""

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import ParameterError
from tests.search.test_choice import Net
from tests.search.test_decoding import step_of
from tests.search.variants.test_constraints import search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def decoded(net, beam, limit, constraints=(), **options):
    step, state = step_of(net)
    labels = [chr(97 + i) for i in range(len(net.u[0]))]
    return rf.search.decode(
        step, state, beam=beam, start=0, end="b", limit=limit, labels=labels, constraints=constraints, **options
    )


def constraints_of(net):
    return {
        "once": rf.search.no_repeat(1),
        "lengths": rf.search.lengths(end="b", minimum=[1, 2, 3], maximum=4),
        "forced": rf.search.forced(["c", "", "de"]),
        "allowed": rf.search.allowed("abcde"),
        "words": rf.search.trie(["ca", "de", "dea", "deac", "aceda"], labels=net.label, end="b"),
    }


@pytest.mark.parametrize("name", ["once", "lengths", "forced", "allowed", "words"])
@pytest.mark.parametrize("beam", [1, 4])
def test_constraints_are_those_of_a_loop(name, beam):
    net = Net(5, 3, 2)
    found = decoded(net, beam, 6, [constraints_of(net)[name]])
    in_loop = search(net, beam, 6, {name: constraints_of(net)[name]}).found
    assert found.nbest(beam) == in_loop.nbest(beam)
    for one, other in zip(found.tree, in_loop.tree, strict=True):
        assert [each.score for each in one.hypotheses] == pytest.approx([each.score for each in other.hypotheses])


def test_several_constraints_and_no_candidate_that_is_banned():
    net = Net(5, 3, 2)
    parts = constraints_of(net)
    found = decoded(net, 4, 6, list(parts.values()))
    assert found.nbest(4) == search(net, 4, 6, parts).found.nbest(4)
    words = {"ca", "de", "dea", "deac", "aceda"}
    for tree in found.tree:
        pruned = [node.text for step in range(tree.steps) for node in tree.pruned(step) if step == 0]
        assert set(pruned) <= {word[0] for word in words}


@pytest.mark.parametrize("options", [{"groups": 2}, {"groups": 4, "diversity": 2.0}, {"threshold": 0.5}])
def test_groups_and_a_threshold_are_those_of_a_loop(options):
    net = Net(5, 3, 2)
    found, in_loop = decoded(net, 4, 6, **options), search(net, 4, 6, {}, **options).found
    assert found.nbest(4) == in_loop.nbest(4)
    for tree in found.tree:
        for step in range(tree.steps):
            nodes, pruned = tree.nodes(step), tree.pruned(step)
            kept, others = ({(x.parent, x.label) for x in each} for each in (nodes, pruned))
            assert others and (not kept & others or step == 0)  # each group starts with a hypothesis of its own
            if "threshold" in options:
                assert min(x.compared for x in nodes) >= max(x.compared for x in pruned)


def test_samples():
    rf.set_random_seed(4)
    net = Net(5, 40, 2)
    net.x[:] = net.x[0]
    found = decoded(net, 1, 6, change=lambda scores, _: rf.search.sampled(scores, axis=scores.feature_dim, top_k=3))
    texts = [one[0] for one in found.nbest(1)]
    assert len(set(texts)) > 5
    _, log_probs = net.step(np.zeros(len(net.a), "float32"), 0, 0)
    exact = set(np.argsort(-log_probs)[:3].tolist())
    assert {node.label for tree in found.tree for node in tree.nodes(0)} == exact
    for tree in found.tree:
        assert tree.nodes(0)[0].score == pytest.approx(log_probs[tree.nodes(0)[0].label], abs=1e-5)


def test_groups_divide_the_beam():
    with pytest.raises(ParameterError, match="does not divide the beam"):
        decoded(Net(5, 1), 4, 3, groups=3)


def test_a_label_below_the_threshold_is_not_said_to_be_impossible():
    table = torch.tensor([[0.0, 3.0, 0.0], [3.0, 0.0, 1.0], [2.0, 0.0, 0.0]])

    def found(**options):
        step = lambda prev, state: (table[prev], state)  # noqa: E731
        given = {"batch": 1, "beam": 3, "start": 0, "end": 0, "limit": 4, "labels": ["</s>", "a", "b"], "candidates": 0}
        return rf.search.decode(step, **given | options).tree[0]

    lost = found(threshold=0.5).where("b")
    assert lost.verdict == "undecided" and "−inf" not in lost.text
    assert found(limit=1, input_type="log_prob").own.end_label == 0
