"""Long loops forget their oldest iterations: memory stays within the budget, and what is left is as it was."""

from __future__ import annotations

import contextlib
import math
import random
import tracemalloc

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import LoopError, LoopWarning
from rfnb.trace.plain import recorder
from rfnb.trace.plain.recorder import FrameRecorder
from rfnb.trace.plain.variables import Budgets
from tests.trace.plain import loops_by_hand
from tests.trace.plain.programs import LOST, equal
from tests.trace.plain.test_fork import LOOPS, assert_same_steps, entries


@pytest.fixture(autouse=True)
def without_runs():
    rf.runs.clear()
    yield
    rf.runs.clear()


@pytest.fixture
def eager(monkeypatch):
    """Each iteration forgets what is before it, as far as it can."""
    forgotten = []
    monkeypatch.setattr(Budgets, "log_is_large", lambda self: True)
    monkeypatch.setattr(Budgets, "is_due", lambda self, hidden: True)
    monkeypatch.setattr(recorder, "GAIN", 1)
    monkeypatch.setattr(recorder, "PART", 0.9)
    monkeypatch.setattr(FrameRecorder, "_give_up", lambda self, error: (_ for _ in ()).throw(error))
    oldest = recorder.forget_oldest
    monkeypatch.setattr(
        "rfnb.trace.plain.recorder.forget_oldest", lambda *args: forgotten.append(oldest(*args)) or forgotten[-1]
    )
    return forgotten


def record(loop):
    """The runs of a loop, in order."""
    rf.runs.clear()
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    with rf.recording("all"), rf.record_loops(), contextlib.suppress(Exception):
        loop()
    return [*reversed([*rf.runs])]


def same(a, b):
    try:
        return a is LOST or b is LOST or equal(a, b)
    except RuntimeError:  # of objects that have tensors
        return True


def value_of(run, name, step, after):
    try:
        return run.replay.variable(name, step, after=after)
    except (KeyError, rf.errors.RfError):
        return LOST


BY_HAND = {name: loop for name, loop in loops_by_hand.LOOPS.items() if name not in loops_by_hand.TRAINING}


@pytest.mark.parametrize("name", [*LOOPS, *BY_HAND])
def test_what_is_left_is_as_it_was_and_nothing_is_wrong(name, request):
    loop = LOOPS.get(name) or BY_HAND[name]
    whole = record(loop)
    forgotten = request.getfixturevalue("eager")
    short = record(loop)
    assert [run.steps for run in short] == [run.steps for run in whole]
    for mine, theirs in zip(short, whole, strict=True):
        first = mine.replay.iterations.first
        begun = len(mine.replay.iterations.starts)
        for step in range(first, begun):
            for ours, others in zip(entries(mine, step), entries(theirs, step), strict=True):
                assert ours[:2] == others[:2]
                assert same(ours[2], others[2]), (step, ours)
        for step in range(begun):
            for variable in theirs.replay.variable_names():
                for after in (False, True):
                    ours, others = (value_of(run, variable, step, after) for run in (mine, theirs))
                    assert same(ours, others), (variable, step, after)
                    assert step < first or type(ours) is type(others), (variable, step, after)
    assert forgotten


@pytest.mark.parametrize("name", [*LOOPS][::4])
def test_a_fork_at_each_step_that_is_left_is_the_rest_of_the_loop(name, eager):
    for run in record(LOOPS[name]):
        first = run.replay.iterations.first
        for step in range(first, len(run.replay.iterations.starts)):
            with contextlib.suppress(ZeroDivisionError):
                assert_same_steps(run, run.fork(step))
        for step in range(min(first, 2)):
            with pytest.raises(LoopError, match=f"fork: step {step} is no longer kept"):
                run.fork(step)


def losses(n, at=None):
    h, rate = torch.ones(4), 0.5
    for i in range(n):
        if i == 0:
            rate = 0.25
        h = h * rate + i
        loss = h.sum().item()
    return loss


def nested(n):
    total = 0.0
    for i in range(n // 4):
        for j in range(4):
            total = total + i * j
    return total


def epochs(n):
    total = 0.0
    for epoch in range(2):
        first = epoch
        for j in range(n // 2):
            total = total + first * j
    return total


def draws(n):
    for _ in range(n):
        x = random.random()
    return x


class Box:
    n = 0


def objects(n):
    box = Box()
    for i in range(n):
        box.n = box.n + 1
        batch = {"i": i, "list": [i, i + 0.5]}
    return batch


def waits(n):
    numbers = iter(range(n))
    while next(numbers, None) is not None:
        pass


LONG = {losses: 4000, nested: 4000, epochs: 4000, draws: 500, objects: 2000, waits: 2000}
"""Iterations whose values take more than twice the memory that the test allows."""


@pytest.mark.parametrize("loop", LONG, ids=lambda loop: loop.__name__)
def test_memory_is_flat_at_the_budget(loop, monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 2**18)
    with rf.record_loops(loop):
        loop(10)
    rf.runs.clear()
    tracemalloc.start()
    try:
        with rf.record_loops(loop):
            loop(LONG[loop])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    [run] = rf.runs
    assert run.bytes < 2**18 and peak < 2**19
    assert 0 < run.replay.kept_from <= run.steps


def test_the_oldest_steps_are_lost_and_the_others_are_as_they_were(monkeypatch, tmp_path):
    monkeypatch.setattr(rf.options, "trace_budget", 2**18)
    loss = 0.0
    with rf.record_loops(losses):
        losses(3000)
    [run] = rf.runs
    first = run.replay.kept_from
    assert run.steps == 3000 and 1000 < first < 2990
    for again in (run, rf.load_run(run.save(tmp_path / "x.rfrun"))):
        assert not again[first - 2].values()
        assert len(again[first].values()) == 3 and again[first].before.h.dims == again[first].h.dims
        assert again[2999].loss.item() == run[2999].loss.item() != loss
        assert again[first].rate.item() == again[first].before.rate.item() == 0.25  # set at the first step
        assert again[5].loss == again[5].rate == "no longer kept" and again.replay.kept_from == first
        with pytest.raises(LoopError, match="its value at step 0 is no longer kept") as caught:
            again.stack("loss")
        assert f"run[{first}] and later steps" in caught.value.expected
    with pytest.warns(LoopWarning, match=f"could not be tested at {first - 1} steps from 0 to {first - 2}"):
        assert run.find("loss > 1e9") == []
    assert math.isclose(run[2999].before.loss.item(), run[2998].loss.item())


def test_calls_that_are_recorded_forget_the_oldest(monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 2**18)

    def double(x):
        y = 2 * x
        return y + 1

    with rf.record_calls(double):
        for x in range(3000):
            double(x)
    [run] = rf.runs
    first = run.replay.kept_from
    assert run.steps == 3000 and 0 < first < 2990 and run.bytes < 2**18
    assert [run[step].returned.item() for step in range(first, 3000)] == [2 * x + 1 for x in range(first, 3000)]


def test_a_loop_with_conditions_forgets_the_oldest(monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 2**18)
    pause = rf.pause_when("before.loss > loss and i < 0")
    with rf.record_loops(losses):
        losses(3000)
    pause.remove()
    [run] = rf.runs
    first = run.replay.kept_from
    assert run.steps == 3000 and 0 < first < 2990
    assert all(run[step].before.loss.item() == run[step - 1].loss.item() for step in range(first + 1, 3000))
