"""The memory of a training step beside the same in plain torch: python tests/bench/bench_memory.py [names…]

Each number is from a process of its own: the most that its tensors took at once in a step, beside those from before it,
in MiB, as the allocator of torch counts it; in brackets how much the resident memory grew in the first step, which
varies by some MiB and has what libraries keep for themselves, and the CPU time of another step in ms, one thread. With
"cuda" among the names: on that device.

    torch      as one would write it
    by hand    all that needs no state outside of the loop
    rfnb       `rf.Loop`, or the encoder
    recompute  `rf.Loop(recompute=…)`, about √steps
    least      the same without moving ops out of the steps
"""

from __future__ import annotations

import functools
import itertools
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parent))

import bench_loop
import bench_train_step

Ways = dict[str, Callable[[], torch.Tensor]]


def of_loop(make: Callable[..., Any], *sizes: int) -> Ways:
    """Of a loop, with sequences of 50 to 100 % of the longest."""
    case = make(*sizes, unequal=True)
    ways, steps = case.ways(), case.shape[-2]
    again = functools.partial(case.ours, recompute=math.isqrt(steps))
    named = {name: ways[name] for name in ("torch", "by hand", "rfnb")}
    return named | {"recompute": again, "least": functools.partial(again, hoisted=False)}


def of_encoder(make: Callable[..., Any], size: str) -> Ways:
    """Of an encoder on sequences of 50 to 100 % of the longest."""
    return dict(zip(("torch", "rfnb"), make(size, padded=True), strict=True))


WAYS = ("torch", "by hand", "rfnb", "recompute", "least")
Row = tuple[Callable[[], Ways], Callable[[], Ways]]
ROWS: dict[str, Row] = {  # and the same with small tensors, which loads all code
    name: (functools.partial(of, make, *sizes), functools.partial(of, make, *small))
    for name, of, make, sizes, small in (
        ("rnn, H=256, T=1000", of_loop, bench_loop.Rnn, (16, 1000, 256), (2, 9, 4)),
        ("lstm, H=256, T=1000", of_loop, bench_loop.Lstm, (16, 1000, 256), (2, 9, 4)),
        ("attention, 160 steps", of_loop, bench_loop.Decoder, (8, 100, 160, 256, 1000), (2, 9, 9, 4, 5)),
        ("conformer, 2 layers", of_encoder, bench_train_step.conformer, ("mid",), ("tiny",)),
        ("transformer, 2 layers", of_encoder, bench_train_step.transformer, ("mid",), ("tiny",)),
        ("conformer, 12 layers", of_encoder, bench_train_step.conformer, ("deep",), ("tiny",)),
        ("transformer, 12 layers", of_encoder, bench_train_step.transformer, ("deep",), ("tiny",)),
    )
}


def measured(name: str, way: str, device: str) -> tuple[float, float, float]:
    """MiB of the tensors of a step, MiB of resident memory, and the milliseconds of another step."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    large, small = ROWS[name]
    with torch.device(device):
        for step in (small()[way], small()[way], large()[way]):
            before = resident()
            step().sum().backward()
        grown = 1024 * resident_peak() - before
        taken = of_device(step) if device == "cuda" else allocated(step)
        start = time.process_time()
        step().sum().backward()
    return taken / 2**20, grown / 2**20, 1e3 * (time.process_time() - start)


def of_device(step: Callable[[], torch.Tensor]) -> int:
    """The most bytes on the GPU that a training step had at once."""
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    step().sum().backward()
    return torch.cuda.max_memory_allocated() - before


def allocated(step: Callable[[], torch.Tensor]) -> int:
    """The most bytes on the CPU that a training step had at once."""
    with torch.profiler.profile(profile_memory=True) as profile:
        step().sum().backward()
    events = [event for event in profile.profiler.kineto_results.events() if event.name() == "[memory]"]
    sizes = [event.nbytes() for event in sorted(events, key=lambda event: event.start_ns())]
    return max(itertools.accumulate(sizes))


def resident() -> int:
    """The memory of this process now, in bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def resident_peak() -> int:
    """The largest memory of this process so far, in KiB. (`ru_maxrss` of a new process begins with its parent's.)"""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def main(names: list[str]) -> None:
    """Prints the table."""
    device = "cuda" if "cuda" in names else "cpu"
    names = [name for name in names if name != "cuda"]
    print(f"{'MiB (resident, ms)':<24}" + "".join(f"{way:>22}" for way in WAYS))
    for name, (_, small) in ROWS.items():
        if names and not any(part in name for part in names):
            continue
        cells = {}
        for way in small():
            command = [sys.executable, __file__, "--one", name, way, device]
            answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            cells[way] = "{:.1f} ({:.0f}, {:.0f})".format(*map(float, answer[-3:]))
        row = [cells.get(way, "") for way in WAYS]
        print(f"{name:<24}" + "".join(f"{cell:>22}" for cell in row), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        print(*measured(*sys.argv[2:5]))
    else:
        main(sys.argv[1:])
