# ruff: noqa: F841, B007
"""Edits of variables of a paused loop of plain Python: the loop goes on with them, and the run says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import DtypeError, ExpressionError, LoopError, LoopNameError
from rfnb.trace.pause import Paused, Resume
from tests.trace.holding import no_pauses as no_pauses, user
from tests.trace.plain.test_record import run_text


class Edits:
    """A user who edits variables at the first pause."""

    def __init__(self, **variables: Any):
        self.variables, self.error = variables, None

    def __call__(self, paused: Paused) -> Resume:
        if self.variables:
            variables, self.variables = self.variables, {}
            try:
                paused.edit(variables)
            except Exception as error:
                self.error = error
        return Resume()


def program(h: Any, steps: int = 4) -> list[Any]:
    values = []
    for t in rf.steps(range(steps), name="edited"):
        h = h + h
        values.append(h)
    return values


@pytest.mark.parametrize(
    ("h", "new", "expected"),
    [
        (1, 10, [2, 10, 20, 40]),
        (1, "10", [2, 10, 20, 40]),
        (1, "h * 5", [2, 20, 40, 80]),
        (1.0, 0, [2.0, 0.0, 0.0, 0.0]),
        (1.0, "inf", [2.0, np.inf, np.inf, np.inf]),
        (True, True, [2, 1, 2, 4]),
        ("a", "x", ["aa", "x", "xx", "xxxx"]),
        (np.float32(1), 3, [2, 3, 6, 12]),
    ],
)
def test_numbers_and_texts(h, new, expected):
    rf.pause_when("t == 1 and h == h")
    edits = Edits(h=new)
    with user(edits):
        found = program(h)
    assert edits.error is None
    assert [found[0], *(value for value in found[2:])] == [expected[0], *expected[2:]]
    run = rf.runs["edited"]
    assert run.edits == {1: ["h"]} and run.flags == ["edited at step 1: h"]
    if not isinstance(h, str):
        assert [at.h.item() for at in run] == expected and run[2].before.h.item() == expected[1]


def test_an_edit_of_no_variable_leaves_no_mark():
    rf.pause_when("t == 1 and h == h")
    with user(lambda paused: paused.edit({}) or Resume()):
        assert program(1) == [2, 4, 8, 16]
    assert rf.runs["edited"].edits == {} and not rf.runs["edited"].flags


def tensors(new: Any, steps: int = 3) -> tuple[list[Any], Exception | None]:
    rf.pause_when("t == 1 and h[0] > 0")
    edits = Edits(h=new)
    with user(edits):
        found = program(torch.tensor([1.0, 2.0]), steps)
    return [h.tolist() for h in found], edits.error


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (5, [10, 10]),
        ("5", [10, 10]),
        ([5, 6], [10, 12]),
        (np.array([5, 6]), [10, 12]),
        (torch.tensor([5, 6]), [10, 12]),
        (rf.convert_to_tensor([5.0, 6.0], dims=[rf.Dim(2, name="two")]), [10, 12]),
        ("h * 0 + 1", [2, 2]),
        ("h.flip(0)", [16, 8]),
    ],
)
def test_tensors(new, expected):
    found, error = tensors(new)
    assert error is None
    assert found[0] == [2, 4] and found[2] == expected
    run = rf.runs["edited"]
    assert [at.h.raw_tensor.tolist() for at in run] == [[2, 4], [n / 2 for n in expected], expected]


@pytest.mark.parametrize(
    ("new", "kind"),
    [([1, 2, 3], LoopError), ("nonsense", ExpressionError), (None, LoopError), (["a"], LoopError), (1j, DtypeError)],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(new, kind):
    found, error = tensors(new)
    assert isinstance(error, kind) and "nothing" not in str(error)
    assert found == [[2, 4], [4, 8], [8, 16]]
    assert rf.runs["edited"].edits == {}


def test_none_is_written_if_one_does_not_fit():
    rf.pause_when("t == 1")
    edits = Edits(t=5, h=1.5)
    with user(edits):
        assert program(1) == [2, 4, 8, 16]
    assert isinstance(edits.error, DtypeError)


@pytest.mark.parametrize("name", ["optimizer", "w", "items", "nowhere"])
def test_what_cannot_be_edited_is_refused_with_a_reason(name):
    edits = Edits(**{name: 1})
    rf.pause_when("t == 1")
    with user(edits):
        w, items = torch.nn.Parameter(torch.ones(2)), [1, 2]
        optimizer = torch.optim.SGD([w], 0.1)
        for t in rf.steps(range(3)):
            used = (w, optimizer, items)
    assert isinstance(edits.error, LoopNameError if name == "nowhere" else LoopError)
    assert w.tolist() == [1, 1] and items == [1, 2]


@pytest.mark.parametrize(
    ("dtype", "new"), [("int64", 1.5), ("uint8", 300), ("bool", 2), ("int32", "nan"), ("float16", 1e9)]
)
def test_what_the_dtype_cannot_hold_is_refused(dtype, new):
    rf.pause_when("t == 1")
    for make in (torch.ones(2, dtype=getattr(torch, dtype)), np.ones(2, dtype=dtype)):
        edits = Edits(x=new)
        with user(edits):
            x = make
            for t in rf.steps(range(3)):
                used = x
        assert isinstance(edits.error, DtypeError) and x is make


def test_only_the_edited_entries_are_constants_to_gradients():
    w = torch.tensor(2.0, requires_grad=True)
    rf.pause_when("t == 0 and h[0] > 0")
    with user(Edits(h=[2.0, 7.0])):
        h = torch.ones(2)
        for t in rf.steps(range(2)):
            h = h * w
    assert h.tolist() == [4.0, 14.0]
    assert [torch.autograd.grad(x, w, retain_graph=True)[0].item() for x in h] == [4.0, 7.0]


def test_an_edit_of_all_entries_is_a_constant():
    w = torch.tensor(2.0, requires_grad=True)
    rf.pause_when("t == 0 and h > 0")
    with user(Edits(h=2.0)):
        h = torch.tensor(1.0)
        for t in rf.steps(range(2)):
            h = h * w
    assert h.item() == 4.0 and torch.autograd.grad(h, w)[0].item() == 2.0


def closure():
    total = 0

    def add():
        nonlocal total
        for t in rf.steps(range(3)):
            total += t
        return total

    return add() + total


class Counter:
    """Counts in a method, in inference mode."""

    def __call__(self):
        total = torch.zeros(())
        with torch.inference_mode():
            for t in rf.steps(range(3)):
                total = total + t
        return total.item() * 2


def generator():
    def numbers():
        total = 0
        for t in rf.steps(range(3)):
            total = total + t
            yield total

    return 2 * [*numbers()][-1]


@pytest.mark.parametrize("function", [closure, Counter(), generator])
def test_in_each_kind_of_function(function):
    rf.pause_when("t == 1 and total == 1")
    with user(Edits(total=100)):
        assert function() == 204


def test_at_the_level_of_a_cell(tmp_path):
    text = "h = 0\nfor t in rf.steps(range(4), name='cell'):\n    h = h + t\n    g = h\nresult.append(h)"
    result = []
    rf.pause_when("t == 1 and h > 0")
    with user(Edits(h=50)):
        run_text(text, tmp_path / "cell.py", result=result)
    assert result == [55] and [at.g.item() for at in rf.runs["cell"]] == [0, 50, 52, 55]


def test_rf_tensors_keep_their_dims():
    two = rf.Dim(2, name="two")
    rf.pause_when("t == 1 and rf.reduce_all(h > 0, axis=h.dims)")
    with user(Edits(h=[1.0, 5.0])):
        h = rf.ones([two])
        for t in rf.steps(range(3)):
            h = h + h
    assert h.dims == (two,) and h.raw_tensor.tolist() == [2.0, 10.0]


def test_a_fork_waits_until_the_paused_loop_goes_on():
    refused = []

    def look(held):
        with pytest.raises(LoopError, match="while a loop of plain Python is paused"):
            held.run.fork(0, h=5)
        refused.append(held.run.replay.locked_states(held.run, 0))
        return Resume()

    condition = rf.pause_when("t == 1 and h > 0")
    with user(look):
        assert program(1) == [2, 4, 8, 16]
    condition.remove()
    assert [*refused[0]] == ["h"] and rf.runs["edited"].fork(0, h=5).steps == 4
