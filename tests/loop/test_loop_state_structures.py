"""States may be dataclasses, named tuples and namespaces, in each other."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import DimError, LoopError

batch = rf.batch_dim


@dataclass(frozen=True, slots=True)
class Cell:
    h: Any
    c: Any = None


@dataclass
class Decoder:
    cell: Any
    sums: Any = ()


class Pair(NamedTuple):
    cell: Any
    sums: Any


@pytest.fixture
def x():
    time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")
    raw = torch.arange(24.0).reshape(2, 4, 3) / 10
    return rf.convert_to_tensor(raw, dims=[batch, time, feat], lengths=[4, 2]), time, feat


KINDS = [
    (Cell, Decoder),
    (Cell, Pair),
    (lambda h, c=None: SimpleNamespace(c=c, h=h), lambda cell, sums: SimpleNamespace(sums=sums, cell=cell)),
    (lambda h, c=None: rf.State(h=h, c=c), Decoder),
]


def run(x, time, feat, cell, decoder):
    loop = rf.Loop(axis=time, name="rnn")
    first = rf.zeros([batch, feat])
    loop.state.s = initial = decoder(cell(first), [first])
    with rf.recording("last"), loop:
        s = loop.state.s
        h = rf.tanh(s.cell.h * 0.5 + loop.unstack(x))
        loop.state.s = decoder(cell(h), [s.sums[0] + h])
        outputs = loop.stack(h)
    return loop, initial, outputs


@pytest.mark.parametrize(("cell", "decoder"), KINDS)
def test_a_nested_state_of_any_kind_is_carried(cell, decoder, x):
    loop, initial, outputs = run(*x, cell, decoder)
    h, total = np.zeros((2, 3), "float32"), np.zeros((2, 3), "float32")
    for step in range(4):
        new = np.tanh(h * 0.5 + x[0].raw_tensor[:, step].numpy())
        live = np.array([[True], [step < 2]])
        h, total = np.where(live, new, h), np.where(live, total + new, total)
    state = loop.state.s
    assert type(state) is type(initial) and type(state.cell) is type(initial.cell) and state.cell.c is None
    np.testing.assert_allclose(state.cell.h.copy_transpose([batch, x[2]]).raw_tensor, h, rtol=1e-5)
    np.testing.assert_allclose(state.sums[0].copy_transpose([batch, x[2]]).raw_tensor, total, rtol=1e-5)
    assert not initial.cell.h.raw_tensor.any()  # the first state stays as it was
    assert outputs.dims_set == x[0].dims_set


def test_a_recorded_run_names_the_parts_and_can_be_forked(x):
    run(*x, Cell, Decoder)
    recorded = rf.runs["rnn"]
    assert set(recorded[1].before) == {"s.cell.h", "s.sums.0"}
    changed = recorded.fork(1, s=Decoder(Cell(rf.ones([batch, x[2]])), [rf.zeros([batch, x[2]])]))
    assert (changed[1].before["s.cell.h"].raw_tensor == 1).all()


def test_a_state_of_another_structure_is_refused(x):
    _, time, feat = x
    first = rf.zeros([batch, feat])
    for new in (Cell(first, first), Decoder(first), first):
        loop = rf.Loop(axis=time)
        loop.state.s = Cell(first)
        with pytest.raises(LoopError, match=r"structure|None at first"), loop:
            loop.state.s = new
    loop = rf.Loop(axis=time)
    loop.state.s = Cell(first)
    with pytest.raises(DimError, match=r"s\.h"), loop:
        loop.state.s = Cell(rf.zeros([batch]))


def test_a_number_in_a_state_is_named_by_its_field(x):
    _, time, feat = x
    loop = rf.Loop(axis=time)
    loop.state.s = Cell(rf.zeros([batch, feat]), 3)
    with pytest.raises(LoopError, match=r"'s\.c' is not an rf\.Tensor"), loop:
        pass


def test_a_while_loop_carries_a_dataclass():
    state = rf.while_loop(lambda s: s.h < 10, lambda s: Cell(s.h + 3), Cell(rf.convert_to_tensor(0)))
    assert type(state) is Cell and state.h.raw_tensor.item() == 12
