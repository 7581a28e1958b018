"""Two processes under torchrun, with other lengths and another number of batches each, train as one with all data."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.nn.functional import pad
from torch.testing import assert_close

import rfnb as rf
from rfnb.errors import ParameterError
from tests.nn.bridge import ddp_worker
from tests.torchrun import run_in_two_processes

WORKER = Path(__file__).with_name("ddp_worker.py")
pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="no torch.distributed")


def whole(batches):
    """Several batches as one."""
    longest = max(x.shape[1] for x, _ in batches)
    xs = [pad(x, (0, 0, 0, longest - x.shape[1])) for x, _ in batches]
    return torch.cat(xs), torch.cat([lengths for _, lengths in batches])


@pytest.fixture(scope="module")
def found(python, tmp_path_factory):
    """What both processes found."""
    folder = tmp_path_factory.mktemp("ranks")
    run_in_two_processes(python, WORKER, folder)
    return [torch.load(folder / f"{rank}.pt") for rank in (0, 1)]


@pytest.fixture(scope="module")
def alone():
    """What one process with all data finds."""
    net, data = ddp_worker.model(), ddp_worker.batches()
    losses = ddp_worker.train(net, [whole(data[:2]), data[2], data[3]])
    return losses, net.state_dict()


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["whole", "in shards"])
def test_two_processes_train_as_one(found, alone, engine):
    (first, state), (second, other) = (each[engine] for each in found)
    losses, expected = alone
    assert_close((first + second) / 2, losses)
    assert second[1:].eq(0).all()  # a batch without frames
    for name, raw in expected.items():
        assert_close(state[name], raw, msg=name)
        assert state[name].equal(other[name]), name


@pytest.mark.slow
def test_parameters_and_statistics_are_averaged_every_few_steps(found):
    nets = [ddp_worker.local_model(rank) for rank in (0, 1)]
    processes = [ddp_worker.train_locally(net, rank, 5, lambda *_: None) for rank, net in enumerate(nets)]
    for step in range(1, 6):
        for process in processes:
            next(process)
        if step % 2 == 0:
            average(nets)
    for net, process in zip(nets, found, strict=True):
        assert_same(process["averaged"], net.state_dict())
    average(nets)
    for net, process in zip(nets, found, strict=True):
        assert_same(process["at the end"], net.state_dict())


@pytest.mark.slow
def test_a_step_that_one_scaler_skips_is_counted_in_all_processes(found):
    (steps, first), (other_steps, second) = (process["scaled"] for process in found)
    assert steps == other_steps == 4
    assert_same(first, second)


@pytest.mark.slow
def test_processes_that_are_out_of_step_are_told(found):
    assert [process["out of step"] for process in found] == ["`now()` and step 2"] * 2


def average(nets):
    """Sets all floating-point values of both to their mean."""
    for first, second in zip(*(net.state_dict().values() for net in nets), strict=True):
        if first.is_floating_point():
            mean = (first + second) / 2
            first.copy_(mean), second.copy_(mean)


def assert_same(state, expected):
    for name, raw in expected.items():
        assert_close(state[name], raw, msg=name)


@pytest.mark.parametrize(
    "wrong", [{"optimizer": 3}, {"every": 0}, {"every": True}, {"model": "net"}, {"scaler": 1}], ids=str
)
def test_wrong_arguments_of_average_parameters_are_named(wrong):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))])
    with pytest.raises(ParameterError, match=f"`{next(iter(wrong))}` is of the wrong kind"):
        rf.average_parameters(**{"optimizer": optimizer, **wrong})
