"""Measures the rows of docs/performance.md: python tests/bench/performance.py [words…]

Each row is a number of one of the benchmarks beside this file, most of them a ratio, in CPU time on one thread. Groups
of rows with one of the words in their text are measured again, all without words. `tests/bench/history.json` keeps the
numbers by version of rfnb, and the page is made from it; rows that lost more than 10 % against what was there before,
or against the version before, are printed. `python tests/bench/performance.py --page` makes the page alone.
"""

from __future__ import annotations

import datetime
import json
import math
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HISTORY, PAGE = HERE / "history.json", ROOT / "docs" / "performance.md"
LOSS = 1.1
"""How many times as large as before a number is at most."""

Numbers = dict[str, float]
Measured = dict[str, tuple[float, str]]
"""By row: the number, and the day."""
Versions = dict[str, Measured]


class Group(NamedTuple):
    """Rows that are measured together. rows: the goal of each; None for a number without one."""

    title: str
    measure: Callable[[], Numbers]
    rows: dict[str, float | None]


def per_call(function: Callable[[], Any], calls: int = 300, rounds: int = 9) -> float:
    """Median microseconds of a call."""

    def once() -> float:
        start = time.process_time()
        for _ in range(calls):
            function()
        return (time.process_time() - start) / calls * 1e6

    return statistics.median(once() for _ in range(rounds))


def machine() -> Numbers:
    """How fast the machine is. In seconds, such numbers say more than the name of a CPU."""
    import torch

    a = torch.randn(512, 512)
    return {
        "100,000 additions of Python, ms": per_call(lambda: [i + i for i in range(100_000)], 5) / 1e3,
        "product of two matrices [512, 512], ms": per_call(lambda: a @ a, 20) / 1e3,
    }


def borders() -> Numbers:
    """`convert_to_tensor` of a small tensor of torch."""
    import torch

    import rfnb as rf

    x, feat, time_ = torch.randn(2, 5, 4), rf.Dim(4, name="feat"), rf.Dim(5, name="time")
    axis, make = rf.Dim(None, name="time"), rf.convert_to_tensor
    make(x, dims=[rf.batch_dim, axis, feat], lengths=[5, 3])
    return {
        "without lengths": per_call(lambda: make(x, dims=[rf.batch_dim, time_, feat])),
        "with dims that are bound": per_call(lambda: make(x, dims=[rf.batch_dim, axis, feat])),
        "with lengths": per_call(lambda: make(x, dims=[rf.batch_dim, axis, feat], lengths=[5, 3])),
    }


def ops() -> Numbers:
    """Ops on small tensors beside raw torch."""
    import bench_ops

    bench_ops.ROUNDS, bench_ops.BLOCK = 15, 300
    ratios = [bench_ops.measure(row)[2] for row in bench_ops.rows().values()]
    return {"median of 28 ops": statistics.median(ratios), "worst of 28 ops": max(ratios)}


def loops() -> Numbers:
    """Loops beside the same in plain torch."""
    import bench_loop

    numbers: Numbers = {}
    for unequal in (True, False):
        for name, make in bench_loop.cases(unequal).items():
            case = f"{name}, {'lengths 50–100 %' if unequal else 'equal lengths'}"
            if f"{case}: forward" in LOOPS:
                ways = {way: run for way, run in make().ways().items() if way in ("torch", "rfnb")}
                for gradients, what in ((False, "forward"), (True, "forward + backward")):
                    times = bench_loop.measure(ways, gradients, rounds=9)
                    numbers[f"{case}: {what}"] = times["rfnb"] / times["torch"]
    return numbers


LOOPS: dict[str, float | None] = {
    f"{case}: {what}": goal
    for case, goals in {
        "rnn, H=256, lengths 50–100 %": (1.0, 0.85), "rnn, H=256, equal lengths": (0.92, 0.80),
        "lstm, H=256, lengths 50–100 %": (1.0, 0.85), "lstm, H=256, equal lengths": (0.92, 0.80),
        "rnn, H=16, equal lengths": (1.5, 0.75), "rnn, H=16, rf.pure, equal lengths": (0.8, 0.6),
        "attention, H=256, lengths 50–100 %": (0.58, 0.52),
    }.items()
    for what, goal in zip(("forward", "forward + backward"), goals, strict=True)
}  # fmt: skip


def beams() -> Numbers:
    """Beam search beside the same by hand in torch."""
    import bench_beam
    import torch

    numbers: Numbers = {}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size, rounds in ((32, 9), (256, 3)):
            torch.manual_seed(1)
            model = bench_beam.Lstm(size)
            model.sharpen()
            times = [bench_beam.Case(model, bench_beam.Words(size, 25, seed), 12).times(rounds) for seed in range(2)]
            for way in ("loop", "decode"):
                name = "`loop.choice`" if way == "loop" else "`rf.search.decode`"
                numbers[f"{name}, H={size}"] = statistics.mean(each[way] / each["torch"] for each in times)
    return numbers


