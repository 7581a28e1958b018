"""How long a training step takes on the device: numbers for the page, which no test judges."""

from __future__ import annotations

import time

import pytest
import torch

from tests.gpu.loops import LOOPS, batch, loss


def milliseconds(call, device):
    """The shortest of a few calls."""
    found = []
    for _ in range(6):
        start = time.perf_counter()
        call()
        if device.startswith("cuda"):
            torch.cuda.synchronize()
        found.append(1000 * (time.perf_counter() - start))
    return min(found)


def by_hand(model, x, lengths):
    """The RNN as a Python loop in plain torch, which keeps the state of sequences that have ended."""
    frames, h = x.transpose(0, 1), x.new_zeros(len(lengths), 32)
    going = (torch.arange(len(frames))[:, None] < torch.tensor(lengths)).to(x.device)
    out = []
    for frame, goes in zip(frames, going, strict=True):
        new = torch.tanh(
            frame @ model.inside.weight.raw_tensor + model.inside.bias.raw_tensor
            + h @ model.again.weight.raw_tensor + model.again.bias.raw_tensor
        )  # fmt: skip
        h = torch.where(goes[:, None], new, h)
        out.append(torch.where(goes[:, None], h, 0.0))
    return torch.stack(out).square().sum()


@pytest.mark.parametrize("name", ["RNN", "LSTM", "decoder"])
def test_the_time_of_a_training_step_is_noted(name, device, note):
    lengths = [100 - 5 * i for i in range(8)] if device.startswith("cuda") else [10, 7]
    model = LOOPS[name]()
    x, frames = batch(device, lengths)
    ours = milliseconds(lambda: loss(model, x, frames).backward(), device)
    with torch.no_grad():
        forward = milliseconds(lambda: loss(model, x, frames), device)
    note(f"{name}: {max(lengths)} steps, forward {forward:.2f} ms, forward and backward {ours:.2f} ms")
    if name == "RNN":
        theirs = milliseconds(lambda: by_hand(model, x.raw_tensor, lengths).backward(), device)
        torch.testing.assert_close(loss(model, x, frames), by_hand(model, x.raw_tensor, lengths), rtol=1e-4, atol=1e-4)
        note(f"RNN in plain torch: forward and backward {theirs:.2f} ms")
    if device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        loss(model, x, frames).backward()
        note(f"{name}: at most {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB")
