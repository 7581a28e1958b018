"""The feature dim of products, and axes that they cannot have."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import DimError

IN, OUT, TIME = rf.Dim(4, name="in"), rf.Dim(3, name="out"), rf.Dim(None, name="time")


def test_a_weight_puts_its_dim_in_the_place_of_the_features():
    x = rf.convert_to_tensor(np.ones((2, 5, 4)), dims=[rf.batch_dim, TIME, IN], feature_dim=IN)
    plain = rf.convert_to_tensor(np.ones((2, 5, 4)), dims=[rf.batch_dim, TIME, IN])
    weight = rf.convert_to_tensor(np.ones((4, 3)), dims=[IN, OUT])
    assert rf.matmul(x, weight, reduce=IN).feature_dim is OUT
    assert rf.matmul(weight, x, reduce=IN).feature_dim is OUT
    assert rf.matmul(plain, weight, reduce=IN).feature_dim is None
    assert rf.matmul(rf.matmul(x, weight, reduce=IN), weight, reduce=OUT).feature_dim is IN


def test_data_is_no_weight():
    """The energies of attention have no features: neither frames nor heads are any."""
    x = rf.convert_to_tensor(np.ones((2, 5, 4)), dims=[rf.batch_dim, TIME, IN], feature_dim=IN)
    other = rf.Dim(None, name="other")
    keys = rf.convert_to_tensor(np.ones((2, 6, 4)), dims=[rf.batch_dim, other, IN])
    assert rf.matmul(x, keys, reduce=IN).feature_dim is None
    several = rf.convert_to_tensor(np.ones((4, 3, 2)), dims=[IN, OUT, rf.Dim(2, name="two")])
    assert rf.matmul(x, several, reduce=IN).feature_dim is None


def test_an_axis_that_one_side_lacks_names_those_of_both():
    time, other = rf.Dim(6, name="time"), rf.Dim(7, name="other")
    x, y = rf.zeros([time, IN]), rf.zeros([IN, OUT])
    with pytest.raises(DimError, match=r"(?s)`b` has no dim time.*reduce=IN"):
        rf.matmul(x, y, reduce=time)
    with pytest.raises(DimError, match="`a` and `b` share no dim"):
        rf.matmul(x, rf.zeros([OUT]), reduce=other)
    with pytest.raises(DimError, match="did you mean in"):
        rf.matmul(x, y, reduce=rf.Dim(IN.dimension, name=IN.name))
