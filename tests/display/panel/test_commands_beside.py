"""Steps of finished runs are answered beside a running cell, and change nothing in it."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.display.panel.commands import Dispatcher

FEAT, OUT = Dim(4, name="feat"), Dim(3, name="out")


class Cell(rf.Module):
    """A recurrent cell with dropout."""

    def __init__(self):
        super().__init__()
        self.linear = rf.Linear(FEAT, OUT)
        self.again = rf.Linear(OUT, OUT)

    def __call__(self, x: rf.Tensor, axis: Dim) -> rf.Tensor:
        loop = rf.Loop(axis=axis, name="decoder")
        loop.state.h = rf.zeros([batch_dim, OUT])
        with loop:
            h = rf.tanh(self.linear(loop.unstack(x)) + self.again(loop.state.h))
            loop.state.h = rf.dropout(h, 0.2, on_forward=True)
            out = loop.stack(loop.state.h)
        return out


def number(item: int) -> torch.Tensor:
    """An item of the data, made in a forked worker."""
    return torch.full([5, 4], float(item)).sin()


class Data(torch.utils.data.Dataset):
    """Sequences of five frames."""

    def __len__(self) -> int:
        return 24

    def __getitem__(self, item: int) -> torch.Tensor:
        return number(item) + torch.arange(4)


def train() -> list[torch.Tensor]:
    """The parameters after a training with an optimizer, dropout and forked workers."""
    torch.manual_seed(3)
    rf.set_random_seed(3)
    model = Cell()
    optimizer = torch.optim.Adam(rf.torch_parameters(model), lr=0.05)
    loader = torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=2, multiprocessing_context="fork")
    for batch in itertools.chain(loader, loader):
        time = Dim(None, name="time")
        x = rf.convert_to_tensor(batch, dims=[batch_dim, time, FEAT], lengths=[5, 4, 3, 2])
        loss = rf.reduce_mean(rf.square(model(x, time)), axis=[batch_dim, time, OUT])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [p.detach().clone() for p in rf.torch_parameters(model)]


@contextmanager
def stepping(dispatcher: Dispatcher) -> Iterator[list[dict[str, Any]]]:
    """Steps through the newest run all the time, in another thread; the list has the answers."""
    answers, over = [], Event()

    def steps() -> None:
        for number in itertools.count():
            if over.is_set():
                return
            for run in list(dispatcher.runs)[:1]:
                args = {"run": run.serial, "step": number % max(run.steps, 1), "watch": ["after.h - before.h"]}
                answers.append(dispatcher.handle({"id": number, "command": "step", "args": args}))

    thread = Thread(target=steps)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join()


@pytest.fixture
def dispatcher() -> Dispatcher:
    """That of a cell that runs."""
    return Dispatcher(rf.runs, later=lambda work: "busy", is_busy=lambda: True)


def test_training_is_the_same_while_somebody_steps_all_the_time(dispatcher):
    with rf.recording("last"):
        alone = train()
        with stepping(dispatcher) as answers:
            beside = train()
    assert all(torch.equal(a, b) for a, b in zip(alone, beside, strict=True))
    assert {answer["status"] for answer in answers} <= {"ok", "busy"}
    told = [answer["data"] for answer in answers if answer["status"] == "ok"]
    assert len(told) > 5
    assert all(view["check"] == "replay agrees" and view["watches"][0]["error"] is None for view in told)
    rf.runs.clear()


def handled_elsewhere(dispatcher: Dispatcher, run: rf.Run, command: str = "step", **args: Any) -> str:
    """The status of the answer to a message that arrives in another thread."""
    found: list[str] = []
    message = {"id": 1, "command": command, "args": {"run": run.serial, **args}}
    thread = Thread(target=lambda: found.append(dispatcher.handle(message)["status"]))
    thread.start()
    thread.join()
    return found[0]


def recorded(body) -> rf.Run:
    loop = rf.Loop(max_seq_len=3, name="counting", debug=True)
    loop.state.n = rf.convert_to_tensor(1.0)
    with rf.recording("last"), loop:
        loop.state.n = body(loop.state.n)
    return loop.run


def test_user_code_is_not_run_beside_the_cell(dispatcher):
    assert handled_elsewhere(dispatcher, recorded(lambda n: n * 2), step=1) == "ok"
    called = recorded(lambda n: rf.raw_call(torch.sin, n, out_dims=[]))
    assert handled_elsewhere(dispatcher, called, step=1) == "busy"
    assert handled_elsewhere(dispatcher, recorded(lambda n: n * 2), "gradients", loss="n") == "busy"
    rf.runs.clear()


def test_weights_without_a_copy_are_read_after_the_cell(dispatcher, monkeypatch):
    monkeypatch.setattr("rfnb.loop.replay.replay.SNAPSHOT_BUDGET", 0)
    weight = rf.Parameter([])
    weight.initial = 2.0
    assert handled_elsewhere(dispatcher, recorded(lambda n: n * weight), step=1) == "busy"
    rf.runs.clear()


def test_functions_of_the_user_wait_until_the_cell_has_ended(dispatcher, monkeypatch):
    """They may draw random numbers and change what the cell uses."""
    calls = []
    exec("def mine(x):\n    calls.append(x)\n    return x > 1", names := {"__name__": "__main__", "calls": calls})
    monkeypatch.setattr(sys.modules["__main__"], "mine", names["mine"], raising=False)
    for t in rf.steps(range(3), name="mine"):
        x = torch.tensor(float(t))
    run, where = rf.runs["mine"], {"kind": "expression", "text": "mine(x)"}
    step = {"id": 1, "command": "step", "args": {"run": run.serial, "step": 2, "watch": ["mine(x)", "x"]}}
    find = {"id": 2, "command": "find", "args": {"run": run.serial, "where": [where], "start": 0, "stop": 3}}
    told = []
    thread = Thread(target=lambda: told.extend(map(dispatcher.handle, (step, find))))
    thread.start()
    thread.join()
    assert x == 2 and not calls
    rows = told[0]["data"]["watches"]
    assert "when the cell has ended" in rows[0]["error"] and rows[1]["error"] is None
    assert told[1]["status"] == "busy"
    assert dispatcher.handle(find)["data"]["hits"] == [2] and len(calls) == 3
    rf.runs.clear()
