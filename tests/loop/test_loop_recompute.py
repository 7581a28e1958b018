"""`rf.Loop(recompute=k)`: values inside of k steps are computed again in the backward pass, with the same results."""

from __future__ import annotations

import gc
import subprocess
import weakref
from typing import Any

import pytest
import torch

import rfnb as rf
from rfnb import Dim, Tensor, batch_dim
from rfnb.errors import ParameterError, RfError

STEPS, hidden, wide = 24, Dim(6, name="hidden"), Dim(500, name="wide")
Result = tuple[Tensor, list[torch.Tensor]]


def by_frames(lengths: list[int], recompute: int, *, record: bool = False) -> Result:
    """A loop with dropout, a branch and wide values, in float64: its outputs, and its weights."""
    time, random = Dim(None, name="time"), torch.Generator().manual_seed(1)
    raws = [torch.randn(size, generator=random, dtype=torch.float64) for size in ((6, 500), (500, 6), (3, STEPS, 6))]
    weights = [raw.requires_grad_() for raw in raws]
    inside = rf.convert_to_tensor(weights[0], dims=[hidden, wide])
    outside = rf.convert_to_tensor(weights[1], dims=[wide, hidden])
    x = rf.convert_to_tensor(weights[2], dims=[batch_dim, time, hidden], lengths=lengths)
    rf.set_random_seed(3)
    loop = rf.Loop(axis=time, recompute=recompute, debug=record)
    loop.state.h = rf.zeros([batch_dim, hidden], dtype="float64")
    with loop:
        values = rf.tanh(rf.matmul(loop.state.h + loop.unstack(x), inside, reduce=hidden))
        values = rf.dropout(rf.sigmoid(values) * 2.0 - 1.0, 0.3, on_forward=True)
        loop.state.h = rf.matmul(values, outside, reduce=wide) * 0.1
        out = loop.stack(loop.state.h)
    return out, weights


def gradients(result: Result) -> list[torch.Tensor]:
    """By the weights."""
    out, weights = result
    rf.reduce_sum(out * out, axis=out.dims).raw_tensor.backward()
    return [weight.grad for weight in weights]


@pytest.mark.parametrize("lengths", [[STEPS] * 3, [STEPS, 9, 1]])
@pytest.mark.parametrize("recompute", [1, 5, 100])
@pytest.mark.parametrize("record", [False, True])
def test_results_and_gradients_are_bit_equal(lengths: list[int], recompute: int, record: bool) -> None:
    plain, again = (by_frames(lengths, steps, record=record) for steps in (0, recompute))
    assert torch.equal(plain[0].raw_tensor, again[0].raw_tensor)
    for expected, gradient in zip(gradients(plain), gradients(again), strict=True):
        assert torch.equal(expected, gradient)


def kept_bytes(recompute: int) -> int:
    """The bytes that autograd keeps of the values of a loop, by storage."""
    storages: dict[int, int] = {}

    def keep(raw: torch.Tensor) -> torch.Tensor:
        storages[raw.untyped_storage().data_ptr()] = raw.untyped_storage().nbytes()
        return raw

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda raw: raw):
        out, _ = by_frames([STEPS] * 3, recompute)
    assert out.raw_tensor.requires_grad
    return sum(storages.values())


def test_values_inside_of_the_steps_are_not_kept() -> None:
    assert kept_bytes(5) < kept_bytes(0) / 10


