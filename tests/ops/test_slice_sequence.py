"""Each frame several times, against Python's lists."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, DtypeError
from tests.ops.test_slice import as_lists, lengths_lists, sequences


@given(lengths=lengths_lists, data=st.data())
def test_each_as_often_as_it_says(lengths, data):
    x, time, lists = sequences(lengths)
    counts = [data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)) for n in lengths]
    raw = np.full((len(lengths), max(lengths)), -9)
    for row, count in zip(raw, counts, strict=True):
        row[: len(count)] = count
    repeats = rf.convert_to_tensor(raw, dims=[batch_dim, time])
    expected = [[v for v, n in zip(*pair, strict=True) for _ in range(n)] for pair in zip(lists, counts, strict=True)]
    y, dim = rf.repeat(x, in_spatial_dim=time, repeats=repeats)
    assert as_lists(y.copy_transpose([batch_dim, dim]), dim) == expected


@given(lengths=lengths_lists, count=st.integers(0, 3))
def test_all_alike(lengths, count):
    x, time, lists = sequences(lengths)
    y, dim = rf.repeat(x, in_spatial_dim=time, repeats=count)
    assert dim is time * count and as_lists(y, dim) == [[v for v in row for _ in range(count)] for row in lists]


def test_numbers_that_do_not_differ_along_the_frames():
    x, time, lists = sequences([2, 1])
    y, dim = rf.repeat(x, in_spatial_dim=time, repeats=rf.convert_to_tensor([1, 3], dims=[batch_dim]))
    assert as_lists(y.copy_transpose([batch_dim, dim]), dim) == [lists[0], lists[1] * 3]
    y, dim = rf.repeat(x, in_spatial_dim=time, repeats=rf.convert_to_tensor(2))
    assert as_lists(y.copy_transpose([batch_dim, dim]), dim) == [[v for v in row for _ in range(2)] for row in lists]


@pytest.mark.parametrize("repeats", [2, [2, 0, 1]], ids=str)
def test_lengths_follow_their_sequences(repeats):
    x, time, lists = sequences([1, 4, 2])
    counts = repeats if isinstance(repeats, list) else [repeats] * 3
    given_ = rf.convert_to_tensor(repeats, dims=[batch_dim]) if isinstance(repeats, list) else repeats
    y, _ = rf.repeat(x, in_spatial_dim=batch_dim, repeats=given_)
    expected = [sum(row) for row, n in zip(lists, counts, strict=True) for _ in range(n)]
    assert rf.reduce_sum(y, axis=time).raw_tensor.tolist() == expected


def test_gradient_and_feature_dim():
    feat = rf.Dim(2, name="feat")
    raw = torch.randn(2, requires_grad=True)
    x = rf.convert_to_tensor(raw, dims=[feat], feature_dim=feat)
    y, dim = rf.repeat(x, in_spatial_dim=feat, repeats=rf.convert_to_tensor([3, 1], dims=[feat]))
    assert y.feature_dim is dim
    y.raw_tensor.sum().backward()
    assert raw.grad.tolist() == [3, 1]


def test_what_is_no_number_of_times():
    x, time, _ = sequences([2, 1])
    with pytest.raises(DtypeError, match="must be integers"):
        rf.repeat(x, in_spatial_dim=time, repeats=rf.cast(x, "float32"))
    with pytest.raises(DimError, match="negative"):
        rf.repeat(x, in_spatial_dim=time, repeats=-x)
    with pytest.raises(DimError, match="negative"):
        rf.repeat(x, in_spatial_dim=time, repeats=-1)
