"""The same entries under other dims."""

from __future__ import annotations

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError

feat, beam = rf.Dim(4, name="feat"), rf.Dim(3, name="beam")


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


@pytest.fixture
def x(time):
    return rf.convert_to_tensor(torch.randn(2, 5, 4), dims=[batch_dim, time, feat], lengths=[5, 3])


def test_expand_squeeze_and_replace(x, time):
    wide = rf.expand_dim(x, beam)
    assert wide.dims == (beam, batch_dim, time, feat) and torch.equal(wide.raw_tensor[2], x.raw_tensor)
    one = rf.Dim(1, name="one")
    assert rf.squeeze(rf.expand_dims(x, [one, beam]), one).dims == (beam, batch_dim, time, feat)
    with pytest.raises(DimError, match="not of size 1"):
        rf.squeeze(x, feat)
    y, other = rf.replace_dim(x, in_dim=time)
    assert other is not time and y.size_of(other).values.tolist() == [5, 3]
    with pytest.raises(DimError, match="another size"):
        rf.replace_dim(x, in_dim=feat, out_dim=beam)


def test_merge_and_split_are_inverse(x, time):
    merged, dim = rf.merge_dims(x, dims=[time, feat])
    assert dim is time * feat and merged.size_of(dim).values.tolist() == [20, 12]
    back = rf.split_dims(merged, axis=dim, dims=[time, feat])
    assert torch.equal(back.raw_tensor, x.raw_tensor) and back.size_of(time).values.tolist() == [5, 3]


def test_the_order_of_merged_dims_counts():
    rows = rf.Dim(2, name="rows")
    x = rf.convert_to_tensor(torch.arange(8).reshape(2, 4), dims=[rows, feat])
    assert rf.merge_dims(x, dims=[rows, feat])[0].raw_tensor.tolist() == list(range(8))
    assert rf.merge_dims(x, dims=[feat, rows])[0].raw_tensor.tolist() == [0, 4, 1, 5, 2, 6, 3, 7]


def test_lengths_follow_a_merged_batch(x, time):
    wide = rf.expand_dim(x, beam).copy_transpose([batch_dim, beam, time, feat])
    merged, rows = rf.merge_dims(wide, dims=[batch_dim, beam])
    assert merged.size_of(time).values.tolist() == [5, 5, 5, 3, 3, 3]
    total = rf.reduce_sum(merged, axis=time)
    back = rf.split_dims(total, axis=rows, dims=[batch_dim, beam])
    expected = torch.stack([x.raw_tensor[0].sum(0), x.raw_tensor[1, :3].sum(0)])
    assert torch.allclose(back.raw_tensor[:, 1], expected)
    again = rf.split_dims(merged, axis=rows, dims=[batch_dim, beam])
    assert again.size_of(time).values.tolist() == [5, 3] and again.size_of(time).dims == (batch_dim,)
    assert torch.equal((again + x).raw_tensor[:, 0], 2 * x.raw_tensor)


def test_padding_between_frames_is_refused(x, time):
    with pytest.raises(DimError, match="time has padding"):
        rf.merge_dims(x, dims=[batch_dim, time])
    even = rf.convert_to_tensor(torch.randn(2, 5), dims=[batch_dim, rf.Dim(None, name="even")], lengths=[5, 5])
    assert rf.merge_dims(even, dims=even.dims)[0].raw_tensor.shape == (10,)


def test_split_pads_to_multiples(x, time):
    chunk, chunks = rf.Dim(2, name="chunk"), rf.Dim(None, name="chunks")
    y = rf.split_dims(x, axis=time, dims=[chunks, chunk], pad_value=9.0)
    assert y.size_of(chunks).values.tolist() == [3, 2]
    assert y.raw_tensor[1, 1, 1, 0] == 9.0 and torch.equal(y.raw_tensor[0, :2].flatten(0, 1), x.raw_tensor[0, :4])
    with pytest.raises(DimError, match="no multiple of 3"):
        rf.split_dims(x, axis=feat, dims=[rf.Dim(None), beam])


def test_labels_of_another_dim(x):
    labels = rf.convert_to_tensor([1, 2], dims=[batch_dim], sparse_dim=feat)
    assert rf.set_sparse_dim(labels, beam).sparse_dim is beam
    assert rf.replace_dim(labels, in_dim=feat, out_dim=beam)[0].sparse_dim is beam