def generate() -> Numbers:
    """Beam search beside `generate` of Hugging Face."""
    import bench_generate
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    numbers = {}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for beam in (4, 12):
            case = bench_generate.Case(beam)
            case.check()
            theirs, ours = bench_generate.least([case.generate, case.decode], 9)
            numbers[f"GPT-2, beam {beam}"] = ours / theirs
    return numbers


def recording() -> Numbers:
    """Recorded loops beside unrecorded ones."""
    import bench_record
    import torch

    import rfnb as rf

    numbers = {}
    for size in (256, 512):
        axis, hidden = rf.Dim(None, name="time"), rf.Dim(size, name="hidden")
        x = rf.convert_to_tensor(torch.randn(16, 200, size), dims=[rf.batch_dim, axis, hidden])
        layer = rf.Linear(hidden, hidden)
        rounds = [
            [bench_record.seconds(layer, x, axis, hidden, record=record) for record in (False, True)] for _ in range(11)
        ]
        numbers[f"RNN, H={size}, no gradients"] = statistics.median(recorded / plain for plain, recorded in rounds)
    rf.runs.clear()
    return numbers


def training() -> Numbers:
    """Models beside the same in plain torch."""
    import bench_train_step

    numbers = {}
    for name, make in bench_train_step.cases().items():
        for size, shape, rounds in (("mid", "2 layers, d=256", 7), ("deep", "12 layers, 16 × 400 frames", 3)):
            if name.endswith(f"{size}, padded"):
                ways = make()
                for gradients, what in ((False, "forward"), (True, "forward + backward")):
                    theirs, ours = bench_train_step.measure(ways, gradients, rounds)
                    numbers[f"{name.split(',')[0]}, {shape}: {what}"] = ours / theirs
    return numbers


def memory() -> Numbers:
    """The memory of a training step beside the same in plain torch, each in a process of its own."""
    models = [f"{name}, {count} layers" for count in (2, 12) for name in ("conformer", "transformer")]
    rows = {name: (name, "rfnb", -3) for name in models}
    rows |= {f"{name}, resident memory": (name, "rfnb", -2) for name in models if "12" in name}
    rows |= {
        "attention decoder": ("attention, 160 steps", "rfnb", -3),
        "attention decoder, `recompute=12`": ("attention, 160 steps", "recompute", -3),
        "attention decoder, `recompute=12`, all ops in the steps": ("attention, 160 steps", "least", -3),
    }

    @cache
    def of(name: str, way: str) -> list[str]:
        command = [sys.executable, str(HERE / "bench_memory.py"), "--one", name, way, "cpu"]
        return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()

    return {row: float(of(name, way)[at]) / float(of(name, "torch")[at]) for row, (name, way, at) in rows.items()}


def starts() -> Numbers:
    """`import rfnb` beside `import torch`."""
    import bench_import

    rounds = [[bench_import.seconds(bench_import.CASES[name]) for name in ("torch", "rfnb")] for _ in range(8)][1:]
    return {"`import rfnb`": statistics.median(ours / theirs for theirs, ours in rounds)}


def lines() -> Numbers:
    """What a recorded line of a loop of plain Python costs, in µs."""
    import bench_plain_loop
    import torch

    import rfnb as rf

    model, encoded = bench_plain_loop.Decoder(), torch.randn(4, 12, bench_plain_loop.H)
    python = f"Python {sys.version_info.major}.{sys.version_info.minor}"
    decode, count, row = bench_plain_loop.decode, bench_plain_loop.count, bench_plain_loop.row
    with torch.no_grad():
        of_decoder = row("", 500, lambda: decode(model, encoded, 100), decode)
    of_numbers = row("", 5000, lambda: count(1000), count)
    rf.runs.clear()
    return {
        f"a line of a decoder, {python}": float(of_decoder.split()[-1]),
        f"a line of numbers, {python}": float(of_numbers.split()[-1]),
    }


def net_dicts() -> Numbers:
    """Net dicts beside the same of rf modules."""
    import bench_net_dicts

    cases, size = bench_net_dicts.cases(), [*bench_net_dicts.SIZES][-1]
    rows = {"attention model, training step": f"attention train {size}", "beam 4": f"attention search {size} beam=4"}
    numbers = {}
    for row, name in rows.items():
        ours, theirs = bench_net_dicts.measure(cases[name](), 5)
        numbers[row] = ours / theirs
    return numbers | {"1,084 layers, constructed, s": bench_net_dicts.constructed(bench_net_dicts.large())}


