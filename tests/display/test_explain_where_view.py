"""The view of where a reference was lost."""

from __future__ import annotations

import json
from html import unescape

import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.search.tree import Tree
from tests.display.beam.test_beam_view import found_of
from tests.search.dict_search import END, random_model, search, traced
from tests.search.test_choice import Net

SCALES = {"model": 1.0, "lm": 0.4}
LAUGH = {
    (): {1: {"model": -0.1, "lm": -0.2}, 2: {"model": -2.0, "lm": -0.1}},
    (1,): {2: {"model": -1.0, "lm": -1.5}, 3: {"model": -0.5, "lm": -0.1}, END: {"model": -4.0, "lm": -1.0}},
    (1, 2): {END: {"model": -0.1, "lm": -0.1}},
    (1, 3): {END: {"model": -2.0, "lm": -0.1}, 2: {"model": -3.0, "lm": -0.1}},
}
"""After L, the search prefers AH, whose end is worse than that of AE."""
LABELS = ["</s>", "L", "AE", "AH"]


def laugh(beam, candidates=3, labels=LABELS, tag="laugh"):
    rest = {END: {"model": -1.0, "lm": -1.0}}
    model = lambda prefix: LAUGH.get(prefix, rest)  # noqa: E731
    return Tree(traced([model], beam, 5, SCALES, candidates=candidates, vocab=labels, tags=[tag]), 0)


def test_a_search_error(golden):
    view = rf.show(laugh(1).where("L AE", forced=-1.92))
    assert ">search error </span>" in view.html and "a beam of 2 would have kept it in this step" in view.html
    kept, fell, instead = view.table()
    assert [each["state"] for each in (kept, fell, instead)] == ["kept", "fell", "instead"]
    assert (fell["step"], fell["label"], fell["rank"], instead["label"]) == (1, "AE", 2, "L AH")
    assert fell["margin"] == pytest.approx(fell["score"] - instead["score"]) and fell["last"] == instead["score"]
    golden("where.txt", view.text + "\n")


def test_the_verdict_comes_first_in_words():
    for beam, words in ((1, "a wider beam can help"), (3, "the best hypothesis is the reference")):
        where = laugh(beam).where("L AE", forced=-1.92 if beam == 1 else None)
        html = unescape(rf.show(where).html)
        assert html.index(where.verdict) < html.index(words) < html.index("<table")
        assert repr(where) == where.text == rf.show(where).text.splitlines()[0] + where.text[where.text.index("\n") :]
        assert where._repr_mimebundle_()["text/html"] == rf.show(where).html


@given(beam=st.integers(1, 4), limit=st.integers(0, 5), seed=st.integers(0, 10**6), deep=st.sampled_from([None, 1, 9]))
def test_steps_are_those_of_a_search_over_dicts(beam, limit, seed, deep):
    model = random_model(seed, 3, ("model", "lm"))
    tree = Tree(traced([model], beam, limit, SCALES, candidates=deep), 0)
    steps, _, _ = search(model, beam, limit, SCALES)
    for labels in ([1], [2, 1], []):
        where = tree.where(labels)
        view = rf.show(where)
        assert "no view" not in view.text + view.html and json.dumps(view.data, allow_nan=False)
        shown = list(view.table())
        for each in (each for each in shown if each["state"] in ("kept", "last")):
            kept = [entry.score for entry in steps[each["step"]][0]]
            assert each["kept"] == len(kept) and each["last"] == pytest.approx(min(kept), rel=1e-4)
            assert each["gap"] == pytest.approx(max(kept) - each["score"], abs=1e-4)
            assert each["model"] + each["lm ×0.4"] == pytest.approx(each["score"], rel=1e-4)
        fell = [each["step"] for each in shown if each["state"] == "fell"]
        assert fell == ([] if where.fall is None else [where.fall.step]) and ("✂" in view.text) == bool(fell)


def test_what_is_not_known_is_said():
    view = rf.show(laugh(1, candidates=None).where("L AE"))
    fell = next(each for each in view.table() if each["state"] == "fell")
    assert fell["score"] is fell["rank"] is None and "candidates=8 keeps" in view.text
    assert ">undecided </span>" in view.html and "would have kept it" not in view.text


def test_a_long_life_and_none_are_small():
    net = Net(20, 1, 4)
    found = found_of(net, limit=0)
    assert rf.show(found.tree[0].where([2])).table().rows == []
    model = lambda prefix: {1: {"model": -0.1}, 2: {"model": -0.3}}  # noqa: E731
    tree = Tree(traced([model], 4, 200), 0)
    view = rf.show(tree.where([1] * 200))
    assert "(60 of 200 steps are shown)" in view.text and "⋯" in view.text and "earlier steps" in view.html
    assert len(view.html) < 120_000 and len(tree.where([1] * 200).table()) == 200


def test_files(tmp_path):
    view = rf.show(laugh(2).where("L AE"))
    for suffix in ("html", "svg", "json", "csv", "txt", "png"):
        assert view.save(tmp_path / f"where.{suffix}").stat().st_size > 50
    assert view.table().columns[:3] == ["step", "label", "state"]


def hostile_views(word):
    labels = [word(label) for label in LABELS]
    return {
        "where": rf.show(laugh(1, labels=labels, tag=word("laugh")).where([1, 2])),
        "where, found": rf.show(laugh(3, labels=labels, tag=word("laugh")).where([1, 2])),
        "where, several parts": rf.show(_with_parts(word)),
    }


def _with_parts(word):
    scales = {word("model"): 1.0, word("lm"): 0.5}
    model = random_model(3, 3, tuple(scales))
    tree = Tree(traced([model], 2, 4, scales, candidates=9, vocab=[word(each) for each in "abcd"]), 0)
    return next(where for where in map(tree.where, ([1], [2], [3], [1, 2])) if where.fall is not None)
