"""What is known of dims alone, against a plain loop over the frames."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import Dim
from rfnb.core.dims.lengths import Size

LENGTHS = st.lists(st.integers(0, 5), min_size=1, max_size=4)


def dims_of(lengths):
    """{batch, time} and {batch, beam, time}: `inner` has lengths over both."""
    batch, time, beam, inner = Dim(None, name="batch", kind="batch"), Dim(None), Dim(2, name="beam"), Dim(None)
    batch.bind(Size([], len(lengths)))
    time.dyn_size_ext = rf.convert_to_tensor(np.array(lengths), dims=[batch])
    inner.bind(Size([batch, beam], [[n, n + 1] for n in lengths]))
    return batch, time, beam, inner


def plain_count(lengths, use_mask):
    """By (batch, beam): the frames of time and inner."""
    longest = max(lengths)
    found = {}
    for (i, n), k in itertools.product(enumerate(lengths), range(2)):
        found[i, k] = (n, n + k) if use_mask else (longest, longest + 1)
    return found


@given(LENGTHS, st.booleans())
def test_entries_are_counted_without_padding(lengths, use_mask):
    batch, time, beam, inner = dims_of(lengths)
    plain = plain_count(lengths, use_mask)
    cases = {
        (batch, time): sum(plain[i, 0][0] for i in range(len(lengths))),
        (time, beam, batch): sum(t for t, _ in plain.values()),
        (batch, beam, inner): sum(s for _, s in plain.values()),
        (batch, beam, time, inner): sum(t * s for t, s in plain.values()),
        (batch,): len(lengths),
    }
    for dims, expected in cases.items():
        assert int(rf.num_elements_of_shape(dims, use_mask=use_mask)) == expected
        assert int(rf.ones(dims).num_elements()) == cases[dims] or not use_mask
    assert rf.num_elements_of_shape([beam, Dim(3)]) == 6


def test_lengths_of_dims_that_are_not_counted_stay():
    batch, time, beam, inner = dims_of([2, 0, 3])
    per_sequence = rf.num_elements_of_shape(time)
    assert (per_sequence.dims, per_sequence.raw_tensor.tolist()) == ((batch,), [2, 0, 3])
    per_beam = rf.num_elements_of_shape([batch, inner])
    assert (per_beam.dims, per_beam.raw_tensor.tolist()) == ((beam,), [5, 8])


@given(LENGTHS)
def test_the_part_that_is_no_padding(lengths):
    batch, time, _, _ = dims_of(lengths)
    everything = len(lengths) * max(lengths)
    part, inverse = (float(rf.masked_fraction_of_shape([batch, time], inverse=i)) for i in (False, True))
    assert part == pytest.approx(sum(lengths) / everything if everything else 1.0)
    assert inverse == pytest.approx(everything / max(sum(lengths), 1) if everything else 1.0)
    assert rf.masked_fraction_of_shape(Dim(3)) == 1


@given(LENGTHS, st.integers(1, 3))
def test_every_nth_position(lengths, stride):
    _, time, _, _ = dims_of(lengths)
    positions, out = rf.range_over_dim_strided(time, stride=stride)
    assert positions.raw_tensor.tolist() == list(range(0, max(lengths), stride))
    assert positions.sparse_dim is time
    assert out is time.ceildiv_right(stride)
    frames = rf.gather(rf.range_over_dim(time), indices=positions)
    assert frames.raw_tensor.tolist() == positions.raw_tensor.tolist()
    mine = Dim(None, name="mine")
    assert rf.range_over_dim_strided(time, stride=stride, out_dim=mine)[0].dims == (mine,)
    assert mine.size.agrees(out.size)


def test_positions_are_those_of_merged_dims():
    batch, time, beam, _ = dims_of([3, 3])
    for dims in ([beam, batch], [batch, beam], [time, beam, batch]):
        x = rf.range_over_merged_dims(dims)
        merged, _ = rf.merge_dims(x, dims=dims)
        assert x.dims == tuple(dims)
        assert merged.raw_tensor.tolist() == list(range(merged.raw_tensor.numel()))
    assert x.sparse_dim is time * beam * batch
    assert rf.range_over_merged_dims([beam]).raw_tensor.tolist() == [0, 1]


def test_equal_steps_for_each_sequence():
    batch, time, _, _ = dims_of([2, 0, 4])
    x = rf.linspace_over_dim(time, 1.0, 3.0)
    assert x.dims == (batch, time)
    rows = [row[:n] for row, n in zip(x.raw_tensor.tolist(), [2, 0, 4], strict=True)]
    assert rows == [[1.0, 2.0], [], [1.0, 1.5, 2.0, 2.5]]
    ends = rf.convert_to_tensor(torch.tensor([2.0, 4.0]), dims=[Dim(2, name="feat")])
    assert rf.linspace_over_dim(Dim(2), ends, 0.0, dtype="float64").raw_tensor.tolist() == [[2.0, 4.0], [1.0, 2.0]]


def test_the_last_frame():
    batch, time, _, inner = dims_of([2, 0, 3])
    last = rf.last_frame_position_of_dim(time)
    assert (last.dims, last.raw_tensor.tolist(), last.sparse_dim) == ((batch,), [1, 0, 2], time)
    assert rf.last_frame_position_of_dim(inner).raw_tensor.tolist() == [[1, 2], [0, 0], [2, 3]]
    assert rf.last_frame_position_of_dim(Dim(0)) == 0


ASKED = {
    "get_size_tensor": lambda d, x: (d.get_size_tensor(), lambda n: n),
    "get_mask": lambda d, x: (rf.reduce_sum(rf.cast(d.get_mask(), "int64"), axis=d), lambda n: n),
    "get_dim_value_tensor": lambda d, x: (d.get_dim_value_tensor(), lambda n: n),
    "num_elements_of_shape": lambda d, x: (rf.num_elements_of_shape([d, Dim(2)]), lambda n: 2 * n),
    "num_elements": lambda d, x: (rf.reduce_sum(x, axis=x.remaining_dims(d)).num_elements(), lambda n: n),
    "masked_fraction_of_shape": lambda d, x: (rf.masked_fraction_of_shape(d), lambda n: 1.0),
    "last_frame_position_of_dim": lambda d, x: (rf.last_frame_position_of_dim(d), lambda n: n - 1),
    "linspace_over_dim": lambda d, x: (rf.reduce_sum(rf.linspace_over_dim(d), axis=d), lambda n: (n - 1) / 2),
    "range_over_merged_dims": lambda d, x: (
        rf.reduce_max(rf.range_over_merged_dims([TWO, d]), axis=[TWO, d]),
        lambda n: 2 * n - 1,
    ),
}
TWO = Dim(2, name="two")


@pytest.mark.parametrize("name", ASKED)
def test_a_size_that_grows_in_a_loop(name):
    """It is another one at every step."""
    batch, time, _, _ = dims_of([3, 1])
    xs = rf.ones([batch, time, TWO])
    loop, empty, expected = rf.Loop(axis=time), Dim(0, name="grown"), None
    loop.state.grown, loop.state.axis = rf.zeros([batch, empty, TWO]), empty
    with loop:
        grown, axis = rf.cum_concat_step(loop.unstack(xs), prev_accum=loop.state.grown, axis=loop.state.axis)
        loop.state.grown, loop.state.axis = grown, axis
        found, expected = ASKED[name](axis, grown)
        out = loop.stack(found)
    assert out.raw_tensor.tolist() == [expected(n) for n in (1, 2, 3)]


def test_lengths_of_the_batch_are_the_same_at_every_step():
    batch, time, _, _ = dims_of([2, 1])
    ones = rf.ones([batch, time])
    with rf.Loop(axis=time) as loop:
        loop.unstack(ones)
        out = loop.stack(rf.num_elements_of_shape(time) + time.get_size_tensor())
    assert out.copy_transpose([time, batch]).raw_tensor.tolist()[0] == [4, 2]


def test_which_of_two_equal_dims_is_meant():
    feat, out = Dim(4, name="feat"), Dim(4, name="out")
    assert rf.dim_match_priority_when_needed(feat, out) is feat
    first = rf.dim_match_priority_when_needed(feat, out, feat)
    assert first is feat.copy(match_priority=1)
    assert rf.dim_match_priority_when_needed(first, feat) is first
    assert rf.dim_match_priority_when_needed(feat, first).match_priority == 2


def test_defaults():
    assert rf.get_default_dim_size_device() == "cpu"
    assert [rf.use_mask_default(), rf.use_mask_default(default=False), rf.use_mask_default(func_name="pool")] == [
        True,
        False,
        True,
    ]


def test_a_dim_without_a_size():
    with pytest.raises(rf.errors.DimError, match="no size yet"):
        rf.num_elements_of_shape(Dim(None, name="time"))
