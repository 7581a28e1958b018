"""States that are not frozen: what the loop gives is the same as with freezing, which a recorded loop does."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.loop import ends

FEAT = rf.Dim(3, name="feat")
LINEAR = rf.Linear(FEAT, FEAT)
UNFROZEN = {
    "rnn": lambda x, s: rf.tanh(LINEAR(x) + LINEAR(s)),
    "gates": lambda x, s: rf.sigmoid(LINEAR(x)) * s + rf.tanh(x),
}
FROZEN = {
    "doubled": lambda x, s: s * 2.0 + rf.tanh(LINEAR(x)),
    "added to itself": lambda x, s: s + s,
    "squared": lambda x, s: s * s + LINEAR(x) * 0.1,
    "multiplied by weights": lambda x, s: LINEAR(s) * 3.0 + x,
    "multiplied by a gate or a number": lambda x, s: s * rf.maximum(rf.tanh(x), 5.0),
}


def results(body, lengths, *, debug, gradients, hoist):
    time = rf.Dim(None, name="time")
    raw = torch.randn(len(lengths), max(lengths), 3, generator=torch.Generator().manual_seed(0))
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, FEAT], lengths=lengths)
    loop = rf.Loop(axis=time, debug=debug, optimize_move_layers_out=hoist)
    loop.state.s = rf.ones([batch_dim, FEAT]) * 0.5
    with nullcontext() if gradients else torch.no_grad(), loop:
        loop.state.s = body(loop.unstack(x), loop.state.s)
        out = loop.stack(loop.state.s)
    last, out = loop.state.s.raw_tensor, out.copy_masked(0.0).raw_tensor
    if not (gradients and out.requires_grad):
        return [last.detach(), out.detach()]
    weights = [p.raw_tensor for p in LINEAR.parameters()]
    return [last, out, *torch.autograd.grad(out.sum() + last.sin().sum(), weights)]


@pytest.mark.parametrize("hoist", [None, False])
@pytest.mark.parametrize("gradients", [True, False])
@pytest.mark.parametrize("lengths", [[5, 2, 0, 1], [1], [0, 1], [100, 1]], ids=str)
@pytest.mark.parametrize("name", [*UNFROZEN, *FROZEN])
def test_a_loop_gives_what_it_gives_with_freezing(name, lengths, gradients, hoist):
    body = (UNFROZEN | FROZEN)[name]
    plain, recorded = (results(body, lengths, debug=debug, gradients=gradients, hoist=hoist) for debug in (False, True))
    for a, b in zip(plain, recorded, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", [*UNFROZEN, *FROZEN])
def test_only_states_that_cannot_grow_fast_go_on(name, monkeypatch):
    found = []
    real = ends.unfrozen
    monkeypatch.setattr("rfnb.loop.ends.unfrozen", lambda *given: found.append(real(*given)) or found[-1])
    results((UNFROZEN | FROZEN)[name], [4, 2], debug=False, gradients=True, hoist=None)
    assert found == [{0} if name in UNFROZEN else set()]


def test_an_index_made_from_a_state_stays_in_its_range():
    """The second sequence moves by 4; after its end, its position would leave the memory."""
    time, memory_dim = rf.Dim(None, name="time"), rf.Dim(9, name="memory")
    rf.convert_to_tensor(torch.zeros(2, 9), dims=[batch_dim, time], lengths=[9, 2])
    moves = rf.convert_to_tensor([1.0, 4.0], dims=[batch_dim])
    memory = rf.convert_to_tensor(torch.randn(2, 9), dims=[batch_dim, memory_dim])
    loop = rf.Loop(axis=time)
    loop.state.position = rf.zeros([batch_dim])
    with loop:
        seen = loop.stack(rf.gather(memory, indices=rf.cast(loop.state.position, "int64"), axis=memory_dim))
        loop.state.position = loop.state.position + moves
    assert loop.state.position.raw_tensor.tolist() == [9.0, 8.0]
    assert seen.raw_tensor[1, 1] == memory.raw_tensor[1, 4]
