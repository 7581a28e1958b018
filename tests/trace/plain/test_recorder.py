"""What is recorded of plain Python loops is what a deep copy at each iteration gives, and changes no result."""

from __future__ import annotations

from types import CodeType
from typing import Any

import pytest
import torch

import rfnb as rf
from rfnb.trace.plain.iterations import Iterations
from rfnb.trace.plain.recorder import Client, FrameRecorder, Recording
from tests.examples import FACTOR
from tests.trace.plain.programs import LOST, Snapshots, equal, of_entry, programs


def before(loop: Iterations) -> list[dict[str, Any]]:
    """The variables at the beginning of each iteration."""
    names = {entry.name: of_entry(entry) for entry in loop.initial}
    found = []
    for step in range(len(loop.starts)):
        found.append(dict(names))
        names |= {entry.name: of_entry(entry) for entry in loop.entries(step)}
    return found


def nothing(*_: Any) -> None:
    pass


@pytest.mark.parametrize("seed", range(round(150 * FACTOR)))
def test_it_is_what_deep_copies_give(seed, tmp_path, monkeypatch):
    problems: list[Exception] = []
    monkeypatch.setattr(FrameRecorder, "_give_up", lambda self, error: problems.append(error))
    plain, snapped = programs(seed, tmp_path)
    w = torch.eye(3)
    snapshots = Snapshots()
    expected = outcome(snapped, w, snapshots)
    got, loops = record_of(plain, w)
    assert not problems
    assert equal(got, expected)
    compare(loops, snapshots)


def outcome(function: Any, *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error).__name__


class All(Client):
    """A client that wants all loops of a function."""

    def __init__(self, code: CodeType):
        self._code = code
        self.loops: list[Iterations] = []

    def chooses(self, code: CodeType) -> bool:
        return code == self._code

    def done(self, loop: Iterations) -> None:
        self.loops.append(loop)


def record_of(function: Any, w: torch.Tensor) -> tuple[Any, list[Iterations]]:
    client, recording = All(function.__code__), Recording()
    recording.add(client)
    try:
        got = outcome(function, w, nothing)
    finally:
        recording.remove(client)
    return got, client.loops


def compare(loops: list[Iterations], snapshots: Snapshots) -> None:
    """Each iteration has its snapshot; no value differs from it without a mark."""
    steps = [(loop, step) for loop in loops for step in range(len(loop.starts))]
    assert len(steps) == len(snapshots.begun)
    logs = list(dict.fromkeys(id(loop.log) for loop in loops))  # one for each loop that is in no other
    order = sorted(
        range(len(steps)),
        key=lambda i: (logs.index(id(steps[i][0].log)), steps[i][0].ran[steps[i][1]], len(steps[i][0].text.around)),
    )
    states = {id(loop): before(loop) for loop in loops}
    lost = checked = 0
    for i, (number, names) in zip(order, snapshots.begun, strict=True):
        loop, step = steps[i]
        own = targets(loop)
        for name, value in states[id(loop)][step].items():
            if name in own or name not in names:
                continue
            checked += 1
            lost += value is LOST
            assert value is LOST or equal(value, names[name]), (loop.text.header, step, name, value, names[name])
        assert number >= 0
    assert lost <= 0.5 * checked + 10


def targets(loop: Iterations) -> set[str]:
    """The variables that the header assigns."""
    return set(loop.outline.statements[next(s for s, n in loop.outline.headers.items() if n == loop.number)].assigned)


def test_parameters_of_a_fused_optimizer_are_those_of_the_step():
    torch.manual_seed(0)
    layer, weights = torch.nn.Linear(2, 2), []
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1, fused=True)
    for _ in rf.steps(range(3), name="training"):
        weight = layer.weight
        layer(torch.ones(2)).sum().backward()
        optimizer.step()
        weights.append(weight.detach().clone())
    run = rf.runs["training"]
    assert all(run[step].weight.raw_tensor.equal(weights[step]) for step in range(3))