def test_functions_of_the_user_run_again_and_watches_do_not(capsys: Any) -> None:
    calls: list[int] = []

    def double(raw: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return raw * 2

    x = rf.convert_to_tensor(torch.ones(2, requires_grad=True), dims=[batch_dim])
    loop = rf.Loop(max_seq_len=6, recompute=2)
    loop.state.x = x
    with loop:
        rf.watch(loop.state.x, name="shown")
        loop.state.x = rf.tanh(rf.raw_call(double, loop.state.x, out_dims=[batch_dim]))
    before, shown = len(calls), capsys.readouterr().out.count("shown")
    rf.reduce_sum(loop.state.x, axis=batch_dim).raw_tensor.backward()
    assert len(calls) > before and shown and "shown" not in capsys.readouterr().out


def called(function: Any, raw: torch.Tensor, recompute: int = 2) -> torch.Tensor:
    """The state after six steps of a function of torch."""
    loop = rf.Loop(max_seq_len=6, recompute=recompute)
    loop.state.x = rf.convert_to_tensor(raw, dims=[batch_dim])
    with loop:
        loop.state.x = rf.tanh(rf.raw_call(function, loop.state.x, out_dims=[batch_dim]))
    return loop.state.x.raw_tensor


@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
def test_random_numbers_of_torch_are_the_same_again() -> None:
    """Also in a second backward pass, and none are drawn that the program would have got."""
    x, results = torch.ones(3, dtype=torch.float64, requires_grad=True), []
    for recompute in (0, 2):
        torch.manual_seed(1)
        out = called(lambda raw: raw * torch.rand(3, dtype=torch.float64).add(0.5), x, recompute)
        gradients = [torch.autograd.grad(out.sum(), x, retain_graph=True)[0] for _ in range(2)]
        results.append([out, *gradients, torch.rand(1)])
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_steps_that_compute_something_else_are_an_error() -> None:
    calls = [0]

    def other(raw: torch.Tensor) -> torch.Tensor:
        calls[0] += 1
        return raw * (raw.sin() if calls[0] < 8 else raw.sum())

    out = called(other, torch.ones(2, requires_grad=True))
    with pytest.raises(RfError, match="recompute: the steps compute something else when they run again"):
        out.sum().backward()


def test_the_memory_of_a_loop_is_free_after_it() -> None:
    out = called(lambda raw: raw * 2, torch.ones(2, requires_grad=True))
    alive = weakref.ref(out)
    gc.collect()
    gc.disable()
    try:
        out.sum().backward()
        del out
        assert alive() is None
    finally:
        gc.enable()


@pytest.mark.slow
def test_no_compiler_of_torch_is_loaded(python: str) -> None:
    code = """
import sys, torch, rfnb as rf
x = torch.ones(2, requires_grad=True)
loop = rf.Loop(max_seq_len=6, recompute=2)
loop.state.x = rf.convert_to_tensor(x, dims=[rf.Dim(2, name="feat")])
with loop:
    loop.state.x = rf.tanh(loop.state.x)
loop.state.x.raw_tensor.sum().backward()
with rf.gradient_checkpoint_scope():
    y = (x * 2).tanh()
y.sum().backward()
print([name for name in ("torch._dynamo", "sympy") if name in sys.modules])
"""
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_loops_that_end_and_loops_inside_are_computed_again() -> None:
    def last_state(recompute: int) -> torch.Tensor:
        start = torch.tensor([0.5, 0.1], dtype=torch.float64, requires_grad=True)
        loop = rf.Loop(max_seq_len=30, recompute=recompute)
        loop.state.x = rf.convert_to_tensor(start, dims=[batch_dim])
        with loop:
            inner = rf.Loop(max_seq_len=3, recompute=min(recompute, 2))
            inner.state.y = loop.state.x
            with inner:
                inner.state.y = rf.sin(inner.state.y) + 0.2
            loop.state.x = inner.state.y * 1.05
            loop.end(loop.state.x > 0.9, include_eos=True)
        rf.reduce_sum(loop.state.x, axis=batch_dim).raw_tensor.backward()
        assert start.grad is not None
        return start.grad

    assert torch.equal(last_state(0), last_state(4))


@pytest.mark.parametrize("steps", [2.5, "x", None, True, -1])
def test_recompute_is_a_number_of_steps(steps: Any) -> None:
    with pytest.raises(ParameterError, match="Loop: `recompute` is not a count"):
        rf.Loop(max_seq_len=4, recompute=steps)
