"""What a loop keeps: without gradients its outputs and states; after it, nothing."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import rfnb as rf
from rfnb import Dim, Tensor, batch_dim
from rfnb.core.dims import align
from rfnb.loop.steps import hoist

hidden, wide = Dim(8, name="hidden"), Dim(4096, name="wide")
STATE = 2 * 8 * 4
WIDE = 2 * 4096 * 4
STEPS = 24


def live_bytes() -> int:
    """Of all torch tensors that Python knows, each storage once; functorch's wrappers of other tensors have none."""
    storages = {}
    for thing in gc.get_objects():
        if type(thing) is not torch.Tensor or torch._C._functorch.is_functorch_wrapped_tensor(thing):
            continue
        if thing.layout is torch.strided:
            storage = thing.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


class Probe:
    """Called in every step: how many bytes are alive in an early one, and in a late one."""

    EARLY, LATE = 5, 22

    def __init__(self) -> None:
        self.calls = 0
        self.bytes: list[int] = []

    def __call__(self, x: Tensor) -> Tensor:
        return rf.raw_call(self.look, x, out_dims=list(x.dims))

    def look(self, raw: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.calls in (self.EARLY, self.LATE):
            self.bytes.append(live_bytes())
        return raw.clone()

    @property
    def per_step(self) -> float:
        """How many bytes are more at each step."""
        early, late = self.bytes
        return (late - early) / (self.LATE - self.EARLY)


def recurrent(loop: rf.Loop, probe: Probe, x: Tensor, expand: Tensor) -> Tensor:
    """Intermediate results that are much larger than states and outputs."""
    loop.state.h = rf.zeros([batch_dim, hidden])
    with loop:
        large = rf.matmul(loop.state.h + loop.unstack(x), expand, reduce=hidden)  # {batch, wide}
        loop.state.h = rf.tanh(probe(rf.matmul(rf.sin(large), expand, reduce=wide)) * 0.01)
        out = loop.stack(loop.state.h)
    return out


@pytest.fixture
def inputs() -> tuple[Dim, Tensor, Tensor]:
    time = Dim(STEPS, name="time")
    x = rf.convert_to_tensor(torch.randn(2, STEPS, 8), dims=[batch_dim, time, hidden])
    return time, x, rf.Parameter([hidden, wide], initial=0.1)


@pytest.fixture
def no_gc() -> Iterator[None]:
    """What is not freed at once stays. Signatures that other tests made do not die during this one."""
    align._recent.clear()
    align._of_batches.clear()
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.slow
@pytest.mark.parametrize("recorded", [False, True])
def test_without_gradients_it_grows_with_outputs_and_states_only(inputs, recorded, no_gc):
    time, x, expand = inputs
    probe = Probe()
    with torch.no_grad():
        recurrent(rf.Loop(axis=time, debug=recorded), probe, x, expand)
    assert probe.per_step <= (2 if recorded else 1) * STATE + 32


@pytest.mark.slow
def test_with_gradients_it_grows_with_what_they_need(inputs, no_gc):
    """This test can see what it looks for."""
    time, x, expand = inputs
    probe = Probe()
    assert recurrent(rf.Loop(axis=time), probe, x, expand).raw_tensor.requires_grad
    assert probe.per_step >= WIDE


@pytest.mark.slow
def test_a_loop_with_an_end_keeps_no_more(inputs, no_gc):
    _, _, expand = inputs
    probe = Probe()
    with torch.no_grad():
        loop = rf.Loop(axis=Dim(None, name="steps"), max_seq_len=100)
        loop.state.h, loop.state.n = rf.zeros([batch_dim, hidden]), rf.zeros([batch_dim], dtype="int64")
        loop.state.h = rf.convert_to_tensor(torch.ones(2, 8), dims=[batch_dim, hidden])
        loop.state.n = rf.convert_to_tensor(torch.tensor([0, 3]), dims=[batch_dim])
        with loop:
            large = rf.sin(rf.matmul(loop.state.h, expand, reduce=hidden))
            loop.state.h = rf.tanh(probe(rf.matmul(large, expand, reduce=wide)) * 0.01)
            loop.state.n = loop.state.n + 1
            loop.end(loop.state.n >= STEPS, include_eos=True)
    assert probe.per_step <= 32


@pytest.mark.slow
@pytest.mark.parametrize("budget", [0, hoist.BUDGET], ids=["none", "all"])
def test_hoisting_keeps_within_its_budget(inputs, budget, no_gc, monkeypatch):
    monkeypatch.setattr(hoist, "BUDGET", budget)
    time, x, expand = inputs
    probe = Probe()
    before = live_bytes()
    with torch.no_grad():
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([batch_dim, hidden])
        with loop:
            large = rf.matmul(loop.unstack(x), expand, reduce=hidden)  # of no state: for all steps at once
            narrow = rf.matmul(large + rf.reduce_sum(loop.state.h, axis=hidden), expand, reduce=wide)
            loop.state.h = rf.tanh(probe(narrow))
    hoisted = max(probe.bytes) - before >= STEPS * WIDE
    assert hoisted == (budget > 0)
    assert probe.per_step <= STATE


@pytest.mark.slow
@pytest.mark.parametrize("large", [hoist.LARGE, 0])
def test_what_is_made_on_the_way_before_the_steps_is_let_go(inputs, large, no_gc, monkeypatch):
    monkeypatch.setattr(hoist, "LARGE", large)
    time, x, expand = inputs
    probe = Probe()
    before = live_bytes()
    with torch.no_grad():
        loop = rf.Loop(axis=time)
        loop.state.h = rf.zeros([batch_dim, hidden])
        with loop:
            wide_ones = rf.sin(rf.cos(rf.matmul(loop.unstack(x), expand, reduce=hidden)))  # three of them
            narrow = rf.matmul(wide_ones, expand, reduce=wide)
            loop.state.h = rf.tanh(probe(narrow + loop.state.h))
            out = loop.stack(rf.sin(rf.cos(narrow)))
    assert out.raw_tensor.shape[0] == STEPS
    assert (max(probe.bytes) - before >= STEPS * WIDE) == (large > 0)


@pytest.mark.slow
def test_after_a_loop_only_its_results_are_left(inputs, no_gc):
    time, x, expand = inputs
    before = live_bytes()
    with torch.no_grad():
        out = recurrent(rf.Loop(axis=time), Probe(), x, expand)
    assert live_bytes() - before <= STEPS * STATE + STATE + 1024
    del out
    assert live_bytes() - before <= 1024


# -- reference cycles


def plain(time: Dim, x: Tensor) -> tuple[rf.Loop, Tensor]:
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch_dim, hidden])
    with loop:
        loop.state.h = rf.tanh(loop.unstack(x) + loop.state.h)
        out = loop.stack(loop.state.h)
    return loop, out


