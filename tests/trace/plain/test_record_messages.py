"""What recordings of plain loops say: where nothing was recorded, or another tool traces; what they decorate."""

from __future__ import annotations

import asyncio
import contextlib
import io
import pdb
import sys
import weakref

import pytest
import torch

import rfnb as rf
from rfnb.errors import LoopError, LoopWarning, ParameterError
from rfnb.trace.plain.recorder import recording_here
from tests.trace.plain.test_record import Decoder, run_text


def countdown(n):
    while n > 0:
        n = n - 1
    return n


def no_loop(x):
    return x + 1


@pytest.mark.parametrize(
    ("functions", "call", "words"),
    [
        ([no_loop], no_loop, "no_loop ran, and has no loop"),
        ([no_loop], None, "no_loop was not called"),
        ([countdown], lambda x: None, "countdown was not called"),
        ([countdown], lambda x: countdown(-x), "countdown ran, and no loop in it had a step"),
        ([], lambda x: None, "no loop of your code ran"),
    ],
)
def test_a_recording_without_a_loop_says_why(functions, call, words):
    with pytest.warns(LoopWarning) as warned, rf.record_loops(*functions):
        if call is not None:
            call(1)
    [warning] = warned
    assert str(warning.message).startswith("record_loops: nothing was recorded: ") and words in str(warning.message)


def test_no_word_if_an_error_ends_the_recording_or_another_has_the_loop(recwarn):
    with contextlib.suppress(ValueError), rf.record_loops(no_loop):
        raise ValueError
    with rf.record_loops(), rf.record_loops(countdown):
        countdown(2)
    assert not recwarn.list and len(rf.runs) == 1


def test_a_function_that_is_compiled():
    def loop(x):
        for _ in range(2):
            x = 2 * x
        return x

    compiled = torch.compile(loop, backend="eager")
    without = pytest.warns(LoopWarning, match=r"loop ran, but it runs as torch\.compile made it, without its lines")
    with without as warned, rf.record_loops(loop):
        assert compiled(torch.ones(1)) == compiled(torch.ones(1)) == 4
    assert len(warned) == 1
    assert len(rf.runs) == 0


def test_as_a_decorator_of_what_yields_waits_and_of_methods():
    @rf.record_loops()
    def numbers(n):
        """Numbers."""
        for i in range(n):
            got = yield i
        return got

    @rf.record_loops(countdown)
    async def wait(n):
        await asyncio.sleep(0)
        return countdown(n)

    class Kinds:
        @rf.record_loops()
        @classmethod
        def of_class(cls):
            for i in range(2):
                name = (cls.__name__, i)
            return name

        @rf.record_loops()
        @staticmethod
        def static(n):
            while n:
                n -= 1
            return n

    made = numbers(2)
    assert [next(made), made.send("x"), numbers.__doc__] == [0, 1, "Numbers."]
    with pytest.raises(StopIteration, match="y"):
        made.send("y")
    assert asyncio.run(wait(3)) == 0 and Kinds().of_class() == ("Kinds", 1) and Kinds().static(4) == 0
    assert {run.name: run.steps for run in rf.runs} == {"numbers": 2, "countdown": 3, "of_class": 2, "static": 4}


@pytest.mark.parametrize("record", [rf.record_loops, lambda: rf.record_calls(countdown)])
def test_only_functions_are_decorated(record):
    async def numbers():
        yield 1

    for wrong in (Decoder, numbers, 3):
        with pytest.raises(ParameterError, match="only functions"):
            record()(wrong)


@pytest.mark.parametrize("kind", ["items", "test"])
def test_an_error_of_the_header_fails_the_next_step(kind):
    def items():
        yield 1
        raise ValueError("no")

    def loop():
        n = 1
        if kind == "items":
            for n in items():
                x = n
        else:
            while 1 / n:
                x = n
                n = n - 1
        return x

    with pytest.raises((ValueError, ZeroDivisionError)), rf.record_loops(loop):
        loop()
    run = next(run for run in rf.runs if run.name.startswith(("for", "while")))
    assert run.steps == 1 and run.failed.step == 1 and run[0].x.item() == 1
    assert run[1].values() == [] and "at step 1" in rf.show(run).text


