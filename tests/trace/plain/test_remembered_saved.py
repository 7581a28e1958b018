"""Recorded loops of plain Python in files: work and size grow with the steps, not with their square."""

from __future__ import annotations

import sys

import pytest
import torch

import rfnb as rf


@pytest.fixture(autouse=True)
def without_runs():
    yield
    rf.runs.clear()


def numbers(n):
    x, flag = 0.0, False
    for i in range(n):
        y = x * 0.5 if i != 3 else float("nan")
        flag = i % 2 == 0
        x = y + i + 2**62
    return x, flag


def tensors(n):
    h = torch.zeros(4)
    for i in range(n):
        h = h * 0.5 + i
        loss = h.sum()
    return loss


def texts(n):
    words, rest = [], []
    for i in range(n):
        word = "ab"[i % 2]
        words.append(word)
        rest.append((word, i))
    return rest


def lists_of_tensors(n):
    h, outputs = torch.zeros(4), []
    for _ in range(n):
        h = h + 1
        outputs.append(h)
    return outputs


def inner(n):
    total = 0
    for i in range(n):
        for j in range(2):
            total = total + i * j
    return total


def large(n):
    x = 2**63 - 1
    for _ in range(n):
        x = x + 1
    return x


def other_kinds(n):
    total, x = 0, torch.zeros(1)
    for i in range(n):
        total = total + 0.5
        x = x[1:] if i % 20 > 10 else torch.cat([x, x[:1] + i])
    return total


LOOPS = [numbers, tensors, texts, lists_of_tensors, inner, large, other_kinds]


def recorded(loop, n):
    rf.runs.clear()
    with rf.record_loops(loop):
        loop(n)
    return rf.runs[0]


def as_code(step, name):
    """A variable after a step, as code has it."""
    value = step.run.replay.variable(name, step.step, after=True)
    return type(value), str(value)


def calls_of(action):
    """How many functions of Python an action calls, and how often its generators go on."""
    count = [0]

    def add(frame, event, value):
        count[0] += event == "call"

    sys.setprofile(add)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count[0]


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_the_work_of_saving_and_loading_grows_with_the_steps(loop, tmp_path):
    saving, loading, size = [], [], []
    for n in (200, 400):
        run, path = recorded(loop, n), tmp_path / "x.rfrun"
        saving.append(calls_of(lambda run=run, path=path: run.save(path)))
        loading.append(calls_of(lambda path=path: rf.load_run(path)))
        size.append(path.stat().st_size)
    for first, second in (saving, loading, size):
        assert second < 2.4 * first


@pytest.mark.parametrize("loop", LOOPS, ids=lambda loop: loop.__name__)
def test_a_saved_run_has_the_values_of_all_steps_also_if_saved_again(loop, tmp_path):
    run = recorded(loop, 70)
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    assert again.save(tmp_path / "y.rfrun").read_bytes() == (tmp_path / "x.rfrun").read_bytes()
    for ours, theirs in zip(run, again, strict=True):
        assert [str(ours.before[name]) for name in run.states] == [str(theirs.before[name]) for name in run.states]
        assert list(map(str, ours.values())) == list(map(str, theirs.values())) and ours.texts() == theirs.texts()
        for ours_value, theirs_value in zip(ours.values(), theirs.values(), strict=True):
            assert torch.equal(ours_value.tensor.raw_tensor.nan_to_num(), theirs_value.tensor.raw_tensor.nan_to_num())


def test_a_growing_list_of_texts_has_all_parts_at_each_step(tmp_path):
    run = recorded(texts, 90)
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    for step in (0, 1, 2, 64, 89):
        for name in ("words", "rest"):
            assert again[step].eval(name) == run[step].eval(name) and len(again[step].eval(name)) == step + 1


def several_lines(n):
    x, rate = 0, 1
    for i in range(n):
        for j in range(2):
            if (i + j) % 2:  # noqa: SIM108, two lines
                x = i
            else:
                x = -i
        rate = 0.5 if i % 3 else rate
        rate = [torch.ones(i % 2 + 1), i, i * 0.5][i % 3]
        if i % 4 == 3:
            rate = i
    return x, rate


def test_a_saved_run_has_what_a_step_assigned_last_of_several_lines(tmp_path):
    run = recorded(several_lines, 12)
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    for ours, theirs in zip(run, again, strict=True):
        assert list(map(str, ours.values())) == list(map(str, theirs.values()))
        for name in ("x", "rate"):
            assert as_code(theirs, name) == as_code(ours, name)
    assert [step.x.item() for step in again] == [x * (-1) ** x for x in range(12)]
    assert again.save(tmp_path / "y.rfrun").read_bytes() == (tmp_path / "x.rfrun").read_bytes()
