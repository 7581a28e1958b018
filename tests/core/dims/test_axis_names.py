"""Names of axes: which axes each of them finds."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies

from rfnb import Dim, batch_dim
from rfnb.core.dims.axis_names import AxisOrder
from rfnb.errors import DimError

TIME, CHARS = Dim(None, name="time"), Dim(None, name="chars")
HEADS, FEAT = Dim(2, name="heads"), Dim(5, name="lstm:feature")
ORDER = AxisOrder((batch_dim, TIME, HEADS, CHARS, FEAT), FEAT)


@pytest.mark.parametrize(
    ("name", "axes"),
    [
        ("B", [0]),
        ("batch", [0]),
        ("T", [1]),
        ("Time", [1]),
        ("T?", [1]),
        ("F", [4]),
        ("feature", [4]),
        ("spatial", [1, 2, 3]),
        ("s:0", [1]),
        ("spatial:-1", [3]),
        ("spatial:3", []),
        ("dyn", [1, 3]),
        ("d:1", [3]),
        ("dynamic:0", [1]),
        ("static", [2, 4]),
        ("static:0", [2]),
        ("static:-1", [4]),
        ("except_batch", [1, 2, 3, 4]),
        ("except_batch:1", [2]),
        ("except_time", [2, 3, 4]),
        ("spatial_except_time", [2, 3]),
        ("*", [0, 1, 2, 3, 4]),
        ("dim:5", [4]),
        ("dim:7", []),
        ("stag:lstm", [4]),
        ("tag:CHARS", [3]),
        ("stag:s", [2, 3]),  # of spatial dims
        ("tag:s", [2, 3, 4]),
        ("stag-single:1:s", [3]),
        ("stag-single:-1:S", [3]),
        ("stag-single:3:s", []),
        ("bt", [0, 1]),
        ("TBF", [1, 0, 4]),
    ],
)
def test_a_name_finds_its_axes_in_their_order(name, axes):
    assert ORDER.find(name) == tuple(axes)


def test_without_batch_and_time_these_find_nothing():
    alone = AxisOrder((HEADS,))
    assert [alone.find(name) for name in ("B", "T", "T?", "F", "dyn", "bt")] == [()] * 6
    assert AxisOrder(()).find("*") == ()


def test_a_dim_has_all_the_names_that_it_was_given():
    order = AxisOrder(ORDER.dims, FEAT, names=lambda dim: (dim.name, "pool") if dim is TIME else (dim.name,))
    assert order.find("stag:pool") == order.find("stag:time") == (1,)


def test_the_exact_tag_comes_before_those_that_contain_it():
    long, short = Dim(None, name="audio-time"), Dim(None, name="time")
    assert AxisOrder((long, short)).find("stag:time") == (1,)


def test_a_tag_means_frames_also_where_features_are_called_alike():
    """After an LSTM over pooled frames, both its frames and its features carry the name of the LSTM."""
    order = AxisOrder(ORDER.dims, FEAT, names=lambda dim: (dim.name, "lstm0_pool") if dim is TIME else (dim.name,))
    assert order.find("stag:lstm") == order.find("stag-single:0:lstm") == (1,)
    assert order.find("tag:lstm") == (1, 4)


@pytest.mark.parametrize(("name", "hint"), [("stag:tmie", "'stag:time'"), ("tag:haeds", "'tag:heads'")])
def test_a_misspelt_tag_is_answered_with_the_nearest(name, hint):
    with pytest.raises(DimError, match=f"(?s)no axis '{name}'.*did you mean {hint}"):
        ORDER.one(name)


@pytest.mark.parametrize(
    "name", ["", "x", "bx", "static:", "static:one", "stag:", "stag-single:0", "axis:1", "B:0", "s"]
)
def test_other_strings_are_refused(name):
    with pytest.raises(DimError, match="is not a name of axes"):
        ORDER.find(name)


def test_a_misspelt_name_is_answered_with_the_nearest():
    with pytest.raises(DimError, match="did you mean 'except_batch'"):
        ORDER.find("except_bach")


@pytest.mark.parametrize(("name", "words"), [("stag:s", "more than one axis 'stag:s'"), ("dim:7", "no axis 'dim:7'")])
def test_one_axis_is_needed_where_only_one_fits(name, words):
    assert ORDER.one("F") == 4
    with pytest.raises(DimError, match=words):
        ORDER.one(name)


@given(strategies.text())
def test_any_string_that_finds_no_axis_is_answered(name):
    ORDER.suggestion(name)
    with pytest.raises(DimError):
        AxisOrder(()).one(name)


@given(strategies.text())
def test_any_string_finds_axes_or_is_refused(name):
    try:
        found = ORDER.find(name)
    except DimError:
        return
    assert set(found) <= set(range(5)) and len(set(found)) == len(found)
