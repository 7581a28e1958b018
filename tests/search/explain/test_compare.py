"""Two searches differ at the first step at which their best prefixes do."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import SearchError
from rfnb.search.result import Found
from tests.search.dict_search import random_model, search, traced

SCALES = {"model": 1.0, "lm": 0.4}


def prefixes(steps, most):
    return [{entry.labels for entry in kept[:most]} for kept, _ in steps]


@given(
    beams=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    limit=st.integers(0, 5),
    seed=st.integers(0, 10**6),
    lm=st.sampled_from([0.4, 2.0]),
)
def test_the_first_step_that_differs(beams, limit, seed, lm):
    model, scales = random_model(seed, 3, ("model", "lm")), (SCALES, SCALES | {"lm": lm})
    a, b = (Found(traced([model], beam, limit, scale)) for beam, scale in zip(beams, scales, strict=True))
    steps = [search(model, beam, limit, scale)[0] for beam, scale in zip(beams, scales, strict=True)]
    mine, theirs = (prefixes(each, min(beams)) for each in steps)
    size = max(map(len, (mine, theirs)))
    mine, theirs = (each + each[-1:] * (size - len(each)) for each in (mine, theirs))
    first = next((step for step in range(size) if mine[step] != theirs[step]), None)
    found = rf.compare(a, b)
    assert found.sequences[0].step == first and rf.compare(a.tree[0], b.tree[0]).step == first
    if first is not None:
        assert found.first.only_a and found.first.only_b and not found
        assert len(found.first.only_a) == len(mine[first] - theirs[first])
        assert f"step {first}" in repr(found)
    assert bool(rf.compare(a, a)) and repr(rf.compare(a, a))


def test_sequences_are_matched_by_tag():
    models = [random_model(i) for i in range(3)]
    a = Found(traced(models, 2, tags=["x", "y", "z"]))
    b = Found(traced(models[::-1][:2], 2, tags=["z", "y"]))
    found = rf.compare(a, b)
    assert found and [each.name for each in found.sequences] == ["y", "z"] and found.only_a == ("x",)
    assert [row["step"] for row in found.table()] == [None, None] and "only in the first: x" in repr(found)
    assert len(rf.compare(a, b, sequence="y").sequences) == 1
    with pytest.raises(SearchError, match="numbers differ"):
        rf.compare(a, Found(traced(models[:2], 2)))


def test_only_searches_compare_with_searches():
    found = Found(traced([random_model(1)], 2))
    with pytest.raises(SearchError, match="only be compared with another search"):
        rf.compare(found, 3)
    with pytest.raises(SearchError, match="only be compared with another tree"):
        rf.compare(found.tree[0], found)
