"""The lengths of a batch never change, and do not mix with those of another."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.core.dims import lengths as core_lengths
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.backends import backend_of_raw


@pytest.mark.parametrize("make", [torch.tensor, np.array], ids=["torch", "numpy"])
@pytest.mark.parametrize("as_tensor", [True, False])
def test_lengths_are_a_copy(make, as_tensor):
    time, lens = Dim(None, name="time"), make([3, 1])
    given = rf.convert_to_tensor(lens, dims=[batch_dim]) if as_tensor else lens
    x = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=given)
    lens[1] = 3
    assert rf.reduce_sum(x, axis=time).raw_tensor.tolist() == [3.0, 1.0]
    with pytest.raises(ValueError, match="read-only"):
        x.size_of(time).values[1] = 3


def test_numpy_is_a_copy():
    raw = torch.zeros(2)
    rf.convert_to_tensor(raw, dims=[Dim(2)]).numpy()[0] = 1.0
    assert raw.tolist() == [0.0, 0.0]


def test_read_only_arrays_become_raw_tensors_without_a_warning():
    values = np.arange(3)
    values.flags.writeable = False
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        raw = backend_of_raw(torch.zeros(1)).from_numpy_raw(values)
        assert raw.tolist() == [0, 1, 2]


def test_two_batches_in_one_tensor():
    time = Dim(None, name="time")
    rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1])
    rf.convert_to_tensor(torch.ones(3), dims=[batch_dim])
    for dims in ([batch_dim, time], [time, batch_dim]):
        with pytest.raises(rf.errors.DimRebound, match="time has the lengths of a different batch"):
            rf.zeros(dims)
    assert rf.zeros([time]).dims == (time,)
    assert rf.zeros([batch_dim]).raw_tensor.shape == (3,)


def test_lengths_agree_in_any_order_of_their_dims():
    a, b, values = Dim(2, name="a"), Dim(3, name="b"), np.arange(6).reshape(2, 3)
    assert Size([a, b], values).agrees(Size([b, a], values.T))
    assert not Size([a, b], values).agrees(Size([b, a], values.reshape(3, 2)))


def test_what_is_kept_with_lengths_is_bounded():
    lengths = rf.convert_to_tensor(torch.ones(2), dims=[batch_dim]).lengths
    for i in range(3 * core_lengths._CACHED):
        assert lengths.cached(i, lambda i=i: i) == i
    assert len(lengths.cache) <= core_lengths._CACHED
    time = Dim(None, name="time")
    x = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_dim, time], lengths=[3, 1])
    kept = [Dim(1, name="extra") for _ in range(2 * core_lengths._CACHED)]
    for dim in kept:
        rf.reduce_sum(rf.expand_dim(x, dim), axis=time)
    assert len(x.lengths.cache) <= core_lengths._CACHED


OF_INT32 = {
    "itself": lambda time, x, batch: time,
    "+1": lambda time, x, batch: time + 1,
    "2*": lambda time, x, batch: 2 * time,
    "ceildiv": lambda time, x, batch: time.ceildiv_right(2),
    "copy": lambda time, x, batch: time.copy(same_as_self=False),
    "pad": lambda time, x, batch: rf.pad(x, axes=[time], padding=[(0, 1)], out_dims=[rf.Dim(None)])[1][0],
    "slice": lambda time, x, batch: rf.slice(x, axis=time, start=1)[1],
    "concat": lambda time, x, batch: rf.concat((x, time), (x, time), out_dim=rf.Dim(None))[1],
    "masked_select": lambda time, x, batch: rf.masked_select(x, mask=x > 1, dims=[time])[1],
    "replace_dim": lambda time, x, batch: rf.replace_dim(x, in_dim=time)[1],
    "gather_nested": lambda time, x, batch: rf.nested.gather_nested(
        {"time": time}, indices=rf.convert_to_tensor([1, 0], dims=[rf.Dim(2)], sparse_dim=batch)
    )["time"],
}


@pytest.mark.parametrize("made", OF_INT32)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_lengths_have_the_dtype_of_the_tensor_that_they_follow_from(made, dtype):
    batch = rf.Dim(2, name="batch")
    time = rf.Dim(rf.convert_to_tensor([3, 1], dims=[batch], dtype=dtype), name="time")
    x = rf.convert_to_tensor(torch.tensor([[1, 2, 3], [4, 0, 0]]), dims=[batch, time])
    dim = OF_INT32[made](time, x, batch)
    sizes = [
        dim.dyn_size_ext,
        dim.get_size_tensor(),
        dim.get_dyn_size_ext_for_device("cpu"),
        dim.get_dim_value_tensor(),
    ]
    assert [size.dtype for size in sizes] == [dtype] * 4
    assert str(dim.dyn_size.dtype) == f"torch.{dtype}"


@pytest.mark.parametrize("lengths", [torch.tensor([2, 1], dtype=torch.int32), np.array([2, 1], "int32")])
def test_lengths_of_raw_tensors_keep_their_dtype(lengths):
    time = rf.Dim(None, name="time")
    rf.convert_to_tensor(torch.zeros(2, 2), dims=[rf.batch_dim, time], lengths=lengths)
    assert time.dyn_size_ext.dtype == rf.Dim(lengths, name="time").dyn_size_ext.dtype == "int32"


def test_lengths_of_different_dtypes_together_are_int64():
    batch = rf.Dim(2, name="batch")
    one, other = (
        rf.Dim(rf.convert_to_tensor([3, 1], dims=[batch], dtype=dtype), name=dtype) for dtype in ("int32", "int64")
    )
    assert (one + other).dyn_size_ext.dtype == "int64" and rf.Dim([3, 1], name="time").dyn_size_ext.dtype == "int64"


@pytest.mark.parametrize("lengths", [[3], [3, 3], [3, 1]], ids=str)
def test_equally_long_sequences_that_were_merged_join_again(lengths):
    time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")
    x = rf.convert_to_tensor(torch.ones(len(lengths), 3, 2), dims=[rf.batch_dim, time, feat], lengths=lengths)
    merged, rows = rf.merge_dims(x, dims=[feat, rf.batch_dim])
    y = rf.split_dims(merged, axis=rows, dims=[feat, rf.batch_dim])
    assert rf.reduce_sum(x + y, axis=[time, feat]).raw_tensor.tolist() == [4.0 * n for n in lengths]
