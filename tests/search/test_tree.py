"""A tree has what the search did, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rfnb.errors import SearchError
from rfnb.search.tree import Tree, Trees
from tests.search.dict_search import END, random_model, search, traced

SIZES = {
    "beam": st.integers(1, 5),
    "limit": st.integers(0, 5),
    "seed": st.integers(0, 10**6),
    "exponent": st.sampled_from([0.0, 1.0]),
    "grid": st.sampled_from([None, 0.5]),
}


@given(**SIZES, include_eos=st.booleans(), ends=st.booleans())
def test_the_hypotheses_are_those_of_the_search(beam, limit, seed, exponent, grid, include_eos, ends):
    models = [random_model(seed + i, labels=3, grid=grid) for i in range(2)]
    trace = traced(models, beam, limit, exponent=exponent, include_eos=include_eos, ends=ends)
    for model, tree in zip(models, Trees(trace), strict=True):
        _, kept, ranks = search(model, beam, limit, {"model": 1.0}, exponent)
        order = sorted(range(len(kept)), key=lambda k: -ranks[k])
        assert len(tree.hypotheses) == len(kept)
        for found, k in zip(tree.hypotheses, order, strict=True):
            done = kept[k].done and not include_eos
            assert found.labels == (kept[k].labels[:-1] if done else kept[k].labels)
            assert (found.score, found.sum, found.complete) == (ranks[k], kept[k].score, kept[k].done)
            assert found.taken == len(kept[k].labels)
            assert found.parts["model"] == pytest.approx(kept[k].score)


@given(**SIZES, candidates=st.integers(0, 4))
def test_the_nodes_are_those_of_the_search(beam, limit, seed, exponent, grid, candidates):
    model = random_model(seed, labels=3, grid=grid)
    trace = traced([random_model(1), model], beam, limit, exponent=exponent, candidates=candidates)
    tree = Tree(trace, 1)
    steps, _, _ = search(model, beam, limit, {"model": 1.0}, exponent)
    assert tree.steps == len(steps)
    for step, (kept, pruned) in enumerate(steps):
        nodes = tree.nodes(step)
        assert [node.rank for node in nodes] == list(range(1, len(kept) + 1))
        assert [tree.prefix(step, node.place) for node in nodes] == [entry.labels for entry in kept]
        assert [node.score for node in nodes] == [entry.score for entry in kept]
        assert [node.ended for node in nodes] == [entry.copy for entry in kept]
        assert [node.ends for node in nodes] == [entry.done and not entry.copy for entry in kept]
        left = tree.pruned(step)
        assert [(n.label, n.score) for n in left] == [(e.label, e.score) for e in pruned[:candidates]]
        assert [node.rank for node in left] == list(range(len(kept) + 1, len(kept) + len(left) + 1))


@given(**SIZES)
def test_a_node_survives_if_a_final_hypothesis_goes_through_it(beam, limit, seed, exponent, grid):
    tree = Tree(traced([random_model(seed, 3, grid=grid)], beam, limit, exponent=exponent), 0)
    final = {tree.prefix(tree.steps - 1, each.place) for each in tree.hypotheses} if tree.steps else set()
    for step in range(tree.steps):
        for node in tree.nodes(step):
            prefix = tree.prefix(step, node.place)
            goes_on = any(labels[: len(prefix)] == prefix for labels in final)
            assert node.survives == goes_on


def test_an_end_is_found_without_its_record_if_the_hypothesis_stays():
    trace = traced([random_model(5, 3)], 4, 5, ends=False)
    marked = traced([random_model(5, 3)], 4, 5)
    found, true = Tree(trace, 0).ends, Tree(marked, 0).ends
    assert not (found & ~true).any() and found.any()
    assert Tree(trace, 0).end_labels == {END}


def test_padding_after_the_steps_of_a_sequence_does_not_count():
    short, long = (lambda prefix: {END: {"model": -1.0}}), random_model(3)
    together = traced([short, long], 3)
    alone = traced([short], 3)
    assert together.steps[0] == 1 < together.steps[1]
    garbage = together.parents.copy()
    garbage[1:, 0] = 2
    together = Trees(type(together)(**{**vars(together), "parents": garbage}))
    assert together[0].hypotheses == Trees(alone)[0].hypotheses
    assert (together.trace.places()[:, 0] == np.arange(3)).all()


def test_texts_and_names():
    trace = traced([random_model(1), random_model(2)], 2, vocab=["</s>", "L", "AE", "F"], tags=["laugh", "\x1b[31m"])
    trees = Trees(trace)
    assert trees["laugh"].name == "laugh" and set(trees[0].best.text.split()) <= {"L", "AE", "F"}
    assert "\x1b" not in repr(trees) + repr(trees[1])
    assert trees[-1].sequence == 1 and len(trees[:1]) == 1
    with pytest.raises(SearchError, match="no sequence with this tag") as caught:
        trees["laug"]
    assert "laugh" in str(caught.value)
    with pytest.raises(SearchError, match="no sequence with this position"):
        trees[2]


def test_labels_without_a_vocabulary_and_labels_that_it_does_not_have():
    assert Tree(traced([random_model(1)], 1), 0).best.text.replace(" ", "").isdigit()
    tree = Tree(traced([lambda prefix: {9 if not prefix else END: {"model": -1.0}}], 1, vocab=["</s>", "a"]), 0)
    assert tree.best.text == "⟨9?⟩"


def test_nothing_is_left():
    tree = Tree(traced([lambda prefix: {} if prefix else {1: {"model": -1.0}}], 2), 0)
    assert tree.hypotheses == [] and tree.best is None and "no hypothesis is left after step 1" in repr(tree)
    assert tree.died_at == 1 and Tree(traced([random_model(1)], 2), 0).died_at is None
    with pytest.raises(SearchError, match="no hypothesis is at step"):
        tree.node(1, 0)
    assert list(Trees(traced([], 2))) == [] and repr(Trees(traced([], 2))) == ""


def test_the_table_has_a_row_for_each_node():
    tree = Tree(traced([random_model(1)], 2, 2, candidates=1), 0)
    rows = tree.table()
    assert [(row["step"], row["rank"]) for row in rows] == [(0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3)]
    assert rows[2]["place"] is None and "score of model" in rows[0]
