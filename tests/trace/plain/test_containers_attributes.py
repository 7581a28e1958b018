"""Attributes that the lines of a loop write are values of their own, and no code of their objects runs."""

from __future__ import annotations

import ast
from functools import cached_property
from types import SimpleNamespace

import pytest
import torch

import rfnb as rf
from rfnb.trace.plain.containers import HIDDEN, MISSING, path_of


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros(3))
        self.h, self.steps, self.outs = torch.zeros(3), 0, []
        self.part = SimpleNamespace(k=0)

    def step(self, x):
        self.h = torch.tanh(self.cell(self.h) + x)
        self.steps += 1

    def run(self, xs):
        for x in xs:
            self.step(x)
            self.outs.append(self.h)
            self.seen += x
            self.part.k = self.steps * 2
        return self.h, self.steps

    def run_in_place(self, xs):
        for x in xs:
            self.h += x
            self.h[0] = 7


def recorded(function, *args):
    with rf.record_loops(function), torch.no_grad():
        function(*args)
    return rf.runs[-1]


def lines_of(run, step, name):
    first = run.source.first_line
    return [value.line - first for value in run[step].values() if value.name == name]


def test_what_lines_and_the_methods_they_call_assign():
    xs = torch.randint(-3, 4, (4, 3)).float()
    net = Decoder()
    run = recorded(Decoder.run, net, xs)
    assert run.states == ["self.h", "self.seen", "self.steps"]
    with torch.no_grad():
        h = torch.zeros(3)
        for i, x in enumerate(xs):
            assert torch.equal(run[i].before.self.h.raw_tensor, h)
            h = torch.tanh(net.cell(h) + x)
            assert torch.equal(run[i]["self.h"].raw_tensor, h)
            assert torch.equal(run[i]["self.seen"].raw_tensor, xs[: i + 1].sum(0))
            assert run[i].eval("self.steps + 1") == i + 2 and run[i]["self.part.k"].item() == 2 * (i + 1)
            assert lines_of(run, i, "self.h") == [1] and lines_of(run, i, "self.seen") == [3]
            assert torch.equal(run[i][f"self.outs.{i}"].raw_tensor, h)
    assert run.stack("self.h").raw_tensor.shape == (4, 3) and run.find("self.steps > 2") == [2, 3]
    assert not any(name.startswith("self.cell") for name in (value.name for value in run[0].texts()))


def test_attributes_changed_in_place_have_the_value_of_each_line():
    run = recorded(Decoder.run_in_place, Decoder(), torch.ones(3, 3))
    values = [[v.tensor.raw_tensor.tolist() for v in run[i].values() if v.name == "self.h"] for i in range(3)]
    assert values == [[[1, 1, 1], [7, 1, 1]], [[8, 2, 2], [7, 2, 2]], [[8, 3, 3], [7, 3, 3]]]


def test_a_saved_run_has_them(tmp_path):
    run = recorded(Decoder.run, Decoder(), torch.ones(3, 3))
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    assert torch.equal(again[1]["self.h"].raw_tensor, run[1]["self.h"].raw_tensor)
    assert again[2].before.self.steps.item() == 2 and rf.compare(run, again)
    assert "self.h" in run.save(tmp_path / "x.html").read_text(encoding="utf-8")


total = 0


def test_attributes_of_items_and_variables_of_the_module():
    class Node:
        __slots__ = ("score",)

    def loop(nodes):
        global total
        for i, node in enumerate(nodes):
            node.score = i
            nodes[0].score += 10
            total += nodes[i].score

    nodes = [Node() for _ in range(3)]
    run = recorded(loop, nodes)
    assert [run[i]["node.score"].item() for i in range(3)] == [10, 1, 2]
    assert [run[i]["nodes[0].score"].item() for i in range(3)] == [10, 20, 30]
    assert [run[i]["total"].item() for i in range(3)] == [10, 11, 13] and "total" in run.states


class Odd:
    """Attributes that only code could give, beside one that is there."""

    common = 5

    def __init__(self):
        self.there = 1

    def __getattr__(self, name):
        raise AssertionError(name)

    @property
    def computed(self):
        raise AssertionError

    @cached_property
    def cached(self):
        return 7


class Hidden(Odd):
    def __getattribute__(self, name):
        return 3


def value(text, **names):
    return path_of(ast.parse(text, mode="eval").body).value(names)


def test_no_code_of_the_object_runs():
    odd = Odd()
    assert value("o.there", o=odd) == 1 and value("o.common", o=odd) == 5
    assert value("o.computed", o=odd) is HIDDEN and value("o.absent", o=odd) is MISSING
    assert value("o.cached", o=odd) is HIDDEN and odd.cached == value("o.cached", o=odd) == 7
    assert value("o.there", o=Hidden()) is HIDDEN and value("o.__init__", o=odd) is HIDDEN
    assert value("o.shape", o=torch.ones(2)) is HIDDEN and value("o.x", o=None) is MISSING


@pytest.mark.parametrize("text", ["f().h", "a[i + 1].h", "a[:2].h", "(a + b).h", "a[i]"])
def test_what_is_not_a_path(text):
    assert path_of(ast.parse(text, mode="eval").body) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a[0].n", 1), ("a[-1].n", 2), ("a[i].n", 2), ("a[7].n", MISSING), ("d['x'].n", 2), ("d[i].n", MISSING)],
)
def test_items_of_containers(text, expected):
    one, two = SimpleNamespace(n=1), SimpleNamespace(n=2)
    assert value(text, a=[one, two], i=1, d={"x": two}) == expected


def test_attributes_named_outside_of_the_loop_are_recorded():
    class Counter:
        length, most = 0, 3

        def count(self):
            self.length += 1

    def loop(counter, other):
        n = counter.most + other.most
        while n > 4:
            counter.count()
            n = n - 1
        return counter.length

    with rf.record_loops(loop):
        loop(Counter(), Counter())
    run = rf.runs["loop"]
    assert [[value.name for value in run[i].values()] for i in range(2)] == [["counter.length", "n"]] * 2
    assert run.replay.state("counter.length", 0).item() == 0 and run[1]["counter.length"].item() == 2
