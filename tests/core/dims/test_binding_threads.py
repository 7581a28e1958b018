"""Each thread binds dims for itself."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim


def in_thread(call: Callable[[], object]) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_a_thread_that_bound_nothing_sees_what_the_main_thread_bound():
    time = Dim([5, 2], name="time")
    assert in_thread(lambda: time.size.values.tolist()) == [5, 2]
    batch_dim.bind(rf.Dim(3).size)
    time.bind(Dim([1, 2, 3]).size)
    assert in_thread(lambda: time.size.values.tolist()) == [1, 2, 3]


def test_what_another_thread_binds_stays_there():
    time = Dim([5, 2], name="time")

    def other() -> tuple[list[int], list[int]]:
        rf.convert_to_tensor([[1, 2, 3], [4], [5]], dims=[batch_dim, time])
        return time.size.values.tolist(), (time + 1).size.values.tolist()

    assert in_thread(other) == ([3, 1, 1], [4, 2, 2])
    assert (time.size.values.tolist(), (time + 1).size.values.tolist()) == ([5, 2], [6, 3])
    assert in_thread(lambda: time.size.values.tolist()) == [5, 2]


def test_a_thread_keeps_its_own_when_the_main_thread_binds_again():
    time = Dim([5, 2], name="time")
    bound, again = threading.Event(), threading.Event()

    def other() -> list[int]:
        time.bind(Dim([4, 4]).size)
        bound.set()
        assert again.wait(10)
        return time.size.values.tolist()

    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(other)
        assert bound.wait(10)
        time.bind(Dim([7, 7]).size)
        again.set()
        assert found.result() == [4, 4]
    assert time.size.values.tolist() == [7, 7]


def test_the_main_thread_sees_what_another_thread_bound_first():
    """A thread that prepares batches binds their dims; the main thread computes with them."""
    time = Dim(None, name="time")
    x = in_thread(lambda: rf.convert_to_tensor([[1.0, 2.0], [3.0]], dims=[batch_dim, time]))
    assert (x + rf.zeros([time])).dims == (batch_dim, time)
    time.bind(Dim([4, 4]).size)
    assert time.size.values.tolist() == [4, 4]


def test_a_thread_forgets_for_itself():
    time = Dim([5, 2], name="time")

    def other() -> bool:
        time.reset_raw()
        return time.is_defined()

    assert (in_thread(other), time.is_defined()) == (False, True)


def test_threads_that_share_dims_compute_their_own_batches():
    time, feat = Dim(None, name="time"), Dim(3, name="feat")
    start = threading.Barrier(4)

    def serve(number: int) -> int:
        start.wait()
        for count in range(60):
            lengths = [(number + count) % 5 + 1, number + 1]
            raw = torch.ones(2, max(lengths), 3)
            x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=lengths)
            y = rf.softmax(x + rf.zeros([batch_dim, time]), axis=time) * rf.cast(
                rf.range_over_dim(time) >= 0, "float32"
            )
            loop = rf.Loop(axis=time)
            loop.state.total = rf.zeros([batch_dim, feat])
            with loop:
                loop.state.total = loop.state.total + loop.unstack(y)
            torch.testing.assert_close(loop.state.total.raw_tensor, torch.ones(2, 3))
            assert time.size.values.tolist() == lengths
        return number

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(serve, range(4))) == [0, 1, 2, 3]


@pytest.mark.slow
def test_dims_of_other_threads_leave_nothing_behind():
    def make() -> list[weakref.ref[Dim]]:
        dims = [Dim(None, name="time") for _ in range(100)]
        for dim in dims:
            dim.bind(Dim([3, 1]).size)
        return [weakref.ref(dim) for dim in dims]

    def kept() -> int:
        gc.collect()
        return sum(type(each) is threading.local for each in gc.get_objects())

    in_thread(make)  # binds the batch dim in another thread for the first time, which keeps one
    before = kept()
    assert [ref for ref in in_thread(make) if ref() is not None] == []
    assert kept() <= before
