"""The life of a hypothesis is what happened to it."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rfnb.errors import SearchError
from rfnb.search.tree import Tree
from tests.search.dict_search import END, random_model, search, traced


@given(beam=st.integers(1, 5), limit=st.integers(0, 5), seed=st.integers(0, 10**6))
def test_each_final_hypothesis_has_its_steps(beam, limit, seed):
    model = random_model(seed, 3, ("model", "lm"))
    scales = {"model": 1.0, "lm": 0.4}
    tree = Tree(traced([model], beam, limit, scales, candidates=3), 0)
    for i, each in enumerate(tree.hypotheses):
        found = tree.why(i)
        assert found.final is each and found.labels == each.labels and len(found.life.nodes) == tree.steps
        assert repr(found) and [row["rank"] for row in found.table()] == [node.rank for node in found.life.nodes]
        if tree.steps:
            assert sum(found.parts.values()) == pytest.approx(tree.best.score - each.score, abs=1e-9)
        if i:
            best = tree.prefix(tree.steps - 1, tree.best.place)
            mine = tree.prefix(tree.steps - 1, each.place)
            assert best[: found.apart] == mine[: found.apart] and best[found.apart :][:1] != mine[found.apart :][:1]


@given(beam=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_each_node_has_its_fate(beam, seed):
    model = random_model(seed, 3)
    tree = Tree(traced([model], beam, 5, candidates=2), 0)
    steps, _, _ = search(model, beam, 5, {"model": 1.0})
    for step in range(tree.steps):
        for node in [*tree.nodes(step), *tree.pruned(step)]:
            found = tree.why(node)
            assert repr(found)
            if node.pruned:
                assert found.last_step is None and found.life.fall.step == step
                assert found.life.fall.candidate == node
                continue
            prefix = tree.prefix(step, node.place)
            alive = [any(e.labels[: len(prefix)] == prefix for e in kept) for kept, _ in steps[step:]]
            assert found.last_step == step + (alive.index(False) if False in alive else len(alive)) - 1
            if found.last_step == step < tree.steps - 1 and node.ends:
                assert found.life.fall.step == step + 1


def test_labels_of_any_form():
    model = lambda prefix: {END: {"model": -0.1}} if prefix else {k: {"model": -float(k)} for k in (1, 2, 3)}  # noqa: E731
    tree = Tree(traced([model], 2, 4, candidates=3, vocab=["</s>", "L", "AE", "F"], tags=["laugh"]), 0)
    assert tree.why("AE").final is tree.hypotheses[1] and tree.why([2]).apart == 0
    assert 'laugh: "AE": hypothesis 2, score -2.1, 1 below the best by model 1, from step 0 on' in repr(tree.why("AE"))
    assert "fell out at step 0" in repr(tree.why("F"))
    assert tree.why(tree.best).final is tree.best and "the best hypothesis" in repr(tree.why(0))
    with pytest.raises(SearchError, match="no hypothesis with this position"):
        tree.why(5)
