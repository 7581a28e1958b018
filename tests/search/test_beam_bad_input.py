"""`rf.search.beam_step` with dims that do not fit."""

from __future__ import annotations

import math

import pytest

import rfnb as rf
from rfnb.errors import DimError, RfError

label, beam, after = rf.Dim(3, name="label"), rf.Dim(2, name="beam"), rf.Dim(2, name="after")
scores, base = rf.zeros([beam, label]), rf.zeros([beam])


def step(**given):
    given = {"scores": scores, "base": base, "axis": label, "beam": beam, "out_beam": after, **given}
    return rf.search.beam_step(given.pop("scores"), given.pop("base"), **given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scores": base}, "`scores` lacks the dim label"),
        ({"base": rf.zeros([])}, "`base` lacks the dim beam"),
        ({"axis": beam}, "`axis`, `beam` and `out_beam` are three dims"),
        ({"out_beam": beam}, "`axis`, `beam` and `out_beam` are three dims"),
        ({"out_beam": label}, "`axis`, `beam` and `out_beam` are three dims"),
        ({"out_beam": rf.Dim(None, name="after")}, "`out_beam` has no fixed size"),
        ({"scores": rf.zeros([rf.Dim(2, name="more"), beam, label])}, r"`base` lacks the dim more(.|\n)*expand_dim"),
        ({"ended": base}, "bool"),
    ],
    ids=lambda given: "-".join(given) if isinstance(given, dict) else None,
)
def test_dims_that_do_not_fit(given, words):
    with pytest.raises(RfError, match=words):
        step(**given)


def test_scores_without_the_beam_are_the_same_for_all_hypotheses():
    found = step(scores=rf.convert_to_tensor([1.0, 3.0, 2.0], dims=[label]))
    assert found.labels.tolist() == [1, 1] and found.parents.tolist() == [0, 1]


def test_nan_and_infinity():
    """NaN gets a place before −∞, so that it is seen."""
    found = step(scores=rf.convert_to_tensor([[-math.inf, math.nan, 1.0], [-math.inf] * 3], dims=[beam, label]))
    assert found.labels.tolist() == [2, 1] and math.isnan(found.scores.tolist()[1])
    assert step(scores=scores - math.inf).scores.tolist() == [-math.inf] * 2


def test_half_precision():
    given = rf.cast(scores, "bfloat16"), rf.cast(base, "bfloat16")
    found = step(scores=given[0], base=given[1], ended=base >= 0)
    assert found.scores.dtype == "bfloat16" and found.parents.tolist() == [0, 1]


def test_a_clash_of_sizes():
    with pytest.raises(DimError):
        step(out_beam=rf.Dim(5, name="after"), keep_beams=True)
