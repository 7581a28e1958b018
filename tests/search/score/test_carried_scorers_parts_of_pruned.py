"""Pruned candidates have the parts of their scores: kept by `candidates=8`, or computed again of a recorded run."""

import json

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples
from tests.search.score.test_sum import Counting, search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

SCALES = {"model": 0.7, "lm": 0.4, "length": 0.1}


def searched(seed, batch=2, beam=2, exponent=0.0, **options):
    random = np.random.default_rng(seed)
    table = np.log(random.dirichlet(np.ones(4), size=(batch, 4))).astype("float32")
    lm = Counting(np.log(random.dirichlet(np.ones(4), size=11)).astype("float32"), rf.Dim(4, name="label"))
    return search(table, {"lm": lm}, SCALES, beam, 5, exponent, **options), table, lm


def by_hand(table, lm, tree, step, node):
    """The parts of a pruned candidate."""
    if node.ended:
        return dict.fromkeys(SCALES, 0.0)
    before = (0, *(tree.prefix(step - 1, node.parent) if step else ()))
    return {"model": table[before[-1]][node.label], "lm": lm.plain(before)[node.label], "length": 1.0}


@pytest.mark.slow
@examples(25)
@given(
    st.integers(0, 1000), st.integers(1, 3), st.integers(1, 3), st.sampled_from([0.0, 1.0]), st.booleans(),
    st.integers(1, 9),
)  # fmt: skip
def test_they_are_those_of_the_labels_and_add_up(seed, batch, beam, exponent, recorded, most):
    how = {"debug": True} if recorded else {"candidates": most}
    loop, table, lm = searched(seed, batch, beam, exponent, **how)
    seen = 0
    for tree in loop.found.tree:
        for step in range(tree.steps):
            for node in tree.pruned(step, most):
                seen += 1
                assert node.parts == pytest.approx(by_hand(table[tree.sequence], lm, tree, step, node), abs=1e-5)
                base = tree.scores[step - 1, node.parent] if step else 0.0
                total = base + sum(SCALES[name] * part for name, part in node.parts.items())
                assert node.score == pytest.approx(total, abs=1e-4)
    assert seen


@pytest.mark.parametrize("how", [{"debug": True}, {"candidates": 8}])
def test_they_are_in_the_table_in_json_and_in_files(how, tmp_path):
    loop, _, _ = searched(3, **how)
    found = loop.found
    loaded = rf.search.load(found.save(tmp_path / "x.rfbeam"))
    for tree, again in zip(found.tree, loaded.tree, strict=True):
        as_json = rf.search.Tree.from_json(json.loads(json.dumps(tree.to_json())))
        assert any(row["place"] is None and row["score of lm"] < 0 for row in tree.table())
        for step in range(tree.steps):
            expected = [node.parts for node in tree.pruned(step)]
            assert [node.parts for node in again.pruned(step)] == [pytest.approx(parts) for parts in expected]
            assert [node.parts for node in as_json.pruned(step)] == [
                pytest.approx(parts, abs=2e-3) for parts in expected
            ]


def test_where_names_the_part_to_blame():
    loop, _, _ = searched(3, beam=1, candidates=8)
    tree = loop.found.tree[0]
    reference = [tree.pruned(0)[0].label]
    fall = tree.where(reference).fall
    assert fall.candidate is not None and set(fall.parts) == set(SCALES)
    assert sum(fall.parts.values()) == pytest.approx(fall.margin, abs=1e-4) and fall.part in fall.parts
