"""Axes of net dicts: descriptions, one Dim for each size, names of dims, the declared order."""

import pytest

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.dims.axis_names import mark_time
from rfnb.errors import DimError
from rfnb.netdict.axes import NetworkDims, declared_order, time_of


@pytest.fixture
def dims():
    return rf.Dim([4, 2], name="time", kind="spatial"), rf.Dim(3, name="height"), rf.Dim(5, name="feature")


def template(*dims, feature=None):
    return rf.zeros([batch_dim, *dims], feature_dim=feature)


@pytest.mark.parametrize(
    ("described", "places"),
    [
        ("T", [1]),
        ("time", [1]),
        ("B", [0]),
        ("F", [3]),
        ("spatial", [1, 2]),
        ("s:1", [2]),
        ("static", [2, 3]),
        ("static:-1", [3]),
        ("dyn:0", [1]),
        ("except_batch", [1, 2, 3]),
        ("dim:3", [2]),
        ("stag:encoder", [1]),
        (["B", "T"], [0, 1]),
        ("bt", [0, 1]),
        (-1, [3]),
        (2, [2]),
        ("T?", [1]),
    ],
)
def test_a_description_means_axes_in_the_declared_order(dims, described, places):
    axes = NetworkDims()
    axes.name(dims[0], "encoder")
    x = template(*dims, feature=dims[2])
    assert axes.find(described, x) == tuple(x.dims[i] for i in places)


def test_a_dim_describes_itself(dims):
    x = template(*dims, feature=dims[2])
    assert NetworkDims().one(dims[1], x) is dims[1]
    with pytest.raises(DimError):
        NetworkDims().one(rf.Dim(3, name="other"), x)


@pytest.mark.parametrize("described", ["stag:nothing", "dim:99", "x", 7, None, True, "F"])
def test_a_description_of_no_axis_is_an_error(dims, described):
    with pytest.raises(DimError):
        NetworkDims().one(described, template(*dims))


def test_numbers_are_no_axes_where_the_version_says_so(dims):
    with pytest.raises(DimError, match="since version 5"):
        NetworkDims().find(1, template(*dims), numbers=False)


def test_names_of_a_derived_dim_are_those_of_its_parts(dims):
    axes = NetworkDims()
    axes.name(dims[0], "stem")
    pooled = axes.name(dims[0].ceildiv_right(2), "lstm0_pool:conv:s0")
    assert {"stem", "time", "lstm0_pool:conv:s0"} <= set(axes.names_of(pooled))


def test_features_of_one_size_are_one_dim_but_not_twice_in_a_tensor():
    axes = NetworkDims()
    first = axes.feature(5)
    other = axes.feature(5, taken=[first])
    assert axes.feature(5) is first
    assert axes.feature(5, taken=[first]) is other is not first
    assert axes.static(5) not in (first, other)
    own = rf.Dim(5, name="own")
    assert axes.feature(own, taken=[own]) is own


def test_new_axes_stand_where_those_stood_that_they_replace(dims):
    time, height, feature = dims
    x = template(time, height, feature, feature=feature)
    pooled, left, right = rf.Dim([2, 1], name="pooled"), rf.Dim(2, name="left"), rf.Dim(2, name="right")
    out = rf.zeros([feature, height, pooled, batch_dim], feature_dim=feature)
    assert declared_order(out, [x]) == [batch_dim, pooled, height, feature]
    split = rf.zeros([right, left, time, batch_dim, height], feature_dim=right)
    assert declared_order(split, [x]) == [batch_dim, time, height, left, right]
    reduced = rf.zeros([time, batch_dim])
    assert declared_order(reduced, [x]) == [batch_dim, time]
    more = rf.zeros([left, feature, height, time, batch_dim], feature_dim=feature)
    assert declared_order(more, [x]) == [batch_dim, time, height, left, feature]


def test_axes_of_further_sources_stand_before_the_features(dims):
    time, height, feature = dims
    x, y = template(time, feature, feature=feature), template(height)
    assert declared_order(rf.zeros([height, feature, time, batch_dim]), [x, y]) == [batch_dim, time, height, feature]


def test_static_axes_of_one_size_match_and_dynamic_ones_never(dims):
    time, _, feature = dims
    axes, same, words = NetworkDims(), rf.Dim(5, name="same"), rf.Dim([4, 2], name="words", kind="spatial")
    assert axes.matching(template(time, same), template(time, feature), 15) == ((same, feature),)
    assert axes.matching(template(words), template(time), 15) == ()
    assert axes.matching(template(feature), template(feature, same), 15) == ()


def test_dims_of_the_user_match_no_others_since_version_16(dims):
    time, _, own = dims
    axes = NetworkDims()
    made, another = axes.feature(5), axes.static(5)
    part = axes.instead(made, 4, template(time, made, feature=made))
    own_part = axes.instead(own, 4, template(time, own))
    assert axes.matching(template(another), template(made), 16) == ((another, made),)
    assert axes.matching(template(own), template(made), 16) == axes.matching(template(made), template(own), 16) == ()
    assert axes.matching(template(own), template(made), 15) == ((own, made),)
    assert axes.matching(template(axes.static(4)), template(part), 16) == ((axes.static(4), part),)
    assert axes.matching(template(axes.static(4)), template(own_part), 16) == ()
    assert (axes.made(made * 2), axes.made(own * 2), axes.made(made * own)) == (True, False, False)


def test_a_dim_in_the_place_of_another_one_is_of_the_same_kind(dims):
    time, _, _ = dims
    axes = NetworkDims()
    feature, frames, other = axes.feature(5), axes.time(6), axes.static(6)
    x = template(time, frames, other, feature, feature=feature)
    assert axes.instead(feature, 6, x) is axes.feature(6)
    assert axes.instead(other, 5, x) is axes.static(5)
    assert axes.instead(frames, 5, x) is axes.time(5)
    assert axes.instead(other, 6, x) is other
    assert axes.instead(other, 6, x, taken=[other]) is not other
    assert axes.instead(other, time, x) is time


def test_a_dim_that_is_the_same_as_another_one_is_found_by_all_names(dims):
    time, _, feature = dims
    axes, first, second = NetworkDims(), rf.SpatialDim("first"), rf.SpatialDim("second")
    axes.make_same(first, second)
    axes.make_same(second, time)
    axes.make_same(first, time)
    x = template(time, feature)
    assert axes.find(first, x) == axes.find(second, x) == axes.find("stag:first", x) == (time,)
    assert axes.static(first) is axes.of(first) is time is axes.of(time)


def test_time_is_the_first_axis_of_frames(dims):
    time, height, feature = dims
    assert time_of(template(height, time, feature)) is time
    assert time_of(template(height)) is None


def test_a_fixed_axis_is_the_time_if_it_is_marked(dims):
    time, _, feature = dims
    chunk, frames = rf.SpatialDim("chunk", 4), rf.SpatialDim("frames", 6)
    assert time_of(template(chunk, time, feature)) is time
    assert time_of(template(chunk, frames)) is None
    mark_time(frames)
    assert time_of(template(chunk, time, frames)) is frames
    assert time_of(template(chunk, frames + 1)) is frames + 1
    assert NetworkDims().find("except_time", template(chunk, frames, feature)) == (chunk, feature)
