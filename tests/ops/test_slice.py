"""Pieces of sequences, and frames added to them, against Python's lists."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, ParameterError
from tests.examples import examples

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
    assert x.raw_tensor.shape[x.dims.index(dim)] == x.size_of(dim).max
    sizes = np.broadcast_to(x.size_of(dim).values, len(x.raw_tensor))
    rows = x.copy_transpose([batch_dim, dim]).raw_tensor.tolist()
    return [row[:n] for row, n in zip(rows, sizes, strict=True)]


@examples(150)
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
    assert as_lists(*rf.slice(x, axis=time, start=-start)) == [lists[0][-2:], lists[1]]
    assert as_lists(*rf.slice(x, axis=time, step=start + 1)) == [lists[0][::3], lists[1]]
    assert as_lists(*rf.slice(x, axis=time, step=rf.convert_to_tensor(-2))) == [row[::-2] for row in lists]
    assert as_lists(*rf.slice(x, axis=time, start=start, step=2, size=1)) == [lists[0][2:3], lists[1][:1]]


@examples(100)
@given(lengths=lengths_lists, data=st.data())
def test_slices_by_tensors_are_those_of_lists(lengths, data):
    x, time, lists = sequences(lengths)
    number = st.integers(-6, 6)
    each = st.lists(number, min_size=len(lengths), max_size=len(lengths))
    start, end = (data.draw(st.none() | number | each) for _ in range(2))
    step = data.draw(st.none() | st.lists(st.sampled_from([1, 2, -1]), min_size=len(lengths), max_size=len(lengths)))

    def given_as(value):
        return rf.convert_to_tensor(value, dims=[batch_dim]) if isinstance(value, list) else value

    def of(value, i):
        return value[i] if isinstance(value, list) else value

    y, dim = rf.slice(x, axis=time, start=given_as(start), end=given_as(end), step=given_as(step))
    assert as_lists(y, dim) == [row[of(start, i) : of(end, i) : of(step, i)] for i, row in enumerate(lists)]


def test_a_tensor_of_other_dims_gives_a_slice_for_each():
    x, time, lists = sequences([5, 3])
    starts = rf.Dim(2, name="starts")
    y, dim = rf.slice(x, axis=time, start=rf.convert_to_tensor([0, 2], dims=[starts]))
    for k in range(2):
        one = rf.gather(y, indices=k, axis=starts).copy_transpose([batch_dim, dim])
        sizes = y.size_of(dim).values.take(k, y.size_of(dim).dims.index(starts))
        assert [row[:n] for row, n in zip(one.raw_tensor.tolist(), sizes, strict=True)] == [r[2 * k :] for r in lists]


def test_the_last_frame_stands_for_those_that_are_not_there():
    x, time, lists = sequences([5, 1])
    start = rf.convert_to_tensor([3, 0], dims=[batch_dim])
    y, dim = rf.slice(x, axis=time, start=start, size=2)
    assert y.raw_tensor.tolist() == [lists[0][3:], lists[1] * 2] and dim.dimension == 2


def test_size_as_a_dim():
    x, time, lists = sequences([5, 3])
    two = rf.Dim(2, name="two")
    y, dim = rf.slice(x, axis=time, start=1, size=two)
    assert dim is two and y.raw_tensor.tolist() == [row[1:3] for row in lists]
    fewer = rf.Dim(rf.convert_to_tensor([4, 1], dims=[batch_dim]), name="fewer")
    assert as_lists(*rf.slice(x, axis=time, start=1, size=fewer)) == [lists[0][1:5], lists[1][1:2]]


def test_slices_of_a_window_in_a_loop():
    x, time, lists = sequences([3, 3])
    places = rf.range_over_dim(time)
    with rf.Loop(axis=time) as loop:
        frame = loop.unstack(places)
        pair, two = rf.slice(x, axis=time, start=frame, size=2)
        out = loop.stack(pair)
    rows = out.copy_transpose([batch_dim, time, two]).raw_tensor.tolist()
    assert rows == [[[*row[t : t + 2], row[-1]][:2] for t in range(3)] for row in lists]


def test_the_same_slice_has_the_same_dim():
    _, time, _ = sequences([5, 3])
    x = rf.ones([batch_dim, time])
    assert rf.slice(x, axis=time, start=1)[1] is time - 1 is rf.slice(x, axis=time, end=-1)[1]


def test_a_size_that_goes_too_far_is_told():
    x, time, _ = sequences([5, 3])
    with pytest.raises(DimError, match="reaches past the end"):
        rf.slice(x, axis=time, start=3, size=3)
    with pytest.raises(DimError, match="4 frames of a sequence that has 3"):
        rf.slice(x, axis=time, size=4)
    with pytest.raises(DimError, match="`end` and `size` cannot be combined"):
        rf.slice(x, axis=time, end=1, size=1)
    with pytest.raises(DimError, match="`step` must not be 0"):
        rf.slice(x, axis=time, step=0)


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


@given(lengths=lengths_lists, amount=st.integers(1, 4))
def test_shifts(lengths, amount):
    x, time, lists = sequences(lengths)
    right = rf.shift_right(x, axis=time, pad_value=7, amount=amount)
    left = rf.shift_left(x, axis=time, pad_value=7, amount=amount)
    assert as_lists(right, time) == [([7] * amount + row)[: len(row)] for row in lists]
    assert as_lists(left, time) == [(row + [7] * amount)[amount:][: len(row)] for row in lists]


@given(lengths=lengths_lists)
def test_reverse_and_cumsum(lengths):
    x, time, lists = sequences(lengths)
    assert as_lists(rf.reverse_sequence(x, axis=time), time) == [row[::-1] for row in lists]
    assert as_lists(rf.cumsum(x, spatial_dim=time), time) == [np.cumsum(row, dtype=int).tolist() for row in lists]


@given(lengths=lengths_lists, data=st.data())
def test_amounts_may_differ_between_sequences(lengths, data):
    x, time, lists = sequences(lengths)
    amounts = [data.draw(st.lists(st.integers(0, 3), min_size=len(lengths), max_size=len(lengths))) for _ in range(2)]
    left, right = (rf.Dim(rf.convert_to_tensor(n, dims=[batch_dim]), name=f"n{i}") for i, n in enumerate(amounts))
    y, [dim] = rf.pad(x, axes=[time], padding=[(left, right)], value=7)
    assert dim is left + time + right
    before, behind = amounts
    assert as_lists(y, dim) == [[7] * a + row + [7] * b for a, row, b in zip(before, lists, behind, strict=True)]
    value = rf.convert_to_tensor([*range(len(lengths))], dims=[batch_dim])
    y, [dim] = rf.pad(x, axes=[time], padding=[(1, right)], value=value)
    assert as_lists(y, dim) == [[i, *row, *[i] * b] for i, (row, b) in enumerate(zip(lists, behind, strict=True))]


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@examples(40)
@given(lengths=lengths_lists, data=st.data())
def test_modes_with_any_lengths(mode, lengths, data):
    x, time, lists = sequences(lengths)
    amounts = [data.draw(st.lists(st.integers(0, 7), min_size=len(lengths), max_size=len(lengths))) for _ in range(2)]
    left, right = (rf.Dim(rf.convert_to_tensor(n, dims=[batch_dim]), name=f"n{i}") for i, n in enumerate(amounts))
    names = {"edge": "replicate", "reflect": "reflect", "wrap": "circular"}
    y, [dim] = rf.pad(x, axes=[time], padding=[(left, right)], mode=names[mode])
    both = zip(*amounts, strict=True)
    expected = [np.pad(row, n, mode=mode).tolist() if row else [0] * sum(n) for row, n in zip(lists, both, strict=True)]
    assert as_lists(y, dim) == expected


@given(lengths=lengths_lists, left=st.integers(-6, 3), right=st.integers(-6, 3))
def test_negative_amounts_take_frames_away(lengths, left, right):
    x, time, lists = sequences(lengths)
    y, [dim] = rf.pad(x, axes=[time], padding=[(left, right)], value=7)
    expected = []
    for row in lists:
        frames = range(-left, len(row) + right)
        expected.append([row[i] if 0 <= i < len(row) else 7 for i in frames])
    assert as_lists(y, dim) == expected


def test_frames_behind_the_padding_if_asked_for():
    x, time, lists = sequences([3, 1])
    y, [dim] = rf.pad(x, axes=[time], padding=[(1, 1)], value=7, handle_dynamic_dims=False)
    assert y.raw_tensor.tolist() == [[7, *lists[0], 7], [7, *lists[1], -1, -1, 7]] and y.size_of(dim).values == 5


def test_pad_carries_gradients_roles_and_dtypes():
    feat = rf.Dim(2, name="feat")
    raw = torch.randn(2, 2, requires_grad=True)
    x = rf.convert_to_tensor(raw, dims=[rf.Dim(2), feat], feature_dim=feat)
    y, [wide] = rf.pad(x, axes=[feat], padding=[(1, 1)], mode="circular")
    assert y.feature_dim is wide is 1 + feat + 1
    y.raw_tensor.sum().backward()
    assert raw.grad.tolist() == [[2, 2], [2, 2]]
    labels = rf.convert_to_tensor([True, False], dims=[feat], sparse_dim=None)
    assert rf.pad(labels, axes=[feat], padding=[(1, 0)], value=True)[0].raw_tensor.tolist() == [True, True, False]
    with pytest.raises(ParameterError, match="unknown `mode`"):
        rf.pad(x, axes=[feat], padding=[(1, 1)], mode="mirror")
    with pytest.raises(DimError, match="number of pairs differs"):
        rf.pad(x, axes=[feat], padding=[(1, 1), (0, 0)])
    with pytest.raises(DimError, match="which `source` lacks"):
        amount = rf.Dim(rf.convert_to_tensor([2, 1], dims=[batch_dim]), name="amount")
        rf.pad(rf.ones([feat]), axes=[feat], padding=[(amount, 0)])


@pytest.mark.parametrize("op", ["slice", "pad", "shift", "reverse"])
def test_lengths_follow_their_sequences(op):
    x, time, lists = sequences([1, 4, 2])
    y, dim, expected = {
        "slice": lambda: (*rf.slice(x, axis=batch_dim, start=2), lists[2:]),
        "pad": lambda: (rf.pad(x, axes=[batch_dim], padding=[(-1, 1)])[0], -1 + batch_dim + 1, [*lists[1:], []]),
        "shift": lambda: (rf.shift_left(x, axis=batch_dim, pad_value=0), batch_dim, [*lists[1:], []]),
        "reverse": lambda: (rf.reverse_sequence(x, axis=batch_dim), batch_dim, lists[::-1]),
    }[op]()  # fmt: skip
    assert y.dims[0] is dim and y.raw_tensor.shape[1] == max(map(len, expected))
    assert rf.reduce_sum(y, axis=time).raw_tensor.tolist() == [sum(row) for row in expected]


def test_cumsum_over_the_batch_skips_padding():
    x, time, lists = sequences([1, 3])
    y = rf.cumsum(x, spatial_dim=batch_dim)
    assert as_lists(y, time) == [lists[0], [lists[0][0] + lists[1][0], *lists[1][1:]]]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "bool"])
@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_cumsum_of_small_integers_does_not_wrap_around(dtype, backend):
    feat = rf.Dim(700, name="feat")
    rf.select_backend(backend)
    try:
        x = rf.cast(rf.full(dims=[feat], fill_value=100), dtype)
    finally:
        rf.select_backend("torch")
    y = rf.cumsum(x, spatial_dim=feat)
    assert (y.dtype, np.asarray(y.raw_tensor)[-1]) == ("int64", 700 * int(np.asarray(x.raw_tensor)[0]))


@pytest.mark.parametrize(("dtype", "expected"), [("int32", "int32"), ("bool", "int64"), ("float32", "float32")])
def test_cumsum_keeps_the_type_of_numbers(dtype, expected):
    feat = rf.Dim(3, name="feat")
    y = rf.cumsum(rf.cast(rf.ones([feat]), dtype), spatial_dim=feat)
    assert y.dtype == expected and y.raw_tensor.tolist() == [1, 2, 3]


def test_what_is_of_fixed_size_needs_no_new_plan():
    feat = rf.Dim(3, name="feat")
    x = rf.ones([feat])
    assert rf.pad(x, axes=[feat], padding=[(1, 2)])[1][0] is 1 + feat + 2
    assert rf.pad(x, axes=[feat], padding=[(1, 2)])[0].sig is rf.pad(x, axes=[feat], padding=[(1, 2)])[0].sig
    assert rf.slice(x, axis=feat, start=1)[0].sig is rf.slice(x, axis=feat, start=1)[0].sig
    assert rf.shift_right(x, axis=feat, pad_value=0.0, amount=9).raw_tensor.tolist() == [0, 0, 0]
