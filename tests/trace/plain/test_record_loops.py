"""Loops as others write them are recorded, and compute what they compute unrecorded, bit for bit."""

from __future__ import annotations

import inspect
import random
import re

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import LoopError
from rfnb.trace.plain.iterations import difference
from rfnb.trace.plain.recorder import FrameRecorder, recording_here
from tests.trace.plain import loops_by_hand, loops_of_others
from tests.trace.plain.snapped import All, check, is_equal, normal, snapped, swapped
from tests.trace.plain.test_fork import assert_same_steps


def result_of(loop):
    """What a loop gives, and the state of the random generators after it."""
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    result = loop()
    return normal([result, torch.rand(2), np.random.rand(2), random.random()])


@pytest.fixture
def problems(monkeypatch):
    """Errors of the recorder, after which it no longer records."""
    errors = []
    monkeypatch.setattr(FrameRecorder, "_give_up", lambda self, error: errors.append(error))
    yield errors
    assert not errors


def recorded(loop, *files):
    """What a loop gives, and the loops of files that ran."""
    client = All(*files)
    recording_here().add(client)
    try:
        return result_of(loop), client.loops
    finally:
        recording_here().remove(client)


def steps_of(loops):
    return sum(len(loop.starts) for loop in loops)


@pytest.mark.parametrize("name", loops_by_hand.LOOPS)
def test_loops_written_by_hand(name, problems):
    loop = loops_by_hand.LOOPS[name]
    expected = result_of(loop)
    got, loops = recorded(loop, loops_by_hand.__file__)
    assert steps_of(loops) > 0 and is_equal(got, expected)
    again, copies = snapped(loops_by_hand)
    assert is_equal(result_of(again.LOOPS[name]), expected)
    assert check(loops, copies) > 0 or copies.recursive


@pytest.mark.parametrize("name", loops_of_others.LOOPS)
def test_loops_of_installed_packages(name, problems):
    functions, loop, unset = loops_of_others.LOOPS[name]
    expected = result_of(loop)
    got, loops = recorded(loop, *(inspect.unwrap(f).__code__.co_filename for f in functions))
    assert steps_of(loops) > 0 and is_equal(got, expected)
    with swapped(functions) as copies:
        assert is_equal(result_of(loop), expected)
    assert check(loops, copies, unset) >= 0 and copies.frames


def test_a_wrong_value_is_seen(problems):
    _, loops = recorded(loops_by_hand.k_means, loops_by_hand.__file__)
    again, copies = snapped(loops_by_hand)
    result_of(again.LOOPS["k_means"])
    for taken in copies.frames.values():
        taken[1][1]["centers"] = normal(torch.zeros(3, 2))
    with pytest.raises(AssertionError, match="centers"):
        check(loops, copies)


@pytest.fixture
def alive(monkeypatch):
    """Objects of loops live on, as those of cells do."""
    held, begin = [], FrameRecorder._begin

    def hold(self, number, names, *more):
        held.append(dict(names))
        return begin(self, number, names, *more)

    monkeypatch.setattr(FrameRecorder, "_begin", hold)
    monkeypatch.setattr(rf.options, "record", "all")
    yield held
    held.clear()


def run_of(name):
    """The longest run of the loops in a function written by hand."""
    loop = loops_by_hand.LOOPS[name]
    with rf.record_loops(loop):
        result_of(loop)
    own = [run for run in rf.runs if run.replay.iterations.code is inspect.unwrap(loop).__code__]
    return max(own or rf.runs, key=lambda run: run.steps)


NOT_FORKED = {"asynchronous_loop"}
FORKED = {"sgd_by_hand", "policy_optimization"}  # of those that train


@pytest.mark.parametrize("name", sorted(loops_by_hand.LOOPS.keys() - loops_by_hand.TRAINING - NOT_FORKED))
def test_a_fork_gives_the_steps_again(name, alive, problems):
    run = run_of(name)
    for step in sorted({0, run.steps // 2, run.steps - 1}):
        assert_same_steps(run, run.fork(step))


@pytest.mark.parametrize("name", sorted(loops_by_hand.TRAINING - FORKED))
def test_a_fork_of_a_training_says_why_it_cannot_be(name, alive, problems):
    with pytest.raises(LoopError, match=r"fork: (the loop changes the weights of|`\w+` cannot be had again: )"):
        run_of(name).fork(0)


@pytest.mark.parametrize(
    "name", sorted(loops_of_others.LOOPS.keys() - loops_of_others.TRAINING - loops_of_others.NOT_FORKED.keys())
)
def test_a_fork_of_a_package_gives_the_steps_again(name, alive, problems):
    functions, loop, unset = loops_of_others.LOOPS[name]
    functions = [inspect.unwrap(function) for function in functions]
    with rf.record_loops(*functions):
        result_of(loop)
    runs = [run for run in rf.runs if run.replay.iterations.code in {function.__code__ for function in functions}]
    forked = 0
    for run in runs[:20]:
        begun = len(run.replay.iterations.starts)
        for step in sorted({0, begun // 2, begun - 1} & {*range(begun)}):
            fork = run.fork(step)
            assert difference(run.replay.iterations, fork.replay.iterations, 0, True) is None
            if name != "mpmath findroot":  # most of its variables are objects
                assert_same_steps(run, fork, unset)
            forked += 1
    assert forked


@pytest.mark.parametrize("name", sorted(loops_of_others.NOT_FORKED.keys() - {"torch jacobian"}))
def test_a_fork_of_a_package_says_why_it_cannot_be(name, alive, problems):
    functions, loop, _ = loops_of_others.LOOPS[name]
    with rf.record_loops(*map(inspect.unwrap, functions)):
        result_of(loop)
    reasons = []
    for run in list(rf.runs):
        try:
            run.fork(0)
        except LoopError as error:
            reasons.append(error.what)
    assert any(re.search(loops_of_others.NOT_FORKED[name], reason) for reason in reasons), reasons


def test_a_fork_says_that_its_gradients_end(alive, problems):
    functions, loop, _ = loops_of_others.LOOPS["torch jacobian"]
    with rf.record_loops(*functions):
        result_of(loop)
    assert rf.runs[0].fork(0).flags == ["gradients end at step 0"]
