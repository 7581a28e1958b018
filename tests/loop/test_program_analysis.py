"""What is known of the steps of a loop, kept by their structure."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.loop import program
from rfnb.loop.program import Analysis, Program, Written
from tests.loop.loops import Data
from tests.loop.test_loop_agrees_with_torch import ROWS, run

feat = Dim(3, name="feat")


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(program, "_kept", {})


@pytest.fixture
def written(monkeypatch):
    """The codes of steps that were written, in this list."""
    found = []
    write = Program._write_loop
    monkeypatch.setattr(Program, "_write_loop", lambda *args: found.append(args) or write(*args))
    return found


def summed(x: torch.Tensor, change: Any = lambda frame: frame, lengths: Any = None) -> rf.Tensor:
    """The sum over time of `change` of each frame of x [batch, time, feat]."""
    time = Dim(None, name="time")
    x = rf.convert_to_tensor(x, dims=[batch_dim, time, feat], lengths=lengths or [x.shape[1]] * x.shape[0])
    loop = rf.Loop(axis=time)
    loop.state.sum = rf.zeros([batch_dim, feat], dtype="float64")
    with loop:
        loop.state.sum = loop.state.sum + rf.cast(change(loop.unstack(x) + loop.state.sum * 0), "float64")
    return loop.state.sum


def test_the_second_loop_writes_no_code(written):
    for steps in (5, 5, 9):
        summed(torch.ones(2, steps, 3))
        assert len(written) == 1
    summed(torch.ones(4, 5, 3))  # of another shape on the traced frame
    assert len(written) == 2


def test_a_recorded_loop_and_another_one_are_kept_apart(written):
    for _ in range(2):
        summed(torch.ones(2, 5, 3))
        with rf.recording("last"):
            summed(torch.ones(2, 5, 3))
            assert rf.runs[0][3].sum.raw_tensor[0, 0] == 4
    assert len(written) == 2


def test_numbers_that_differ_in_kind_or_sign_are_told_apart():
    numbers = [1, 1.0, True, 0, 0.0, -0.0, False, float("nan"), float("inf"), "1", None, slice(1), (1,), [1], {"a": 1}]
    numbers += [{1: 1}, {True: 1}]
    found = {program._frozen(number) for number in numbers}
    assert len(found) == len(numbers)
    assert {program._frozen(number) for number in numbers} == found
    assert len({program._frozen((slice(None), [number])) for number in numbers[:9]}) == 9


def test_exponents_of_one_structure_are_told_apart(written):
    for exponent in (2, 2.0, 3, 2):
        found = summed(torch.full((1, 2, 3), 2), lambda frame, e=exponent: frame**e)
        assert found.raw_tensor.tolist() == [[2 * 2**exponent] * 3]
    assert len(written) == 3


def test_functions_that_hold_a_tensor_are_told_apart():
    x = torch.ones(2)
    assert not any(map(program._is_plain, (x.add, x.__add__, lambda: x)))
    assert all(map(program._is_plain, (torch.add, torch.Tensor.add, torch.Tensor.__add__, torch.nn.functional.relu)))


@pytest.mark.parametrize(
    "change", [lambda frame, w: frame * w, lambda frame, w: frame * (w * w)], ids=["from outside", "before the steps"]
)
def test_no_tensor_is_kept(change):
    """Neither those from outside, nor what is computed of them before the steps, whose graph holds them."""

    def watched() -> list[weakref.ref[Any]]:
        x, weight = torch.ones(2, 5, 3), rf.convert_to_tensor(torch.ones(3, requires_grad=True), dims=[feat])
        summed(x, lambda frame: change(frame, weight))
        return [weakref.ref(x), weakref.ref(weight), weakref.ref(weight.raw_tensor)]

    alive = watched()
    assert program._kept
    gc.collect()
    assert [ref() for ref in alive] == [None, None, None]


def test_few_structures_are_kept(monkeypatch):
    monkeypatch.setattr(program, "MOST", 3)
    for batch in range(1, 7):
        summed(torch.ones(batch, 5, 3))
    assert len(program._kept) == 3


@pytest.mark.parametrize("autocast_first", [False, True])
def test_steps_whose_calls_are_joined_are_told_apart_from_others(autocast_first):
    """No calls are joined under autocast, which leaves float64 as it is; then the weights come in another order."""
    out = Dim(3, name="out")
    weights = [torch.eye(3, dtype=torch.float64) * n for n in (0.2, 0.5)]

    def found(*, autocast: bool) -> list[torch.Tensor]:
        raws = [raw.clone().requires_grad_() for raw in weights]
        a, b = (rf.convert_to_tensor(raw, dims=[feat, out]) for raw in raws)
        loop = rf.Loop(max_seq_len=6)
        loop.state.h = rf.convert_to_tensor(torch.ones(2, 3, dtype=torch.float64) * 0.3, dims=[batch_dim, feat])
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast), loop:
            h = loop.state.h
            ha, hb = (rf.replace_dim(rf.matmul(h, w, reduce=feat), in_dim=out, out_dim=feat)[0] for w in (a, b))
            second = rf.sin(h) + hb
            loop.state.h = rf.tanh(second * (rf.cos(h) + ha))
        loop.state.h.raw_tensor.sum().backward()
        return [loop.state.h.raw_tensor.detach(), *[raw.grad for raw in raws]]

    one, other = found(autocast=autocast_first), found(autocast=not autocast_first)
    assert len(program._kept) == 1
    torch.testing.assert_close(one, other)


class Labels(TorchDispatchMode):
    """A loop over random labels. products: the shape of each matrix that is multiplied.

    beside: whether the row of a label is joined with the last scores, "before" or "behind" them.
    """

    def __init__(self, count: int, beside: str = ""):
        super().__init__()
        torch.manual_seed(1)
        self.label, self.out, self.products = Dim(count, name="label"), Dim(3, name="scores"), list[Any]()
        inputs = {"": feat, "before": feat + self.out, "behind": self.out + feat}[beside]
        self.embedding, self.linear, self.beside = rf.Embedding(self.label, feat), rf.Linear(inputs, self.out), beside

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in (torch.ops.aten.addmm.default, torch.ops.aten.mm.default):
            self.products.append(tuple(args[-2].shape))
        return func(*args, **kwargs or {})

    def joined(self, rows: rf.Tensor, last: rf.Tensor) -> rf.Tensor:
        parts = [(rows, feat), (last, self.out)]
        return rf.concat(*parts if self.beside == "before" else parts[::-1])[0]

    def run(self) -> list[torch.Tensor]:
        """What the loop stacks: the rows of the labels, and their scores."""
        time = Dim(None, name="time")
        loop = rf.Loop(max_seq_len=6, axis=time)
        loop.state.prev = rf.convert_to_tensor([0, 1, 1, 0], dims=[batch_dim], sparse_dim=self.label)
        if self.beside:
            loop.state.last = rf.zeros([batch_dim, self.out])
        with self, loop:
            rows = self.embedding(loop.state.prev)
            inputs = self.joined(rows, loop.state.last) if self.beside else rows
            scores = self.linear(inputs)
            if self.beside:
                loop.state.last = scores
            loop.state.prev = rf.set_sparse_dim(rf.reduce_argmin(scores, axis=self.out), self.label)
            stacked = [loop.stack(rows), loop.stack(scores)]
        return [x.copy_transpose([time, batch_dim, x.feature_dim]).raw_tensor for x in stacked]

    def expected(self) -> list[torch.Tensor]:
        """The same by hand."""
        prev, scores, columns = torch.tensor([0, 1, 1, 0]), torch.zeros(4, 3), []
        for _ in range(6):
            rows = self.embedding.weight.raw_tensor[prev]
            inputs = {"": [rows], "before": [rows, scores], "behind": [scores, rows]}[self.beside]
            scores = torch.cat(inputs, 1) @ self.linear.weight.raw_tensor + self.linear.bias.raw_tensor
            columns.append((rows, scores))
            prev = scores.argmin(1)
        return [torch.stack(column) for column in zip(*columns, strict=True)]


WAYS = pytest.mark.parametrize("beside", ["", "before", "behind"])


@WAYS
def test_rows_of_a_table_are_not_multiplied_in_each_step_but_once(beside):
    few, many, inputs = Labels(4, beside), Labels(5, beside), 6 if beside else 3
    for labels in (few, many, few):
        labels.products.clear()
        with torch.no_grad():
            labels.embedding.weight.raw_tensor.neg_()  # what is known of the steps must not know the weights
            torch.testing.assert_close(labels.run(), labels.expected())
        others = [(4, 3)] * 6 if beside else []
        expected = [(4, 3), *others] if labels is few else [(4, inputs)] * 6
        assert labels.products == [(4, inputs), *expected]  # the first is that of the traced frame


@WAYS
def test_gradients_of_rows_that_are_multiplied_are_those_by_hand(beside):
    labels = Labels(4, beside)
    with torch.no_grad():
        labels.run()
    layers = labels.embedding, labels.linear
    parameters = [parameter.raw_tensor for layer in layers for parameter in layer.parameters()]
    found, expected = (torch.autograd.grad(x[1].cos().sum(), parameters) for x in (labels.run(), labels.expected()))
    torch.testing.assert_close(found, expected)


def test_a_label_without_a_row_is_told_at_the_line_of_the_lookup():
    labels, loop = Labels(4), rf.Loop(max_seq_len=6)
    loop.state.prev = rf.convert_to_tensor([0, 1, 1, 0], dims=[batch_dim], sparse_dim=labels.label)
    loop.state.sum = rf.zeros([batch_dim, labels.out])
    with pytest.raises(Exception, match="out of range") as caught, loop:
        rows = labels.embedding(loop.state.prev)
        loop.state.sum = loop.state.sum + labels.linear(rows)
        loop.state.prev = rf.set_sparse_dim(rf.set_sparse_dim(loop.state.prev, None) + 1, labels.label)
    (note,) = caught.value.__notes__
    assert note.startswith("in step 3 of loop") and note.endswith("(gather)")  # not (linear)


def test_a_recorded_loop_shows_the_rows_that_are_not_multiplied():
    labels = Labels(4)
    with torch.no_grad(), rf.recording("last"):
        rows, scores = labels.run()
        step = rf.runs[0][3]
        torch.testing.assert_close(step.rows.raw_tensor, rows[3])
        torch.testing.assert_close(step.scores.raw_tensor, scores[3])


def test_an_error_names_the_line_of_its_own_loop():
    rows, time = Dim(2, name="rows"), Dim(4, name="time")
    table = rf.ones([rows, feat])
    labels = rf.convert_to_tensor([0, 1, 5, 0], dims=[time])

    def first(label, total):
        return total + rf.gather(table, indices=label, axis=rows)

    def second(label, total):
        return total + rf.gather(table, indices=label, axis=rows)

    for change in (first, second):
        loop = rf.Loop(axis=time, optimize_move_layers_out=False)
        loop.state.total = rf.zeros([feat])
        with pytest.raises(IndexError) as raised, loop:
            loop.state.total = change(loop.unstack(labels), loop.state.total)
        assert f"test_program_analysis.py:{change.__code__.co_firstlineno + 1}" in raised.value.__notes__[-1]
        assert len(program._kept) == 1


@pytest.mark.parametrize("hoisted", [None, False], ids=["hoisted", "in steps"])
@pytest.mark.parametrize("kind", ROWS, ids=lambda row: row.__name__)
@pytest.mark.filterwarnings("ignore:.*is never true")
def test_what_is_known_is_what_is_found_anew(kind, hoisted, monkeypatch):
    """For each loop of the table, run three times, with gradients and without."""
    asked = []

    def get(self, question, find):
        known = self._answers.setdefault(question, found := find())
        if known is not found and not isinstance(known, Analysis):
            asked.append(question)
            assert comparable(known) == comparable(found)
        return known

    monkeypatch.setattr(Analysis, "get", get)
    data = Data([3, 5, 1], "float64")
    for enabled in (True, True, False, False):
        with torch.set_grad_enabled(enabled):
            run(kind(), data, optimize_move_layers_out=hoisted)


def comparable(answer: Any) -> Any:
    """An answer, as something that can be compared."""
    if not isinstance(answer, Written):
        return answer
    lines = answer._lines
    return lines.lines, lines.positions, lines._functions, lines._given, lines._streams, repr(lines._numbers)
