"""`rf.steps` and `rf.record_loops`: which loops become runs, and that nothing changes for the loop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
import threading
import weakref

import pytest
import torch
import tqdm

import rfnb as rf
from rfnb.errors import LoopNameError, LoopWarning, ParameterError


@pytest.fixture(autouse=True)
def no_runs():
    rf.runs.clear()
    yield
    assert sys.gettrace() is None
    rf.runs.clear()


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
    with pytest.raises(LoopNameError, match="no value 'x'"):
        run[2].x  # noqa: B018


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
    with rf.record_loops(Decoder.step):
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
    monkeypatch.setattr(rf.options, "trace_budget", 40_000)

    def large():
        for t in rf.steps(range(20), name="large"):
            x = torch.full((1000,), float(t))
        return x

    large()
    run = rf.runs["large"]
    kept = [step for step in range(20) if "x" in names_at(run, step)]
    assert 5 <= len(kept) <= 11 and kept[-1] == 19
    [text] = [text for text in run[0].texts() if text.name == "x"]
    assert text.text == "1000, 0 … 0, μ 0, no longer kept"
    assert run[0].t.item() == 0


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
