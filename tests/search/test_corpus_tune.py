"""The scales that `tune` finds are as good as any on a fine grid, and `rerank` with them has these errors."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import SearchError
from rfnb.search.corpus import _best_along
from rfnb.search.result import Found
from tests.examples import examples
from tests.search.dict_search import random_model, traced

SCALES = {"model": 1.0, "lm": 0.2, "bias": 0.1}
NAMES = ("model", "lm", "bias")


def founds(seed, batches=2, beam=4, exponent=0.0):
    return [
        Found(traced([random_model(seed + 7 * b + i, 3, NAMES) for i in range(3)], beam, 4, SCALES, exponent))
        for b in range(batches)
    ]


REFERENCES = st.lists(st.lists(st.integers(1, 2), max_size=4), min_size=6, max_size=6)


@pytest.mark.slow
@examples(25)
@given(seed=st.integers(0, 10**5), references=REFERENCES, exponent=st.sampled_from([0.0, 1.0]))
def test_no_scale_on_a_grid_is_better(seed, references, exponent):
    searches = founds(seed, exponent=exponent)
    tuned = rf.search.tune(searches, references, lm=(0.0, 2.0))
    rates = [
        rf.search.report([each.rerank(lm=float(lm)) for each in searches], references).error_rate
        for lm in np.linspace(0.0, 2.0, 23)
    ]
    assert tuned.error_rate <= min(rates) + 1e-9
    reports = [
        rf.search.report([each.rerank(scales) for each in searches], references) for scales in (tuned.scales, SCALES)
    ]
    assert tuned.error_rate == pytest.approx(reports[0].error_rate)
    assert tuned.before == pytest.approx(reports[1].error_rate)
    assert tuned.oracle == pytest.approx(reports[1].oracle_error_rate) and tuned.oracle <= tuned.error_rate + 1e-9
    low, high = tuned.between["lm"]
    assert low <= tuned.scales["lm"] <= high
    for lm in np.linspace(low, high, 5)[1:-1]:
        same = rf.search.report([each.rerank(lm=float(lm)) for each in searches], references)
        assert same.error_rate == pytest.approx(tuned.error_rate)


@examples(25)
@given(seed=st.integers(0, 10**5), references=REFERENCES)
def test_several_scales_in_turn(seed, references):
    searches = founds(seed)
    one = rf.search.tune(searches, references, errors="sequences", lm=(0.0, 2.0))
    both = rf.search.tune(searches, references, errors="sequences", scales={"lm": (0.0, 2.0), "bias": (-1.0, 1.0)})
    assert both.error_rate <= one.error_rate <= one.before
    assert both.scales == rf.search.tune(searches, references, errors="sequences", lm=(0, 2), bias=(-1, 1)).scales
    report = rf.search.report([each.rerank(both.scales) for each in searches], references)
    assert both.error_rate == pytest.approx(report.sequence_error_rate)


@given(
    lines=st.lists(st.tuples(st.integers(-4, 4), st.integers(-3, 3)), min_size=1, max_size=6),
    low=st.integers(-3, 2), width=st.integers(1, 4),
)  # fmt: skip
def test_the_upper_edge_of_straight_lines(lines, low, width):
    offsets, slopes = np.array(lines, float).T
    bends = _best_along(offsets, slopes, float(low), float(low + width))
    starts = [at for at, _ in bends]
    assert starts == sorted(set(starts)) and starts[0] == low and starts[-1] < low + width
    for x in np.linspace(low, low + width, 41)[1:-1]:
        if min(abs(x - at) for at in starts) > 1e-6:
            expected = (offsets + slopes * x).max()
            _, best = [bend for bend in bends if bend[0] < x][-1]
            assert offsets[best] + slopes[best] * x == pytest.approx(expected)


def test_a_tune_that_pays_off():
    def model(seed):
        wrong, right = {"model": -1.0, "lm": -3.0}, {"model": -1.4, "lm": -1.0}
        return lambda prefix: {0: {"model": -0.1, "lm": -0.1}} if prefix else {1: wrong, 2: right}

    found = Found(traced([model(0), model(1)], 3, 4, {"model": 1.0, "lm": 0.0}))
    tuned = rf.search.tune(found, [[2], [2]], lm=(0.0, 1.0))
    assert (tuned.before, tuned.error_rate, tuned.oracle) == (1.0, 0.0, 0.0)
    assert tuned.scales["lm"] == pytest.approx(0.6) and tuned.between["lm"] == pytest.approx((0.2, 1.0))
    assert found.rerank(tuned.scales).nbest(1, text=False) == [[(2,)], [(2,)]]
    assert "errors 100 % → 0 %" in repr(tuned) and "lm 0.6" in repr(tuned)


def test_sequences_without_hypotheses_and_empty_batches():
    none = Found(traced([lambda prefix: {}], 2, 3, {"model": 1.0}))
    tuned = rf.search.tune(none, [[1, 2]], model=(0.0, 1.0))
    assert (tuned.error_rate, tuned.before) == (1.0, 1.0)
    assert rf.search.tune([], [], model=(0.0, 1.0)).error_rate == 0.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no score is given"),
        ({"lms": (0.0, 1.0)}, "no score with this name"),
        ({"lm": 0.5}, "needs two numbers"),
        ({"lm": (0.0, np.nan)}, "needs two numbers"),
        ({"lm": (1.0, 1.0)}, "is empty"),
    ],
)
def test_wrong_scales(given, words):
    with pytest.raises(SearchError, match=words):
        rf.search.tune(founds(1), [[1]] * 6, **given)


def test_searches_with_other_scales_are_not_mixed():
    a, b = founds(1)
    with pytest.raises(SearchError, match="different scales"):
        rf.search.tune([a, b.rerank(lm=0.7)], [[1]] * 6, lm=(0.0, 1.0))


def test_faults_of_references_do_not_name_another_function():
    with pytest.raises(SearchError, match=r"^references and sequences differ in number"):
        rf.search.tune(founds(1), [[1]], lm=(0.0, 1.0))
    with pytest.raises(SearchError, match=r"^this is not the result of a search"):
        rf.search.tune([3], [[1]], lm=(0.0, 1.0))
