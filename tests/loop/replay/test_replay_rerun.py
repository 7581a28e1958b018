"""A run again: the same call with the code as it is now."""

from __future__ import annotations

import gc
import importlib
import sys
import textwrap
import types
import weakref

import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.errors import LoopError

TEXT = """
import rfnb as rf
from rfnb import batch_dim

class Decoder:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x, *more, time, start=0.0, **names):
        loop = rf.Loop(axis=time, name="decoder")
        loop.state.s = rf.zeros([batch_dim]) + start
        with loop:
            noise = rf.dropout(rf.random_normal([batch_dim]), 0.5)
            new = loop.state.s + loop.unstack(x) * self.scale + noise
            loop.state.s = new
        return loop.state.s

    @classmethod
    def made(cls, x, time):
        return count(x, time)

    @staticmethod
    def plain(x, time):
        loop = rf.Loop(axis=time, name="plain")
        loop.state.s = rf.zeros([batch_dim])
        with loop:
            loop.state.s = loop.state.s + loop.unstack(x)

def count(x, time):
    loop = rf.Loop(axis=time, name="count")
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)

def anew(x, time):
    x = x * 2.0
    count_in = rf.Loop(axis=time, name="anew")
    count_in.state.s = rf.zeros([batch_dim])
    with count_in:
        count_in.state.s = count_in.state.s + count_in.unstack(x)
    return count_in.state.s

def later(x, time):
    loop = rf.Loop(axis=time, name="later")
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        x = loop.unstack(x)
        loop.state.s = loop.state.s + x

def several(x, time):
    for x in [x, x * 2.0]:
        loop = rf.Loop(axis=time, name="several")
        loop.state.s = rf.zeros([batch_dim])
        with loop:
            loop.state.s = loop.state.s + loop.unstack(x)

def outer(x, time):
    def inner():
        count(x, time)
    inner()

def nested(x, time):
    def inner(x):
        loop = rf.Loop(axis=time, name="nested")
        loop.state.s = rf.zeros([batch_dim])
        with loop:
            loop.state.s = loop.state.s + loop.unstack(x)
    inner(x)
"""


@pytest.fixture
def cells():
    """A module whose text can be run again, as the cells of a notebook."""
    module = types.ModuleType("cells")
    sys.modules["cells"] = module
    module.run = lambda text: exec(compile(text, "cells.py", "exec"), vars(module))
    module.run(TEXT)
    rf.runs.clear()
    with rf.recording("last"):
        yield module
    rf.runs.clear()
    del sys.modules["cells"]


def batch(*rows):
    time = Dim(None, name="time")
    return rf.convert_to_tensor([list(row) for row in rows], dims=[batch_dim, time]), time


def three():
    return batch((1.0, 2.0, 3.0), (4.0,), (5.0, 6.0))


def states(run, name="s"):
    return [step.after[name].raw_tensor.tolist() for step in run]


def test_a_rerun_draws_the_same_numbers(cells):
    x, time = three()
    ctx = rf.init_train_step_run_ctx()
    cells.Decoder(2.0)(x, 7, time=time, start=1.0, what=3)
    run = rf.runs["decoder"]
    other = rf.init_forward_step_run_ctx()
    batch((0.0, 0.0), (0.0, 0.0))  # the dims have other sizes now
    random = torch.get_rng_state()
    again = run.rerun()
    assert states(again) == states(run)
    assert again[0].noise.raw_tensor.tolist() == run[0].noise.raw_tensor.tolist()
    assert list(rf.runs) == [again, run]
    assert again.parent is None
    assert torch.equal(torch.get_rng_state(), random)
    assert rf.get_run_ctx() is other
    assert not ctx.losses
    assert batch_dim.size.max == 2
    assert states(again.rerun()) == states(run)


def test_random_numbers_outside_of_the_loop_are_the_same_at_each_rerun():
    time, feat = Dim(3, name="time"), Dim(2, name="feat")

    def noisy():
        loop = rf.Loop(axis=time, name="noisy", debug=True)
        loop.state.s = rf.random_normal([feat])
        with loop:
            loop.state.s = loop.state.s * 2.0 + rf.cast(loop.iter_idx, "float32")
        return loop.run

    run = noisy()
    first = run.rerun(noisy)
    torch.rand(5)  # of somebody else, meanwhile
    second = run.rerun(noisy)
    assert states(first) == states(second)


def test_an_edited_cell_counts(cells):
    x, time = three()
    decoder = cells.Decoder(2.0)
    decoder(x, time=time)
    run = rf.runs["decoder"]
    cells.run(TEXT.replace("* self.scale", "* self.scale * 0.0"))
    again = run.rerun()
    assert again[1].new.raw_tensor.tolist() != run[1].new.raw_tensor.tolist()
    assert again[1].noise.raw_tensor.tolist() == run[1].noise.raw_tensor.tolist()
    assert again[2].after.s.raw_tensor[0].item() == pytest.approx(
        sum(again[i].noise.raw_tensor[0].item() for i in range(3))
    )


