"""Tensors behind each other, above each other, and taken apart."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError

feat, more = rf.Dim(3, name="feat"), rf.Dim(2, name="more")


def sequences(name, *lengths):
    time = rf.Dim(None, name=name)
    raw = torch.arange(len(lengths) * max(lengths)).reshape(len(lengths), -1) + 100 * len(name)
    return rf.convert_to_tensor(raw, dims=[batch_dim, time], lengths=list(lengths)), time


def test_sequences_follow_each_other_without_gaps():
    a, time = sequences("a", 3, 1)
    b, other = sequences("bb", 1, 2)
    y, dim = rf.concat((a, time), (b, other))
    assert dim is time + other and y.size_of(dim).values.tolist() == [4, 3]
    assert y.raw_tensor[0].tolist() == [100, 101, 102, 200]
    assert y.raw_tensor[1, :3].tolist() == [103, 202, 203]


def test_gaps_stay_if_asked_for():
    a, time = sequences("a", 3, 1)
    b, other = sequences("bb", 1, 2)
    y, dim = rf.concat((a, time), (b, other), handle_dynamic_dims=False)
    assert y.raw_tensor.shape == (2, 5) and y.size_of(dim).values.tolist() == [4, 5]


def test_a_new_out_dim_is_defined_again_for_each_batch():
    out = rf.Dim(None, name="out")
    a, time = sequences("a", 3, 1)
    first, _ = rf.concat((a, time), (a, time), out_dim=out)
    b, other = sequences("bb", 2, 2)
    second, _ = rf.concat((b, other), (b, other), out_dim=out)
    assert first.size_of(out).values.tolist() == [6, 2] and second.size_of(out).max == 4
    with pytest.raises(DimError, match="in use already"):
        rf.pad(a, axes=[time], padding=[(1, 1)], out_dims=[out])


def test_other_dims_are_told_and_may_be_broadcast():
    x, y = rf.ones([batch_of(2), feat]), rf.zeros([more])
    with pytest.raises(DimError, match=r"concat: `sources\[1\]` has other dims"):
        rf.concat((x, feat), (y, more))
    z, dim = rf.concat((x, feat), (y, more), allow_broadcast=True)
    assert dim is feat + more and z.raw_tensor.tolist() == [[1, 1, 1, 0, 0]] * 2
    z, _ = rf.concat((y, more), (x, feat), allow_broadcast=True)
    assert z.raw_tensor.tolist() == [[0, 0, 1, 1, 1]] * 2


def batch_of(size):
    return rf.Dim(size, name="sequences")


def test_concat_features():
    x = rf.convert_to_tensor(torch.ones(2, 3), dims=[batch_of(2), feat], feature_dim=feat)
    y = rf.concat_features(x, x)
    assert y.feature_dim is 2 * feat
    with pytest.raises(DimError, match="no feature dim"):
        rf.concat_features(rf.ones([feat]))


def test_stack_and_unstack_are_inverse():
    pair = [rf.convert_to_tensor(torch.randn(3, 2), dims=[feat, more]) for _ in range(2)]
    y, dim = rf.stack([pair[0], pair[1].copy_transpose([more, feat])])
    assert dim.dimension == 2 and all(
        torch.equal(a.raw_tensor, b.raw_tensor) for a, b in zip(rf.unstack(y, axis=dim), pair, strict=True)
    )


def test_split():
    x = rf.convert_to_tensor(torch.arange(5), dims=[feat + more])
    a, b = rf.split(x, axis=feat + more, out_dims=[feat, more])
    assert a.raw_tensor.tolist() == [0, 1, 2] and b.dims == (more,)
    with pytest.raises(DimError, match="do not make up"):
        rf.split(x, axis=feat + more, out_dims=[feat, feat + 1])


def test_cum_concat_step_adds_a_frame_behind_the_end():
    a, time = sequences("a", 3, 1)
    y, dim = rf.cum_concat_step(rf.convert_to_tensor([7, 8], dims=[batch_dim]), prev_accum=a, axis=time)
    assert (
        dim is time + 1 and y.raw_tensor[0].tolist() == [100, 101, 102, 7] and y.raw_tensor[1, :2].tolist() == [103, 8]
    )
