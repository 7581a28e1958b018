"""`rf.steps` and `rf.record_loops`: which loops become runs, and that nothing changes for the loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import weakref
from unittest.mock import Mock

import numpy as np
import pytest
import torch
import tqdm
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import rfnb as rf
from rfnb.errors import LoopNameError, LoopWarning, ParameterError
from rfnb.trace.plain import recorded_variables, recorder as recording, values, variables
from rfnb.trace.plain.user_code import is_yours
from tests.trace.plain.programs import module


def names_at(run, step):
    return [value.name for value in run[step].values()]


def decode(steps, w, name=None):
    h = torch.zeros(3)
    for t in rf.steps(range(steps), name=name):
        x = torch.full((3,), float(t))
        h = torch.tanh(h @ w + x)
    return h


def test_an_iteration_is_a_step_with_what_its_lines_assigned():
    decode(4, torch.eye(3), "decoder")
    run = rf.runs["decoder"]
    assert run.steps == 4 and run.states == ["h"]
    assert names_at(run, 0) == names_at(run, 3) == ["t", "x", "h"]
    h = torch.zeros(3)
    for t in range(4):
        assert torch.equal(run[t].before.h.raw_tensor, h)
        h = torch.tanh(h + t)
        assert torch.equal(run[t].h.raw_tensor, h) and torch.equal(run[t].after.h.raw_tensor, h)
    assert run.stack("h").raw_tensor.shape == (4, 3)
    assert run.find("t > 1") == [2, 3] and run.find(rf.when.over(0.9, "h")) == [2, 3]
    assert rf.compare(run, run).first is None


def run_text(text, path, **names):
    """Runs code from a file."""
    path.write_text(text)
    exec(compile(text, str(path), "exec"), {"rf": rf, **names})


def test_a_loop_in_one_line_has_all_its_iterations(tmp_path):
    run_text("h = 1\nfor t in rf.steps(range(3), name='short'): h = h + t; twice = 2 * h", tmp_path / "short.py")
    run = rf.runs["short"]
    assert run.steps == 3 and run.stack("h").tolist() == [1, 2, 4]
    assert run.stack("twice").tolist() == [2, 4, 8] and run[1].before.h.item() == 1


def test_a_loop_in_one_line_keeps_its_name_in_a_recording_of_all(tmp_path):
    lines = [f"    for t in rf.steps(range({n}), name='by {n}'): h = t" for n in (3, 2)]
    run_text("\n".join(["with rf.record_loops():", *lines]), tmp_path / "names.py")
    assert rf.runs["by 3"].stack("h").tolist() == [0, 1, 2] and rf.runs["by 2"].steps == 2
    assert len(rf.runs) == 2


@pytest.mark.parametrize("items", ["[]", "(1 // 0 for _ in range(1))"], ids=["empty", "raises"])
@pytest.mark.parametrize("body", ["\n        h = t", " h = t"], ids=["long", "short"])
def test_a_loop_without_a_first_item_leaves_nothing_behind(items, body, tmp_path):
    text = f"def f(items):\n    for t in rf.steps(items):{body}\nf({items})"
    with contextlib.suppress(ZeroDivisionError):
        run_text(text, tmp_path / "none.py")
    assert sys.gettrace() is None and len(rf.runs) == 0


def test_the_name_is_that_of_the_function_or_the_text_of_the_loop():
    decode(1, torch.eye(3))
    assert rf.runs[0].name == "decode"

    def two():
        for _ in rf.steps(range(1)):
            pass
        for i in rf.steps("ab"):
            i.upper()

    two()
    assert [run.name for run in rf.runs][:2] == ["for i in rf.steps('ab')", "for _ in rf.steps(range(1))"]


def test_a_second_name_for_one_loop_is_told():
    for names in (("source", "source"), ("source", None), (None, "source")):
        for _ in zip(*(rf.steps(range(3), name=name) for name in names), strict=True):
            pass
    with pytest.warns(
        LoopWarning, match="this loop is one run, which is named 'source': the name 'target' is not used"
    ):
        for _ in zip(rf.steps(range(3), name="source"), rf.steps(range(3), name="target"), strict=True):
            pass
    assert [(run.name, run.steps) for run in rf.runs] == [("source", 3)] * 4


def test_each_iterable_of_a_header_names_axes():
    sources, targets = rf.steps(range(3), dims={"x": ["batch"]}), rf.steps(range(3), dims={"x": ["row"], "y": ["time"]})
    for t, _ in zip(sources, targets, strict=True):
        x, y = torch.zeros(2) + t, torch.ones(3)
    run = rf.runs[0]
    assert [[dim.name for dim in value.dims] for value in (run[1].x, run[1].y)] == [["batch"], ["time"]]
    assert x[0] + y[0] == 3
    with rf.record_loops(dims={"y": ["column"]}):
        for t in rf.steps(range(3), dims={"x": ["batch"]}):
            x, y = torch.zeros(2) + t, torch.ones(3)
    assert [[dim.name for dim in value.dims] for value in (rf.runs[0][1].x, rf.runs[0][1].y)] == [["batch"], ["column"]]


def test_around_enumerate_zip_and_tqdm():
    def loops():
        for _ in enumerate(rf.steps("abc", name="enumerate")):
            pass
        for _ in zip(rf.steps("abc", name="zip"), range(3), strict=True):
            pass
        for _ in tqdm.tqdm(rf.steps(range(3), name="inside"), disable=True):
            pass
        for _ in rf.steps(tqdm.tqdm(range(3), disable=True), name="outside"):
            pass

    loops()
    assert {run.name: run.steps for run in rf.runs} == dict.fromkeys(["enumerate", "zip", "inside", "outside"], 3)


def test_a_break_an_error_and_a_return_end_the_run():
    def leave(how):
        for t in rf.steps(range(5), name=how):
            x = 1 / (2 - t) if how == "error" else t
            if t == 2 and how == "break":
                break
            if t == 2 and how == "return":
                return x

    leave("break")
    leave("return")
    with pytest.raises(ZeroDivisionError):
        leave("error")
    assert rf.runs["break"].steps == rf.runs["return"].steps == 3
    run = rf.runs["error"]
    assert run.steps == 2 and run.failed.step == 2 and "ZeroDivisionError" in run.flags[0]
    assert run[2].t.item() == 2
    assert run[2].x.item() == run[2].eval("x") == 1  # still that of the step before
    with pytest.raises(LoopNameError, match="no value 'y'"):
        run[2].y  # noqa: B018


def test_an_error_that_the_same_function_catches_is_that_of_the_step():
    def guarded():
        try:
            for n in rf.steps(range(4), name="caught"):
                for k in range(3):
                    y = 6 / (n + k - 2)
        except ZeroDivisionError:
            y = None
        with contextlib.suppress(KeyError):
            for n in rf.steps((k for k in range(3)), name="suppressed"):
                y = {0: 1}[n]
        for n in rf.steps((k for k in range(3)), name="whole"):
            try:
                y = {0: 1}[n]
            except KeyError:
                continue
        return y

    first = guarded.__code__.co_firstlineno
    guarded()
    caught, suppressed, whole = (rf.runs[name] for name in ("caught", "suppressed", "whole"))
    assert caught.failed[:2] == (0, "ZeroDivisionError: division by zero") and caught.failed.line == first + 4
    assert caught[0].loops()[0].failed.step == 2 and caught[0].n.item() == 0
    assert suppressed.failed[:2] == (1, "KeyError: 1") and suppressed.steps == 1
    assert whole.failed is None and whole.steps == 3
    assert [[v.line - first for v in whole[i].values()] for i in range(2)] == [[10, 12], [10]]


def test_an_error_inside_of_the_block_is_that_of_the_step():
    with pytest.raises(ZeroDivisionError), rf.record_loops():
        for n in range(4):
            _ = 6 / (n - 2)
    run = rf.runs[0]
    assert run.failed.step == run.steps == 2 and run[1].n.item() == 1


def test_loops_inside_of_a_step_are_runs_of_the_step():
    def nested():
        for i in rf.steps(range(2), name="outer"):
            total = 0
            for k in range(3):
                total += i * k
            done = total

        return done

    nested()
    assert len(rf.runs) == 1
    run = rf.runs["outer"]
    assert names_at(run, 1) == ["i", "total", "k", "total", "done"]
    [inner] = run[1].loops()
    assert inner.steps == 3 and [inner[k].total.item() for k in range(3)] == [0, 1, 3]


def test_a_comprehension_is_not_recorded_and_said():
    with pytest.warns(LoopWarning, match="not the iterable of a `for` statement"):
        assert [n + 1 for n in rf.steps(range(3))] == [1, 2, 3]
    assert len(rf.runs) == 0


class Decoder:
    def step(self, n):
        return self.inner(n) + 1

    def inner(self, n):
        total = 0
        while n > 0:
            total, n = total + n, n - 1
        return total


@pytest.mark.parametrize("what", [Decoder.step, Decoder().step, Decoder, f"{__name__}:Decoder.step"])
def test_the_loops_of_a_function_and_of_those_it_calls_in_its_file(what):
    what = Decoder.step if what is Decoder else what
    sys.modules.setdefault(__name__, sys.modules[Decoder.__module__])
    with rf.record_loops(what):
        assert Decoder().step(3) == 7
    run = rf.runs["inner"]
    assert run.steps == 3 and [run[i].total.item() for i in range(3)] == [3, 5, 6]
    Decoder().step(3)
    assert len(rf.runs) == 1


def test_all_loops_of_your_code_also_in_the_frame_that_runs():
    with rf.record_loops():
        for _ in range(2):
            Decoder().step(2)
    assert sorted(run.name for run in rf.runs) == [
        "inner",
        "inner",
        "test_all_loops_of_your_code_also_in_the_frame_that_runs",
    ]


def test_as_a_decorator():
    @rf.record_loops()
    def count(n):
        while n:
            n -= 1
        return n

    count(4)
    assert rf.runs["count"].steps == 4


@pytest.mark.parametrize("wrong", [3, "nowhere:f", "rfnb:nothing", None, len])
def test_what_is_not_a_function_with_source_is_refused(wrong):
    with pytest.raises(ParameterError):
        rf.record_loops(wrong)


def train(steps, model, optimizer):
    losses = []
    for _ in range(steps):
        x = torch.randn(4, 3)
        loss = model(x).square().mean() + torch.dropout(x, 0.5, True).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_a_training_is_the_same_bit_for_bit():
    results = []
    for recorded in (False, True):
        torch.manual_seed(3)
        model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.2))
        optimizer = torch.optim.Adam(model.parameters())
        if recorded:
            with rf.record_loops(train):
                losses = train(5, model, optimizer)
        else:
            losses = train(5, model, optimizer)
        results.append((losses, [p.detach().clone() for p in model.parameters()], torch.rand(2)))
    (a, weights, rand), (b, others, again) = results
    assert a == b and torch.equal(rand, again)
    assert all(map(torch.equal, weights, others))
    run = rf.runs["train"]
    assert run.steps == 5 and [run[i].loss.item() for i in range(5)] == b
    assert not any(run[i].loss.raw_tensor.requires_grad for i in range(5))


def test_a_recorded_run_keeps_no_graph_no_module_and_no_frame():
    model = torch.nn.Linear(3, 3)
    with rf.record_loops(train):
        train(2, model, torch.optim.SGD(model.parameters(), 0.1))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None and rf.runs["train"].steps == 2


def test_generators_recursion_and_coroutines_have_their_own_iterations():
    def numbers(n):
        for i in range(n):
            square = i * i
            yield square

    def down(n):
        for i in range(n):
            down(i)

    async def waits(n):
        for i in range(n):
            await asyncio.sleep(0)
            double = 2 * i
        return double

    with rf.record_loops():
        assert list(zip(numbers(3), numbers(2), strict=False)) == [(0, 0), (1, 1)]
        down(2)
        asyncio.run(waits(3))
    steps = [(run.name, run.steps) for run in rf.runs]
    assert ("numbers", 2) in steps and ("down", 2) in steps and ("waits", 3) in steps


def test_other_threads_are_not_recorded():
    with pytest.warns(LoopWarning, match="not called in this thread"), rf.record_loops(Decoder.step):
        thread = threading.Thread(target=Decoder().step, args=[3])
        thread.start()
        thread.join()
    assert len(rf.runs) == 0


def test_a_debugger_wins():
    def tracer(*_):
        return None

    sys.settrace(tracer)
    try:
        with pytest.warns(LoopWarning, match=r"nothing is recorded, because sys\.settrace is in use"):
            decode(2, torch.eye(3))
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(None)
    assert len(rf.runs) == 0


def test_what_does_not_fit_into_the_budget_becomes_statistics(monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 55_000)

    def large():
        for t in rf.steps(range(20), name="large"):
            x = torch.full((1000,), float(t))
        return x

    large()
    run = rf.runs["large"]
    kept = [step for step in range(20) if "x" in names_at(run, step)]
    assert 5 <= len(kept) <= 11 and kept[-1] == 19 and run.replay.kept_from == kept[0]
    [text] = [text for text in run[0].texts() if text.name == "x"]
    assert text.text == "1000, 0 … 0, μ 0, no longer kept"
    assert run[0].t.item() == 0


def test_a_state_that_is_not_there_yet_or_no_longer_is_shown_and_saved(monkeypatch, tmp_path):
    monkeypatch.setattr(rf.options, "trace_budget", 40_000)

    def loop():
        for t in range(20):
            h = h + t if t else torch.zeros(1000)  # noqa: F821
        return h

    run = recorded(loop)
    assert run.states == ["h"] and run[0].before.h is None and "no longer kept" in run[1].before.h
    assert "not assigned yet" in rf.show(run[0]).text and "no longer kept" in rf.show(run[1]).text
    assert "not assigned yet" in rf.show(run).text and rf.compare(run, run).first is None
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    assert again[0].before.h is None and torch.equal(again[19].after.h.raw_tensor, loop())


def test_values_that_changed_in_place_are_copied_or_marked():
    def change(x):
        x.add_(1)

    def loop():
        a, b = torch.zeros(2), torch.zeros(2)
        for _ in rf.steps(range(3), name="in place"):
            a += 1
            c = b
            change(b)
        return c

    loop()
    run = rf.runs["in place"]
    assert [run[i].a.raw_tensor.tolist() for i in range(3)] == [[1, 1], [2, 2], [3, 3]]
    assert [run[i].b.raw_tensor.tolist() for i in range(1, 3)] == [[2, 2], [3, 3]]
    [mark] = [text.text for text in run[0].texts() if text.name == "c"]
    assert "changed later" in mark


def test_dims_get_names_once_for_a_run():
    def loop():
        for _ in rf.steps(range(2), name="named", dims={"att": ["batch", "source"]}):
            att = torch.softmax(torch.zeros(2, 5), -1)
        return att

    loop()
    stacked = rf.runs["named"].stack("att")
    assert [dim.name for dim in stacked.dims] == ["iterations", "batch", "source"]
    assert stacked.dims[1].is_batch_dim()


def test_a_run_is_shown_and_saved(tmp_path):
    decode(3, torch.eye(3), "decoder")
    run = rf.runs["decoder"]
    assert "h = torch.tanh(h @ w + x)" in rf.show(run).text
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    assert torch.equal(again[1].h.raw_tensor, run[1].h.raw_tensor)
    assert run.save(tmp_path / "x.html").exists()


@pytest.mark.parametrize("wrong", [{"items": 3}, {"name": 3}, {"dims": 3}, {"dims": {"x": "ab"}}, {"dims": {"x": [3]}}])
def test_what_steps_does_not_take_is_refused_before_the_loop(wrong):
    with pytest.raises(ParameterError, match=r"steps: `(items|name|dims)`"):
        rf.steps(**{"items": [1], **wrong})


def recorded(loop, *args):
    """The run of a function's first loop."""
    with rf.record_loops(loop):
        loop(*args)
    return rf.runs[-1]


