"""The sizes of the batch of now: one set for all tensors of a batch, which goes when they go."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.core.dims import align
from rfnb.errors import DimError

feat = Dim(4, name="feat")


@pytest.fixture
def no_collector():
    """What goes now goes by counting references."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def new_batch():
    time = Dim(None, name="time")
    return time, rf.convert_to_tensor(torch.ones(2, 3, 4), dims=[batch_dim, time, feat], lengths=[3, 2])


def test_the_order_of_dims_makes_no_other_lengths():
    time, x = new_batch()
    y = rf.zeros([time, batch_dim])
    assert x.lengths is y.lengths is time.lengths


def test_dims_and_masks_of_a_batch_go_with_it(no_collector):
    time, x = new_batch()
    other = rf.ones([batch_dim, Dim(2, name="two")])
    scores = rf.softmax(rf.combine_bc(x, "mul", other), axis=time)
    y = rf.reduce_mean(rf.where(rf.sequence_mask(time), scores, 0.0), axis=time)
    gone = weakref.ref(time), weakref.ref(x.lengths)
    del time, x, y, other, scores
    align._recent.clear()
    align._of_batches.clear()
    new_batch()
    assert [ref() for ref in gone] == [None, None]


@pytest.mark.parametrize(
    "op",
    [
        lambda x, time, out: rf.slice(x, axis=time, end=3, out_dim=out),
        lambda x, time, out: rf.concat((x, time), out_dim=out),
        lambda x, time, out: rf.pad(x, axes=[time], padding=[(1, -1)], out_dims=[out]),
    ],
    ids=["slice", "concat", "pad"],
)
def test_a_dim_of_fixed_size_takes_no_sequences_of_different_length(op):
    time, x = new_batch()
    with pytest.raises(DimError, match="a different size"):
        op(x, time, Dim(3, name="three"))
