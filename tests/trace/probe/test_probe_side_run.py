"""A training with a probe is bit for bit the one without."""

from __future__ import annotations

import random
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import rfnb as rf
from rfnb.core.run_ctx import get_run_ctx
from rfnb.trace.probe.probe import followers


class Noisy(Dataset):
    """Items whose noise is drawn in the worker."""

    def __len__(self):
        return 24

    def __getitem__(self, i):
        return torch.full((4,), float(i)) + torch.rand(4) + float(np.random.rand()) + random.random()


class Net(nn.Module):
    """Everything that a call may change in training."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.BatchNorm1d(4).eval()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.3), nn.Linear(8, 2))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.layers(self.frozen(x))


def meddle(net):
    """A function that does what it can to disturb a training."""
    torch.manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    rf.set_random_seed(5)
    assert not net.training and not net.layers[2].training
    with torch.enable_grad():
        net(torch.randn(5, 4)).sum().backward()
    net.register_buffer("calls", torch.full((), 99.0))
    net.train()
    list(DataLoader(Noisy(), batch_size=3, shuffle=True))
    rf.init_train_step_run_ctx(step=77)
    rf.ones([]).mark_as_loss("ce")
    return net(torch.ones(2, 4))


def numbers(tree):
    """All tensors and numbers in a state."""
    if isinstance(tree, dict):
        return [each for key in sorted(tree, key=str) for each in numbers(tree[key])]
    if isinstance(tree, list | tuple):
        return [each for part in tree for each in numbers(part)]
    return [tree]


def trained(probed, workers=0):
    """Losses, weights, statistics, the state of the optimizer, gradients, and the next random numbers."""
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(1)
    net = Net()
    net.train()
    net.frozen.eval()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
    probe = rf.probe(lambda: meddle(net), every=2) if probed else None
    losses = []
    loader = DataLoader(Noisy(), batch_size=4, shuffle=True, num_workers=workers)
    for epoch in range(2):
        for x in rf.progress(loader):
            ctx = rf.init_train_step_run_ctx(step=len(losses), epoch=epoch)
            loss = net(x).square().mean()
            loss.backward()  # gradients are accumulated over three steps
            losses.append(loss.item())
            if len(losses) % 3 == 0:
                optimizer.step()
                optimizer.zero_grad()
            assert get_run_ctx() is ctx and not ctx.losses
    if probe is not None:
        assert probe.off is None and probe.steps == list(range(2, 13, 2))
        probe.stop()
    modes = [module.training for module in net.modules()]
    gradients = [parameter.grad for parameter in net.parameters()]
    drawn = [torch.rand(3), random.random(), np.random.rand(3), rf.random_normal([rf.Dim(3)]).raw_tensor]
    return [losses, modes, numbers(net.state_dict()), numbers(optimizer.state_dict()), gradients, drawn]


def same(a, b):
    """Whether all bits agree."""
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True) if a is not None else b is None


@pytest.mark.parametrize("workers", [0, 2])
def test_a_torch_training_is_bit_equal_with_a_function_that_meddles(workers):
    assert same(trained(True, workers), trained(False, workers))
    assert not same(trained(False)[0], [0.0] * 12)


def trained_with_loops(probed):
    rf.set_random_seed(4)
    batch, time, feat = rf.Dim(3, name="batch"), rf.Dim([4, 2, 0], name="time"), rf.Dim(5, name="feat")
    time = rf.Dim(rf.convert_to_tensor([4, 2, 0], dims=[batch]), name="time")
    cell, norm, out = rf.Linear(feat, feat), rf.BatchNorm(feat), rf.Linear(feat, feat)
    parameters = [*cell.parameters(), *norm.parameters(), *out.parameters()]
    optimizer = torch.optim.AdamW([p.raw_tensor for p in parameters if p.trainable], lr=0.05)

    def run(x):
        loop = rf.Loop(axis=time, name="rnn")
        loop.state.h = rf.zeros([batch, feat])
        with loop:
            loop.state.h = rf.tanh(cell(rf.dropout(loop.state.h, 0.2)) + loop.unstack(x))
        return out(norm(loop.state.h))

    chosen = rf.random_normal([batch, time, feat])
    probe = rf.probe(lambda: (run(chosen), rf.random_uniform([feat])), every=2) if probed else None
    losses = []
    for _ in rf.progress(range(7)):
        rf.init_train_step_run_ctx()
        loss = rf.reduce_mean(rf.square(run(rf.random_normal([batch, time, feat]))), axis=[batch, feat])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    if probe is not None:
        assert probe.off is None and probe.steps == [2, 4, 6]
        assert [len(shot.runs) for shot in probe] == [1, 1, 1]
        for one, other in pairwise(probe):
            assert not one.result[0].raw_tensor.equal(other.result[0].raw_tensor)
        probe.stop()
    return [losses, [p.raw_tensor.detach() for p in parameters], [torch.rand(3)]]


@pytest.mark.parametrize("record", [False, "last"])
def test_a_training_of_loops_is_bit_equal_with_a_probe(record):
    with rf.recording(record):
        assert same(trained_with_loops(True), trained_with_loops(False))
    rf.runs.clear()


def test_a_loop_over_epochs_and_an_evaluation_count_no_steps():
    probe = rf.probe(lambda: None, every=1)
    for _ in rf.progress(range(2)):
        for _ in rf.progress(range(3)):
            with torch.no_grad():
                list(rf.progress(range(5)))
    assert probe.trained == 6 and probe.steps == [1, 2, 3, 4, 5, 6]
    probe.stop()
    list(rf.progress(range(2)))
    assert probe.trained == 6


def test_only_the_named_loop_counts():
    probe = rf.probe(lambda: None, every=2, loop="training")
    list(rf.progress(range(4), name="other"))
    list(rf.progress(range(4), name="training"))
    assert probe.steps == [2, 4]
    probe.stop()
    assert probe not in followers._probes.values()
