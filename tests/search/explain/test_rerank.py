"""With other scales, hypotheses have the scores that a search with these scales gives them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rfnb.errors import SearchError
from rfnb.search.result import Found
from tests.search.dict_search import forced, random_model, search, traced

SCALES = {"model": 1.0, "lm": 0.4}
SIZES = {
    "beam": st.integers(1, 5),
    "limit": st.integers(0, 5),
    "seed": st.integers(0, 10**6),
    "exponent": st.sampled_from([0.0, 1.0]),
    "lm": st.sampled_from([0.0, 0.6, 3.0]),
}


def model_of(seed):
    return random_model(seed, 3, ("model", "lm"))


@given(**SIZES, new=st.sampled_from([None, 0.0, 0.5]))
def test_final_scores_are_those_of_the_new_scales(beam, limit, seed, exponent, lm, new):
    models = [model_of(seed), model_of(seed + 1)]
    found = Found(traced(models, beam, limit, SCALES, exponent, candidates=3)).rerank(
        lm=lm, length_normalization_exponent=new
    )
    scales, exponent = SCALES | {"lm": lm}, exponent if new is None else new
    for model, tree in zip(models, found.tree, strict=True):
        scores = [each.score for each in tree.hypotheses]
        assert scores == sorted(scores, reverse=True)
        for each in tree.hypotheses:
            if each.complete:
                assert each.score == pytest.approx(forced(model, each.labels, scales, exponent))


@given(**SIZES)
def test_the_first_doubt_is_the_first_difference(beam, limit, seed, exponent, lm):
    """Until then, a search with the new scales keeps the same prefixes; all candidates are recorded."""
    model = model_of(seed)
    found = Found(traced([model], beam, limit, SCALES, exponent, candidates=30)).rerank(lm=lm)
    scales = SCALES | {"lm": lm}
    before, _, _ = search(model, beam, limit, SCALES, exponent)
    after, kept, ranks = search(model, beam, limit, scales, exponent)
    pairs = zip(before, after, strict=False)
    differ = [{e.labels for e in a[0]} != {e.labels for e in b[0]} for a, b in pairs]
    first = differ.index(True) if True in differ else None
    assert min((doubt.step for doubt in found.doubts), default=None) == first
    best = found.tree[0].best
    if first is not None and kept and max(ranks) > best.score + 1e-9:
        assert any(doubt.may_win for doubt in found.doubts)


@given(**SIZES)
def test_the_same_scales_change_nothing(beam, limit, seed, exponent, lm):
    found = Found(traced([model_of(seed)], beam, limit, SCALES, exponent, candidates=3))
    again = found.rerank(lm=0.4)
    np.testing.assert_allclose(again.scores, found.scores)
    assert again.nbest() == found.nbest() and not again.doubts
    back = found.rerank(lm=lm).rerank({"lm": 0.4})
    np.testing.assert_allclose(back.scores, found.scores)


def test_without_pruned_candidates_nothing_is_known():
    found = Found(traced([model_of(1)], 2, 4, SCALES)).rerank(lm=0.6)
    assert found.doubts is None and "were not recorded" in repr(found)
    found = Found(traced([model_of(i) for i in range(9)], 2, 4, SCALES, candidates=8)).rerank(lm=5.0)
    assert found.doubts and "would have had a place" in repr(found)


def test_wrong_scales():
    found = Found(traced([model_of(1)], 2, 4, SCALES))
    with pytest.raises(SearchError, match="no score with this name") as caught:
        found.rerank(lms=0.6)
    assert "did you mean 'lm'" in str(caught.value)
    for wrong in (np.nan, "1", None):
        with pytest.raises(SearchError, match="not a finite number"):
            found.rerank(lm=wrong)
    with pytest.raises(SearchError, match="not a finite number"):
        found.rerank(length_normalization_exponent=np.inf)
