"""Entries at indices: against numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, DtypeError

feat, vocab = rf.Dim(3, name="feat"), rf.Dim(5, name="vocab")


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


@pytest.fixture
def x(time):
    """{batch, time, feat} with lengths 4 and 2."""
    return rf.convert_to_tensor(
        np.random.default_rng(0).normal(size=(2, 4, 3)), dims=[batch_dim, time, feat], lengths=[4, 2]
    )


@pytest.mark.parametrize("index", [0, 1, -1, -2])
def test_a_number_counts_from_the_start_or_from_each_end(x, time, index):
    expected = [x.raw_tensor[0, :4][index], x.raw_tensor[1, :2][index]]
    assert torch.equal(rf.gather(x, indices=index, axis=time).raw_tensor, torch.stack(expected))


def test_shared_dims_are_batch_dims(x, time):
    new = rf.Dim(3, name="new")
    indices = rf.convert_to_tensor([[3, 0, 1], [1, 1, 0]], dims=[batch_dim, new], sparse_dim=time)
    y = rf.gather(x, indices=indices)
    expected = np.stack([x.raw_tensor.numpy()[b][indices.raw_tensor.numpy()[b]] for b in range(2)])
    assert y.dims == (batch_dim, new, feat) and np.array_equal(y.raw_tensor.numpy(), expected)


def test_indices_may_have_the_axis_itself(x, time):
    turned = rf.convert_to_tensor(np.array([[3, 2, 1, 0], [1, 0, 0, 0]]), dims=[batch_dim, time])
    y = rf.gather(x, indices=turned, axis=time)
    assert torch.equal(y.raw_tensor[0], x.raw_tensor[0].flip(0)) and torch.equal(
        y.raw_tensor[1, :2], x.raw_tensor[1, :2].flip(0)
    )


def test_several_new_dims(x, time):
    rows, cols = rf.Dim(2, name="rows"), rf.Dim(2, name="cols")
    where = torch.tensor([[[0, 1], [1, 3]], [[0, 0], [1, 1]]])
    y = rf.gather(x, indices=rf.convert_to_tensor(where, dims=[batch_dim, rows, cols]), axis=time)
    assert all(torch.equal(y.raw_tensor[b], x.raw_tensor[b][where[b]]) for b in range(2))
    y = rf.gather(x, indices=rf.convert_to_tensor(where[0], dims=[rows, cols]), axis=feat, clip_to_valid=True)
    assert torch.equal(y.raw_tensor, x.raw_tensor[:, :, where[0].clamp(max=2)])


def test_clip_to_valid_knows_the_lengths(x, time):
    new = rf.Dim(2, name="new")
    y = rf.gather(x, indices=rf.convert_to_tensor([9, -3], dims=[new]), axis=time, clip_to_valid=True)
    by_name = y.copy_transpose([batch_dim, new, feat]).raw_tensor
    expected = torch.stack([x.raw_tensor[0, [3, 0]], x.raw_tensor[1, [1, 0]]])
    assert torch.equal(by_name, expected)


def test_what_does_not_fit_is_told(x, time):
    with pytest.raises(DimError, match=r"gather: there is no entry 7 of time"):
        rf.gather(x, indices=7, axis=time)
    with pytest.raises(DtypeError, match="no whole numbers"):
        rf.gather(x, indices=rf.zeros([batch_dim]), axis=time)
    with pytest.raises(DimError, match="the indices do not tell"):
        rf.gather(x, indices=1)
    with pytest.raises(DimError, match="`source` has no dim vocab"):
        rf.gather(x, indices=1, axis=vocab)


def test_one_hot(time):
    labels = rf.convert_to_tensor([[1, 4, 0], [2]], dims=[batch_dim, time], sparse_dim=vocab)
    y = rf.one_hot(labels)
    assert y.feature_dim is vocab and y.dtype == "float32"
    assert np.array_equal(y.raw_tensor.numpy(), np.eye(5)[labels.raw_tensor.numpy()])


@pytest.mark.parametrize("mode", ["sum", "max", "min"])
@pytest.mark.parametrize("fill", [None, -1.5])
def test_scatter(x, time, mode, fill):
    labels = rf.convert_to_tensor([[1, 4, 1, 1], [4, 2]], dims=[batch_dim, time], sparse_dim=vocab)
    expected = np.full((2, 5, 3), fill or 0.0)
    for b, length in enumerate([4, 2]):
        for place in set(labels.raw_tensor[b, :length].tolist()):
            frames = x.raw_tensor[b, :length][labels.raw_tensor[b, :length] == place].numpy()
            expected[b, place] = getattr(frames, mode)(0)
    y = rf.scatter(x, indices=labels, indices_dim=time, mode=mode, fill_value=fill)
    assert y.dims == (batch_dim, vocab, feat)
    np.testing.assert_allclose(y.raw_tensor.numpy(), expected)


def test_scatter_over_two_dims_into_two(x, time):
    rows, cols = rf.Dim(2, name="rows"), rf.Dim(3, name="cols")
    where = rf.range_over_dim(rows) * 3 + rf.zeros([rows], dtype="int64")
    source = rf.ones([rows, feat])
    y = rf.scatter(source, indices=where, indices_dim=rows, out_dim=[rows, cols])
    assert y.dims == (rows, cols, feat) and y.raw_tensor.sum() == 6 and y.raw_tensor[1, 0, 0] == 1


@pytest.mark.parametrize("sorted_", [True, False])
def test_top_k_leaves_padding_out(x, time, sorted_):
    low = x - 100.0
    low = rf.where(time.get_mask(), low, 5.0)
    values, places, k_dim = rf.top_k(low, axis=time, k=2, sorted=sorted_)
    assert k_dim.dimension == 2 and places.sparse_dim is time
    for b, length in enumerate([4, 2]):
        expected = np.sort(low.raw_tensor[b, :length].numpy(), axis=0)[::-1][:2]
        np.testing.assert_allclose(np.sort(values.raw_tensor[b].numpy(), 0), np.sort(expected, 0))


def test_top_k_over_two_axes(x, time):
    k_dim = rf.Dim(3, name="beam")
    values, (frames, feats), _ = rf.top_k(x, axis=[time, feat], k_dim=k_dim)
    picked = rf.gather(rf.gather(x, indices=frames, axis=time), indices=feats, axis=feat)
    assert torch.equal(picked.raw_tensor, values.raw_tensor)
    assert torch.equal(values.raw_tensor[0], x.raw_tensor[0].flatten().sort(descending=True).values[:3])


def test_top_k_of_too_many_is_told(x):
    with pytest.raises(DimError, match="more than there is"):
        rf.top_k(x, axis=feat, k=4)