def views() -> Numbers:
    """Views: milliseconds, seconds and kB."""
    import torch
    import transformers

    import rfnb as rf

    x, time_, feat = torch.randn(32, 200, 512), rf.Dim(200, name="time"), rf.Dim(512, name="feat")
    shape = {"n_layer": 24, "n_embd": 32, "n_head": 2, "n_positions": 64, "vocab_size": 40}
    model, labels = transformers.GPT2LMHeadModel(transformers.GPT2Config(**shape)).eval(), torch.ones(1, 9).long()

    def tensor() -> rf.Tensor:
        return rf.convert_to_tensor(x, dims=[rf.batch_dim, time_, feat])

    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        graph = rf.show(model, labels)._repr_mimebundle_()
    return {
        "a tensor [32, 200, 512] as HTML, ms": per_call(lambda: rf.show(tensor())._repr_mimebundle_(), 3, 7) / 1e3,
        "a tensor [32, 200, 512] as text, ms": per_call(lambda: repr(tensor()), 3, 7) / 1e3,
        "the graph of a GPT-2 of 24 layers, s": time.process_time() - start,
        "the graph of a GPT-2 of 24 layers, kB of HTML": len(graph["text/html"].encode()) / 1e3,
    }


def scale() -> Numbers:
    """Long loops, many sequences and large models."""
    import bench_scale

    steps, meta = bench_scale.measured("steps"), bench_scale.measured("meta")
    ours, theirs = (bench_scale.measured(name)[way] for name, way in (("batches", "rfnb"), ("batches, torch", "torch")))
    return {
        "a step of 100,000, recorded, µs": steps["loop"][0] / bench_scale.STEPS * 1e6,
        "100,000 steps, recorded, MiB": steps["loop"][1],
        "the list of runs and a step in the panel then, ms": steps["panel"][0] * 1e3,
        "10,000 sequences of 1–2,000 frames, time against torch": ours[0] / theirs[0],
        "10,000 sequences of 1–2,000 frames, MiB beside those of torch": ours[1] - theirs[1],
        "`rf.show(model, x)` of 1.3 billion parameters on meta, s": meta["rf.show"][0],
        "`rf.capture` of it, s": meta["rf.capture"][0],
        "3 steps with it, in the panel, s": meta["panel"][0],
        "all three, MiB beside the model": meta["panel"][1],
    }


GROUPS = (
    Group(
        "The machine", machine,
        {"100,000 additions of Python, ms": None, "product of two matrices [512, 512], ms": None},
    ),
    Group(
        "`rf.convert_to_tensor` of a small tensor, µs", borders,
        {"without lengths": 4, "with dims that are bound": 12, "with lengths": 25},
    ),
    Group("Ops on small tensors, against torch", ops, {"median of 28 ops": 1.4, "worst of 28 ops": 1.8}),
    Group("Loops, against plain torch as one would write it, which computes padding", loops, LOOPS),
    Group(
        "Beam search, beam 12, against torch by hand", beams,
        {
            "`loop.choice`, H=32": 1.25, "`rf.search.decode`, H=32": 1.15, "`loop.choice`, H=256": 1.03,
            "`rf.search.decode`, H=256": 1.03,
        },
    ),
    Group(
        "`rf.search.decode` with a tiny GPT-2, against `generate` with the same result", generate,
        {"GPT-2, beam 4": 0.8, "GPT-2, beam 12": 0.8},
    ),
    Group(
        "Recorded loops, against unrecorded ones", recording,
        {"RNN, H=256, no gradients": 1.1, "RNN, H=512, no gradients": 1.1},
    ),
    Group(
        "Models on ragged batches, against plain torch with masks", training,
        {
            "conformer, 2 layers, d=256: forward": 1.0, "conformer, 2 layers, d=256: forward + backward": 1.0,
            "transformer, 2 layers, d=256: forward": 1.02, "transformer, 2 layers, d=256: forward + backward": 1.0,
            "conformer, 12 layers, 16 × 400 frames: forward": 1.0,
            "conformer, 12 layers, 16 × 400 frames: forward + backward": 1.0,
            "transformer, 12 layers, 16 × 400 frames: forward": 1.0,
            "transformer, 12 layers, 16 × 400 frames: forward + backward": 1.0,
        },
    ),
    Group(
        "Memory of a training step, against plain torch", memory,
        {
            "conformer, 2 layers": 1.05, "transformer, 2 layers": 1.05, "conformer, 12 layers": 1.05,
            "transformer, 12 layers": 1.05, "conformer, 12 layers, resident memory": 1.05,
            "transformer, 12 layers, resident memory": 1.05, "attention decoder": 1.05,
            "attention decoder, `recompute=12`": None, "attention decoder, `recompute=12`, all ops in the steps": None,
        },
    ),
    Group(
        "Scale", scale,
        {
            "a step of 100,000, recorded, µs": 15, "100,000 steps, recorded, MiB": 100,
            "the list of runs and a step in the panel then, ms": 40,
            "10,000 sequences of 1–2,000 frames, time against torch": 1.1,
            "10,000 sequences of 1–2,000 frames, MiB beside those of torch": 100,
            "`rf.show(model, x)` of 1.3 billion parameters on meta, s": 2, "`rf.capture` of it, s": 2,
            "3 steps with it, in the panel, s": 2, "all three, MiB beside the model": 200,
        },
    ),
    Group("Start, against `import torch`", starts, {"`import rfnb`": 1.05}),
    Group(
        "Recorded loops of plain Python, µs", lines,
        {"a line of numbers, Python 3.11": 6, "a line of a decoder, Python 3.11": None},
    ),
    Group(
        "Net dicts, against the same of rf modules", net_dicts,
        {"attention model, training step": 1.1, "beam 4": 1.1, "1,084 layers, constructed, s": 2},
    ),
    Group(
        "Views", views,
        {
            "a tensor [32, 200, 512] as HTML, ms": 10, "a tensor [32, 200, 512] as text, ms": 10,
            "the graph of a GPT-2 of 24 layers, s": 1.5, "the graph of a GPT-2 of 24 layers, kB of HTML": 300,
        },
    ),
)  # fmt: skip

