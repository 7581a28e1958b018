"""The same entries under other dims."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.core.ground.backends import backend_of_raw
from rfnb.errors import DimError, DimRebound

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
    with pytest.raises(DimError, match="different size"):
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
    with pytest.raises(DimError, match="not a multiple of 3"):
        rf.split_dims(x, axis=feat, dims=[rf.Dim(None), beam])


def test_labels_of_another_dim(x):
    labels = rf.convert_to_tensor([1, 2], dims=[batch_dim], sparse_dim=feat)
    assert rf.set_sparse_dim(labels, beam).sparse_dim is beam
    assert rf.replace_dim(labels, in_dim=feat, out_dim=beam)[0].sparse_dim is beam


lengths_lists = st.lists(st.integers(0, 5), min_size=1, max_size=4)


def sequences(lengths, name="time"):
    """10, 11, … in the first, 20, 21, … in the second; and the same as lists."""
    time = rf.Dim(None, name=name)
    lists = [[10 * (i + 1) + t for t in range(n)] for i, n in enumerate(lengths)]
    raw = np.array([row + [-1] * (max(lengths) - len(row)) for row in lists]).reshape(len(lengths), max(lengths))
    return rf.convert_to_tensor(raw, dims=[batch_dim, time], lengths=lengths), time, lists


def as_lists(x, dim, owner=batch_dim):
    sizes = np.broadcast_to(x.size_of(dim).values, len(x.raw_tensor))
    rows = x.copy_transpose([owner, dim]).raw_tensor.tolist()
    return [row[:n] for row, n in zip(rows, sizes, strict=True)]


@given(old=lengths_lists, data=st.data())
def test_another_size_adds_zeros_or_cuts_each_sequence(old, data):
    new = data.draw(st.lists(st.integers(0, 5), min_size=len(old), max_size=len(old)))
    x, time, lists = sequences(old)
    _, other, _ = sequences(new, "other")
    y = rf.replace_dim_v2(x, in_dim=time, out_dim=other)
    assert y.raw_tensor.shape[1] == max(new)
    assert as_lists(y, other) == [(row + [0] * n)[:n] for row, n in zip(lists, new, strict=True)]
    for option, forbidden in (("allow_expand", any(map(int.__gt__, new, old))),
                              ("allow_shrink", any(map(int.__lt__, new, old)))):  # fmt: skip
        if forbidden:
            with pytest.raises(DimError, match="different size"):
                rf.replace_dim_v2(x, in_dim=time, out_dim=other, **{option: False})
        else:
            rf.replace_dim_v2(x, in_dim=time, out_dim=other, **{option: False})


def test_replaced_with_gradient_and_feature_dim():
    raw = torch.randn(2, 4, requires_grad=True)
    x = rf.convert_to_tensor(raw, dims=[beam_of(2), feat], feature_dim=feat)
    y = rf.replace_dim_v2(x, in_dim=feat, out_dim=beam)
    assert y.feature_dim is beam
    y.raw_tensor.sum().backward()
    assert raw.grad.tolist() == [[1, 1, 1, 0]] * 2


def beam_of(size):
    return rf.Dim(size, name="of")


def test_a_frame_where_there_is_none():
    x, time, _ = sequences([0, 0])
    y, dim = rf.expand_make_non_empty(x, axis=time)
    assert as_lists(y, dim) == [[0], [0]] and dim is rf.expand_make_non_empty(x, axis=time)[1]
    z, time, _ = sequences([2, 0])
    same, dim = rf.expand_make_non_empty(z, axis=time)
    assert same is z and dim is time
    own = rf.Dim(None, name="own")
    assert rf.expand_make_non_empty(z, axis=time, out_dim=own)[0].size_of(own).values.tolist() == [2, 0]


@given(sizes=st.lists(st.integers(0, 4), min_size=1, max_size=3), data=st.data())
def test_reshape_is_that_of_arrays(sizes, data):
    count = math.prod(sizes)
    divisors = [n for n in range(1, count + 1) if count % n == 0] or [0]
    first = data.draw(st.sampled_from(divisors))
    shape = [first, count // first if first else 3]
    ins = [rf.Dim(n, name=f"in{i}") for i, n in enumerate(sizes)]
    outs = [rf.Dim(n, name=f"out{i}") for i, n in enumerate(shape)]
    raw = torch.arange(2 * count).reshape(2, *sizes)
    x = rf.convert_to_tensor(raw, dims=[beam_of(2), *ins])
    assert torch.equal(rf.reshape(x, ins, outs).raw_tensor, raw.reshape(2, *shape))


def test_reshape_with_lengths(x, time):
    merged = rf.reshape(x, [time, feat], [4 * time])
    assert merged.size_of(4 * time).values.tolist() == [20, 12]
    back = rf.reshape(merged, [4 * time], [time, feat])
    assert torch.equal(back.raw_tensor, x.raw_tensor) and back.size_of(time).values.tolist() == [5, 3]
    pairs, two = rf.Dim(None, name="pairs"), rf.Dim(2, name="two")
    assert rf.reshape(x, [time, feat], [pairs, two]).size_of(pairs).values.tolist() == [10, 6]
    with pytest.raises(DimError, match="reshape: time has padding"):
        rf.reshape(x, [batch_dim, time], [rf.Dim(None, name="all")])
    with pytest.raises(DimError, match="reshape: the number of entries differs"):
        rf.reshape(x, [feat], [beam, rf.Dim(None, name="rest")])
    with pytest.raises(DimError, match="2 is not a Dim"):
        rf.split_dims(x, axis=feat, dims=[2, 2])


@pytest.mark.parametrize("pad", [None, True, False])
def test_when_a_split_is_filled_up(pad, x, time):
    chunk, chunks = rf.Dim(2, name="chunk"), rf.Dim(None, name="chunks")
    if pad is False:  # 5 and 3 frames: also where the longest sequence is even
        with pytest.raises(DimError, match="not a multiple of 2"):
            rf.split_dims(x, axis=time, dims=[chunks, chunk], pad_to_multiples=False)
        even = rf.convert_to_tensor(torch.randn(2, 4), dims=[batch_dim, time], lengths=[4, 3])
        with pytest.raises(DimError, match="not a multiple of 2"):
            rf.split_dims(even, axis=time, dims=[chunks, chunk], pad_to_multiples=False)
    else:
        y = rf.split_dims(x, axis=time, dims=[chunks, chunk], pad_to_multiples=pad, pad_value=9.0)
        assert y.size_of(chunks).values.tolist() == [3, 2] and y.raw_tensor[1, 1, 1].tolist() == [9.0] * 4
    tail, rest = rf.Dim(3, name="tail"), rf.Dim(None, name="rest")
    if pad:
        assert rf.split_dims(x, axis=feat, dims=[rest, tail], pad_to_multiples=True).raw_tensor.shape == (2, 5, 2, 3)
    else:
        with pytest.raises(DimError, match="not a multiple of 3"):
            rf.split_dims(x, axis=feat, dims=[rest, tail], pad_to_multiples=pad)


def test_dims_that_cannot_be_split_or_merged(x, time):
    with pytest.raises(DimError, match="more than one size is unknown"):
        rf.split_dims(x, axis=feat, dims=[rf.Dim(None), rf.Dim(None)])
    with pytest.raises(DimError, match="time has padding, which only the first of `dims` can take"):
        rf.split_dims(x, axis=time, dims=[rf.Dim(2), rf.Dim(None)])
    with pytest.raises(DimError, match="at least one, without repeats"):
        rf.merge_dims(x, dims=[feat, feat])
    with pytest.raises(DimError, match=r"rf\.pack_padded"):
        rf.merge_dims(x, dims=[time, batch_dim])
    with pytest.raises(DimError, match="not of size 1"):
        rf.squeeze(rf.convert_to_tensor(torch.zeros(2, 1), dims=[batch_dim, time], lengths=[1, 0]), time)


def test_lengths_follow_an_axis_that_owns_them(x, time):
    rows = rf.Dim(None, name="rows")
    replaced, _ = rf.replace_dim(x, in_dim=batch_dim, out_dim=rows)
    assert torch.allclose(rf.reduce_sum(replaced, axis=time).raw_tensor[1], x.raw_tensor[1, :3].sum(0))
    more = rf.replace_dim_v2(x, in_dim=batch_dim, out_dim=beam)
    assert more.size_of(time).values.tolist() == [5, 3, 0]
    uneven = rf.split_dims(x, axis=batch_dim, dims=[rf.Dim(None, name="groups"), beam])
    assert uneven.size_of(time).values.reshape(-1).tolist() == [5, 3, 0]
    one = rf.convert_to_tensor(torch.randn(1, 3), dims=[batch_dim, time], lengths=[3])
    assert rf.squeeze(one, batch_dim).size_of(time).values.tolist() == 3


def test_an_op_of_fixed_sizes_makes_no_new_dims():
    x, five = rf.ones([feat]), rf.Dim(5, name="five")
    assert rf.expand_dim(x, five).sig is rf.expand_dim(x, five).sig
    x, time, _ = sequences([2, 1])
    wide = rf.expand_dim(x, feat)
    assert rf.merge_dims(wide, dims=[time, feat])[1] is rf.merge_dims(wide, dims=[time, feat])[1] is time * feat


def test_output_with_dims_in_an_order_and_a_name(x, time):
    y = backend_of_raw(x.raw_tensor).make_output_tensor(x, [feat, batch_dim, time], name="y")
    assert y.dims == (feat, batch_dim, time) and y.name == "y"


def lengths_over(values, dims, name):
    return rf.Dim(rf.convert_to_tensor(np.array(values), dims=dims), name=name)


def test_a_dim_is_not_defined_again_by_one_that_follows_from_it():
    batch = rf.Dim(2, name="sequences")
    hist = lengths_over([0, 1], [batch], "hist")
    state, kept = rf.replace_dim(rf.ones([batch, hist]), in_dim=hist, out_dim=rf.Dim(None, name="kept"))
    grown, more = rf.cum_concat_step(rf.full(dims=[batch], fill_value=5.0), prev_accum=state, axis=kept)
    cut = rf.replace_dim_v2(grown, in_dim=more, out_dim=kept)
    assert cut.size_of(kept).values.tolist() == kept.size.values.tolist() == [0, 1]
    assert rf.reduce_sum(grown, axis=more).raw_tensor.tolist() == [5, 6]
    assert rf.reduce_sum(cut, axis=kept).raw_tensor.tolist() == [0, 1]


def test_a_history_of_each_frame_takes_the_place_of_the_frames():
    feat = rf.Dim(1, name="feat")
    time = rf.Dim(None, name="time")
    k = rf.convert_to_tensor(
        [[[1.0], [2.0], [3.0]], [[4.0], [5.0], [np.nan]]], dims=[batch_dim, time, feat], lengths=[3, 2]
    )
    hist = rf.Dim(rf.range_over_dim(time) + 1, name="hist")
    keys, out = rf.replace_dim(k, in_dim=time, out_dim=hist)
    assert out is hist and keys.dims == (batch_dim, hist, feat)
    assert hist.size.dims == keys.size_of(hist).dims == (time,) and hist.size.values.tolist() == [1, 2, 3]
    energy = rf.matmul(k, keys, reduce=feat)
    assert energy.dims == (batch_dim, time, hist) and energy.size_of(time).values.tolist() == [3, 2]
    assert rf.softmax(energy, axis=hist).raw_tensor[:, 0].tolist() == [[1, 0, 0], [1, 0, 0]]
    assert rf.reduce_sum(energy, axis=hist).raw_tensor[:, :2].tolist() == [[1, 6], [16, 45]]


def test_replacing_by_a_dim_with_lengths_changes_the_name_only(x, time):
    longest = rf.Dim(rf.convert_to_tensor(5), name="longest")
    shorter = rf.Dim([5, 1], name="shorter")
    all_frames, _ = rf.replace_dim(x, in_dim=time, out_dim=longest)
    assert all_frames.raw_tensor.shape == (2, 5, 4) and not all_frames.raw_tensor[1, 3:].any()
    few, _ = rf.replace_dim(x, in_dim=time, out_dim=shorter)
    assert few.size_of(shorter).values.tolist() == [5, 1] and torch.equal(few.raw_tensor, x.raw_tensor)
    with pytest.raises(DimError, match="different size"):
        rf.replace_dim(x, in_dim=time, out_dim=rf.Dim([4, 3], name="words"))
    positions = rf.range_over_dim(time)
    there, _ = rf.replace_dim(positions, in_dim=time, out_dim=rf.Dim(None, name="there"))
    assert there.size_of(there.dims[0]).values.tolist() == [5, 3]


def test_lengths_over_a_dim_that_was_replaced():
    batch, beam = rf.Dim(2, name="sequences"), rf.Dim(2, name="beam")
    hist = lengths_over([[0, 1], [2, 1]], [batch, beam], "hist")
    words = rf.convert_to_tensor(np.arange(8.0).reshape(2, 2, 2), dims=[batch, beam, hist])
    others, dual = rf.replace_dim(words, in_dim=beam)
    assert others.size_of(hist).dims == (batch, dual)
    for same in (rf.compare_bc(words, "==", others), rf.compare_bc(others, "==", words)):
        assert same.size_of(hist).dims == (batch, beam)
        found = rf.reduce_all(same, axis=hist).copy_transpose([batch, beam, dual])
        assert found.raw_tensor.tolist() == [[[True, True], [False, True]], [[True, False], [False, True]]]
    again, _ = rf.replace_dim(others, in_dim=dual, out_dim=beam)
    assert torch.equal((again + words).raw_tensor, 2 * words.raw_tensor)
    third, _ = rf.replace_dim(others, in_dim=dual)
    assert rf.compare_bc(words, "==", third).size_of(hist).dims == (batch, beam)
    with pytest.raises(DimRebound):
        rf.compare_bc(rf.replace_dim(words, in_dim=beam)[0], "==", others)


@pytest.mark.parametrize("over_beam_first", [False, True])
def test_replacing_a_dim_again_replaces_it_in_the_lengths_too(over_beam_first):
    """The plan of dims of one size is for tensors whose lengths do not depend on them."""
    beam, other, inner = rf.Dim(2, name="beam"), rf.Dim(2, name="other"), rf.Dim(None, name="inner")
    for over_beam in (over_beam_first, not over_beam_first, over_beam_first):
        lengths = [[1, 3], [2, 0]] if over_beam else [3, 1]
        owners = [batch_dim, beam] if over_beam else [batch_dim]
        inner.dyn_size_ext = rf.convert_to_tensor(lengths, dims=owners)
        x = rf.ones([batch_dim, beam, inner])
        y = rf.replace_dim_v2(x, in_dim=beam, out_dim=other)
        assert y.dims == (batch_dim, other, inner)
        size = y.size_of(inner)
        assert size.dims == ((batch_dim, other) if over_beam else (batch_dim,)) and size.values.tolist() == lengths
