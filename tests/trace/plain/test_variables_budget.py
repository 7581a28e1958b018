"""What is kept of loops fits into a budget: of the host, and of an accelerator, which is played by the CPU here."""

from __future__ import annotations

import contextlib
import gc
import weakref

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.backend.torch.tape import TorchTape
from rfnb.trace.plain import variables


@pytest.fixture
def accelerator(monkeypatch):
    """Makes the CPU an accelerator with some free bytes; the list can be changed."""
    free = [400_000]
    monkeypatch.setattr(TorchTape, "is_on_host_raw", staticmethod(lambda raw: False))
    monkeypatch.setattr(TorchTape, "spare_memory_raw", staticmethod(lambda raw: free[0]))
    yield free
    rf.runs.clear()


def recorded(loop, *args):
    rf.runs.clear()
    with rf.record_loops(loop), contextlib.suppress(torch.OutOfMemoryError):
        loop(*args)
    return rf.runs[0]


def with_values(run, name):
    steps = range(run.steps + (run.failed is not None))
    return [step for step in steps if any(value.name == name for value in run[step].values())]


def loop(gradients, then=lambda i: None):
    x = torch.zeros(1000, requires_grad=gradients)
    for i in range(20):
        x = x * 1 + i
        then(i)
    return x


@pytest.mark.parametrize("gradients", [False, True])
def test_an_accelerator_has_a_budget_of_its_own(accelerator, gradients):
    steps = with_values(recorded(loop, gradients), "x")  # 20,000 bytes of 400,000 are five values
    assert 3 <= len(steps) <= 6 and steps[-1] == 19


def test_values_go_when_the_program_needs_the_memory(accelerator, monkeypatch):
    monkeypatch.setattr(variables, "CHECKED", 0)
    accelerator[0] = 4_000_000

    def use(i):
        accelerator[0] = 4_000_000 if i < 15 else 1000

    assert with_values(recorded(loop, False, use), "x")[0] >= 15


@pytest.mark.parametrize("caught", [False, True])
def test_values_go_when_there_is_no_memory_left(accelerator, caught):
    accelerator[0] = 4_000_000

    def fail(i):
        if i == 12:
            with contextlib.suppress(torch.OutOfMemoryError) if caught else contextlib.nullcontext():
                raise torch.OutOfMemoryError("no memory")

    def outer():
        x = torch.zeros(1000)
        for i in range(14):
            x = x * 1 + i
            try:
                fail(i)
            except torch.OutOfMemoryError:
                if not caught:
                    raise

    accelerator[0] = 4_000_000
    run = recorded(outer)
    assert with_values(run, "x") == ([*range(14)] if caught else [12])


def test_a_run_that_was_deleted_keeps_nothing_alive():
    class Net(torch.nn.Linear):
        def run(self, x):
            for _ in range(3):
                self.h = self(x)
                kept = [self.h, {"x": x}]
                alive.append(weakref.ref(self.h))
            return kept

    alive = []
    net, x = Net(3, 3), torch.ones(3)
    recorded(net.run, x)
    alive += [weakref.ref(net), weakref.ref(x)]
    run = rf.runs[0]
    assert run[2]["self.h"].raw_tensor.shape == (3,)
    rf.runs.clear()
    del net, x, run
    gc.collect()
    assert [ref() for ref in alive] == [None] * 5


def test_a_part_of_a_large_tensor_does_not_keep_it_alive():
    def rows():
        for i in range(3):
            large = torch.full((100, 1000), float(i))
            row = large[0]
            row[:2] += 1
            large = None
        return row

    run = recorded(rows)
    assert [run[i].row.raw_tensor[0].item() for i in range(3)] == [1, 2, 3]
    assert all(run[i].row.raw_tensor.untyped_storage().nbytes() == 4000 for i in range(3))


@pytest.fixture
def small_budget(monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 2**20)


def batches():
    for i in range(20):
        x = torch.full((100_000,), float(i))
        loss = x.mean() if i != 7 else x.mean() * float("nan")
        if i == 3:
            x[5] = float("inf")
    return loss


