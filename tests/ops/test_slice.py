"""Pieces of sequences, and frames added to them, against Python's lists."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError

lengths_lists = st.lists(st.integers(0, 5), min_size=1, max_size=4)
bounds = st.none() | st.integers(-6, 6)


def sequences(lengths):
    """10, 11, … in the first, 20, 21, … in the second; and the same as lists."""
    time = rf.Dim(None, name="time")
    lists = [[10 * (i + 1) + t for t in range(n)] for i, n in enumerate(lengths)]
    raw = np.array([row + [-1] * (max(lengths) - len(row)) for row in lists], dtype=np.int64).reshape(
        len(lengths), max(lengths)
    )
    return rf.convert_to_tensor(raw, dims=[batch_dim, time], lengths=lengths), time, lists


def as_lists(x, dim):
    sizes = np.broadcast_to(x.size_of(dim).values, len(x.raw_tensor))
    rows = x.copy_transpose([batch_dim, dim]).raw_tensor.tolist()
    return [row[:n] for row, n in zip(rows, sizes, strict=True)]


@settings(deadline=None, max_examples=150)
@given(lengths=lengths_lists, start=bounds, end=bounds, step=st.sampled_from([None, 1, 2, 3, -1, -2]))
def test_slices_are_those_of_lists(lengths, start, end, step):
    x, time, lists = sequences(lengths)
    y, dim = rf.slice(x, axis=time, start=start, end=end, step=step)
    assert as_lists(y, dim) == [row[start:end:step] for row in lists]


def test_bounds_may_differ_between_sequences():
    x, time, lists = sequences([5, 3])
    start = rf.convert_to_tensor([2, 0], dims=[batch_dim])
    end = rf.convert_to_tensor([3, 2], dims=[batch_dim])
    assert as_lists(*rf.slice(x, axis=time, start=start)) == [lists[0][2:], lists[1]]
    assert as_lists(*rf.slice(x, axis=time, start=start, end=end)) == [lists[0][2:3], lists[1][:2]]
    assert as_lists(*rf.slice(x, axis=time, start=start, size=2)) == [lists[0][2:4], lists[1][:2]]
    assert as_lists(*rf.slice(x, axis=time, start=1, size=start)) == [lists[0][1:3], []]


def test_the_same_slice_has_the_same_dim():
    _, time, _ = sequences([5, 3])
    x = rf.ones([batch_dim, time])
    assert rf.slice(x, axis=time, start=1)[1] is time - 1 is rf.slice(x, axis=time, end=-1)[1]


def test_a_size_that_goes_too_far_is_told():
    x, time, _ = sequences([5, 3])
    with pytest.raises(DimError, match="goes behind the end"):
        rf.slice(x, axis=time, start=3, size=3)


@settings(deadline=None)
@given(lengths=lengths_lists, left=st.integers(0, 3), right=st.integers(0, 3))
def test_pad_goes_directly_around_each_sequence(lengths, left, right):
    x, time, lists = sequences(lengths)
    y, [dim] = rf.pad(x, axes=[time], padding=[(left, right)], value=7)
    assert dim is time + left + right
    assert as_lists(y, dim) == [[7] * left + row + [7] * right for row in lists]


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_pad_modes(mode):
    x, time, lists = sequences([5, 3])
    names = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}
    y, [dim] = rf.pad(x, axes=[time], padding=[(2, 1)], mode=names[mode])
    assert as_lists(y, dim) == [np.pad(row, (2, 1), mode=mode).tolist() for row in lists]


def test_pad_of_two_axes_at_once():
    a, b = rf.Dim(2, name="a"), rf.Dim(3, name="b")
    y, _ = rf.pad(rf.ones([a, b]), axes=[a, b], padding=(1, 0))
    assert y.raw_tensor.shape == (3, 4) and y.raw_tensor.sum() == 6


@settings(deadline=None)
@given(lengths=lengths_lists, amount=st.integers(1, 4))
def test_shifts(lengths, amount):
    x, time, lists = sequences(lengths)
    right = rf.shift_right(x, axis=time, pad_value=7, amount=amount)
    left = rf.shift_left(x, axis=time, pad_value=7, amount=amount)
    assert as_lists(right, time) == [([7] * amount + row)[: len(row)] for row in lists]
    assert as_lists(left, time) == [(row + [7] * amount)[amount:][: len(row)] for row in lists]


@settings(deadline=None)
@given(lengths=lengths_lists)
def test_reverse_and_cumsum(lengths):
    x, time, lists = sequences(lengths)
    assert as_lists(rf.reverse_sequence(x, axis=time), time) == [row[::-1] for row in lists]
    assert as_lists(rf.cumsum(x, spatial_dim=time), time) == [np.cumsum(row, dtype=int).tolist() for row in lists]
