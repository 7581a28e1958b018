"""What recording a loop costs: python tests/bench/bench_record.py

CPU time, one thread, recorded and not in turn, medians.
"""

from __future__ import annotations

import statistics
import time

import torch

import rfnb as rf
from rfnb import batch_dim


def seconds(layer: rf.Linear, x: rf.Tensor, axis: rf.Dim, hidden: rf.Dim, *, record: bool) -> float:
    """Of one RNN over `x`."""
    begin = time.process_time()
    loop = rf.Loop(axis=axis, debug=record)
    loop.state.h = rf.zeros([batch_dim, hidden])
    with torch.no_grad(), loop:
        loop.state.h = rf.tanh(layer(loop.state.h) + loop.unstack(x))
    return time.process_time() - begin


def row(batch: int, steps: int, size: int, rounds: int = 15) -> str:
    """A line of the table."""
    axis, hidden = rf.Dim(None, name="time"), rf.Dim(size, name="hidden")
    x = rf.convert_to_tensor(torch.randn(batch, steps, size), dims=[batch_dim, axis, hidden])
    layer = rf.Linear(hidden, hidden)
    taken: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for record in taken:
            taken[record].append(seconds(layer, x, axis, hidden, record=record))
    plain, recorded = (1e6 * statistics.median(taken[record]) / steps for record in (False, True))
    more = recorded - plain
    return f"{batch:>5}  {steps:>5}  {size:>4}  {plain:>9.1f}  {recorded:>9.1f}  {recorded / plain:>6.3f}  {more:>6.2f}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    print("batch  steps  size  µs/step    recorded   ratio   more µs/step")
    for size in (16, 128, 256):
        for steps in (100, 1000):
            print(row(16, steps, size))
    rf.runs.clear()
