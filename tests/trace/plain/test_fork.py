"""Forks of recorded loops of plain Python: without edits, all later steps are those of the original, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.trace.plain.values import Opaque
from tests.trace.plain import loops
from tests.trace.plain.programs import LOST, equal, of_entry

LOOPS = {loop.__name__: loop for loop in loops.LOOPS}


@pytest.fixture(autouse=True)
def no_runs():
    rf.runs.clear()
    yield
    rf.runs.clear()


def record(loop):
    """The runs of the loops of a function that are in no other loop."""
    torch.manual_seed(1)
    random.seed(1)
    np.random.seed(1)
    with rf.record_loops(loop):
        loop()
    return list(rf.runs)


def entries(run, step):
    return [(entry.name, entry.line, of_entry(entry)) for entry in run.replay.iterations.entries(step)]


def assert_same_steps(run, fork):
    """All steps are equal; at most a few values are marked as lost."""
    begun = run.replay.iterations.steps
    assert fork.replay.iterations.steps == begun and fork.steps == run.steps
    lost = compared = 0
    for step in range(begun):
        mine, theirs = entries(run, step), entries(fork, step)
        assert [entry[:2] for entry in theirs] == [entry[:2] for entry in mine], step
        for (name, line, a), (_, _, b) in zip(mine, theirs, strict=True):
            compared += 1
            lost += a is LOST or b is LOST
            assert a is LOST or b is LOST or isinstance(a, Opaque) or equal(a, b), (step, name, line, a, b)
    assert lost <= 0.4 * compared + 2


@pytest.mark.parametrize("name", LOOPS)
def test_a_fork_at_each_step_is_the_rest_of_the_loop(name):
    runs = record(LOOPS[name])
    assert runs and all(run.replay.iterations.steps for run in runs)
    numbers = torch.get_rng_state()
    for run in runs:
        before = [entries(run, step) for step in range(run.replay.iterations.steps)]
        for step in range(run.replay.iterations.steps):
            try:
                fork = run.fork(step)
            except ZeroDivisionError:
                fork = rf.runs[0]
            assert fork.parent is run and fork.forked_at == step and fork.flags == run.flags
            assert_same_steps(run, fork)
        after = [entries(run, step) for step in range(run.replay.iterations.steps)]
        assert str(after) == str(before)
    assert torch.equal(torch.get_rng_state(), numbers)
