"""Conditions on searches, against the trees of their sequences."""

import pytest

import rfnb as rf
from rfnb.errors import LoopError
from tests.search.test_choice import Net, search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def changes_by_hand(tree):
    """The steps whose best hypothesis is no child of the best one before."""
    best = [min(tree.nodes(step), key=lambda node: node.rank) for step in range(tree.steps)]
    return [step for step in range(1, tree.steps) if best[step].parent != best[step - 1].place]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("exponent", [0.0, 1.0])
def test_the_best_hypothesis_changes(seed, exponent):
    length = {"length_normalization": exponent != 0, "length_normalization_exponent": exponent or 1.0}
    run = search(Net(5, 3, seed), 3, 4, 7, debug=True, **length)[0].run
    by_sequence = [changes_by_hand(tree) for tree in run.found.tree]
    assert [run.find(rf.when.best_changes(batch=i)) for i in range(3)] == by_sequence
    assert run.find(rf.when.best_changes()) == sorted({step for steps in by_sequence for step in steps})


def test_a_reference_falls_out():
    run = search(Net(5, 3, 0), 3, 2, 6, debug=True)[0].run
    trees = run.found.tree
    references = {tree.name: "d d d" for tree in trees}
    falls = [tree.where("d d d").fall for tree in trees]
    assert any(falls)
    for sequence, fall in enumerate(falls):
        found = run.find(rf.when.falls_out("d d d", batch=sequence))
        assert found == ([] if fall is None else [fall.step])
    assert run.find(rf.when.falls_out(references)) == sorted({fall.step for fall in falls if fall})
    assert run.find(rf.when.falls_out({})) == []
    with pytest.raises(LoopError, match="several sequences"):
        run.find(rf.when.falls_out("d d d"))


def test_other_loops_are_refused():
    loop = rf.Loop(max_seq_len=2, debug=True, name="doubling")
    loop.state.n = rf.convert_to_tensor(1)
    with loop:
        loop.state.n = loop.state.n * 2
    with pytest.raises(LoopError, match="'doubling' is not a search"):
        loop.run.find(rf.when.best_changes())
