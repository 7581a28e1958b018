"""The view of two searches side by side."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.search.result import Found
from tests.display.test_explain_where_view import LABELS, SCALES, laugh
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
    first, second = list(view.table())[:2]
    assert (first["labels"], first["rank first"], first["step"]) == ("L AH ▣", 1, 2)
    assert (second["labels"], second["rank second"]) == ("L AE ▣", 1)
    assert "first (beam 1)" in view.html and "the outputs differ" in view.html
    assert view.html.count('opacity:0.65">L</span></td>') == 1, "only the second has it in common with the first"
    assert repr(compared) == compared.text == view.text.splitlines()[0]
    golden("search_comparison.txt", view.text + "\n")


def test_of_a_single_sequence_the_beams_are_not_counted():
    narrow, wide = (searches(beams=(beam,), seeds=(2,))[0] for beam in (1, 3))
    assert rf.compare(narrow, wide).text.startswith("1 sequence: the beams differ, the outputs differ\n")
    assert rf.compare(wide, wide).text == "1 sequence: the beams agree, the outputs agree"


def test_searches_of_several_sequences():
    a, b = searches()
    compared = rf.compare(a, b)
    view = rf.show(compared)
    names = dict.fromkeys(row["sequence"] for row in view.table())
    assert list(names) == [each.name for each in compared.differing]
    assert "only in the first: s1" in view.html and "only in the second" not in view.html
    assert repr(compared) == compared.text and view.text.startswith(compared.text)
    less = rf.show(compared, most=1)
    assert len({row["sequence"] for row in less.table()}) == 1 and "\n  (1 more sequence; " in less.text
    same = rf.show(rf.compare(a, a))
    assert ">agree </span>" in same.html and len(same.table()) == 0


@given(beams=st.tuples(st.integers(1, 5), st.integers(1, 5)), limit=st.integers(0, 5), seed=st.integers(0, 10**6))
def test_each_hypothesis_has_its_ranks_in_both(beams, limit, seed):
    model = random_model(seed, 3)
    a, b = (Found(traced([model], beam, limit)).tree[0] for beam in beams)
    view = rf.show(rf.compare(a, b))
    assert "no view" not in view.text + view.html and json.dumps(view.data, allow_nan=False)
    found = {tuple(row["labels"].split()): row for row in view.table()}
    for side, tree in enumerate((a, b)):
        ends = {h.place: ("▣",) * h.complete for h in tree.hypotheses}
        mine = {(*map(tree.label, h.labels), *ends[h.place]): h for h in reversed(tree.hypotheses)}
        assert {labels for labels, h in mine.items() if h.rank <= 5} <= found.keys()
        rank, score = (f"{word} {('first', 'second')[side]}" for word in ("rank", "score"))
        for labels, row in found.items():
            assert row[rank] == (mine[labels].rank if labels in mine else None)
            assert row[score] == (pytest.approx(mine[labels].score, rel=1e-4) if labels in mine else None)


def test_of_long_hypotheses_only_what_differs_is_shown():
    def model(prefix):
        return {1: {"model": -0.1}, 2: {"model": -0.2 if len(prefix) > 40 else -9.0}}

    a, b = (Found(traced([model], beam, 50)).tree[0] for beam in (1, 6))
    view = rf.show(rf.compare(a, b))
    found = [row["labels"].split() for row in view.table()]
    assert all(labels[0] == "…" and 4 < len(labels) < 13 for labels in found)
    same = [[*(a == b for a, b in zip(labels[1:], found[0][1:], strict=True)), False].index(False) for labels in found]
    assert "…" in view.text and min(same) == 3


def hostile_views(word):
    labels = [word(label) for label in LABELS]
    trees = [laugh(beam, labels=labels, tag=word("laugh")) for beam in (1, 3)]
    return {
        "comparison of searches": rf.show(rf.compare(*searches(word))),
        "comparison of trees": rf.show(rf.compare(*trees)),
    }
