"""What recurrent modules cost over a sequence, beside torch: python tests/bench/bench_rec.py [names…]

CPU time, one thread, interleaved, medians. Where torch.nn has the module, that; else its step in a Python loop.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import rfnb as rf
from rfnb import batch_dim

Pair = tuple[Callable[[], torch.Tensor], Callable[[], torch.Tensor]]


def lstm(cls: type[rf.Module], batch: int, steps: int, size: int, ragged: bool = False) -> Pair:
    """torch.nn.LSTM, packed if the sequences differ, and ours."""
    lengths = [steps - b * steps // (2 * batch) if ragged else steps for b in range(batch)]
    x, ours = source(batch, steps, size, cls, lengths)
    same = torch.nn.LSTM(size, size, batch_first=True)

    def torchs() -> torch.Tensor:
        if not ragged:
            return same(x)[0]
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        return pad_packed_sequence(same(packed)[0], batch_first=True)[0]

    return torchs, ours


def cell(cls: type[rf.RecCell], batch: int, steps: int, size: int, step: Callable[..., torch.Tensor]) -> Pair:
    """A loop in Python, its input projected before it, and ours."""
    x, ours = source(batch, steps, size, cls, [steps] * batch)
    weights = torch.nn.ParameterDict(
        {f"w{i}": torch.nn.Parameter(torch.randn(size, size) / size**0.5) for i in range(8)}
    )
    inputs = torch.cat([weights[f"w{i}"] for i in range(3 if step is gru else 1)], 1)
    recurrent = torch.cat([weights["w3"], weights["w4"]], 1), weights["w5"]

    def torchs() -> torch.Tensor:
        h, out = torch.zeros(batch, size), []
        for frame in (x @ inputs).unbind(1):
            h = step(frame, h, *recurrent)
            out.append(h)
        return torch.stack(out)

    return torchs, ours


def gru(x: torch.Tensor, h: torch.Tensor, gates: torch.Tensor, candidate: torch.Tensor) -> torch.Tensor:
    """As Cho et al. (2014)."""
    size = h.shape[-1]
    r, u = torch.sigmoid(x[:, : 2 * size] + h @ gates).chunk(2, -1)
    c = torch.tanh(x[:, 2 * size :] + (r * h) @ candidate)
    return u * h + (1 - u) * c


def rnn(x: torch.Tensor, h: torch.Tensor, _: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """As Elman (1990)."""
    return torch.tanh(x + h @ weight)


def source(
    batch: int, steps: int, size: int, cls: type[rf.Module], lengths: Sequence[int]
) -> tuple[torch.Tensor, Callable[[], torch.Tensor]]:
    """A raw batch, and our module on it."""
    inp, out, frames = rf.Dim(size, name="in"), rf.Dim(size, name="out"), rf.Dim(None, name="time")
    raw, module = torch.randn(batch, steps, size), cls(inp, out)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, frames, inp], lengths=list(lengths))

    def ours() -> torch.Tensor:
        state = module.default_initial_state(batch_dims=[batch_dim])
        return module(x, state=state, spatial_dim=frames)[0].raw_tensor

    return raw, ours


CASES: dict[str, Callable[[], Pair]] = {
    "LSTM, H=256": lambda: lstm(rf.LSTM, 16, 100, 256),
    "LSTM, H=256, ragged": lambda: lstm(rf.LSTM, 16, 100, 256, ragged=True),
    "LSTM, H=512": lambda: lstm(rf.LSTM, 8, 50, 512),
    "LSTM, H=16": lambda: lstm(rf.LSTM, 2, 100, 16),
    "VanillaLSTM, H=256": lambda: lstm(rf.VanillaLSTM, 16, 100, 256),
    "BasicLSTM, H=256": lambda: lstm(rf.BasicLSTM, 16, 100, 256),
    "GRU, H=256": lambda: cell(rf.GRU, 16, 100, 256, gru),
    "GRU, H=16": lambda: cell(rf.GRU, 2, 100, 16, gru),
    "BasicRNN, H=256": lambda: cell(rf.BasicRNN, 16, 100, 256, rnn),
    "BasicRNN, H=16": lambda: cell(rf.BasicRNN, 2, 100, 16, rnn),
}


def measure(pair: Pair, gradients: bool, rounds: int = 15) -> list[float]:
    """Milliseconds of each."""
    times: list[list[float]] = [[], []]
    for round_ in range(rounds + 2):
        for way, taken in zip(pair, times, strict=True):
            start = time.process_time()
            with torch.set_grad_enabled(gradients):
                result = way()
                if gradients:
                    result.sum().backward()
            if round_ > 1:
                taken.append((time.process_time() - start) * 1e3)
    return [statistics.median(taken) for taken in times]


def main(names: list[str]) -> None:
    """Prints a table."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"{'ms':<24}{'':<10}{'torch':>10}{'rfnb':>10}{'ratio':>8}")
    for name, make in CASES.items():
        if names and name not in names:
            continue
        pair = make()
        for gradients in (False, True):
            theirs, ours = measure(pair, gradients)
            way = "with grad" if gradients else "forward"
            print(f"{name:<24}{way:<10}{theirs:>10.2f}{ours:>10.2f}{ours / theirs:>8.2f}")


if __name__ == "__main__":
    main(sys.argv[1:])