def test_a_step_has_its_own_item_also_if_items_can_change():
    def loop(batches):
        for batch in batches:
            total = sum(batch["x"])
        return total

    run = recorded(loop, [{"x": [1, 2]}, {"x": [3, 4]}])
    assert [[v.tensor.raw_tensor.tolist() for v in run[i].values()] for i in range(2)] == [[[1, 2], 3], [[3, 4], 7]]


@pytest.mark.parametrize("kind", ["numpy", "inference"])
def test_large_values_that_count_no_changes_are_those_of_their_step(kind):
    def loop():
        with torch.inference_mode():
            x = np.zeros(20_000) if kind == "numpy" else torch.zeros(20_000)
            for i in range(3):
                x += 1
                y = x
                x[0] = 7 * i
        return y

    run = recorded(loop)
    assert [run[i].y.raw_tensor[1].item() for i in range(3)] == [1, 2, 3]
    assert [run[i].x.raw_tensor[0].item() for i in range(3)] == [0, 7, 14]


def test_values_too_large_for_a_copy_are_marked(monkeypatch):
    monkeypatch.setattr(values, "LARGE", 100)
    monkeypatch.setattr(values, "SMALL", 10)

    def loop():
        for _ in range(2):
            x = np.zeros(20)
        return x

    assert [text.text for text in recorded(loop)[0].texts()] == ["may have changed later"]


