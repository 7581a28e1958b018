"""Templates: tensors whose data comes later, and those that describe the lengths of a dim."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import Dim, Tensor, batch_dim
from rfnb.errors import BackendError, DimError, DtypeError

FEAT = Dim(2, name="feat")


def time_of(batch=batch_dim):
    return Dim(Tensor("time", [batch], dtype="int32"))


@pytest.mark.parametrize("make", [torch.tensor, np.array])
def test_lengths_may_be_described_before_they_are_known(make):
    batch = Dim(3, name="sequences")
    time = time_of(batch)
    ext = time.dyn_size_ext
    assert (time.name, ext.dims, ext.dtype, ext.raw_tensor) == ("time", (batch,), "int32", None)
    assert not time.is_defined() and time.is_dynamic() and time.need_masking()
    time.dyn_size_ext.raw_tensor = make([3, 5, 2])
    assert time.get_dim_value() == 5 and time.get_size_tensor().dims == (batch,)
    assert time.get_size_tensor().raw_tensor.tolist() == time.dyn_size_ext.raw_tensor.tolist() == [3, 5, 2]
    assert time.dyn_size_ext.dtype == "int32"
    assert (time + 1).size.values.tolist() == [4, 6, 3]


def test_lengths_of_any_dims_may_be_described():
    beam = Dim(2, name="beam")
    hist = Dim(Tensor("hist", [batch_dim, beam], "int32"), name="h")
    assert hist.name == "h" and hist.dyn_size_ext.dims == (batch_dim, beam)
    hist.dyn_size_ext.raw_tensor = torch.tensor([[1, 2], [3, 1], [0, 1]])
    assert batch_dim.get_dim_value() == 3 and hist.size.dims == (batch_dim, beam)
    assert Dim(None).dyn_size_ext is None and Dim(4).dyn_size_ext is None


def test_each_batch_sets_them_again():
    time = time_of()
    x = Tensor("x", [batch_dim, time, FEAT])
    for lengths in ([3, 1], [2, 4, 1]):
        time.dyn_size_ext.raw_tensor = torch.tensor(lengths)
        x.raw_tensor = torch.ones(len(lengths), max(lengths), 2)
        assert x.size_of(time).values.tolist() == lengths
        assert rf.reduce_sum(x, axis=time).raw_tensor[:, 0].tolist() == lengths
    time.dyn_size_ext.raw_tensor = None
    assert not time.is_defined() and time.dyn_size_ext.raw_tensor is None
    time.dyn_size_ext = rf.convert_to_tensor([2, 1], dims=[batch_dim])
    assert time.size.values.tolist() == [2, 1]
    time.reset_raw()
    assert time.dyn_size_ext.dims == (batch_dim,) and time.dyn_size_ext.raw_tensor is None


def test_the_tensor_that_was_given_sets_them_too():
    lengths = Tensor("time", [batch_dim], "int32")
    time = Dim(lengths)
    lengths.raw_tensor = torch.tensor([2, 3])
    assert time.size.values.tolist() == [2, 3]
    words = Dim(None, name="words")
    words.dyn_size_ext = Tensor("words", [batch_dim], "int32")
    words.dyn_size_ext.raw_tensor = np.array([1, 2])
    assert words.size.values.tolist() == [1, 2]


def test_lengths_of_any_dim_may_be_set_in_place():
    time = Dim([3, 1], name="time")
    time.dyn_size_ext.raw_tensor = torch.tensor([1, 4])
    assert time.size.values.tolist() == [1, 4]
    before = (time + 1).dyn_size_ext
    assert before.raw_tensor.tolist() == [2, 5]


@pytest.mark.parametrize("make", ["set", "given", "converted"])
def test_data_may_come_before_its_lengths(make):
    time, words = time_of(), time_of()
    raw = torch.ones(2, 4, 3)
    if make == "converted":
        x = rf.convert_to_tensor(raw, dims=[batch_dim, time, words])
    else:
        x = Tensor("x", [batch_dim, time, words], raw_tensor=raw if make == "given" else None)
        x.raw_tensor = raw
    assert not time.is_defined()
    time.dyn_size_ext.raw_tensor = torch.tensor([4, 1])
    words.dyn_size_ext.raw_tensor = torch.tensor([2, 3])
    assert rf.reduce_sum(x, axis=[time, words]).raw_tensor.tolist() == [8, 3]


def test_data_of_each_batch_may_come_before_its_lengths():
    time = time_of()
    x = Tensor("x", [batch_dim, time])
    for lengths in ([4, 1], [4, 2], [2, 1], [3, 1, 1]):
        x.raw_tensor = torch.ones(len(lengths), max(lengths))
        time.dyn_size_ext.raw_tensor = torch.tensor(lengths)
        assert rf.reduce_sum(x, axis=time).raw_tensor.tolist() == lengths


def test_results_of_an_earlier_batch_keep_their_lengths():
    time = time_of()
    x = Tensor("x", [batch_dim, time])
    time.dyn_size_ext.raw_tensor = torch.tensor([3, 1])
    x.raw_tensor = torch.ones(2, 3)
    kept, given = x + 1.0, rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time])
    time.dyn_size_ext.raw_tensor = torch.tensor([3, 2])
    for earlier in (kept, given):
        assert earlier.size_of(time).values.tolist() == [3, 1]


def test_data_without_its_lengths_is_told():
    time = time_of()
    x = rf.convert_to_tensor(torch.ones(2, 4), dims=[batch_dim, time])
    with pytest.raises(DimError, match=r"lengths of the tensor are not known yet(.|\n)*dyn_size_ext.raw_tensor ="):
        rf.reduce_sum(x, axis=time)
    with pytest.raises(DimError, match=r"data of shape \(2, 4\)"):
        x + 1.0
    with pytest.raises(DimError, match=r"time has no size yet(.|\n)*time.dyn_size_ext.raw_tensor ="):
        time.get_dim_value()
    with pytest.raises(DimError, match="does not fit time"):
        time.dyn_size_ext.raw_tensor = torch.tensor([3, 2])
    with pytest.raises(DtypeError, match="lengths must be integers"):
        time.dyn_size_ext.raw_tensor = torch.tensor([3.5, 2])
    with pytest.raises(DimError, match="does not depend on data"):
        Dim(3).dyn_size_ext = Tensor("size", [], "int32")


def test_a_template_of_lengths_in_a_batch():
    time = time_of()
    batch = rf.TensorDict([Tensor("x", [batch_dim, time, FEAT])])
    for lengths in ([3, 1], [1, 2]):
        raws = {"x": torch.ones(2, max(lengths), 2), "x:size1": torch.tensor(lengths)}
        batch.assign_from_raw_tensor_dict_(raws)
        assert rf.reduce_sum(batch["x"], axis=time).raw_tensor[:, 0].tolist() == lengths
        batch.reset_content()
    join = rf.collate({"x": Tensor("x", [batch_dim, time, FEAT])})
    joined = join([{"x": np.ones((n, 2))} for n in (2, 4)])
    assert joined["x"].size_of(time).values.tolist() == [2, 4] == time.dyn_size_ext.raw_tensor.tolist()


def test_a_template_of_lengths_is_copied_with_its_dim():
    time = time_of()
    other = time.copy(same_as_self=False, description="other")
    other.dyn_size_ext.raw_tensor = torch.tensor([1, 2])
    assert other.is_defined() and not time.is_defined()
    lengths = time.dyn_size_ext
    assert pickle.loads(pickle.dumps(lengths)).dims == copy.deepcopy(lengths).dims == (batch_dim,)
    assert pickle.loads(pickle.dumps(time)) is time


def test_a_template_has_no_data():
    with pytest.raises(BackendError, match="a template, which has no data"):
        Tensor("x", [FEAT]) + 1.0