def recorded(time: Dim, x: Tensor) -> tuple[rf.Loop, Tensor]:
    loop = rf.Loop(axis=time, debug=True)
    loop.state.h = rf.zeros([batch_dim, hidden])
    with loop:
        h = rf.tanh(loop.unstack(x) + loop.state.h)
        loop.state.h = h
        out = loop.stack(h)
    assert loop.run is not None
    assert loop.run[1].check == "replay agrees"
    rf.runs.clear()
    return loop, out


def nested(time: Dim, x: Tensor) -> tuple[rf.Loop, Tensor]:
    loop = rf.Loop(axis=time)
    loop.state.h = rf.zeros([batch_dim, hidden])
    with loop:
        inner = rf.Loop(max_seq_len=3, name="inner")
        inner.state.g = loop.unstack(x)
        with inner:
            inner.state.g = rf.tanh(inner.state.g + loop.state.h)
        loop.state.h = inner.state.g
        out = loop.stack(loop.state.h)
    return loop, out


def ending(time: Dim, x: Tensor) -> tuple[rf.Loop, Tensor]:
    loop = rf.Loop(axis=Dim(None, name="steps"), max_seq_len=STEPS + 1)
    loop.state.n = rf.zeros([batch_dim], dtype="int64")
    with loop:
        loop.state.n = loop.state.n + 1
        loop.end(loop.state.n == STEPS, include_eos=False)
        out = loop.stack(rf.reduce_max(loop.unstack(x, axis=time), axis=hidden))
    return loop, out


def growing(time: Dim, x: Tensor) -> tuple[rf.Loop, Tensor]:
    past = Dim(0, name="past")
    loop = rf.Loop(axis=time)
    loop.state.past, loop.state.keys = past, rf.zeros([batch_dim, past, hidden])
    with loop:
        keys, longer = rf.cum_concat_step(loop.unstack(x), prev_accum=loop.state.keys, axis=loop.state.past)
        loop.state.keys, loop.state.past = keys, longer
        out = loop.stack(rf.reduce_max(keys, axis=longer))
    return loop, out


def failing(time: Dim, x: Tensor) -> tuple[rf.Loop, Tensor]:
    loop = rf.Loop(axis=time)
    loop.state.h = x0 = rf.zeros([batch_dim, hidden])
    try:
        with loop:
            crashed = rf.raw_call(_crash, loop.iter_idx, out_dims=[])
            loop.state.h = loop.state.h + loop.unstack(x) * rf.cast(crashed, "float32")
    except ZeroDivisionError:
        return loop, x0
    raise AssertionError


def _crash(step: torch.Tensor) -> torch.Tensor:
    if step == 5:
        raise ZeroDivisionError
    return step * 2


def counting(time: Dim, x: Tensor) -> tuple[rf.Loop, Tensor]:
    """Sequences of their own lengths, numbers of steps, last values, a branch."""
    steps = Dim(None, name="steps")
    x = rf.convert_to_tensor(x.raw_tensor, dims=[batch_dim, steps, hidden], lengths=[5, 3])
    loop = rf.Loop(axis=steps)
    loop.state.h = rf.zeros([batch_dim, hidden])
    with loop:
        even = loop.iter_idx % 2 == 0
        before, frame = loop.state.h, loop.unstack(x)
        h = rf.cond(even, lambda: before + frame, lambda: rf.sin(before))
        loop.state.h = h
        last = loop.last(h * 2.0)
        out = loop.stack(h * rf.cast(loop.iter_idx, "float32"))
    assert last.dims == h.dims
    return loop, out


KINDS = [plain, recorded, nested, ending, growing, counting, failing]
LOOPS = 40


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_loops_leave_no_cycles(kind, inputs, no_gc):
    """They die when the last who knows them does; there is nothing for the collector."""
    time, x, _ = inputs
    kind(time, x)  # what is planned and compiled once
    gc.collect()
    alive: list[weakref.ref[Any]] = []
    for _ in range(LOOPS):
        loop, out = kind(time, x)
        alive += [weakref.ref(loop), weakref.ref(out.raw_tensor)]
        del loop, out
    assert not [each for each in alive if each() is not None]
    assert gc.collect() <= LOOPS // 4


def grows(run: Callable[[], Any], times: int) -> int:
    """By how many objects there are more after so many calls."""
    for _ in range(3):
        run()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(times):
        run()
    gc.collect()
    return len(gc.get_objects()) - before


@pytest.mark.slow
def test_two_hundred_loops_leave_nothing(inputs):
    time, x, _ = inputs
    assert grows(lambda: [kind(time, x) for kind in (plain, recorded)], 100) <= 100