def test_statements_of_one_line_that_change_a_tensor_in_place(tmp_path):
    text = "import torch\ndef loop():\n    done = torch.zeros(2)\n    for n in range(3):\n        k = n; done += 1\n"
    run = recorded(module(text, tmp_path / "one_line.py").loop)
    assert [run[i].done.raw_tensor.tolist() for i in range(3)] == [[1, 1], [2, 2], [3, 3]]


def test_a_container_keeps_no_tensor_of_a_graph_alive():
    graphs = []

    def loop(w):
        for _ in range(3):
            y = w * 2
            pair = [y, {"y": (y,)}]
            graphs.append(weakref.ref(y))
            assert sum(graph() is not None for graph in graphs) <= 2
        return len(pair)

    run = recorded(loop, torch.ones(2, requires_grad=True))
    assert not any(graph() for graph in graphs)
    assert [run[i].values()[-1].tensor.raw_tensor.tolist() for i in range(3)] == [[2, 2]] * 3


def test_a_list_that_grows_needs_the_memory_of_its_tensors_once(monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 100_000)

    def loop():
        outs = []
        for i in range(40):
            h = torch.full((100,), float(i))
            outs.append(h)
        return outs

    run = recorded(loop)
    assert run[0].h.raw_tensor[0].item() == 0 and len(run[39].values()) == 42


