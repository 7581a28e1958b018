"""Tensors behind each other, above each other, and taken apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

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
    with pytest.raises(DimError, match="already in use"):
        rf.pad(a, axes=[time], padding=[(1, 1)], out_dims=[out])


def test_other_dims_are_told_and_may_be_broadcast():
    x, y = rf.ones([batch_of(2), feat]), rf.zeros([more])
    with pytest.raises(DimError, match=r"concat: `sources\[1\]` has different dims"):
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
    with pytest.raises(DimError, match="do not sum to"):
        rf.split(x, axis=feat + more, out_dims=[feat, feat + 1])


def test_cum_concat_step_adds_a_frame_behind_the_end():
    a, time = sequences("a", 3, 1)
    y, dim = rf.cum_concat_step(rf.convert_to_tensor([7, 8], dims=[batch_dim]), prev_accum=a, axis=time)
    assert (
        dim is time + 1 and y.raw_tensor[0].tolist() == [100, 101, 102, 7] and y.raw_tensor[1, :2].tolist() == [103, 8]
    )


lengths_lists = st.lists(st.integers(0, 4), min_size=1, max_size=3)


def numbered(lengths, name, offset=0):
    time = rf.Dim(None, name=name)
    raw = np.arange(offset, offset + len(lengths) * max(lengths), dtype=np.float64).reshape(len(lengths), max(lengths))
    lists = [row[:n].tolist() for row, n in zip(raw, lengths, strict=True)]
    return rf.convert_to_tensor(raw, dims=[batch_dim, time], lengths=lengths), time, lists


def as_lists(x, dim):
    sizes = np.broadcast_to(x.size_of(dim).values, len(x.raw_tensor))
    return [row[:n] for row, n in zip(x.raw_tensor.tolist(), sizes, strict=True)]


@given(a=lengths_lists, data=st.data())
def test_split_takes_apart_what_concat_joined(a, data):
    b, c = (data.draw(st.lists(st.integers(0, 4), min_size=len(a), max_size=len(a))) for _ in range(2))
    parts = [numbered(lengths, name, 100 * i) for i, (lengths, name) in enumerate(zip((a, b, c), "abc", strict=True))]
    whole, dim = rf.concat(*[(x, time) for x, time, _ in parts])
    assert as_lists(whole, dim) == [[*x, *y, *z] for x, y, z in zip(*[lists for _, _, lists in parts], strict=True)]
    rest = rf.Dim(None, name="rest")
    for dims in ([time for _, time, _ in parts], [parts[0][1], rest, parts[2][1]]):
        for piece, d, (_, _, lists) in zip(rf.split(whole, axis=dim, out_dims=dims), dims, parts, strict=True):
            assert as_lists(piece, d) == lists


def test_pieces_of_one_size_and_numbers():
    x, time, lists = numbered([5, 3], "time")
    head, rest = rf.split(x, axis=time, out_dims=[2, rf.Dim(None, name="rest")])
    assert head.dims[1].dimension == 2 and as_lists(rest, rest.dims[1]) == [row[2:] for row in lists]
    with pytest.raises(DimError, match="do not sum to time"):
        rf.split(x, axis=time, out_dims=[4, rf.Dim(None, name="rest")])
    with pytest.raises(DimError, match="do not sum to time"):
        rf.split(x, axis=time, out_dims=[rf.Dim(None), rf.Dim(None)])


def test_gradients_of_joined_and_cut_sequences():
    raws = [torch.randn(2, 3, requires_grad=True), torch.randn(2, 2, requires_grad=True)]
    a, b = rf.Dim(None, name="a"), rf.Dim(None, name="b")
    x = rf.convert_to_tensor(raws[0], dims=[batch_dim, a], lengths=[3, 1])
    y = rf.convert_to_tensor(raws[1], dims=[batch_dim, b], lengths=[1, 2])
    first, last = rf.split(rf.concat((x, a), (y, b))[0], axis=a + b, out_dims=[a, b])
    (rf.reduce_sum(2 * first, axis=[batch_dim, a]) + rf.reduce_sum(3 * last, axis=[batch_dim, b])).raw_tensor.backward()
    assert raws[0].grad.tolist() == [[2, 2, 2], [2, 0, 0]] and raws[1].grad.tolist() == [[3, 0], [3, 3]]


def test_batches_keep_the_lengths_of_their_sequences():
    x, time, lists = numbered([1, 4, 2], "time", 1)
    tail, fewer = rf.slice(x, axis=batch_dim, start=2)
    assert tail.raw_tensor.shape == (1, 2)
    both, dim = rf.concat((tail, fewer), (x, batch_dim))
    assert both.size_of(time).values.tolist() == [2, 1, 4, 2]
    sums = [sum(row) for row in (lists[2], *lists)]
    assert rf.reduce_sum(both, axis=time).raw_tensor.tolist() == sums
    first, others = rf.split(both, axis=dim, out_dims=[1, rf.Dim(None, name="others")])
    assert others.size_of(time).values.tolist() == [1, 4, 2] and first.raw_tensor.shape == (1, 2)
    assert [x.raw_tensor.tolist() for x in rf.unstack(x, axis=batch_dim)] == lists


def test_lengths_over_a_batch_of_fixed_size():
    pair = rf.Dim(2, name="pair")
    time = rf.Dim(rf.convert_to_tensor([3, 1], dims=[pair]), name="time")
    x = rf.ones([pair, time])
    for _ in range(2):  # the second time by a plan, if there were one
        both, dim = rf.concat((x, pair), (x, pair))
        assert rf.reduce_sum(both, axis=time).raw_tensor.tolist() == [3, 1, 3, 1] and dim.dimension == 4
        a, b = rf.split(both, axis=dim, out_dims=[1, 3])
        assert rf.reduce_sum(a, axis=time).raw_tensor.tolist() == [3] and b.size_of(time).values.tolist() == [1, 3, 1]


def test_entries_with_padding_are_refused():
    x, time, _ = numbered([3, 1], "time")
    with pytest.raises(DimError, match="unstack: time has padding"):
        rf.unstack(x, axis=time)
    even, time, lists = numbered([2, 2], "time")
    assert [e.raw_tensor.tolist() for e in rf.unstack(even, axis=time)] == np.transpose(lists).tolist()


def test_what_does_not_fit_is_told():
    with pytest.raises(DimError, match="concat: there is nothing to join"):
        rf.concat()
    x = rf.ones([feat])
    for sources in [(x, x), ([(x, feat), (x, feat)],)]:
        with pytest.raises(DimError, match="concat: each source needs the dim"):
            rf.concat(*sources)
    with pytest.raises(DimError, match=r"stack: `sources\[1\]` has different dims"):
        rf.stack([rf.ones([feat]), rf.ones([])])
    with pytest.raises(DimError, match="concat: more has a different size"):
        rf.concat((rf.ones([feat]), feat), (rf.ones([feat]), feat), out_dim=more)


@pytest.mark.parametrize("sizes", [(0, 2), (2, 0), (0, 0)], ids=str)
def test_empty_axes_join_and_split(sizes):
    dims = [rf.Dim(n, name=f"d{i}") for i, n in enumerate(sizes)]
    whole, dim = rf.concat(*[(rf.ones([d]), d) for d in dims])
    assert whole.raw_tensor.shape == (sum(sizes),)
    assert [p.raw_tensor.shape[0] for p in rf.split(whole, axis=dim, out_dims=dims)] == list(sizes)


def test_lengths_over_batch_and_beam():
    beam = rf.Dim(2, name="beam")
    x, time, lists = numbered([3, 1], "time")
    counts = [[1, 0], [2, 1]]
    more = rf.Dim(rf.convert_to_tensor(counts, dims=[batch_dim, beam]), name="more")
    y, [longer] = rf.pad(rf.expand_dim(x, beam), axes=[time], padding=[(0, more)], value=-7.0)
    both, dim = rf.concat((y, longer), (rf.expand_dim(x, beam), time))
    assert both.size_of(dim).values.shape == (2, 2)
    for k in range(2):
        hypothesis = rf.gather(both, indices=k, axis=beam).copy_transpose([batch_dim, dim])
        lengths = [2 * len(row) + counts[i][k] for i, row in enumerate(lists)]
        expected = [[*row, *[-7.0] * counts[i][k], *row] for i, row in enumerate(lists)]
        rows = hypothesis.raw_tensor.tolist()
        assert [row[:n] for row, n in zip(rows, lengths, strict=True)] == expected


def test_the_same_join_has_the_same_dim_and_makes_none():
    x, y = rf.ones([feat]), rf.ones([more])
    dims = {rf.concat((x, feat), (y, more))[1] for _ in range(3)}
    assert dims == {feat + more}


def test_joined_in_a_loop():
    x, time, lists = numbered([3, 1], "time")
    with rf.Loop(axis=time) as loop:
        frame = loop.unstack(x)
        pair, two = rf.stack([frame, 2 * frame])
        triple, dim = rf.concat((pair, two), (rf.expand_dim(frame, rf.single_step_dim), rf.single_step_dim))
        out = loop.stack(triple)
    expected = [[[v, 2 * v, v] for v in row] for row in lists]
    assert as_lists(out.copy_transpose([batch_dim, time, dim]), time) == expected


def test_cum_concat_step_in_a_loop_of_python():
    x, time, lists = numbered([3, 3], "time")
    seen, axis = rf.zeros([batch_dim, rf.Dim(0, name="seen")]), None
    axis = seen.dims[1]
    for frame in rf.unstack(x, axis=time):
        seen, axis = rf.cum_concat_step(frame, prev_accum=seen, axis=axis)
    assert as_lists(seen, axis) == lists
