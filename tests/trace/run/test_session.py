"""What is recorded, and how much memory that may take."""

from __future__ import annotations

import contextlib

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import OptionError
from rfnb.trace.run.runs import HeldStorages


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    for name in ("record", "trace_budget", "keep"):
        monkeypatch.setattr(rf.options, name, getattr(rf.options, name))
    rf.runs.clear()
    rf.options.record = "all"
    yield
    rf.runs.clear()


def run_of(steps=4, width=1000, *, name="sum", share=False, **given):
    """A run whose states are `width` numbers of 4 bytes."""
    time, wide = rf.Dim(None, name="time"), rf.Dim(width, name="wide")
    x = rf.convert_to_tensor(torch.zeros(1, steps), dims=[batch_dim, time])
    loop = rf.Loop(axis=time, name=name, **given)
    loop.state.s = rf.zeros([batch_dim, wide])
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)
    return loop.run


# -- options


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("recrod", "all", "record"),
        ("budget", 1, "trace_budget"),
        ("record", "lsat", "last"),
        ("record", True, None),
        ("record", 0, None),
        ("record", 1, None),
        ("trace_budget", "512 MB", None),
        ("trace_budget", -1, None),
        ("trace_budget", 1.5, None),
        ("trace_budget", True, None),
        ("keep", 0, None),
        ("keep", None, None),
    ],
)
def test_a_wrong_option_is_refused_and_changes_nothing(name, value, hint):
    before = vars(rf.options).copy()
    with pytest.raises(OptionError) as caught:
        setattr(rf.options, name, value)
    assert vars(rf.options) == before
    assert hint is None or hint in caught.value.hint


def test_an_option_that_is_not_there_cannot_be_read():
    with pytest.raises(OptionError, match="record"):
        rf.options.recrod  # noqa: B018
    assert not hasattr(rf.options, "recrod")


@pytest.mark.parametrize("mode", ["lsat", True, 0])
def test_a_wrong_mode_of_recording_is_refused(mode):
    with pytest.raises(OptionError), rf.recording(mode):
        pass
    assert rf.options.record == "all"


def test_recording_ends_with_its_block():
    with pytest.raises(ZeroDivisionError), rf.recording(False):
        assert run_of() is None
        raise ZeroDivisionError
    assert run_of() is not None


def test_values_that_can_be():
    for mode in ("last", "all", False, None):
        rf.options.record = mode
    rf.options.keep, rf.options.trace_budget = 1, 0


# -- bytes


def test_the_bytes_of_a_run_are_those_of_its_storages():
    run = run_of(steps=4)
    states = 5 * 4000
    assert states <= run.bytes <= states + 200
    assert rf.runs.bytes == run.bytes


def test_a_state_that_is_a_part_of_something_larger_counts_whole():
    time, wide = rf.Dim(3, name="time"), rf.Dim(100, name="wide")
    x = rf.zeros([time])
    loop = rf.Loop(axis=time)
    loop.state.s = rf.zeros([])
    with loop:
        large = rf.expand_dim(loop.state.s + loop.unstack(x), wide) * 1.0
        loop.state.s = rf.gather(large, axis=wide, indices=0)
    assert loop.run.bytes >= 3 * 4


def test_what_runs_share_counts_once():
    time, wide = rf.Dim(3, name="time"), rf.Dim(1000, name="wide")
    x = rf.convert_to_tensor(torch.zeros(3, 1000), dims=[time, wide])
    weight = rf.Parameter([wide], initial=1.0)

    def go():
        loop = rf.Loop(axis=time)
        loop.state.n = rf.zeros([])
        with loop:
            loop.state.n = loop.state.n + rf.reduce_sum(loop.unstack(x) * weight, axis=wide)
        return loop.run

    first, second = go(), go()
    shared = 12_000 + 4_000  # the frames, and the copy of the weight
    assert first.bytes >= shared
    assert rf.runs.bytes <= first.bytes + second.bytes - shared
    rf.runs.forget(first.serial)
    assert rf.runs.bytes == second.bytes
    rf.runs.forget(second.serial)
    assert rf.runs.bytes == 0


def test_held():
    held = HeldStorages()
    held.add({"a": 1, "b": 2})
    held.add({"b": 2, "c": 4})
    assert held.bytes == 7
    held.remove({"a": 1, "b": 2})
    assert held.bytes == 6
    held.remove({"b": 2, "c": 4})
    assert held.bytes == 0


# -- the budget


def test_all_loops_share_one_budget_and_pinned_runs_stay():
    rf.options.trace_budget = 70_000
    first = run_of(name="first")
    rf.runs.pin(first.serial)
    for i in range(10):
        last = run_of(name=f"loop {i}")
    kept = list(rf.runs)
    assert kept[0] is last
    assert kept[-1] is first
    assert rf.runs.bytes == sum(run.bytes for run in kept) <= 70_000
    assert len(kept) == 3


@pytest.mark.parametrize(("steps", "budget"), [(50, 40_000), (50, 3), (7, 10_000), (0, 0), (1, 0)])
def test_a_run_that_is_too_large_keeps_every_so_many_states(steps, budget):
    plain = run_of(steps)
    rf.options.trace_budget = budget
    run = run_of(steps)
    states = len(run.replay.kept)
    assert states == 1 or states * 4000 <= budget / 2
    for step in range(steps):
        assert torch.equal(run[step].after.s.raw_tensor, plain[step].after.s.raw_tensor)
        assert run[step].check == "replay agrees"
    assert run in list(rf.runs)