def test_a_module_that_is_loaded_anew_counts(tmp_path, monkeypatch):
    text = TEXT[TEXT.index("def count") :]
    file = tmp_path / "reloaded.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file.write_text("import rfnb as rf\nfrom rfnb import batch_dim\n" + text)
    module = importlib.import_module("reloaded")
    with rf.recording("last"):
        x, time = three()
        module.count(x, time)
        run = rf.runs["count"]
        file.write_text(file.read_text().replace("loop.unstack(x)", "loop.unstack(x) * 10.0", 1))
        importlib.invalidate_caches()
        importlib.reload(module)
        assert states(run.rerun())[0] == [10.0, 40.0, 50.0]


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda m, x, t: m.Decoder.made(x, t), "count"),
        (lambda m, x, t: m.Decoder.plain(x, t), "plain"),
        (lambda m, x, t: m.later(x, t), "later"),
        (lambda m, x, t: m.outer(x, time=t), "count"),
    ],
    ids=["classmethod", "staticmethod", "set behind the with", "called by a function in a function"],
)
def test_functions_of_all_kinds(cells, call, name):
    call(cells, *three())
    run = rf.runs[name]
    assert states(run.rerun()) == states(run) == [[1, 4, 5], [3, 4, 11], [6, 4, 11]]


@pytest.mark.parametrize("name", ["anew", "several"])
def test_arguments_that_are_set_anew_are_not_known(cells, name):
    getattr(cells, name)(*three())
    with pytest.raises(LoopError, match="sets its argument `x` before the loop") as error:
        rf.runs[name].rerun()
    assert f"run.rerun(lambda: {name}(…))" in str(error.value)


def test_with_a_function_that_calls_it(cells):
    x, time = three()
    cells.anew(x, time)
    run = rf.runs["anew"]
    again = run.rerun(lambda: cells.anew(x, time))
    assert states(again) == states(run)
    with pytest.raises(LoopError, match="no loop of this name") as error:
        run.rerun(lambda: cells.count(x, time))
    assert "count" in str(error.value)
    with pytest.raises(LoopError, match="2 loops of this name"):
        run.rerun(lambda: [cells.anew(x, time) for _ in range(2)])
    assert list(rf.runs) == [again, run]


def test_functions_that_cannot_be_found(cells):
    x, time = three()
    cells.nested(x, time)
    with pytest.raises(LoopError, match=r"cells no longer has nested.<locals>.inner"):
        rf.runs["nested"].rerun()
    cells.count(x, time)
    del cells.count
    with pytest.raises(LoopError, match="cells no longer has count"):
        rf.runs["count"].rerun()
    cells.x, cells.time = x, time
    body = TEXT[TEXT.index('    loop = rf.Loop(axis=time, name="count")') : TEXT.index("def anew")]
    cells.run(textwrap.dedent(body))  # at the top of a cell
    with pytest.raises(LoopError, match="did not run in a function") as error:
        rf.runs[0].rerun()
    assert "put the loop into a function" in str(error.value)


def test_an_error_of_the_call_is_raised_and_what_ran_is_kept(cells):
    x, time = three()
    cells.count(x, time)
    run = rf.runs["count"]
    cells.run(TEXT.replace("loop.state.s + loop.unstack(x)\n\ndef anew", "nothing\n\ndef anew"))
    random = torch.get_rng_state()
    with pytest.raises(NameError):
        run.rerun()
    assert torch.equal(torch.get_rng_state(), random)
    assert list(rf.runs) == [run]
    with pytest.raises(LoopError, match="a fork cannot be run again"):
        run.fork(1).rerun()


@pytest.mark.slow
def test_arguments_are_kept_without_their_graph_and_only_while_recording(cells):
    x, time = three()
    w = torch.ones(3, 3, requires_grad=True)
    y = rf.convert_to_tensor(x.raw_tensor * w, dims=x.dims)
    graph = weakref.ref(y.raw_tensor)
    cells.count(y, time)
    run = rf.runs["count"]
    del y
    gc.collect()
    assert graph() is None
    assert not run.replay.bindings.call.given["x"].raw_tensor.requires_grad
    assert states(run.rerun()) == states(run)
    with rf.recording(False):
        kept, of_kept = batch((1.0, 2.0))
        gone = weakref.ref(kept)
        cells.later(kept, of_kept)
        del kept
    gc.collect()
    assert gone() is None


def test_a_run_holds_what_its_arguments_hold(cells):
    time, feat = Dim(None, name="time"), Dim(1000, name="feat")
    x = rf.convert_to_tensor(torch.ones(1, 2), dims=[batch_dim, time])
    large = rf.zeros([feat])
    cells.run(TEXT.replace("def count(x, time)", "def count(x, time, more=None)"))
    cells.count(x, time)
    small = rf.runs[0].bytes
    cells.count(x, time, more=[large])
    assert rf.runs[0].bytes == small + 4000
