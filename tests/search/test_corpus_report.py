"""The errors over many sequences, counted by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import SearchError
from rfnb.search.result import Found
from tests.search.dict_search import END, forced, random_model, traced

WORDS = ["</s>", "L", "AE", "F"]
LABELS = st.lists(st.integers(1, 3), max_size=5)


def chain(*labels, score=-0.5):
    """A model that gives these labels, or each of them replaced by the next one with a lower score."""

    def model(prefix):
        if len(prefix) >= len(labels):
            return {END: {"model": 0.0}}
        label = labels[len(prefix)]
        return {label: {"model": score}, label % 3 + 1: {"model": 3 * score}}

    return model


def test_rates_and_classes():
    found = Found(traced([chain(1, 2, 3), chain(1, 2), chain(2)], 2, 5, vocab=WORDS, tags=["a", "b", "c"]))
    result = rf.search.report(found, ["L AE F", "AE AE", {"F", "L L"}])
    assert [row.verdict for row in result.rows] == ["correct", "model error", "model error"]
    assert [row.errors for row in result.rows] == [0, 1, 1] and [row.length for row in result.rows] == [3, 2, 1]
    assert result.error_rate == pytest.approx(2 / 6) and result.sequence_error_rate == pytest.approx(2 / 3)
    assert (
        result.oracle_error_rate == pytest.approx(1 / 6)
        and result["c"].oracle_rank == 2
        and result["c"].reference.text == "F"
    )
    assert result.classes == {"correct": 1, "model error": 2} and len(result.of_class("model error")) == 2
    assert result.distinct == 1 and result.repeating == 0 and len(result) == 3 and result[0] is result["a"]
    assert 'c: model error: "AE", not "F"' in repr(result)
    assert result.table()[1]["reference"] == "AE AE" and result.summary()["sequences"] == 3


@given(
    beam=st.integers(1, 4),
    limit=st.integers(0, 4),
    seed=st.integers(0, 10**6),
    references=st.lists(LABELS, max_size=3),
)
def test_rates_are_those_of_edit_distance(beam, limit, seed, references):
    models = [random_model(seed + i) for i in range(len(references))]
    found = Found(traced(models, beam, limit))
    result = rf.search.report(found, references)
    for row, tree, reference in zip(result.rows, found.tree, references, strict=True):
        distances = [distance(reference, each.labels) for each in tree.hypotheses]
        assert (row.errors, row.oracle_errors) == (distances[0], min(distances))
        assert row.oracle_rank == distances.index(min(distances)) + 1
        assert (row.verdict == "correct") == (row.errors == 0)
    errors = sum(row.errors for row in result.rows)
    assert result.error_rate == pytest.approx(errors / max(sum(map(len, references)), 1))
    assert repr(result)


def distance(a, b):
    """Edit distance, as it is defined."""
    if not a or not b:
        return len(a) + len(b)
    same = distance(a[1:], b[1:]) + (a[0] != b[0])
    return min(same, distance(a[1:], b) + 1, distance(a, b[1:]) + 1)


def test_forced_scores_decide():
    models = [random_model(seed, 3) for seed in range(40)]
    references = [[1, 2]] * 40
    scores = [forced(model, [1, 2], {"model": 1.0}) for model in models]
    found = Found(traced(models, 1, 4, tags=[str(i) for i in range(40)]))
    without, known = rf.search.report(found, references), rf.search.report(found, references, scores)
    assert "undecided" in without.classes and "undecided" not in known.classes and "search error" in known.classes
    by_tag = rf.search.report(
        found, {str(i): [1, 2] for i in range(40)}, dict(zip(found.trace.tags, scores, strict=True))
    )
    tensor = rf.convert_to_tensor(np.array(scores), dims=[rf.batch_dim])
    assert by_tag.classes == known.classes == rf.search.report(found, references, tensor).classes


def test_settings_side_by_side():
    models = [random_model(seed, 3, grid=0.5) for seed in range(20)]
    settings = {
        f"beam {beam}": [Found(traced(models[:12], beam, 4)), Found(traced(models[12:], beam, 4))] for beam in (1, 4)
    }
    references = [[1]] * 20
    result = rf.search.report(settings, references)
    assert len(result) == 2 and list(result) == ["beam 1", "beam 4"]
    rows = result.table()
    assert [row["setting"] for row in rows] == ["beam 1", "beam 4"] and rows[0].keys() == rows[1].keys()
    assert rows[1]["oracle_error_rate"] <= rows[0]["oracle_error_rate"]
    assert repr(result).splitlines()[0].split()[:2] == ["setting", "sequences"] and len(repr(result).splitlines()) == 3
    assert "beam 4: verdict" in result.side_by_side()[0]
    assert result["beam 1"].rows[0].where.tree.beam == 1


def test_repetitions_and_equal_texts():
    found = Found(traced([chain(1, 2, 1, 2, 1, 2)], 1, 9, vocab=["</s>", "a b", "a", "b "]))
    assert rf.search.report(found, [[1, 2, 1]])[0].repetitions == 2
    same = {1: {"model": -1.0}, 2: {"model": -1.1}}
    found = Found(
        traced([lambda prefix: same if not prefix else {END: {"model": 0.0}}], 2, 3, vocab=["</s>", "x", "x "])
    )
    assert rf.search.report(found, [[1]])[0].distinct == 1 and rf.search.report(found, [[1]]).distinct == 0.5


def test_references_in_a_tensor():
    found = Found(traced([chain(1, 2, 3), chain(2)], 2, 5, vocab=WORDS))
    time, label = rf.Dim(None, name="time"), rf.Dim(4, name="label", vocab=WORDS)
    x = rf.convert_to_tensor([[1, 2, 3], [2]], dims=[rf.batch_dim, time], sparse_dim=label)
    assert rf.search.report(found, x).classes == {"correct": 2}
    assert rf.search.report([found, found], [x, x]).classes == {"correct": 4}


def test_no_sequences_and_no_hypotheses():
    assert rf.search.report(Found(traced([], 2)), []).error_rate == 0 and rf.search.report([], []).rows == ()
    found = Found(traced([lambda prefix: {}], 2, vocab=WORDS))
    row = rf.search.report(found, ["L AE"])[0]
    assert (row.verdict, row.errors, row.output, row.oracle_rank) == ("no hypothesis", 2, None, None)
    assert "no hypothesis" in repr(rf.search.report(found, ["L AE"]))


@pytest.mark.parametrize("references", ["L", ["L"], 5, {"a": "L"}, ["L", "X"], ["L", None]])
def test_references_that_do_not_fit(references):
    found = Found(traced([chain(1), chain(2)], 2, vocab=WORDS, tags=["a", "b"]))
    with pytest.raises(SearchError):
        rf.search.report(found, references)
    with pytest.raises(SearchError, match="not the result of a search"):
        rf.search.report([found.tree], ["L", "L"])
