"""Batches by frames: each sequence once, within the limits, the same for each epoch, shared among processes."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DataError

LENGTHS = st.lists(st.integers(0, 30), max_size=60)


@given(LENGTHS, st.integers(1, 60), st.one_of(st.none(), st.integers(1, 5)), st.booleans(), st.integers(1, 20))
def test_each_sequence_once_and_within_the_limits(lengths, max_frames, max_seqs, shuffle, bucket):
    limits = {"max_frames": max_frames, "max_seqs": max_seqs}
    batches = rf.FrameBatches(np.array(lengths, int), **limits, shuffle=shuffle, bucket=bucket)
    found = list(batches)
    assert sorted(i for batch in found for i in batch) == list(range(len(lengths))) and len(found) == len(batches)
    for batch in found:
        padded = len(batch) * max(lengths[i] for i in batch)
        assert (padded <= max_frames or len(batch) == 1) and len(batch) <= (max_seqs or len(batch))


@given(LENGTHS, st.integers(1, 4), st.integers(0, 3))
def test_processes_have_as_many_batches_and_together_all(lengths, world, epoch):
    parts = []
    for rank in range(world):
        batches = rf.FrameBatches(lengths, max_frames=40, bucket=8, rank=rank, world_size=world)
        batches.set_epoch(epoch)
        parts.append(list(batches))
    assert len({len(part) for part in parts}) == 1
    alone = rf.FrameBatches(lengths, max_frames=40, bucket=8)
    alone.set_epoch(epoch)
    every = {tuple(batch) for part in parts for batch in part}
    assert every == {tuple(batch) for batch in alone} and sum(map(len, parts)) - len(alone) < world


def test_epochs_differ_and_can_be_repeated():
    batches = rf.FrameBatches(list(range(1, 200)), max_frames=300, bucket=50, seed=3)
    first = list(batches)
    batches.set_epoch(1)
    second = list(batches)
    batches.set_epoch(0)
    assert list(batches) == first != second
    assert list(rf.FrameBatches(list(range(1, 200)), max_frames=300, bucket=50, seed=4)) != first


def test_buckets_keep_padding_small():
    lengths = np.random.default_rng(0).integers(1, 100, 2000)
    padded = sum(len(batch) * lengths[batch].max() for batch in rf.FrameBatches(lengths, max_frames=1000, bucket=500))
    assert padded / lengths.sum() < 1.1


@pytest.mark.parametrize(
    "lengths, options",
    [
        *(([1], {name: 0}) for name in ("max_frames", "max_seqs", "bucket")),
        *(([-1], {}), ([1.5], {}), ([[1]], {}), ([1], {"rank": 2, "world_size": 2})),
    ],
)
def test_wrong_arguments(lengths, options):
    with pytest.raises(DataError):
        rf.FrameBatches(lengths, **{"max_frames": 5, **options})
