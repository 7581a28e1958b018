"""The steps of a loop never wait for the device: Python reads no number from it in them, but for an `end`."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.gpu.loops import LOOPS, batch, loss

READS = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "equal")
"""Ops of torch whose results Python reads, or whose size depends on the numbers."""


class Reads(TorchDispatchMode):
    """Counts the ops that would wait for a device, on the CPU."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket.__name__ in READS
        return func(*args, **(kwargs or {}))


@contextmanager
def counting(device: str) -> Iterator[list[int]]:
    """A list that gets the number of synchronizations inside the block."""
    found: list[int] = []
    if not device.startswith("cuda"):
        with Reads() as reads:
            yield found
        found.append(reads.count)
        return
    torch.cuda.synchronize()
    before = torch.cuda.get_sync_debug_mode()
    torch.set_warn_always(True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            yield found
        finally:
            torch.cuda.set_sync_debug_mode(before)
            torch.set_warn_always(False)
    found.append(sum("called a synchronizing" in str(each.message) for each in caught))


def syncs(device: str, name: str, steps: int) -> int:
    """How often a loop of so many steps, and its gradients, wait for the device."""
    torch.manual_seed(0)
    model = LOOPS[name]()
    x, time = batch(device, [steps, steps // 2, steps - 3])
    loss(model, x, time).backward()  # first calls load kernels
    x, time = batch(device, [steps, steps // 2, steps - 3])
    with counting(device) as found:
        loss(model, x, time).backward()
    return found[0]


@pytest.mark.parametrize("name", [name for name in LOOPS if name != "search"])
def test_a_loop_does_not_wait_for_the_device_in_its_steps(name, device, note):
    few, many = (syncs(device, name, steps) for steps in (8, 40))
    note(f"{name}: {few} synchronizations with 8 steps, {many} with 40")
    assert many == few


def test_a_loop_with_an_end_reads_one_number_per_step(device, note):
    few, many = (syncs(device, "search", steps) for steps in (8, 40))
    note(f"search: {few} synchronizations with up to 8 steps, {many} with up to 40")
    assert many - few <= 32


def test_the_counter_sees_a_number_that_is_read(device):
    x = torch.ones(3, device=device)
    with counting(device) as found:
        float(x.sum())
    assert found == [1]
