"""What stays small where data is large: python tests/bench/bench_scale.py [words…]

Each row is from a process of its own: CPU time on one thread, and how much its largest resident memory grows.

    steps      100,000 steps of a recorded loop; then the list of runs, and a step in the middle, as the panel asks
    batches    10,000 sequences of 1 to 2,000 frames by `rf.FrameBatches`, with a fresh dim for each batch; by torch
    meta       a Llama of 1.3 billion parameters without numbers: `rf.show`, `rf.capture`, a step of the panel
"""

from __future__ import annotations

import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from bench_memory import resident_peak

import rfnb as rf
from rfnb.display.panel.commands import Dispatcher

Rows = dict[str, Callable[[], object]]
STEPS, FRAMES = 100_000, 40_000


def steps() -> Rows:
    """A loop with a state of 2 × 16 numbers, of which each step gives a mean."""
    hidden, batch = rf.Dim(16, name="hidden"), rf.Dim(2, name="batch")
    layer = rf.Linear(hidden, hidden)

    def run(count: int) -> None:
        loop = rf.Loop(max_seq_len=count, name="long")
        loop.state.h = rf.zeros([batch, hidden])
        with torch.no_grad(), rf.recording("last"), loop:
            loop.state.h = rf.tanh(layer(loop.state.h))
            loop.stack(rf.reduce_mean(loop.state.h, axis=hidden))

    run(10)
    return {"loop": lambda: run(STEPS), "panel": lambda: asked("long", STEPS // 2)}


def asked(name: str, step: int) -> None:
    """What the panel asks for: the list of runs, a run, and a step of it."""
    dispatcher, run = Dispatcher(rf.runs), rf.runs[name].serial
    for command, args in (("runs", {}), ("run", {"run": run}), ("step", {"run": run, "step": step})):
        reply = dispatcher.handle({"id": 1, "command": command, "args": args})
        assert reply["status"] == "ok", reply["error"]


def padded() -> Iterator[tuple[torch.Tensor, list[int]]]:
    """The batches of an epoch, and their lengths."""
    lengths, data = np.random.default_rng(0).integers(1, 2001, 10_000), torch.randn(2000, 40)
    for numbers in rf.FrameBatches(lengths, max_frames=FRAMES):
        sizes = lengths[numbers].tolist()
        yield torch.nn.utils.rnn.pad_sequence([data[:size] for size in sizes], batch_first=True), sizes


def batches() -> Rows:
    """A layer, and a softmax over time."""
    feat, hidden = rf.Dim(40, name="feat"), rf.Dim(32, name="hidden")
    layer = rf.Linear(feat, hidden)

    @torch.no_grad()
    def ours() -> None:
        for raw, sizes in padded():
            axis = rf.Dim(None, name="time")
            x = rf.convert_to_tensor(raw, dims=[rf.batch_dim, axis, feat], lengths=sizes)
            rf.softmax(rf.relu(layer(x)), axis=axis)

    return {"rfnb": ours}


def plain_batches() -> Rows:
    """The same in torch."""
    layer = torch.nn.Linear(40, 32)

    @torch.no_grad()
    def theirs() -> None:
        for raw, sizes in padded():
            padding = (torch.arange(raw.shape[1]) >= torch.tensor(sizes)[:, None]).unsqueeze(2)
            y = torch.relu(layer(raw)).masked_fill(padding, -torch.inf)
            torch.softmax(y, 1).masked_fill(padding, 0.0)

    return {"torch": theirs}


def meta() -> Rows:
    """A Llama on the meta device."""
    import transformers

    shape = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_key_value_heads": 32}
    with torch.device("meta"):
        config = transformers.LlamaConfig(**shape, num_attention_heads=32, vocab_size=32000)
        model, labels = transformers.LlamaForCausalLM(config).eval(), torch.ones(2, 128, dtype=torch.int64)

    def graph() -> object:
        return rf.show(model, labels)._repr_mimebundle_()

    def capture() -> object:
        with rf.capture(model) as seen:
            model(labels)
        return rf.show(seen)._repr_mimebundle_()

    def panel() -> None:
        with torch.no_grad(), rf.recording("last"):
            for _ in rf.steps(range(3), name="meta"):
                logits = model(labels).logits
                logits.argmax(-1)
        asked("meta", 1)

    return {"rf.show": graph, "rf.capture": capture, "panel": panel}


CASES: dict[str, Callable[[], Rows]] = {
    "steps": steps, "batches": batches, "batches, torch": plain_batches, "meta": meta,
}  # fmt: skip


def one(name: str) -> None:
    """Prints the rows of a case: seconds, and MiB by which the peak has grown since the first row began."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = CASES[name]()
    before = resident_peak()
    for row, run in rows.items():
        start = time.process_time()
        run()
        grown = (resident_peak() - before) / 1024
        print(f"{row}\t{time.process_time() - start}\t{grown}")


def measured(name: str) -> dict[str, tuple[float, float]]:
    """Seconds and MiB of each row of a case."""
    answer = subprocess.run([sys.executable, __file__, "--one", name], capture_output=True, text=True, check=True)
    lines: list[Any] = [line.split("\t") for line in answer.stdout.splitlines()]
    return {row: (float(seconds), float(grown)) for row, seconds, grown in lines}


def main(words: list[str]) -> None:
    """Prints the table."""
    print(f"{'':<26}{'s':>10}{'MiB':>10}")
    for name in CASES:
        if not words or any(word in name for word in words):
            for row, (seconds, grown) in measured(name).items():
                print(f"{f'{name}: {row}':<26}{seconds:>10.3f}{grown:>10.0f}", flush=True)


if __name__ == "__main__":
    one(sys.argv[2]) if sys.argv[1:2] == ["--one"] else main(sys.argv[1:])
