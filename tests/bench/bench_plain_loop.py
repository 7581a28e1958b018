"""What recording a loop of plain Python costs: python tests/bench/bench_plain_loop.py

CPU time, one thread, recorded and not in turn, medians. "per line" is what a recorded line costs more.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

import rfnb as rf

H, LABELS = 32, 20


class Decoder(torch.nn.Module):
    """One step of an attention decoder, in plain torch."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(LABELS, H)
        self.cell = torch.nn.GRUCell(2 * H, H)
        self.readout = torch.nn.Linear(2 * H, LABELS)


def decode(model: Decoder, encoded: torch.Tensor, steps: int) -> torch.Tensor:
    """Four lines an iteration."""
    label, h, context = torch.zeros(4, dtype=torch.long), torch.zeros(4, H), torch.zeros(4, H)
    for _ in range(steps):
        h = model.cell(torch.cat([model.embedding(label), context], -1), h)
        weights = torch.softmax(torch.einsum("bh,bth->bt", h, encoded), -1)
        context = torch.einsum("bt,bth->bh", weights, encoded)
        label = model.readout(torch.cat([h, context], -1)).argmax(-1)
    return label


def count(n: int) -> int:
    """Lines that do almost nothing."""
    a = b = 0
    for i in range(n):
        a = i
        b = a
        a = b
        b = i
    return b


def row(name: str, lines: int, run: Callable[[], Any], what: Callable[..., Any], rounds: int = 15) -> str:
    """A line of the table."""
    taken: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for recorded in taken:
            with rf.record_loops(what) if recorded else nullcontext():
                begin = time.process_time()
                run()
                taken[recorded].append(time.process_time() - begin)
    plain, recorded = (1e6 * statistics.median(taken[which]) for which in (False, True))
    per_line = (recorded - plain) / lines
    return f"{name:<32} {plain / 1e3:>9.2f} {recorded / 1e3:>9.2f} {recorded / plain:>7.2f} {per_line:>9.2f}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    model, encoded = Decoder(), torch.randn(4, 12, H)
    print(f"{'':<32} {'plain ms':>9} {'recorded':>9} {'ratio':>7} {'per line µs':>9}")
    with torch.no_grad():
        print(row("decoder, 100 iterations", 500, lambda: decode(model, encoded, 100), decode))
    print(row("decoder with gradients", 500, lambda: decode(model, encoded, 100), decode))
    print(row("numbers, 1,000 iterations", 5000, lambda: count(1000), count))
    rf.runs.clear()