def test_what_was_there_before_the_loop_does_not_use_up_the_budget(monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 60_000)

    def loop():
        data = torch.zeros(20_000)
        for i in range(30):
            x = torch.full((1000,), float(i)) + data[i]
        return x

    run = recorded(loop)
    assert 5 <= sum("x" in names_at(run, step) for step in range(30)) <= 11


class Touchy:
    """An object of which nothing may be used."""

    @property
    def __class__(self):
        raise AssertionError

    def __getattribute__(self, name):
        raise AssertionError(name)

    __eq__ = __iter__ = __len__ = __bool__ = __getattribute__
    __hash__ = object.__hash__


class TouchyList(list):
    __getattribute__ = __iter__ = __len__ = __eq__ = Touchy.__getattribute__


class TouchyDict(dict):
    __getattribute__ = __iter__ = values = keys = __eq__ = Touchy.__getattribute__


class TouchyText(str):
    __eq__ = __repr__ = __str__ = Touchy.__getattribute__
    __hash__ = str.__hash__


@pytest.mark.parametrize("kind", [Touchy, TouchyList, TouchyDict, TouchyText, lambda: Mock(spec=list), Mock])
@pytest.mark.filterwarnings("error")
def test_no_code_of_the_objects_in_a_loop_runs(kind):
    objects = [kind()]

    def loop():
        for n in range(2):
            x = objects[0]
            pair = [n, x, {"x": x}]
        return pair

    run = recorded(loop)
    assert run.steps == 2 and run[1].n.item() == 1 and run[1].texts()[0].name == "x"


