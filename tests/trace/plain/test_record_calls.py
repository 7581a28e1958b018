"""`rf.record_calls`: each call of a function is a step of one run, and nothing changes for the function."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import weakref

import pytest
import torch

import rfnb as rf
from rfnb.errors import LoopWarning, ParameterError
from rfnb.trace.plain.record import FunctionRecorder
from rfnb.trace.plain.recorder import Recording
from rfnb.trace.plain.syntax import outline_of_calls
from tests.examples import FACTOR
from tests.trace.plain.programs import Snapshots, equal, module, programs
from tests.trace.plain.test_record import names_at
from tests.trace.plain.test_recorder import LOST, compare, nothing, of_entry, outcome


class Decoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.eye(3) / 2)

    def step(self, h, x, scale=2.0, *more, **options):
        """A step."""
        h = torch.tanh(h @ self.w + x * scale)
        for k in range(2):
            last = h.sum() + k
        return last, h


def decode(model, steps=4):
    h, sums = torch.zeros(3), []
    for t in range(steps):
        total, h = model.step(h, torch.full((3,), float(t)))
        sums.append(total)
    return sums, h


def test_each_call_is_a_step_with_arguments_lines_and_result():
    model = Decoder()
    with rf.record_calls(Decoder.step):
        sums, h = decode(model)
    [run] = rf.runs
    assert (run.name, run.steps, run.failed) == ("step", 4, None)
    assert names_at(run, 2) == ["h", "x", "scale", "h", "k", "last", "returned.0", "returned.1"]
    for t in range(4):
        assert run[t].x.tolist() == [t] * 3 and run[t].scale.item() == 2
        assert torch.equal(run[t]["returned.0"].raw_tensor, sums[t].detach())
    assert torch.equal(run[3].h.raw_tensor, h.detach()) and not run[3].h.raw_tensor.requires_grad
    first, _, _, second, *_ = run[3].values()
    assert torch.equal(first.tensor.raw_tensor, run[2].h.raw_tensor) and second.line == first.line + 2
    assert run.stack("x").raw_tensor.shape == (4, 3)
    assert "h = torch.tanh" in rf.show(run).text and rf.compare(run, run).first is None


def test_before_is_what_the_variable_was_in_the_call_before():
    with rf.record_calls(Decoder.step):
        decode(Decoder())
    run = rf.runs["step"]
    assert "h" in run.states and "last" not in run.states
    assert torch.equal(run[2].before.h.raw_tensor, run[1].h.raw_tensor)


def test_loops_inside_of_a_call_are_runs_of_the_step():
    with rf.record_calls(Decoder.step):
        decode(Decoder())
    [inner] = rf.runs["step"][1].loops()
    assert inner.steps == 2 and inner[1].k.item() == 1 and len(rf.runs) == 1


def test_results_gradients_and_random_numbers_stay_as_they_are():
    def once(recording):
        torch.manual_seed(1)
        model = Decoder()
        with recording:
            sums, h = decode(model)
            (sum(sums) + torch.dropout(h, 0.5, True).sum()).backward()
        return *sums, h, model.w.grad, torch.rand(2)

    plain, recorded = once(contextlib.nullcontext()), once(rf.record_calls(Decoder.step))
    assert all(map(torch.equal, plain, recorded)) and rf.runs["step"].steps == 4


@pytest.mark.parametrize("text", ["def f(x): return x * 2", "def f(x):\n    while True:\n        return x * 2"])
def test_a_function_in_one_line_and_one_that_begins_with_a_loop(text, tmp_path):
    f = module(text, tmp_path / "short.py").f
    with rf.record_calls(f):
        assert [f(i) for i in range(3)] == [0, 2, 4]
    run = rf.runs["f"]
    assert run.steps == 3 and run.stack("x").tolist() == [0, 1, 2] and run.stack("returned").tolist() == [0, 2, 4]


class Counter:
    def __init__(self):
        self.h, self.seen = torch.zeros(2), []

    def add(self, x):
        self.h = self.h + x
        self.seen.append(x)


def test_attributes_are_carried_from_call_to_call():
    counter = Counter()
    with rf.record_calls(counter.add):
        counter.add(1)
        counter.add(2)
        counter.h = torch.full((2,), 7.0)
        counter.add(3)
    run = rf.runs["add"]
    assert "self.h" in run.states
    assert [run[i]["self.h"].tolist()[0] for i in range(3)] == [1, 3, 10]
    assert [run[i].before["self.h"].tolist()[0] for i in range(3)] == [0, 1, 3]
    assert [value.tensor.tolist() for value in run[2].values() if value.name == "self.h"] == [[7, 7], [10, 10]]
    assert [run[i]["self.seen"].tolist() for i in range(3)] == [[1], [1, 2], [1, 2, 3]]


def divide(x, by):
    inverse = 1 / by
    return x * inverse


def test_an_error_is_the_failed_step_and_one_that_was_caught_a_step():
    with pytest.raises(ZeroDivisionError), rf.record_calls(divide):
        divide(1, 2)
        with contextlib.suppress(ZeroDivisionError):
            divide(2, 0)
        divide(3, 1)
        divide(4, 0)
    run = rf.runs["divide"]
    assert run.steps == 3 and run.failed.step == 3 and "ZeroDivisionError" in run.flags[0]
    assert run[3].x.item() == 4 and names_at(run, 3) == ["x", "by"]
    assert [(text.name, text.text) for text in run[1].texts()] == [("raised", "'ZeroDivisionError: division by zero'")]


def down(n):
    inside = down(n - 1) if n else 0
    return inside + n


def test_the_outermost_call_of_a_recursion_is_the_step():
    with rf.record_calls(down):
        down(3)
        down(1)
    run = rf.runs["down"]
    assert run.steps == 2 and run.stack("n").tolist() == [3, 1] and run.stack("returned").tolist() == [6, 1]


def test_generators_and_coroutines():
    def numbers(n):
        for i in range(n):
            x = i
            yield x

    async def wait(n):
        await asyncio.sleep(0)
        return 2 * n

    async def waits():
        return [await wait(n) for n in range(3)]

    with rf.record_calls(numbers, wait):
        assert [list(numbers(2)), list(numbers(3))] == [[0, 1], [0, 1, 2]]
        next(numbers(1))
        asyncio.run(waits())
    run = rf.runs["numbers"]
    assert run.steps == 3 and run.stack("n").tolist() == [2, 3, 1] and run.failed is None
    assert rf.runs["wait"].stack("returned").tolist() == [0, 2, 4]


def test_a_bound_method_stands_for_the_calls_on_its_object():
    first, second = Decoder(), Decoder()
    with rf.record_calls(second.step):
        decode(first, 2)
        decode(second, 3)
    assert rf.runs["step"].steps == 3


def test_classmethods_staticmethods_places_and_decorated_functions():
    with rf.record_calls(Kinds.of_class, Kinds.static, f"{__name__}:Kinds.wrapped"):
        Kinds.of_class(1)
        Kinds.static(2)
        Kinds().wrapped(3)
    assert {run.name: run[0].returned.item() for run in rf.runs} == {"of_class": 1, "static": 2, "wrapped": 3}


class Kinds:
    @classmethod
    def of_class(cls, x):
        return x

    @staticmethod
    def static(x):
        return x

    @torch.no_grad()
    def wrapped(self, x):
        return x


def test_as_a_decorator_also_again_and_inside_of_itself():
    @rf.record_calls(divide)
    def run(depth):
        divide(depth, 1)
        if depth:
            run(depth - 1)

    run(1)
    assert [r.steps for r in rf.runs] == [2]
    run(0)
    assert [r.steps for r in rf.runs] == [1, 2]


def test_loops_that_are_recorded_at_the_same_time():
    def total(n):
        x = 0
        for i in rf.steps(range(n), name="inner"):
            x += i
        return x

    with rf.record_loops(), rf.record_calls(total):
        for n in range(2, 4):
            total(n)
    assert sorted((run.name, run.steps) for run in rf.runs) == [
        ("inner", 2),
        ("inner", 3),
        ("test_loops_that_are_recorded_at_the_same_time", 2),
        ("total", 2),
    ]
    assert rf.runs["total"].stack("returned").tolist() == [1, 3]


def test_no_object_of_a_call_lives_longer():
    alive = []

    def f(w):
        y = w * 2
        alive.append(weakref.ref(y))
        return {"y": y, "all": [y]}

    with rf.record_calls(f):
        for _ in range(3):
            f(torch.ones(2, requires_grad=True))
            gc.collect()
            assert not any(y() is not None for y in alive)
    assert rf.runs["f"][1]["returned.y"].tolist() == [2, 2]


def test_a_call_that_runs_when_the_recording_ends():
    def numbers():
        for i in range(3):
            x = i
            yield x

    numbers_left = numbers()
    with rf.record_loops(Decoder.step):
        with rf.record_calls(numbers):
            next(numbers_left)
        assert list(numbers_left) == [1, 2]
        decode(Decoder(), 1)
    assert rf.runs["numbers"].steps == 1 and rf.runs["numbers"][0].loops()[0][0].i.item() == 0


@pytest.mark.parametrize("seed", range(round(40 * FACTOR)))
def test_the_values_are_those_of_deep_copies(seed, tmp_path):
    plain, snapped = programs(seed, tmp_path)
    snapshots, stored, recording = Snapshots(), [], Recording()
    expected = [outcome(snapped, scale * torch.eye(3), snapshots) for scale in (1, 2, 3)]
    recorder = FunctionRecorder(plain.__code__, outline_of_calls(plain.__code__), None, recording, stored.append)
    recording.add(recorder)
    got = [outcome(plain, scale * torch.eye(3), nothing) for scale in (1, 2, 3)]
    recording.remove(recorder)
    assert recorder.close() and equal(got, expected)
    [calls] = stored
    assert len(calls.starts) == 3
    compare(list(inner_of(calls)), snapshots)
    results = [of_entry(calls.entries(step)[-1]) for step in range(3)]
    assert all(a is LOST or isinstance(b, str) or equal(a, b) for a, b in zip(results, expected, strict=True))


def inner_of(loop):
    """The loops inside of a loop, at all levels."""
    for inner in loop.inner:
        yield inner
        yield from inner_of(inner)


def test_a_function_that_is_not_called_is_said():
    with pytest.warns(LoopWarning, match=r"record_calls: divide was not called"), rf.record_calls(divide):
        pass
    with pytest.warns(LoopWarning, match=r"divide was not called"), rf.record_calls(divide):
        thread = threading.Thread(target=divide, args=[1, 1])
        thread.start()
        thread.join()


@pytest.mark.parametrize("wrong", [(), (3,), (len,), (lambda x: x,), (Decoder,), ("nowhere:f",)])
def test_what_cannot_be_recorded_is_refused(wrong):
    with pytest.raises(ParameterError, match="record_calls: "):
        rf.record_calls(*wrong)