def test_losses_stay_when_batches_go(small_budget):
    run = recorded(batches)
    assert run.find("loss < 5") == [0, 1, 2, 3, 4] and run.find(rf.when.not_finite("loss")) == [7]
    assert run.find(rf.when.over(2.5, "loss")) == [3, 4, 5, 6, *range(8, 20)] and len(run.stack("loss").numpy()) == 20
    assert len(with_values(run, "x")) <= 2 and run.bytes < 2**20


def test_statistics_stand_for_lost_values(small_budget):
    run = recorded(batches)
    assert run.find(rf.when.not_finite("x")) == [3] and run.find(rf.when.not_finite()) == [3, 7]
    assert run.find(rf.when.over(10, "x")) == [3, *range(11, 20)]


def test_find_says_what_could_not_be_tested(small_budget):
    run = recorded(batches)
    with pytest.warns(rf.errors.LoopWarning, match="could not be tested at 19 steps from 0 to 18"):
        assert run.find("x.sum() > 1") == [19]
    with pytest.warns(rf.errors.LoopWarning, match="x changes could not be tested"):
        run.find(rf.when.changes("x"))


def test_repeated_tensors_are_counted_once(small_budget):
    def repeat():
        data = [torch.zeros(100_000), torch.ones(100_000)]
        for i in range(9):
            x = data[i % 2]
            y = x
        return y

    run = recorded(repeat)
    assert run.bytes < 810_000 and len(with_values(run, "x")) == 9


def tensors(n, name):
    for _ in rf.steps(range(n), name=name):
        x = torch.zeros(10_000)
    return x


def test_the_oldest_runs_go_for_one_that_is_recorded(small_budget):
    for name in ("first", "second"):
        tensors(11, name)  # 440,000 bytes
    assert [run.name for run in rf.runs] == ["second", "first"]
    seen = []
    for _ in rf.steps(range(12), name="third"):
        x = torch.zeros(10_000)
        seen.append([run.name for run in rf.runs])
    assert x.numel() and seen[0] == ["second", "first"] and seen[-1] == ["second"]
    assert len(with_values(rf.runs["third"], "x")) == 12 and len(with_values(rf.runs["second"], "x")) == 11
    assert rf.runs.bytes < 2**20


def test_a_pinned_run_leaves_less_to_one_that_is_recorded(small_budget):
    tensors(20, "pinned")
    rf.runs["pinned"].pinned = True
    tensors(20, "next")
    assert len(with_values(rf.runs["pinned"], "x")) == 20 and 1 <= len(with_values(rf.runs["next"], "x")) <= 6
    assert rf.runs.bytes < 2**20


def test_loops_that_run_at_the_same_time_share_the_budget(small_budget):
    used = []

    def outer():
        for _ in range(20):
            y = torch.zeros(10_000)
            inner()
        return y

    def inner():
        for _ in range(20):
            x = torch.zeros(10_000)
        used.append(sum(budgets.bytes for budgets in variables._open) + rf.runs.bytes)
        return x

    rf.runs.clear()
    with rf.record_loops(outer, inner):
        outer()
    assert max(used) < 1.2 * 2**20 and len(used) == 20


def test_a_warning_tells_of_last_values_above_the_budget(monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 2**20)
    arrays = []
    with pytest.warns(rf.errors.LoopWarning, match="more memory than .*: that of arrays, .* is the largest") as warned:
        for t in rf.steps(range(60)):
            arrays.append(np.full(2**13, t))
    assert len(warned) == 1
    assert int(rf.runs[0][59].arrays[29][0]) == 29


def test_a_search_tells_where_only_the_type_of_a_value_was_kept():
    for _ in rf.steps(range(3)):
        value = object()
    run = rf.runs[0]
    with pytest.warns(
        rf.errors.LoopWarning, match="'value == 3' could not be tested at 3 steps from 0 to 2, where only"
    ):
        assert run.find("value == 3") == []
    assert value is not None
