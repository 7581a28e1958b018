"""A window that slides over frames, against a plain loop."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, ParameterError
from tests.ops.test_slice import lengths_lists, sequences


def windows(row, width, left, stride, valid):
    """Of a list."""
    if valid:
        return [row[t : t + width] for t in range(0, len(row) - width + 1, stride)]
    places = range(0, len(row), stride)
    return [[row[t + i] if 0 <= t + i < len(row) else 9 for i in range(-left, width - left)] for t in places]


@given(lengths=lengths_lists, width=st.integers(1, 4), stride=st.integers(1, 3), valid=st.booleans(), data=st.data())
def test_the_frames_around_each(lengths, width, stride, valid, data):
    x, time, lists = sequences(lengths)
    left = data.draw(st.integers(0, width - 1) | st.none())
    wide = rf.Dim(width, name="wide")
    options = {"padding": "valid"} if valid else {"window_left": left, "pad_value": 9}
    y, dim = rf.window(x, spatial_dim=time, window_dim=wide, stride=stride, **options)
    left = (width - 1) // 2 if left is None else left
    expected = [windows(row, width, left, stride, valid) for row in lists]
    assert y.raw_tensor.shape[y.dims.index(dim)] == y.size_of(dim).max
    sizes = np.broadcast_to(y.size_of(dim).values, len(lengths))
    rows = y.copy_transpose([batch_dim, dim, wide]).raw_tensor.tolist()
    assert [row[:n] for row, n in zip(rows, sizes, strict=True)] == expected


def test_sides_of_the_window():
    x, time, _ = sequences([4])
    three = rf.Dim(3, name="three")
    left, dim = rf.window(x, spatial_dim=time, window_dim=three, window_left=2)
    right, _ = rf.window(x, spatial_dim=time, window_dim=three, window_right=0)
    assert dim is time and torch.equal(left.raw_tensor, right.raw_tensor)
    with pytest.raises(DimError, match="do not sum to the window size"):
        rf.window(x, spatial_dim=time, window_dim=three, window_left=2, window_right=1)
    with pytest.raises(ParameterError, match="unknown `padding`"):
        rf.window(x, spatial_dim=time, window_dim=three, padding="full")
    with pytest.raises(DimError, match="numbers of frames"):
        rf.window(x, spatial_dim=time, window_dim=three, stride=0)


def test_padding_is_seen_only_if_asked_for():
    x, time, _ = sequences([2, 1])  # padding is -1
    two = rf.Dim(2, name="two")
    assert rf.window(x, spatial_dim=time, window_dim=two)[0].raw_tensor[1, 0].tolist() == [20, 0]
    assert rf.window(x, spatial_dim=time, window_dim=two, use_mask=False)[0].raw_tensor[1, 0].tolist() == [20, -1]


def test_gradient():
    raw = torch.randn(4, requires_grad=True)
    time, three = rf.Dim(4, name="time"), rf.Dim(3, name="three")
    y, _ = rf.window(rf.convert_to_tensor(raw, dims=[time]), spatial_dim=time, window_dim=three)
    y.raw_tensor.sum().backward()
    assert raw.grad.tolist() == [2, 3, 3, 2]


def test_features_slide_too():
    feat, two = rf.Dim(3, name="feat"), rf.Dim(2, name="two")
    x = rf.convert_to_tensor(torch.arange(3), dims=[feat], feature_dim=feat)
    y, dim = rf.window(x, spatial_dim=feat, window_dim=two, padding="valid")
    assert y.feature_dim is dim is feat - 1 and y.raw_tensor.tolist() == [[0, 1], [1, 2]]
