"""Sizes beyond what a tensor can have."""

from __future__ import annotations

import pytest

import rfnb as rf
from rfnb import Dim
from rfnb.errors import DimError

HUGE, OUT = Dim(2**62, name="huge"), Dim(3, name="out")


@pytest.mark.parametrize("size", [2**63, 2**70])
def test_a_dim_has_a_size_of_64_bits(size):
    with pytest.raises(DimError, match="d is too large"):
        Dim(size, name="d")


@pytest.mark.parametrize("make", [lambda: 4 * HUGE, lambda: HUGE * HUGE, lambda: HUGE + HUGE], ids=["4x", "xx", "x+x"])
def test_sizes_of_expressions_do_not_overflow(make):
    with pytest.raises(DimError, match="too large"):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: rf.zeros([HUGE]),
        lambda: rf.ones([Dim(2**40), Dim(2**40)]),
        lambda: rf.range_over_dim(HUGE),
        lambda: rf.random_normal([HUGE, OUT]),
        lambda: rf.Parameter([HUGE]),
        lambda: rf.Linear(HUGE, OUT),
        lambda: rf.Embedding(HUGE, OUT),
        lambda: rf.LSTM(OUT, HUGE),
        lambda: rf.Conv1d(OUT, OUT, 2**62, padding="same"),
    ],
)
def test_tensors_that_no_memory_holds(make):
    with pytest.raises(DimError, match="too large"):
        make()


def test_labels_of_a_huge_dim_need_no_tensor_of_that_size():
    assert rf.zeros([OUT], dtype="int64", sparse_dim=HUGE).sparse_dim is HUGE
