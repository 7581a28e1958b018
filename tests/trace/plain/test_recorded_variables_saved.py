"""Recorded loops of plain Python in files: work and size grow with the steps, not with their square."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

import rfnb as rf
from rfnb.errors import RunFileError


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


def lists_of_numbers(n):
    tokens, losses, nested = [], [], [[], []]
    for i in range(n):
        tokens.append(i)
        losses.append(np.float64(i * 0.5))
        nested[i % 2].append(i)
    return tokens, losses, nested


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


LOOPS = [numbers, tensors, texts, lists_of_numbers, lists_of_tensors, inner, large, other_kinds]


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


def test_numbers_in_lists_have_their_types_in_a_saved_run(tmp_path):
    def loop(n):
        more = []
        for i in range(n):
            mixed, large, pair = [1.0, 0, True], [2**63 + i, 1], (0.5, i)
            more = [*more, i if i % 2 else float(i)]
        return mixed, large, pair

    run = recorded(loop, 4)
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    for name, value in {
        "mixed": [1.0, 0, True],
        "large": [2**63 + 3, 1],
        "pair": (0.5, 3),
        "more": [0.0, 1, 2.0, 3],
    }.items():
        assert [as_code(step, name) for step in again] == [as_code(step, name) for step in run]
        assert repr(again.replay.variable(name, 3, after=True)) == repr(value)
        assert torch.equal(again[3][name].raw_tensor, run[3][name].raw_tensor)


def test_a_list_that_grows_is_in_a_file_once_with_its_tensors(tmp_path):
    sizes = {
        loop: recorded(loop, 1000).save(tmp_path / "x.rfrun").stat().st_size
        for loop in (lists_of_numbers, lists_of_tensors)
    }
    assert sizes[lists_of_numbers] < 400_000 and sizes[lists_of_tensors] < 400_000
    run = rf.load_run(tmp_path / "x.rfrun")
    outputs = run.replay.variable("outputs", 999, after=True)
    assert len(outputs) == 1000 and all(torch.equal(h, torch.full((4,), i + 1.0)) for i, h in enumerate(outputs))


def put(*where, value):
    def change(data):
        for key in where[:-1]:
            data = data[key]
        data[where[-1]] = value

    return change


VARIABLES = ("runs", 0, "variables")
DAMAGE = {
    "tensor of no series": put(*VARIABLES, "values", "outputs", 0, 1, value={"tensor": [99, 0, "Tensor"]}),
    "tensor of no place": put(*VARIABLES, "values", "outputs", 0, 1, value={"tensor": [0, 99, "Tensor"]}),
    "tensor of a place below 0": put(*VARIABLES, "values", "outputs", 0, 1, value={"tensor": [0, -1, "Tensor"]}),
    "more parts than there are": put(*VARIABLES, "values", "outputs", 2, 1, value={"first": [0, 99]}),
    "a length at no step": put(*VARIABLES, "grown", 0, "lengths", 0, value=[99, 1]),
    "a list without rows": put(*VARIABLES, "grown", 0, "rows", value=None),
    "few rows": put(*VARIABLES, "grown", 0, "rows", value=[]),
    "number of numpy": put(*VARIABLES, "lists", 0, 0, value={"numpy": ["object", 1]}),
    "words are a number": put(*VARIABLES, "values", "outputs", 0, 1, value={"lost": 1}),
    "step far off": put(*VARIABLES, "values", "outputs", 0, 0, value=99),
    "order without a series": put("runs", 0, "orders", 0, value=[-1]),
    "order of no row": put("runs", 0, "orders", 0, 0, value=-99),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_of_a_plain_loop_is_refused(change, tmp_path):
    path = recorded(lists_of_tensors, 5).save(tmp_path / "x.rfrun")
    with safe_open(path, "pt") as file:
        tensors, data = {key: file.get_tensor(key) for key in file.keys()}, json.loads(file.metadata()["rfnb.run"])  # noqa: SIM118
    change(data)
    save_file(tensors, path, {"rfnb.run": json.dumps(data)})
    with pytest.raises(RunFileError, match="cannot be read"):
        rf.load_run(path)
