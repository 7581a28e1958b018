"""Modules that a function refers to, and what they are after an evaluation."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
import torch
from torch import nn

import rfnb as rf
from rfnb.backend.torch.module_state import evaluating, is_sharded, modules_of
from tests.torchrun import run_in_two_processes

WORKER = Path(__file__).with_name("evaluation_worker.py")
NET = nn.Linear(2, 2)


class Trainer:
    """Has a model."""

    def __init__(self, net):
        self.net, self.itself = net, self

    def decode(self):
        return self.net

    def __call__(self):
        return self.net


def test_modules_are_found_wherever_a_function_has_them():
    net = nn.Linear(2, 2)
    unset = lambda: later  # noqa: E731

    def inner():
        return [each for each in (net,)]  # noqa: C416

    functions = [
        lambda: net, lambda: inner(), lambda n=net: n, functools.partial(max, net), functools.partial(max, key=net),
        Trainer(net).decode, Trainer(net), lambda x={"a": [net]}: x, lambda: (lambda: net)(),
    ]  # fmt: skip
    for fn in functions:
        assert modules_of(fn) == [net], fn
    assert modules_of(lambda: NET) == [NET] and modules_of(unset) == [] and modules_of(print) == []
    later = 1


def test_a_module_that_only_a_call_reveals_is_evaluated_and_given_back():
    hidden = {"net": nn.Sequential(nn.BatchNorm1d(2), nn.Dropout())}
    net = hidden["net"]
    net[1].eval()
    mean = net[0].running_mean.clone()
    with evaluating([]):
        x = torch.ones(3, 2)
        assert net(x).equal(net(x)) and not net.training and not net[0].training
    assert [each.training for each in net.modules()] == [True, True, False]
    assert net[0].running_mean.equal(mean) and int(net[0].num_batches_tracked) == 0


def test_buffers_that_share_their_memory_stay():
    net = nn.Module()
    net.register_buffer("mask", torch.ones(1).expand(5))
    net.register_buffer("none", None)
    mask = net.mask
    with evaluating([net]):
        net.mask = torch.zeros(5)
    assert net.mask is mask


def test_sharded_models_are_known():
    class FullyShardedDataParallel(nn.Module): ...

    assert is_sharded([nn.Sequential(nn.Sequential(FullyShardedDataParallel()))]) and not is_sharded([NET])


@pytest.mark.slow
@pytest.mark.skipif(not torch.distributed.is_available(), reason="no torch.distributed")
def test_the_first_of_two_processes_runs_the_probe_and_neither_notices(python, tmp_path):
    run_in_two_processes(python, WORKER, tmp_path)
    for rank in (0, 1):
        probed, plain = torch.load(tmp_path / f"{rank}.pt")
        assert all(probed[name].equal(raw) for name, raw in plain.items()), rank
    loaded = rf.load_probe(tmp_path / "probe")
    assert loaded.steps == [2, 4, 6] and not loaded[0].result.equal(loaded[1].result)
