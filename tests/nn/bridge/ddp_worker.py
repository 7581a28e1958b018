"""One of the processes of `test_distributed.py`; also its model and data."""

from __future__ import annotations

import os
import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.errors import LoopError

time, feat, hidden = Dim(None, name="time"), Dim(4, name="feat"), Dim(3, name="hidden")
EMPTY = (torch.zeros(1, 1, 4), torch.zeros(1, dtype=torch.int64))
SHARES = [[0, 2, 3], [1]]  # which batches each process has


class Model(rf.Module):
    """The loss of an auto-encoder whose batch norm takes the frames of all processes together.

    An LSTM, and a cell in a loop, do no step for a batch without frames.
    """

    def __init__(self):
        self.inner, self.outer = rf.Linear(feat, hidden), rf.Linear(hidden, feat)
        self.lstm, self.gru = rf.LSTM(hidden, hidden), rf.GRU(hidden, hidden)
        self.norm = rf.BatchNorm(hidden, distributed=distributed.is_initialized())

    def __call__(self, x):
        y = self.norm(self.inner(x))
        for cell in (self.lstm, self.gru):
            y, _ = cell(y, state=cell.default_initial_state(batch_dims=[batch_dim]), spatial_dim=time)
        errors = (self.outer(rf.tanh(y)) - x) ** 2
        return rf.distributed.mean(rf.reduce_mean(errors, axis=feat))


def model(device="cpu"):
    torch.manual_seed(0)
    return rf.to_torch(Model().to(device=device), in_dims=[[batch_dim, time, feat]])


def batches(device="cpu"):
    draw = torch.Generator().manual_seed(1)
    all_lengths = [[5, 3], [2, 7, 4], [6], [1, 1]]
    return [(torch.randn(len(n), max(n), 4, generator=draw).to(device), torch.tensor(n)) for n in all_lengths]


def train(net, steps):
    """The losses of the steps."""
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    losses = []
    for x, lengths in steps:
        optimizer.zero_grad()
        loss = net(x, lengths)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


def local_model(seed):
    """Of torch, with a batch norm whose statistics are averaged too."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))


def train_locally(net, rank, steps, after_step):
    """Steps of a process on data of its own."""
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    average = after_step(optimizer, net)
    draw = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        optimizer.zero_grad()
        net(torch.randn(5, 4, generator=draw)).pow(2).mean().backward()
        optimizer.step()
        yield average


def train_scaled(rank, overflow):
    """Steps with a GradScaler, of which one process skips the first. Yields after each step."""
    net = local_model(rank)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    average = rf.average_parameters(optimizer, every=2, scaler=scaler)
    draw = torch.Generator().manual_seed(rank)
    for step in range(4):
        optimizer.zero_grad()
        loss = net(torch.randn(5, 4, generator=draw)).pow(2).mean()
        scaler.scale(loss * (float("inf") if step == 0 and overflow else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
    return average.step, {name: raw.detach().clone() for name, raw in net.named_parameters()}


def average_out_of_step(rank):
    """What the processes say where one of them takes a step less."""
    optimizer = torch.optim.SGD(local_model(rank).parameters(), 0.1)
    average = rf.average_parameters(optimizer, every=2)
    try:
        for _ in range(2 - rank):
            optimizer.step()
        average.now()
    except LoopError as error:
        return error.got
    return ""


def in_shards(net):
    """Each part, and what is left, in shards of their own."""
    kind = next(net.parameters()).device.type
    mesh = init_device_mesh(kind, (distributed.get_world_size(),))
    for part in [*net.children(), net]:
        fully_shard(part, mesh=mesh)
    return net


def start(device):
    """Joins the processes; the device of this one: with NCCL, each needs a GPU of its own."""
    if device == "cpu":
        distributed.init_process_group("gloo")
        return device
    alone = torch.cuda.device_count() < 2
    distributed.init_process_group("gloo" if alone else "cpu:gloo,cuda:nccl")
    torch.cuda.set_device(0 if alone else distributed.get_rank())
    return f"cuda:{torch.cuda.current_device()}"


def main(folder, device="cpu"):
    """Trains on the share of this process, with whole parameters and with shards, and saves what came out."""
    torch.set_num_threads(1)
    device = start(device)
    rf.set_default_device(device)
    rank, data = distributed.get_rank(), batches(device)
    share, empty = [data[i] for i in SHARES[rank]], (EMPTY[0].to(device), EMPTY[1])
    engines = {"whole": DistributedDataParallel, "in shards": in_shards}
    if device != "cpu" and distributed.get_backend() == "gloo":
        del engines["in shards"]  # gloo cannot reduce and scatter on a GPU
    found = {"backend": distributed.get_backend()}
    for name, engine in engines.items():
        net = model(device)
        losses = train(engine(net), rf.distributed.in_step(share, empty=empty))
        state = {key: getattr(raw, "full_tensor", lambda raw=raw: raw)() for key, raw in net.state_dict().items()}
        found[name] = losses.cpu(), {key: raw.cpu() for key, raw in state.items()}
    net = local_model(rank)
    averaging = train_locally(net, rank, 5, lambda o, n: rf.average_parameters(o, every=2, model=n))
    average = [*averaging][-1]
    found["averaged"] = {key: raw.clone() for key, raw in net.state_dict().items()}
    average.now()
    found["at the end"] = net.state_dict()
    found["scaled"] = train_scaled(rank, overflow=rank == 1)
    found["out of step"] = average_out_of_step(rank)
    torch.save(found, f"{folder}/{rank}.pt")
    distributed.barrier()  # the other process still needs this one
    os._exit(0)  # threads of gloo that outlive the interpreter now and then abort the process


if __name__ == "__main__":
    main(*sys.argv[1:])