def debugger(commands):
    """A debugger of Python that gets these commands."""
    return pdb.Pdb(stdin=io.StringIO(commands), stdout=io.StringIO(), nosigint=True, readrc=False)


def with_steps(commands):
    for i in rf.steps(range(4), name="debugged"):
        x = 2 * i
        if i == 2:
            debugger(commands).set_trace()
        y = x + 1
    return y


def with_block(commands):
    with rf.record_loops():
        for i in range(4):
            x = 2 * i
            if i == 2:
                debugger(commands).set_trace()
            y = x + 1
        return y


before_312 = pytest.mark.skipif(sys.version_info >= (3, 12), reason="there, a debugger and a recording trace apart")


@before_312
@pytest.mark.parametrize("loop", [with_steps, with_block])
@pytest.mark.parametrize("commands", ["c\n", "n\nn\nc\n"])
def test_a_debugger_takes_over_and_the_steps_before_are_a_run(loop, commands):
    with pytest.warns(LoopWarning, match="a debugger or another tool has begun to trace"):
        assert loop(commands) == 7
    [run] = rf.runs
    assert run.steps == 3 and run[2].x.item() == 4 and [run[i].y.item() for i in range(2)] == [1, 3]
    assert [value.name for value in run[2].values()] == ["i", "x"]
    assert not recording_here().frames
    for _ in rf.steps(range(2), name="next"):
        pass
    assert rf.runs["next"].steps == 2


@before_312
def test_a_debugger_that_stays_is_left_alone():
    def tracer(*_):
        return None

    with pytest.warns(LoopWarning, match="has begun to trace"), rf.record_loops(countdown):
        countdown(2)
        sys.settrace(tracer)
    assert sys.gettrace() is tracer
    sys.settrace(None)
    assert rf.runs["countdown"].steps == 2


def test_a_break_lets_the_items_go_but_closes_no_generator():
    closed = []

    def items():
        try:
            yield from range(5)
        finally:
            closed.append(True)

    for i in rf.steps(items(), name="items"):
        if i == 1:
            break
    assert closed == [True] and rf.runs["items"].steps == 2
    held = items()
    for _ in rf.steps(held):
        break
    assert list(held) == [1, 2, 3, 4]


def test_no_item_lives_longer_than_in_the_loop_alone():
    weight = torch.zeros(1, requires_grad=True)
    for item in rf.steps(map(weight.mul, range(3)), name="alone"):
        alive = weakref.ref(item)
        del item
        assert alive() is None
    assert rf.runs["alone"].steps == 3


class Traced(torch.utils.data.Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, i):
        return sys.gettrace() is not None


def test_workers_of_a_loader_are_not_recorded():
    with rf.record_loops():
        for batch in torch.utils.data.DataLoader(Traced(), num_workers=1, multiprocessing_context="fork"):
            traced = batch.any()
    assert not traced and rf.runs[0].steps == 2


def fails_in(block):
    """Loops of five steps, of which the third raises inside of a block."""

    def with_block():
        for i in range(5):
            with contextlib.nullcontext():
                k = 1 / (2 - i)
        return k

    def caught_around():
        with contextlib.suppress(ZeroDivisionError):
            for i in range(5):
                with contextlib.nullcontext():
                    k = 1 / (2 - i)
        return k

    def finally_block():
        for i in range(5):
            try:
                k = 1 / (2 - i)
            finally:
                k = 7
                k = 8
        return k

    return {function.__name__: function for function in (with_block, caught_around, finally_block)}[block]


@pytest.mark.parametrize("block", ["with_block", "caught_around", "finally_block"])
def test_an_error_that_leaves_a_block_inside_the_loop_is_its_failure(block):
    loop = fails_in(block)
    with rf.record_loops(), contextlib.suppress(ZeroDivisionError):
        loop()
    run = rf.runs[block]
    assert run.steps == 2 and run.failed.step == 2 and "ZeroDivisionError" in run.failed.error
    line = next(at for at, text in enumerate(run.source.lines, run.source.first_line) if "1 /" in text)
    assert run.failed.line == line


