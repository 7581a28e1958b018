"""The JSON of a tree is small, complete, and read as untrusted data."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.core.vocab import Vocab
from rfnb.errors import RunFileError
from rfnb.search.trace import Candidates, Trace
from rfnb.search.tree import Tree
from tests.search.dict_search import random_model, traced
from tests.search.test_frames_ctc import frames_of

WORDS = ["</s>", "L", "AE", "F"]
SCALES = {"model": 1.0, "lm": 0.4}


def again(tree):
    return Tree.from_json(json.loads(json.dumps(tree.to_json(), allow_nan=False)))


@given(
    beam=st.integers(1, 5),
    limit=st.integers(0, 5),
    seed=st.integers(0, 10**6),
    exponent=st.sampled_from([0.0, 1.0]),
    candidates=st.sampled_from([None, 0, 2, 20]),
    vocab=st.sampled_from([None, WORDS]),
    include_eos=st.booleans(),
)
def test_a_tree_is_the_same_again(beam, limit, seed, exponent, candidates, vocab, include_eos):
    models = [random_model(seed + i, 3, ("model", "lm")) for i in range(2)]
    options = {"candidates": candidates, "vocab": vocab, "include_eos": include_eos, "tags": ["fig", "kiwi"]}
    tree = Tree(traced(models, beam, limit, SCALES, exponent, **options), 1)
    found = again(tree)
    assert (found.name, found.steps, found.beam, repr(found)) == (tree.name, tree.steps, tree.beam, repr(tree))
    for mine, theirs in zip(tree.table(), found.table(), strict=True):
        numbers = [name for name in mine if isinstance(mine[name], float)]
        assert [mine[name] for name in numbers] == pytest.approx([theirs[name] for name in numbers], abs=2e-3)
        assert {k: v for k, v in mine.items() if k not in numbers} == {
            k: v for k, v in theirs.items() if k not in numbers
        }
    for mine, theirs in zip(tree.hypotheses, found.hypotheses, strict=True):
        assert (mine.labels, mine.text, mine.complete, mine.places) == (
            theirs.labels,
            theirs.text,
            theirs.complete,
            theirs.places,
        )
        assert (mine.score, mine.sum) == pytest.approx((theirs.score, theirs.sum), rel=1e-6)
    for labels in ([], [1], [1, 2], [2, 2, 1]):
        mine, theirs = tree.where(labels), found.where(labels)
        assert (mine.verdict, len(mine.nodes)) == (theirs.verdict, len(theirs.nodes))
        assert (mine.fall and mine.fall.reason) == (theirs.fall and theirs.fall.reason)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_are_the_same_to_the_last_bit(dtype):
    models = [random_model(1259 + i, 3, ("model", "lm")) for i in range(2)]
    trace = traced(models, 4, 3, SCALES, 1.0, candidates=2, tags=["fig", "kiwi"])
    trace = replace(trace, scores=trace.scores.astype(dtype), final_scores=trace.final_scores.astype(dtype))
    tree = Tree(trace, 1)
    for found in (again(tree), again(again(tree))):
        np.testing.assert_array_equal(found.scores, tree.scores)
        np.testing.assert_array_equal(found.own.final_scores, tree.own.final_scores)
        assert repr(found) == repr(tree)
    assert len(json.dumps(tree.to_json())) == len(json.dumps(again(tree).to_json()))


def large(labels=70):
    rng = np.random.default_rng(0)
    steps, beam, pruned = 80, 12, 48
    parts = {name: -rng.gamma(1.5, 2.0, (steps, 1, beam)).astype(np.float32) for name in ("model", "lm", "ilm")}
    parents = np.sort(rng.integers(0, beam, (steps, 1, beam)), axis=2)
    parents[0] = 0
    scales = {"model": 1.0, "lm": 0.3, "ilm": -0.2}
    scores = np.sort(-rng.gamma(1.5, 0.7, (steps, 1, beam)), axis=2)[..., ::-1].cumsum(0).astype(np.float32)
    kept = Candidates(
        labels=rng.integers(0, labels, (steps, 1, pruned)),
        parents=rng.integers(0, beam, (steps, 1, pruned)),
        scores=scores[:, :, -1:] - np.cumsum(rng.gamma(1.0, 0.1, (steps, 1, pruned)), axis=2).astype(np.float32),
        parts={name: -rng.gamma(1.5, 2.0, (steps, 1, pruned)).astype(np.float32) for name in parts},
    )
    trace = Trace(
        labels=rng.integers(0, labels, (steps, 1, beam)),
        parents=parents,
        scores=scores,
        ended=np.zeros((steps, 1, beam), bool),
        final_scores=scores[-1],
        lengths=np.full((1, beam), steps),
        complete=np.zeros((1, beam), bool),
        include_eos=False,
        steps=np.array([steps]),
        vocab=Vocab([f"l{i}" for i in range(labels)]),
        parts=parts,
        scales=scales,
        pruned=kept,
    )
    return Tree(trace, 0)


@pytest.mark.parametrize(("labels", "most"), [(70, 130_000), (500, 130_000), (30_000, 200_000)])
def test_a_large_tree_is_small(labels, most):
    """Even if labels are as different as chance makes them."""
    size = len(json.dumps(large(labels).to_json(), separators=(",", ":")))
    assert size <= most


def test_pruned_scores_keep_their_order():
    tree = large()
    found = again(tree)
    for step in range(tree.steps):
        assert [node.label for node in found.pruned(step)] == [node.label for node in tree.pruned(step)]
        assert [n.score for n in found.pruned(step)] == pytest.approx([n.score for n in tree.pruned(step)], abs=1e-3)


def test_hostile_labels_and_tags():
    names = ["</s>", "<script>", "\ud800\x1b[31m", "'\"\\"]
    tree = Tree(traced([random_model(2)], 3, vocab=names, tags=["</script>\u202e"]), 0)
    found = again(tree)
    assert [each.text for each in found.hypotheses] == [each.text for each in tree.hypotheses]
    assert "\x1b" not in repr(found) and "\u202e" not in repr(found) and found.tag == tree.tag


def test_labels_of_a_large_vocabulary_keep_their_numbers():
    words = ["</s>", *(f"word{i}" for i in range(5000))]
    model = lambda prefix: {4000 if len(prefix) < 2 else 0: {"model": -1.0}}  # noqa: E731
    found = again(Tree(traced([model], 2, vocab=words), 0))
    assert found.best.labels == (4000, 4000) and found.best.text == "word3999 word3999"
    assert found.where("word3999 word3999").verdict == "correct" and len(found.to_json()["labels"]["numbers"]) == 2


def spoilt(data, path, value):
    data = inner = json.loads(json.dumps(data))
    *path, last = path
    for key in path:
        inner = inner[key]
    inner[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["format"], 2),
        (["format"], "1"),
        (["steps"], 10**9),
        (["steps"], -1),
        (["beam"], 3),
        (["beam"], True),
        (["columns", "parent", 0, 0], 7),
        (["columns", "parent", 0, 0], -1),
        (["columns", "label", 0, 0], 99),
        (["columns", "label", 0, 0], -1),
        (["columns", "label", 0], []),
        (["columns", "score", 0, 0], "x"),
        (["columns", "ended", 0], [5]),
        (["columns", "ended", 0], [0.5]),
        (["columns", "costs"], []),
        (["columns", "costs", "model", 0], [1]),
        (["final", "lengths"], [10**12, 0]),
        (["final", "scores"], [0.0]),
        (["final", "complete"], [9]),
        (["labels", "numbers", 0], 2**40),
        (["labels", "texts"], ["a"]),
        (["labels", "roles"], {"eos_label": 10**9}),
        (["labels", "roles"], {"self": 1}),
        (["pruned", "gaps", 0], [1] * 50),
        (["pruned", "parent", 0, 0], 12),
        (["pruned", "most"], -1),
        (["single"], 1),
        (["scales"], {"model": "1"}),
        (["scales"], {"model": float("nan")}),
        (["length_normalization_exponent"], float("inf")),
        (["limit"], [1]),
        (["tag"], 5),
    ],
)
def test_spoilt_data_is_refused(path, value):
    data = Tree(traced([random_model(2, 3)], 2, vocab=WORDS[:3], candidates=1), 0).to_json()
    with pytest.raises(RunFileError, match="from_json"):
        Tree.from_json(spoilt(data, path, value))


@pytest.mark.parametrize("merge", ["sum", None])
def test_blank_and_joins_of_a_search_over_frames(merge):
    _, log_probs, time, axis = frames_of([6, 4], 3, 1)
    found = rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=2, merge=merge, labels=["a", "b"])
    for tree in found.tree:
        other = again(tree)
        assert [each.labels for each in other.hypotheses] == [each.labels for each in tree.hypotheses]
        assert [each.text for each in other.hypotheses] == [each.text for each in tree.hypotheses]
        for step in range(tree.steps):
            mine, theirs = tree.nodes(step), other.nodes(step)
            assert [(node.joined, node.survives) for node in mine] == [(node.joined, node.survives) for node in theirs]
        with pytest.raises(RunFileError, match="joined in the file"):
            Tree.from_json(spoilt(tree.to_json(), ["columns", "joined"], [[8] * 8] * tree.steps))


@pytest.mark.parametrize("data", [None, [], {}, "x", {"format": 1}])
def test_other_data_is_refused(data):
    with pytest.raises(RunFileError, match="from_json"):
        Tree.from_json(data)
