"""Two processes with the device train as one with all data: by NCCL with a GPU each, else by gloo."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from tests.nn.bridge import ddp_worker
from tests.nn.bridge.test_distributed import WORKER, whole


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="no torch.distributed")
@pytest.mark.skipif("RFNB_DEVICE" not in os.environ, reason="tests/nn/bridge/test_distributed.py does it on the CPU")
def test_two_processes_train_as_one_with_the_device(device, tmp_path, note):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(WORKER)]
    path = os.pathsep.join(filter(None, [str(WORKER.parents[3]), os.environ.get("PYTHONPATH")]))
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path}
    done = subprocess.run(
        [*command, str(tmp_path), device], env=env, timeout=300, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
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