def test_errors_that_are_handled_are_no_failures():
    def handled():
        for i in range(3):
            try:
                k = 1 / (1 - i)
            except ZeroDivisionError:
                for j in range(2):
                    k = j
                k = 7
            with contextlib.suppress(ZeroDivisionError):
                k = 1 / (2 - i)
        try:
            k = 1 / 0
        except ZeroDivisionError:
            for i in range(3):
                k = i
        return k

    with rf.record_loops():
        handled()
    assert [(run.steps, run.failed) for run in rf.runs] == [(3, None), (3, None)]


def test_a_loader_that_raises_after_two_items_of_a_loop_in_one_line(tmp_path):
    def loader():
        yield 1
        yield 2
        raise RuntimeError("the loader failed")

    with contextlib.suppress(RuntimeError):
        run_text("for x in rf.steps(items, name='short'): k = x", tmp_path / "short.py", items=loader())
    run = rf.runs["short"]
    assert run.steps == 2 and run.failed.step == 2 and [run[step].k.item() for step in (0, 1)] == [1, 2]


def test_a_body_that_begins_with_try_in_one_line(tmp_path):
    text = """
for t in rf.steps(range(4), name='try'):
    try: h = 1 / (2 - t)
    except ZeroDivisionError: h = 0
"""
    run_text(text, tmp_path / "try.py")
    assert rf.runs["try"].steps == 4 and rf.runs["try"].stack("h").tolist() == [0.5, 1, 0, -1]


def test_items_keep_their_attributes_and_are_async_only_if_they_were():
    class Loader(list):
        batch_size = 4

        def set_epoch(self, epoch):
            self.epoch = epoch

    loader = Loader([1, 2])
    items = rf.steps(loader)
    items.set_epoch(3)
    assert items.batch_size == 4 and loader.epoch == 3 and items and not rf.steps([])
    assert not hasattr(items, "__aiter__") and not hasattr(items, "_other") and rf.steps(x for x in [])

    async def numbers():
        yield 1

    assert hasattr(rf.steps(numbers()), "__aiter__")
    for x in reversed(rf.steps([1, 2, 3], name="backward")):
        y = x
    assert y == 1 and rf.runs["backward"].stack("y").tolist() == [3, 2, 1]


def test_tqdm_around_the_items():
    auto = pytest.importorskip("tqdm.auto")
    for t in auto.tqdm(rf.steps(range(3), name="bar"), disable=True):
        h = t
    assert h == 2 and rf.runs["bar"].stack("h").tolist() == [0, 1, 2]


def test_code_without_source_says_so():
    names = {"rf": rf}
    exec("def f():\n    for i in range(3):\n        k = i", names)
    with pytest.warns(LoopWarning, match="f ran, but its source cannot be read"), rf.record_loops(names["f"]):
        names["f"]()
    with pytest.warns(LoopWarning, match="the source cannot be read, as that of a magic cell such as %%time"):
        exec("for i in rf.steps(range(3)):\n    k = i", names)
    with pytest.raises(ParameterError, match="it has no lines of its own; write it as a function with `def`"):
        rf.record_calls(lambda x: x)


def test_names_are_in_the_list_of_runs_and_its_error_says_how_to_record():
    with pytest.raises(LoopError, match=r"rf\.steps and rf\.record_loops"):
        rf.runs["loop"]
    for i in rf.steps(range(2), name="loop"):
        k = i
    assert k == 1 and "loop" in rf.runs and rf.runs["loop"] in rf.runs and "k" not in rf.runs


def test_a_decorator_without_brackets():
    @rf.record_loops
    def bare(n):
        while n > 0:
            n = n - 1
        return n

    class Model:
        @rf.record_loops
        def method(self, n):
            for i in range(n):
                k = i
            return k

    assert bare.__name__ == "bare" and bare(3) == 0 and Model().method(2) == 1
    assert rf.runs["bare"].steps == 3 and rf.runs["method"].steps == 2
    with pytest.raises(ParameterError, match="record_calls: no function is named"):

        @rf.record_calls
        def called(x):
            return x

    with rf.record_loops(countdown):
        countdown(2)
    assert rf.runs["countdown"].steps == 2
