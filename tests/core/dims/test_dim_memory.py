"""A fresh Dim per batch is as good as one Dim for all: nothing grows, nothing gets slower."""

from __future__ import annotations

import gc
import time as clock
import tracemalloc
import weakref

import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.core.dims import align

feat = Dim(4, name="feat")


def batches(count, bias):
    """Seconds of CPU time per batch."""
    raw = torch.ones(2, 3, 4)
    start = clock.process_time()
    for _ in range(count):
        time = Dim(None, name="time")
        x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=[3, 2])
        y = x + bias
        z = rf.reduce_sum(rf.softmax(y * x, axis=time), axis=time)
        assert z.dims == (batch_dim, feat)
    return (clock.process_time() - start) / count


@pytest.mark.slow
def test_thousands_of_fresh_dims():
    bias = rf.convert_to_tensor(torch.zeros(4), dims=[feat])
    batches(50, bias)
    first = min(batches(100, bias) for _ in range(6))
    tracemalloc.start()
    batches(2500, bias)  # fills the bounded tables
    gc.collect()
    before = tracemalloc.get_traced_memory()[0]
    batches(2000, bias)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    batches(1000, bias)
    last = min(batches(100, bias) for _ in range(6))
    assert grown < 250_000
    assert last < 2 * first


def _mean(time, lengths):
    raw = torch.ones(len(lengths), max(lengths), 4)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, feat], lengths=lengths)
    return rf.reduce_mean(x, axis=time)


def test_dims_that_are_made_for_one_batch_go_soon_with_its_masks():
    seen = []
    for number in range(30):
        time = Dim(None, name="time")
        _mean(time, [number + 2, number + 1])
        seen.append(weakref.ref(time))
    assert sum(ref() is not None for ref in seen) <= align._BATCHES + 1


def test_a_dim_of_all_batches_keeps_its_plans_beside_many_others():
    time = Dim(None, name="time")
    for number in range(30):
        _mean(time, [number + 2, number + 1])
        _mean(Dim(None, name="other"), [3, 2])
        if number == 15:
            signature = weakref.ref(align.sig([batch_dim, time, feat]))
    assert signature() is not None


def test_a_table_does_not_keep_the_dims_of_batches():
    table = rf.convert_to_tensor(torch.ones(4, 3), dims=[feat, Dim(3, name="out")])
    seen = []
    for _ in range(5):
        time = Dim(None, name="time")
        labels = rf.convert_to_tensor([[1, 2], [3]], dims=[batch_dim, time], sparse_dim=feat)
        rf.gather(table, indices=labels, axis=feat)
        seen += [dim.name for plan in table.sig.plans.values() for dim in _dims_in(plan)]
    assert "time" not in seen


def _dims_in(plan):
    if isinstance(plan, Dim):
        return [plan]
    return [dim for part in plan for dim in _dims_in(part)] if isinstance(plan, tuple) else []


@pytest.mark.slow
def test_no_cycle_needs_the_garbage_collector():
    """With it off, 10,000 ops leave nothing behind: tensors and dims go when nobody holds them."""
    bias = rf.convert_to_tensor(torch.zeros(4), dims=[feat])
    batches(2500, bias)  # fills the bounded tables
    gc.collect()
    gc.disable()
    try:
        before = _alive()
        batches(2000, bias)
        left = {kind: count - before[kind] for kind, count in _alive().items()}
    finally:
        gc.enable()
    assert max(left.values()) < 100


def _alive():
    alive = dict.fromkeys((rf.Tensor, Dim, align.Sig, torch.Tensor), 0)
    for found in gc.get_objects():  # kept by no name: a list of all objects would hold what holds itself
        for kind in alive:
            alive[kind] += issubclass(type(found), kind)
    return alive
