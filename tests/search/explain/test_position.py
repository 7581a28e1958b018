"""Where a reference falls out, and who is to blame, is what a search over dicts does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rfnb.errors import SearchError
from rfnb.search.explain.position import VERDICTS
from rfnb.search.tree import Tree
from tests.search.dict_search import END, forced, random_model, search, traced

SIZES = {
    "beam": st.integers(1, 5),
    "limit": st.integers(0, 5),
    "seed": st.integers(0, 10**6),
    "exponent": st.sampled_from([0.0, 1.0]),
    "grid": st.sampled_from([None, 0.5]),
}
LABELS = st.lists(st.integers(1, 2), max_size=5)
SCALES = {"model": 1.0, "lm": 0.4}


def model_of(seed, grid=None):
    return random_model(seed, 3, ("model", "lm"), grid)


def prefix_at(labels, step):
    return (*labels, END)[: step + 1]


@given(**SIZES, labels=LABELS, candidates=st.sampled_from([None, 0, 2, 20]))
def test_the_life_of_a_reference(beam, limit, seed, exponent, grid, labels, candidates):
    model = model_of(seed, grid)
    tree = Tree(traced([model], beam, limit, SCALES, exponent, candidates=candidates), 0)
    steps, _, _ = search(model, beam, limit, SCALES, exponent)
    ranks = [[entry.labels for entry in [*kept, *pruned]] for kept, pruned in steps]
    kept = [prefix_at(labels, step) in ranks[step][: len(steps[step][0])] for step in range(len(steps))]
    lasts = kept.index(False) if False in kept else len(kept)
    found = tree.where(labels)
    assert [node.rank for node in found.nodes] == [
        ranks[step].index(prefix_at(labels, step)) + 1 for step in range(lasts)
    ]
    if lasts == len(kept):
        assert found.fall is None
        return
    fall, rank = found.fall, ranks[lasts].index(prefix_at(labels, lasts)) + 1
    recorded = rank - len(steps[lasts][0]) <= (candidates or 0)
    assert (fall.step, fall.reason) == (lasts, "pruned" if recorded else "not recorded")
    assert tree.prefix(fall.last.step, fall.last.place) == steps[lasts][0][-1].labels
    if recorded:
        last, mine = steps[lasts][0][-1], steps[lasts][1][rank - 1 - len(steps[lasts][0])]
        assert fall.rank == rank and not fall.at_least
        assert sum(fall.parts.values()) == pytest.approx(last.score - mine.score)
        assert exponent or fall.margin == pytest.approx(last.score - mine.score)
    elif fall.rank is not None:
        assert fall.at_least and rank > fall.rank


@given(**SIZES, labels=LABELS, candidates=st.sampled_from([None, 2, 20]))
def test_the_verdict_with_and_without_the_forced_score(beam, limit, seed, exponent, grid, labels, candidates):
    model = model_of(seed, grid)
    tree = Tree(traced([model], beam, limit, SCALES, exponent, candidates=candidates), 0)
    score, best = forced(model, labels, SCALES, exponent), tree.best
    known = tree.where(labels, score)
    if list(best.labels) == labels:
        expected = "correct"
    elif len(labels) + 1 > limit:
        expected = "over the limit"
    elif score > best.score + 1e-9:
        expected = "search error"
    else:
        expected = "tie" if score > best.score - 1e-9 else "model error"
    assert known.verdict == expected and known.because
    if expected in ("search error", "model error"):
        assert ("without an end" in known.because) == (not best.complete)
    unknown = tree.where(labels)
    lost = unknown.fall and unknown.fall.candidate
    if lost and (lost.ends or lost.ended):  # its score at its end is known
        assert unknown.verdict == expected and unknown.score == pytest.approx(score)
    assert unknown.verdict in {expected, "undecided"} or (unknown.verdict == "over the limit" and not best.complete)
    assert repr(known).startswith("sequence 0")


def test_each_verdict_exists():
    seen = set()
    for seed in range(60):
        model = model_of(seed, grid=0.5)
        tree = Tree(traced([model], 1, 3, SCALES), 0)
        for labels in ([], [1], [1, 2], [2, 2], [1, 1, 1]):
            seen |= {tree.where(labels).verdict, tree.where(labels, forced(model, labels, SCALES)).verdict}
    seen.add(Tree(traced([lambda prefix: {}], 2), 0).where([1]).verdict)
    assert seen == set(VERDICTS)


def test_without_a_bound_nothing_is_said():
    """A reward for each label may raise a score again."""
    parts = {1: {"model": -1.0, "length": 3.0}, 2: {"model": -2.5, "length": 3.0}, END: {"model": -0.1, "length": 0.0}}
    tree = Tree(traced([lambda prefix: parts], 1, 3, {"model": 1.0, "length": 1.0}, candidates=3), 0)
    assert tree.where([2, 1]).verdict == "over the limit"  # the output is
    assert tree.where([2, 1], -9.0).verdict == "model error"  # though it has no end
    with_end = Tree(traced([lambda prefix: parts if len(prefix) < 2 else {END: parts[END]}], 1, 3, candidates=3), 0)
    assert with_end.where([1]).verdict in ("correct", "model error", "undecided")


def test_a_reference_that_falls_out_at_its_end_has_a_score():
    """The output reached the limit, so that only the score of the reference says who is to blame."""
    model = lambda prefix: {1: {"model": -0.1}, 2: {"model": -0.3}, END: {"model": -0.5}}  # noqa: E731
    tree = Tree(traced([model], 2, 3, candidates=4), 0)
    lost = tree.where([1])
    assert not tree.best.complete and lost.fall.candidate.ends
    assert (lost.verdict, lost.score) == ("model error", pytest.approx(-0.6))
    tree = Tree(traced([model], 2, 7, candidates=4), 0)
    assert (tree.where([1]).verdict, tree.where([1]).score) == ("search error", pytest.approx(-0.6))


def test_what_was_not_allowed_is_said():
    model = lambda prefix: {1: {"model": -1.0}, 2: {"model": -np.inf}, END: {"model": -3.0}}  # noqa: E731
    for candidates in (None, 4):
        fall = Tree(traced([model], 4, 3, candidates=candidates), 0).where([2]).fall
        assert fall.reason == "not allowed" and "−inf" in fall.words
    assert Tree(traced([model], 4, 3), 0).where([2]).verdict in ("model error", "over the limit")


def test_the_last_of_the_beam_and_the_part_are_named():
    scores = {1: (-1.0, -1.0), 2: (-1.2, -0.1), 3: (-0.9, -3.0), END: (-9.0, -9.0)}
    parts = {label: {"model": a, "lm": b} for label, (a, b) in scores.items()}
    model = lambda prefix: {END: parts[2]} if prefix else parts  # noqa: E731
    trace = traced([model], 2, 4, {"model": 1.0, "lm": 1.0}, candidates=3, vocab=["</s>", "L", "AE", "F"])
    found = Tree(trace, 0).where("F")
    assert (found.fall.step, found.fall.rank, found.fall.part, found.fall.last_text) == (0, 3, "lm", "L")
    assert found.fall.margin == pytest.approx(1.9) and found.fall.parts["model"] == pytest.approx(-0.1)
    assert '"F" at rank 3, 1.9 below "L", the last of the beam, most by lm (2)' in repr(found)
    assert [row["rank"] for row in found.table()] == [3]


def test_of_several_references_the_one_that_came_furthest():
    model = lambda prefix: {END: {"model": -0.1}} if prefix else {k: {"model": -float(k)} for k in (1, 2, 3)}  # noqa: E731
    tree = Tree(traced([model], 2, 4, candidates=3, vocab=["</s>", "L", "AE", "F"]), 0)
    assert tree.where({"F", "AE", "L"}).verdict == "correct"
    assert tree.where({"F", "AE"}).reference.text == "AE"
    assert tree.where(["F", "AE"]).reference.text == "F AE"  # both are labels: one reference
    assert tree.where(["F AE", "L"]).reference.text == "L"
    assert tree.where([[3], [2]], [-3.1, -2.1]).score == -2.1
    with pytest.raises(SearchError, match="`forced` has a score for each reference"):
        tree.where({"F", "AE"}, -1.0)


@given(seed=st.integers(0, 10**6), beam=st.integers(1, 3), labels=st.lists(LABELS, min_size=1, max_size=5))
def test_which_of_several_came_furthest_is_seen_in_the_beams_alone(seed, beam, labels):
    model = model_of(seed)
    tree = Tree(traced([model], beam, 5, SCALES, candidates=20), 0)
    steps, _, _ = search(model, beam, 5, SCALES)

    def lasts(reference):
        prefixes = [(prefix_at(reference, step), kept) for step, (kept, _) in enumerate(steps)]
        return sum(any(prefix == one.labels for one in kept) for prefix, kept in prefixes)

    scores = [forced(model, one, SCALES) for one in labels]
    shown = tree.where([tuple(one) for one in labels], scores)
    assert lasts(shown.reference.labels) == max(map(lasts, labels))
    assert shown.score == pytest.approx(scores[labels.index(list(shown.reference.labels))])


def test_the_score_of_the_model_does_not_say_which_came_furthest():
    """ "AE" lasts a step longer, and the model gives "F" the better final score."""
    labels = {(): {1: -1.0, 2: -2.0, 3: -3.0}, (1,): {1: -0.1, END: -0.2}, (2,): {END: -9.0}, (3,): {END: 0.0}}
    model = lambda prefix: {k: {"model": v} for k, v in labels.get(prefix, {END: 0.0}).items()}  # noqa: E731
    tree = Tree(traced([model], 2, 4, candidates=3, vocab=["</s>", "L", "AE", "F"]), 0)
    assert tree.where({"F", "AE"}, [-11.0, -3.0]).reference.text == "AE"  # a set is in order: AE, F
    assert tree.where(["F AE", "AE"], [0.0, -11.0]).reference.text == "AE"


def test_an_ended_reference_may_fall_out_later():
    def model(prefix):
        if prefix == ():
            return {1: {"model": -0.1}, END: {"model": -1.0}}
        return {1: {"model": -0.1}, 2: {"model": -0.2}} if len(prefix) < 3 else {END: {"model": 0.0}}

    tree = Tree(traced([model], 2, 5, candidates=2), 0)
    fall = tree.where([]).fall
    assert fall.step == 1 and fall.label is None and "the ended hypothesis" in fall.words
    assert fall.candidate.ended and tree.where([]).nodes[0].ends


def test_a_framewise_search_has_no_end_labels():
    trace = traced([lambda prefix: {1: {"model": -0.1}, 2: {"model": -0.2}}], 2, 3)
    trace = type(trace)(**vars(trace) | {"framewise": True, "complete": np.ones((1, 2), bool)})
    tree = Tree(trace, 0)
    assert tree.end_labels == frozenset()
    assert tree.where([1, 1, 1]).verdict == "correct" and tree.where([1] * 4).verdict == "over the limit"
    assert tree.where([1, 1, 2]).verdict == "model error" and tree.where([2, 2, 2]).fall.step == 1


@pytest.mark.parametrize("wrong", [None, 1.5, [1.5], [-1], [7], "L X", ["L", 1], [[[1]]], {"a": 1}, [], [["L"], 3]])
def test_what_is_not_a_reference(wrong):
    tree = Tree(traced([random_model(1)], 2, vocab=["</s>", "L", "AE", "F"]), 0)
    if wrong == []:
        assert tree.where(wrong).reference.labels == ()
        return
    with pytest.raises(SearchError, match="reference"):
        tree.where(wrong)


def test_references_without_a_vocabulary():
    tree = Tree(traced([random_model(1)], 2), 0)
    assert tree.where("1 2").reference.labels == (1, 2) and tree.where(np.array([1, 2, 0])).reference.text == "1 2"
    with pytest.raises(SearchError, match="have no vocabulary"):
        tree.where("L AE")