@pytest.mark.filterwarnings("error::rfnb.errors.LoopWarning")
def test_a_dict_with_tensors_as_keys():
    def loop():
        a, b = torch.zeros(2), torch.ones(2)
        table = {a: 0}
        for n in range(3):
            put(table, b if n % 2 else a, n)
        return table

    def put(table, key, value):
        table.clear()
        table[key] = value

    run = recorded(loop)
    assert run.steps == 3 and run[2].values()[-1].tensor.item() == 2


@pytest.mark.filterwarnings("error::rfnb.errors.LoopWarning")
@pytest.mark.parametrize("kind", ["meta", "sparse", "float8"])
def test_tensors_that_cannot_be_read_are_named_by_their_type(kind):
    def loop():
        x = torch.eye(3)
        x = {"meta": lambda: x.to("meta"), "sparse": x.to_sparse, "float8": lambda: x.to(torch.float8_e4m3fn)}[kind]()
        for _ in range(2):
            y = x.clone()
            y.copy_(x)
        return y

    run = recorded(loop)
    assert run.steps == 2 and run.flags == [] and [text.text for text in run[0].texts()] == ["<Tensor>"]
    assert "y.copy_(x)" in rf.show(run).text


@pytest.mark.filterwarnings("error::rfnb.errors.LoopWarning")
def test_a_loop_inside_of_a_transform():
    def loop(x):
        for _ in range(2):
            x = 2 * x
        return x

    with rf.record_loops(loop):
        assert torch.equal(torch.vmap(loop)(torch.ones(3)), torch.full((3,), 4.0))
        assert torch.equal(torch.func.grad(lambda x: loop(x).sum())(torch.ones(3)), torch.full((3,), 4.0))
    assert [run.steps for run in rf.runs] == [2, 2]
    assert all(run[1].texts()[0].text == "<Tensor>" for run in rf.runs)


def test_a_recording_that_begins_inside_of_a_loop():
    def loop():
        for epoch in range(2):
            with rf.record_loops():
                for k in range(3):
                    last = k + epoch
        return last

    loop()
    assert [(run.name, run[2].last.item()) for run in rf.runs] == [("for k in range(3)", n) for n in (3, 2)]


