"""Two processes with the device train as one with all data: by NCCL with a GPU each, else by gloo."""

from __future__ import annotations

import os

import pytest
import torch

from tests.nn.bridge import ddp_worker
from tests.nn.bridge.test_distributed import WORKER, whole
from tests.torchrun import run_in_two_processes


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="no torch.distributed")
@pytest.mark.skipif("RFNB_DEVICE" not in os.environ, reason="tests/nn/bridge/test_distributed.py does it on the CPU")
def test_two_processes_train_as_one_with_the_device(python, device, tmp_path, note):
    run_in_two_processes(python, WORKER, tmp_path, device, timeout=300)
    ranks = [torch.load(tmp_path / f"{rank}.pt", map_location="cpu") for rank in (0, 1)]
    net, data = ddp_worker.model(device), ddp_worker.batches(device)
    expected = ddp_worker.train(net, [whole(data[:2]), data[2], data[3]]).cpu()
    for engine in ranks[0].keys() - {"backend"}:
        (first, state), (second, other) = (each[engine] for each in ranks)
        torch.testing.assert_close((first + second) / 2, expected, rtol=1e-4, atol=1e-5)
        for name, raw in net.state_dict().items():
            torch.testing.assert_close(state[name], raw.cpu(), rtol=1e-3, atol=1e-4, msg=name)
            assert state[name].equal(other[name]), name
    note(f"two processes by {ranks[0]['backend']}: {', '.join(sorted(ranks[0].keys() - {'backend'}))} as one")