HEAD = """# Performance

<!-- Made by `make bench` from tests/bench/history.json: edit neither by hand. -->

CPU time on one thread, medians or least times of blocks that run in turn, so that other programs on the machine disturb
less. A number that misses its goal is in bold. `make bench` measures these rows on your machine, and prints more.

The first table says how fast the machine was. Where Python is slow and products of matrices are fast, the ratios are
larger, as the time that rfnb adds is that of Python. The machine has two cores, on which nothing else ran, and no GPU:
`python tests/bench/bench_gpu.py` measures loops and models on one, beside plain torch, in bf16, as CUDA graphs, and how
often they wait for it.
"""


def page(versions: Versions) -> str:
    """The text of docs/performance.md."""
    version, numbers = list(versions.items())[-1]
    lines = [HEAD, f"These are numbers of version {version}."]
    for group in GROUPS:
        lines += ["", f"## {group.title}", "", "| | now | goal | measured |", "|---|---|---|---|"]
        for row, goal in group.rows.items():
            number, day = numbers.get(f"{group.title}: {row}", (math.nan, ""))
            shown = "–" if math.isnan(number) else f"{number:.2f}" if number < 10 else f"{number:.0f}"
            shown = f"**{shown}**" if goal is not None and number > goal else shown
            lines.append(f"| {row} | {shown} | {'' if goal is None else f'≤ {goal:g}'} | {day} |")
    return "\n".join(lines) + "\n"


def losses(before: Measured, now: Measured) -> Iterator[str]:
    """The rows that are more than 10 % larger than before."""
    for row, (number, _) in now.items():
        if row in before and number > LOSS * before[row][0]:
            yield f"{row}: {before[row][0]:.2f} → {number:.2f}"


def read(path: Path = HISTORY) -> Versions:
    """The numbers so far."""
    versions: Versions = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return versions


def write(versions: Mapping[str, Any]) -> None:
    """Keeps the numbers, and makes the page."""
    HISTORY.write_text(json.dumps(versions, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page({**versions}), encoding="utf-8")


def main(words: list[str]) -> None:
    """Measures, prints each row as it comes, and keeps what is measured so far."""
    import torch

    import rfnb as rf

    sys.path.insert(0, str(HERE))
    torch.set_num_threads(1)
    torch.manual_seed(0)
    versions, day = read(), datetime.datetime.now(datetime.UTC).date().isoformat()
    numbers = versions.setdefault(rf.__version__, {})
    before: Measured = {row: number for version in versions.values() for row, number in version.items()}
    for group in () if words == ["--page"] else GROUPS:
        if words and not any(word in f"{group.title} {' '.join(group.rows)}" for word in words):
            continue
        for row, number in group.measure().items():
            if row in group.rows:
                numbers[f"{group.title}: {row}"] = round(number, 3), day
                print(f"{f'{group.title}: {row}':<120}{number:>8.2f}", flush=True)
        write(versions)
    write(versions)
    for loss in losses(before, numbers):
        print(f"lost more than 10 %: {loss}")


if __name__ == "__main__":
    main(sys.argv[1:])