@pytest.mark.filterwarnings("error::rfnb.errors.LoopWarning")
def test_an_rf_loop_inside_of_a_plain_loop():
    time, feature = rf.Dim(3, name="time"), rf.Dim(2, name="feature")
    x = rf.convert_to_tensor(torch.arange(6.0).reshape(3, 2), dims=[time, feature])

    def epochs():
        for _ in range(2):
            loop = rf.Loop(axis=time)
            loop.state.h = rf.zeros([feature])
            with loop:
                frame = loop.unstack(x)
                loop.state.h = loop.state.h + frame
                rows = loop.stack(loop.state.h)
            total = loop.state.h.raw_tensor.sum()
        return total, rows

    run = recorded(epochs)
    total, _ = epochs()
    assert run.steps == 2 and [run[i].total.raw_tensor.item() for i in range(2)] == [total.item()] * 2 == [15, 15]


class CountingTensor(torch.Tensor):
    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        CountingTensor.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})


class CountingMode(TorchDispatchMode):
    calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        CountingMode.calls += 1
        return func(*args, **(kwargs or {}))


def test_no_mode_and_no_subclass_sees_what_the_recording_calls():
    def loop():
        CountingTensor.calls = CountingMode.calls = 0
        with CountingMode():
            x, rows = torch.ones(3).as_subclass(CountingTensor), []
            for _ in range(3):
                x = x + 1
                x += 1
                rows.append(x)
        return CountingTensor.calls, CountingMode.calls

    expected = loop()
    with rf.record_loops(loop):
        assert loop() == expected
    assert [rf.runs[-1][i].x.raw_tensor[0].item() for i in range(3)] == [3, 5, 7]


def test_a_cell_of_ipython_is_yours_also_the_first():
    assert is_yours("<ipython-input-1-d10c82d6db00>") and not is_yours("<string>")


def test_variables_that_other_functions_assign(tmp_path):
    text = """
n = 0
def bump():
    global n
    n += 1
def total():
    total = 0
    def add(x):
        nonlocal total
        total += x
    for i in range(3):
        y = total
        add(i)
        z = i
    return total
def both():
    global n
    for i in range(3):
        n = n + 1
        bump()
with rf.record_loops():
    for i in range(3):
        y = n
        bump()
    total()
    both()
"""
    run_text(text, tmp_path / "shared.py")
    top, total, both = rf.runs[2], rf.runs["total"], rf.runs["both"]
    assert top.stack("n").tolist() == [1, 2, 3] and both.stack("n").tolist() == [5, 7, 9]
    assert total.stack("total").tolist() == [0, 1, 3] and total[1].total.item() == 1
    assert [v.line for v in total[1].values() if v.name == "total"] == [13]


def squares(n):
    for i in range(n):
        square = i * i
        yield square


@pytest.mark.parametrize("end", ["waits", "deleted", "closed", "thrown"])
def test_a_generator_that_does_not_end_is_a_run(end):
    with rf.record_loops():
        items = squares(5)
        assert [next(items), next(items)] == [0, 1]
        if end == "deleted":
            del items
            gc.collect()
        elif end == "closed":
            items.close()
        elif end == "thrown":
            with contextlib.suppress(KeyError):
                items.throw(KeyError("x"))
    [run] = rf.runs
    assert run.steps == 2 - (end == "thrown") and run[0].square.item() == 0
    assert run.flags == (["failed in step 1: KeyError: 'x'"] if end == "thrown" else [])


