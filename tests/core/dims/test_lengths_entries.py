"""Which entries of a tensor count."""

import numpy as np

import rfnb as rf
from rfnb.core.dims.lengths import Size, frames_mask, going_on_mask, within

batch, time, feat = rf.Dim(2, name="batch"), rf.Dim(None, name="time"), rf.Dim(4, name="feat")


def test_frames_are_the_positions_within_each_sequence():
    mask = frames_mask((time, batch, feat), [(time, Size([batch], [1, 3]))])
    assert mask.shape == (3, 2, 1)
    assert mask[:, :, 0].T.tolist() == [[True, False, False], [True, True, True]]


def test_without_sizes_there_is_no_mask():
    assert frames_mask((feat,), []) is None


def test_sequences_go_on_until_their_last_step():
    steps = Size([batch], [1, 3])
    assert going_on_mask((feat, batch), steps, 1).tolist() == [[False, True]]
    assert going_on_mask((feat, batch), steps, np.arange(2).reshape(-1, 1, 1)).shape == (2, 1, 2)


def test_a_value_without_the_sequences_goes_on_as_long_as_one_of_them():
    assert going_on_mask((feat,), Size([batch], [1, 3]), 2).tolist() == [True]
    assert within(Size([batch], [1, 3]), (feat,)).max == 3
