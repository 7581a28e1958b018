"""A process of `test_evaluation`: trains by DistributedDataParallel, with and without a probe in the first one."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import rfnb as rf


def train(rank: int, probed: bool, folder: Path) -> dict[str, torch.Tensor]:
    """Weights and statistics after a few steps; each process has its own data."""
    torch.manual_seed(1)
    net = DistributedDataParallel(nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.2), nn.Linear(4, 2)))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.05)
    torch.manual_seed(rank)
    probe = rf.probe(lambda: net(torch.ones(1, 3)), every=2, path=folder) if probed else None
    for _ in rf.progress(range(6)):
        optimizer.zero_grad()
        net(torch.randn(5, 3)).square().mean().backward()
        optimizer.step()
    if probe is not None:
        assert probe.off is None, probe.off
        probe.stop()
    return {**net.state_dict(), "drawn": torch.rand(3)}


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.distributed.init_process_group("gloo")
    number, to = torch.distributed.get_rank(), Path(sys.argv[1])
    torch.save([train(number, probed, to / "probe") for probed in (True, False)], to / f"{number}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
