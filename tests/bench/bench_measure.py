"""What measuring a model costs: python tests/bench/bench_measure.py

Milliseconds of a call: not measured, as measured with what the measuring takes taken off, and that part.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import rfnb as rf
from rfnb import batch_dim


def row(name: str, model: Callable[..., Any], x: Any) -> str:
    """A line of the table."""
    measured = rf.model_graph(model, x, show="time", calls=15).measured
    assert measured is not None and measured.plain is not None
    plain, total, overhead = (1e3 * each for each in (measured.plain, measured.total, measured.overhead))
    return f"{name:<20}  {plain:>8.3f}  {total:>8.3f}  {total / plain:>6.2f}  {overhead:>8.3f}"


def loop_over(axis: rf.Dim, hidden: rf.Dim) -> Callable[[rf.Tensor], rf.Tensor]:
    """An RNN."""
    layer = rf.Linear(hidden, hidden)

    def run(x: rf.Tensor) -> Any:
        loop = rf.Loop(axis=axis)
        loop.state.h = rf.zeros([batch_dim, hidden])
        with loop:
            loop.state.h = rf.tanh(layer(loop.state.h) + loop.unstack(x))
        return loop.state.h

    return run


def many(x: Any) -> Any:
    """Ops that take almost no time."""
    for _ in range(300):
        x = x + 1
    return x


if __name__ == "__main__":
    torch.set_num_threads(1)
    axis, hidden = rf.Dim(None, name="time"), rf.Dim(128, name="hidden")
    x = rf.convert_to_tensor(torch.randn(16, 200, 128), dims=[batch_dim, axis, hidden])
    layers = [rf.Linear(hidden, hidden) for _ in range(8)]
    plain = [torch.nn.Linear(128, 128) for _ in range(8)]
    print(f"{'':<20}  {'plain':>8}  {'measured':>8}  {'ratio':>6}  {'taken off':>8}")
    print(row("300 small ops", many, rf.zeros([hidden])))
    print(row("300 of torch", many, torch.zeros(128)))
    print(row("8 linear layers", rf.Sequential(*layers), x))
    print(row("8 of torch", torch.nn.Sequential(*plain), x.raw_tensor))
    print(row("loop of 200 steps", loop_over(axis, hidden), x))