class Ending:
    """An iterator of Python, which ends by an error that is none."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if not self.n:
            raise StopIteration
        self.n -= 1
        return self.n

    async def __aiter__(self):
        for n in self:
            await asyncio.sleep(0)
            yield n


def test_an_iterator_that_ends_where_the_function_ends_is_no_failure():
    def loop():
        for n in Ending(3):
            abs(n)

    async def asynchronous():
        async for n in Ending(3):
            abs(n)

    async def short():
        async for n in rf.steps(Ending(3), name="short"): abs(n)  # fmt: skip  # noqa: E701

    def delegates():
        for _ in range(3):
            yield (yield from squares(2))

    with rf.record_loops(loop):
        loop()
        asyncio.run(asynchronous())
        asyncio.run(short())
        assert list(delegates()) == [0, 1, None] * 3
    for name in ("loop", "asynchronous", "short", "delegates"):
        assert rf.runs[name].steps == 3 and rf.runs[name].flags == []


def test_loops_without_a_body_and_in_the_body_of_a_class(tmp_path):
    run_text("for t in rf.steps('abc', name='pass'): pass", tmp_path / "nothing.py")
    assert rf.runs["pass"].steps == 3
    with rf.record_loops():

        class Table:
            total = 0
            for i in range(3):
                total += i

    assert rf.runs["Table"].stack("total").tolist() == [0, 1, 3] and Table.total == 3


def test_large_arrays_changed_by_another_name_are_those_of_each_iteration(monkeypatch):
    def change(boxes):
        boxes[0][3] += 1

    def loop():
        x = np.zeros(20_000)
        boxes = [x]
        for _ in range(3):
            first = x[3] + 0
            change(boxes)
        return first

    run = recorded(loop)
    assert [run[i].first.item() for i in range(3)] == [0, 1, 2]
    assert [run.replay.state("x", i).raw_tensor[3].item() for i in range(4)] == [0, 1, 2, 3]
    monkeypatch.setattr(values, "SMALL", 10)
    monkeypatch.setattr(values, "MEDIUM", 100)
    monkeypatch.setattr(variables, "MEDIUM", 100)
    monkeypatch.setattr(recorded_variables, "MEDIUM", 100)
    assert recorded(loop).replay.state("x", 1) == "may have changed later"


def test_tensors_in_containers_have_the_values_of_each_line():
    def loop():
        cache, rows = {"k": torch.zeros(2), "other": torch.zeros(2)}, [torch.zeros(2)]
        for i in range(4):
            cache["k"] += i
            add(rows)
        return cache

    def add(rows):
        rows[0].add_(1)

    run = recorded(loop)
    assert [run[i]["cache.k"].tolist()[0] for i in range(4)] == [0, 1, 3, 6]
    assert [run[i]["rows.0"].tolist()[0] for i in range(4)] == [1, 2, 3, 4]


def test_a_line_that_changes_a_view_leaves_each_variable_its_value():
    def loop():
        memory = torch.zeros(3, 2)
        first, last = memory[0], memory[-1]
        for t in range(4):
            first += t
            last.add_(first)
            total = memory.sum()
        return total

    run = recorded(loop)
    assert [run[i].first.tolist()[0] for i in range(4)] == [0, 1, 3, 6]
    assert [run[i].last.tolist()[0] for i in range(4)] == [0, 1, 4, 10]


def test_the_state_before_a_while_loop_is_that_before_its_test():
    def loop():
        n, queue = 0, [0, 1, 2, 3]
        while (n := n + 1) < 9 and queue.pop():
            total = n + len(queue)
        return total

    run = recorded(loop)
    assert [run[i].before.n.item() for i in range(3)] == [0, 1, 2]
    assert [run[i].total.item() for i in range(3)] == [4, 4, 4]


def test_a_value_that_is_lost_names_the_line_that_changed_it():
    def loop():
        a = torch.zeros(2)
        for _ in range(2):
            b = a
            c = b.view(2)
            add([c])
        return c

    def add(rows):
        rows[0].add_(1)

    run = recorded(loop)
    assert run[0]["b"] == f"changed later at line {run.source.first_line + 3}"


def test_an_old_value_is_summarized_when_its_variable_has_another(monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 40_000)

    def loop():
        for i in range(20):
            if i in (0, 9):
                large = torch.zeros(5000)
            x = torch.full((500,), float(i))
        return large, x

    run = recorded(loop)
    assert run[0].large == "5000, 0 … 0, μ 0, no longer kept" and run[9].large.dims
    assert run.bytes <= 40_000 + 5000 * 4


def test_values_of_fake_tensors_and_values_read_under_their_mode():
    def loop():
        for _ in range(2):
            x = torch.ones(3) + 1
        return x

    with rf.record_loops(loop), FakeTensorMode():
        loop()
    assert rf.runs[-1][1].x == "<FakeTensor>" and rf.runs[-1].flags == []
    rf.runs.clear()
    run = recorded(loop)
    with FakeTensorMode():
        x, flags = run[1].x, run.flags
    assert x.raw_tensor.tolist() == [2, 2, 2] and flags == []


def test_a_problem_in_the_choice_of_code_is_none_of_the_loop(monkeypatch):
    monkeypatch.setattr(recording, "outline", Mock(side_effect=RecursionError("too deep")))
    with pytest.warns(LoopWarning, match="too deep|has no loop") as words, rf.record_loops(Decoder.step):
        assert Decoder().step(3) == 7
    expected = {
        "record_loops: not recorded: RecursionError: too deep",
        "a loop is not recorded: RecursionError: too deep",
    }
    assert expected <= {str(word.message) for word in words}


def test_equal_code_of_several_functions_is_recorded_each_time(tmp_path):
    text = "def loop(n):\n    for t in range(n):\n        k = t\n    return k\n"
    first, second = module(text, tmp_path / "equal.py").loop, module(text, tmp_path / "equal.py").loop
    assert first.__code__ == second.__code__ and first.__code__ is not second.__code__
    with rf.record_loops(first):
        first(2)
        second(3)
    assert [run.steps for run in rf.runs] == [3, 2]


def test_a_list_that_grows_is_kept_once_and_has_its_length_at_each_step():
    def loop(n):
        losses, outs = [], []
        for i in range(n):
            losses.append(i / 2)
            outs.append(torch.full((2,), float(i)))
            if i == 30:
                losses[3], outs[4] = -1.0, torch.zeros(2)
            if i == 35:
                outs[5].add_(1)
        return losses

    run = recorded(loop, 40)
    for i in (0, 7, 20, 29, 39):
        assert len(run[i].losses.tolist()) == i + 1
        expected = [n / 2 for n in range(i + 1)]
        expected[3:4] = [-1.0] if i > 30 else expected[3:4]
        assert run[i].losses.tolist() == expected and run[i][f"outs.{i}"].tolist() == [i, i]
    assert run[29]["outs.4"].tolist() == [4, 4] and run[39]["outs.4"].tolist() == [0, 0]
    assert run[10]["outs.5"].tolist() == [5, 5] and run[39]["outs.5"].tolist() == [6, 6]
    lists = [part.value for part in run.replay.iterations.log.values if type(part) is values.Kept]
    assert len({id(value.growth) for value in lists if type(value) is values.Parts}) <= 6


def test_a_dim_has_lengths_and_labels():
    batch, source, letter = rf.Dim(2, name="batch"), rf.Dim(None, name="source"), rf.Dim(3, name="l", vocab=list("abc"))
    rf.convert_to_tensor([[1.0, 2, 3], [4, 5]], dims=[batch, source])
    dims = {"att": [batch, source], "label": [batch, letter], "odd": [batch, letter], "other": [batch, source]}

    def loop():
        for i in rf.steps(range(2), name="dims", dims=dims):
            att = torch.softmax(torch.arange(6.0).reshape(2, 3), -1)
            label, odd, other = torch.tensor([0, 2]), torch.tensor([0, 3]), torch.zeros(2, 7 + i)
        return att, label, odd, other

    att = loop()[0]
    rf.convert_to_tensor([[1.0, 2], [4]], dims=[batch, source])  # another batch
    run = rf.runs["dims"]
    kept = run[1].att
    assert kept.dims == (batch, source) and kept.lengths.size(source).values.tolist() == [3, 2]
    assert rf.reduce_sum(kept, axis=source).raw_tensor.tolist() == pytest.approx([1, att[1, :2].sum().item()])
    assert run[0].label.sparse_dim is letter and run[0].odd.sparse_dim is None
    assert [dim.name for dim in run[0].other.dims] == ["batch", "source"] and run[1].other.dims[1].dimension == 8
    assert "attends to" in rf.show_attention(run.stack("att")).text


def scaled(x, by, n=4, late=None):
    h = torch.zeros(2)
    for t in rf.steps(range(n), name="scaled"):
        y = x * t
        if t == late:
            y = y + 1
        h = h + y * (by if t > 1 else 1)
        energy = h.masked_fill(torch.tensor([False, True]), float("-inf"))
    return energy


def test_compare_finds_the_first_value_that_differs(tmp_path):
    runs = []
    for by, more in ((1, {}), (1, {}), (2, {}), (1, {"n": 5}), (1, {"late": 2})):
        scaled(torch.ones(2), by, **more)
        runs.append(rf.runs[0])
    a, same, other, longer, late = runs
    assert a.flags == [] and rf.compare(a, a) and rf.compare(a, same)
    compared = rf.compare(a, other)
    first = a.source.first_line
    assert (compared.first.name, compared.first.step, compared.first.line) == ("h", 2, (first + 4, first + 4))
    assert [value.name for value in compared.values] == ["state h", "t", "y", "h", "energy"]
    assert [value.name for value in compared.differing] == ["h", "energy"]
    assert not rf.compare(a, longer) and rf.compare(a, longer).first is None
    assert rf.compare(a, late).notes == [f"step 2: only the second assigns y in line {first + 3}"]
    assert rf.compare(a, late).first.name == "h"
    again = rf.load_run(a.save(tmp_path / "a.rfrun"))
    assert rf.compare(a, again) and rf.compare(again, other).first.name == "h"


def test_tensors_of_torch_are_recorded_while_rfnb_makes_arrays_of_numpy():
    rf.select_backend("numpy")
    try:
        for t in rf.steps(range(3), name="numpy"):
            h = torch.ones(2) * t
            h.add_(1)
    finally:
        rf.select_backend("torch")
    run = rf.runs["numpy"]
    assert run.steps == 3 and torch.equal(run[2].h.raw_tensor, torch.full((2,), 3.0))
    assert torch.equal(run.fork(1)[2].h.raw_tensor, h)
