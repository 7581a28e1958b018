"""Batches: tensors by name, whose dims go back to them when they are used."""

from __future__ import annotations

import pytest

import rfnb as rf
from rfnb import batch_dim


def test_an_earlier_batch_can_be_used_again():
    time = rf.Dim(None, name="time")
    join = rf.collate({"x": [batch_dim, time]}, tag="name")
    old = join([{"name": "a", "x": [1.0, 2.0]}])
    join([{"name": "b", "x": [1.0]}, {"name": "c", "x": [2.0]}])
    total = rf.reduce_sum(old["x"], axis=time) + rf.zeros([batch_dim])
    assert total.raw_tensor.tolist() == [3.0]
    assert old.tags == ["a"]


def test_a_name_that_is_not_there():
    with pytest.raises(rf.errors.DimError, match="no 'y'"):
        rf.TensorDict({"x": rf.zeros([])})["y"]