def test_states_that_grow_stay_in_the_budget_as_well():
    rf.options.trace_budget = 100_000
    time, hist, wide = rf.Dim(None, name="time"), rf.Dim(0, name="hist"), rf.Dim(20, name="wide")
    x = rf.convert_to_tensor(torch.rand(1, 100, 20), dims=[batch_dim, time, wide])
    loop = rf.Loop(axis=time)
    loop.state.seen, loop.state.hist = rf.zeros([batch_dim, hist, wide]), hist
    with loop:
        loop.state.seen, loop.state.hist = rf.cum_concat_step(
            loop.unstack(x), prev_accum=loop.state.seen, axis=loop.state.hist
        )
    run = loop.run
    assert run.replay.every > 1
    assert sum(s[0].nbytes for s in run.replay.kept) <= 50_000
    assert torch.equal(run[63].after.seen.raw_tensor, x.raw_tensor[:, :64])


def test_the_budget_of_many_steps_is_flat():
    rf.options.trace_budget = 200_000
    for _ in range(30):
        run_of(steps=3)
        assert rf.runs.bytes <= 200_000
    assert len(rf.runs) > 4


# -- weights that change


def trained(fused, snapshot, monkeypatch):
    """A run, and a training step of fused Adam after it."""
    if not snapshot:
        monkeypatch.setattr("rfnb.loop.replay.replay.SNAPSHOT_BUDGET", 0)
    time, feat = rf.Dim(3, name="time"), rf.Dim(2, name="feat")
    x = rf.convert_to_tensor(torch.ones(3, 2), dims=[time, feat])
    layer = rf.Linear(feat, feat)
    adam = torch.optim.Adam(list(rf.torch_parameters(layer)), lr=0.1, fused=fused)
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([feat])
    with loop:
        loop.state.h = rf.tanh(layer(loop.state.h + loop.unstack(x)))
    rf.reduce_sum(loop.state.h, axis=feat).raw_tensor.backward()
    adam.step()
    return loop.run


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("snapshot", [True, False])
def test_a_step_of_adam_between_run_and_replay_is_noticed(fused, snapshot, monkeypatch):
    run = trained(fused, snapshot, monkeypatch)
    expected = "replay agrees" if snapshot else "with today's weights"
    assert [run[i].check for i in range(3)] == [expected] * 3


@pytest.mark.parametrize("fused", [True, False])
def test_each_run_has_the_weights_of_its_time(fused):
    time, feat = rf.Dim(3, name="time"), rf.Dim(2, name="feat")
    x = rf.convert_to_tensor(torch.ones(3, 2), dims=[time, feat])
    layer = rf.Linear(feat, feat)
    adam = torch.optim.Adam(list(rf.torch_parameters(layer)), lr=0.1, fused=fused)
    found = []
    for _ in range(3):
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([feat])
        with loop:
            loop.state.h = rf.tanh(layer(loop.state.h + loop.unstack(x)))
        adam.zero_grad()
        rf.reduce_sum(loop.state.h, axis=feat).raw_tensor.backward()
        adam.step()
        with torch.no_grad():
            layer.weight.raw_tensor.data.mul_(0.9)
        found.append(loop.run)
    assert [run[i].check for run in found for i in range(3)] == ["replay agrees"] * 9


# -- a kernel

TRAINING = """
import gc, resource, torch
import rfnb as rf

torch.set_num_threads(1)
time, feat, hidden = rf.Dim(None, name="time"), rf.Dim(8, name="feat"), rf.Dim(128, name="hidden")
layer = rf.Linear(feat + hidden, hidden)
adam = torch.optim.Adam(list(rf.torch_parameters(layer)), fused=True)

def resident():
    gc.collect()
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

def steps(n):
    for _ in range(n):
        x = rf.convert_to_tensor(torch.rand(4, 5, 8), dims=[rf.batch_dim, time, feat])
        loop = rf.Loop(axis=time, name="rnn")
        loop.state.h = rf.zeros([rf.batch_dim, hidden])
        with loop:
            both, _ = rf.concat((loop.unstack(x), feat), (loop.state.h, hidden))
            loop.state.h = rf.tanh(layer(both))
        adam.zero_grad()
        rf.reduce_mean(rf.square(loop.state.h), axis=[rf.batch_dim, hidden]).raw_tensor.backward()
        adam.step()
"""


@pytest.mark.slow
def test_training_steps_in_a_kernel_take_no_more_memory():
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:

        def said(code):
            found = []
            client.execute_interactive(
                code, timeout=500, output_hook=lambda m: found.append((m["msg_type"], m["content"]))
            )
            assert "error" not in [kind for kind, _ in found], found
            return "".join(content["text"] for kind, content in found if kind == "stream")

        said(TRAINING)
        early = int(said("steps(200); print(resident())"))
        late = int(said("steps(700); print(resident())"))
        assert said("print(len(rf.runs), rf.runs['rnn'][3].check)").split(maxsplit=1) == ["4", "replay agrees\n"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    assert late - early < 10 * 2**20


@pytest.mark.parametrize("wanted", [False, True])
def test_runs_that_are_wanted_stay_beside_a_capture(wanted):
    loop = rf.Loop(max_seq_len=2, name="count", debug=wanted)
    loop.state.n = rf.zeros([])

    def count(n):
        for _ in range(3):
            n = n + 1
        return n

    with rf.recording(False), rf.capture(), rf.record_loops(count) if wanted else contextlib.nullcontext():
        count(0)
        with loop:
            loop.state.n = loop.state.n + 1.0
    assert sorted(run.name for run in rf.runs) == (["count", "count"] if wanted else [])
