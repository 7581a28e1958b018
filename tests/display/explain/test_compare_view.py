"""The view of two searches side by side."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.search.found import Found
from tests.display.explain.test_where_view import LABELS, SCALES, laugh
from tests.search.dict_search import random_model, traced


def searches(word=str, beams=(1, 3), seeds=(1, 2, 3)):
    """Two searches with beams of different size; the second lacks the first sequence."""
    labels = [word(label) for label in ("</s>", "the", "cat", "sleeps")]
    models, tags = [random_model(seed, 4, ("model", "lm")) for seed in seeds], [word(f"s{seed}") for seed in seeds]
    return tuple(
        Found(traced(models[i:], beam, 5, SCALES, vocab=labels, tags=tags[i:])) for i, beam in enumerate(beams)
    )


def test_trees(golden):
    compared = rf.compare(laugh(1), laugh(3))
    view = rf.show(compared)
    [sequence] = view.data["sequences"]
    assert (sequence["step"], sequence["beams"], sequence["same_output"]) == (2, [1, 3], False)
    first, second = sequence["hypotheses"][:2]
    assert (first["labels"], first["sides"][0]["rank"]) == (["L", "AH", "▣"], 1)
    assert (second["labels"], second["sides"][1]["rank"], second["common"]) == (["L", "AE", "▣"], 1, 1)
    assert repr(compared) == compared.text == view.data["summary"][0]
    golden("search_comparison.txt", view.text + "\n")
    golden("search_comparison.json", json.dumps(view.data, indent=1, ensure_ascii=False) + "\n")


def test_searches_of_several_sequences():
    a, b = searches()
    compared = rf.compare(a, b)
    view = rf.show(compared)
    assert [each["name"] for each in view.data["sequences"]] == [each.name for each in compared.differing]
    assert view.data["alone"] == [["s1"], []] and "only in the first: s1" in view.html
    assert repr(compared) == compared.text and view.text.startswith(compared.text)
    less = rf.show(compared, most=1)
    assert len(less.data["sequences"]) == 1 and less.data["note"].startswith("1 more sequence;")
    same = rf.show(rf.compare(a, a))
    assert same.data["agree"] and same.data["sequences"] == [] and "agree" in same.html


@given(beams=st.tuples(st.integers(1, 5), st.integers(1, 5)), limit=st.integers(0, 5), seed=st.integers(0, 10**6))
def test_each_hypothesis_has_its_ranks_in_both(beams, limit, seed):
    model = random_model(seed, 3)
    a, b = (Found(traced([model], beam, limit)).tree[0] for beam in beams)
    view = rf.show(rf.compare(a, b))
    assert "no view" not in view.text + view.html and json.dumps(view.data, allow_nan=False)
    found = view.data["sequences"][0]["hypotheses"]
    first = found[0]["labels"] if found else []
    for each in found:
        common = [x == y for x, y in zip(each["labels"], first, strict=False)]
        assert each["common"] == [*common, False].index(False)
    for side, tree in enumerate((a, b)):
        ends = {h.place: ("▣",) * h.complete for h in tree.hypotheses}
        mine = {(*map(tree.label, h.labels), *ends[h.place]): h for h in reversed(tree.hypotheses)}
        shown = {tuple(each["labels"]): each["sides"][side] for each in found}
        assert {labels for labels, h in mine.items() if h.rank <= 5} <= shown.keys()
        for labels, ranked in shown.items():
            assert (ranked and ranked["rank"]) == (mine[labels].rank if labels in mine else None)
            assert ranked is None or ranked["score"] == pytest.approx(mine[labels].score, rel=1e-4)


def test_of_long_hypotheses_only_what_differs_is_shown():
    def model(prefix):
        return {1: {"model": -0.1}, 2: {"model": -0.2 if len(prefix) > 40 else -9.0}}

    a, b = (Found(traced([model], beam, 50)).tree[0] for beam in (1, 6))
    view = rf.show(rf.compare(a, b))
    [sequence] = view.data["sequences"]
    found = sequence["hypotheses"]
    assert sequence["start"] > 38 and all(len(each["labels"]) == 50 - sequence["start"] for each in found)
    assert "…" in view.text and min(each["common"] for each in found) == 3


def hostile_views(word):
    labels = [word(label) for label in LABELS]
    trees = [laugh(beam, labels=labels, tag=word("laugh")) for beam in (1, 3)]
    return {
        "comparison of searches": rf.show(rf.compare(*searches(word))),
        "comparison of trees": rf.show(rf.compare(*trees)),
    }
