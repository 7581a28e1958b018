"""The view of the life of a hypothesis."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.search.tree import Tree
from tests.display.test_explain_where_view import LABELS, SCALES, laugh
from tests.search.dict_search import random_model, traced


def test_the_second_best(golden):
    view = rf.show(laugh(2).why(1))
    assert ">left at the end </span>" in view.html and "\n  ≠ 1 " in view.text
    assert [each["state"] for each in view.table()] == ["kept", "kept", "last"]
    golden("why.txt", view.text + "\n")


def test_what_became_of_it():
    tree = laugh(2)
    pruned = next(node for node in tree.pruned(1))
    states = ("the output", "left at the end", "continued", "lost")
    for which, words in zip((0, 1, tree.node(0, 0), pruned), states, strict=True):
        assert f">{words} </span>" in rf.show(tree.why(which)).html
    lost = rf.show(tree.why(pruned))
    assert [each["state"] for each in lost.table()][-2:] == ["fell", "instead"]
    assert repr(tree.why(1)) == tree.why(1).text and tree.why(1).text.splitlines()[0] in rf.show(tree.why(1)).text


@given(beam=st.integers(1, 5), limit=st.integers(0, 5), seed=st.integers(0, 10**6), deep=st.sampled_from([None, 2]))
def test_the_step_in_which_it_was_closest_to_being_pruned(beam, limit, seed, deep):
    tree = Tree(traced([random_model(seed, 3, ("model", "lm"))], beam, limit, SCALES, candidates=deep), 0)
    for i in range(len(tree.hypotheses)):
        view = rf.show(tree.why(i))
        assert "no view" not in view.text + view.html and json.dumps(view.data, allow_nan=False)
        nodes = tree.why(i).life.nodes
        if deep is None or not nodes:
            continue
        above = {n.step: n.compared - tree.pruned(n.step)[0].compared for n in nodes if tree.pruned(n.step)}
        if above:
            step = min(above, key=lambda step: above[step])
            near = [each for each in above if above[each] == pytest.approx(above[step], abs=1e-4)]
            assert any(f"closest to being pruned at step {each}:" in view.text for each in near)


def hostile_views(word):
    labels = [word(label) for label in LABELS]
    tree = laugh(2, labels=labels, tag=word("laugh"))
    return {
        "why": rf.show(tree.why(1)),
        "why, lost": rf.show(tree.why(tree.pruned(1)[0])),
        "why, the best": rf.show(tree.why(0)),
    }
