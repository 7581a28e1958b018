"""`torch.compile` of a function that makes lengths: it may compile in pieces, but gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import rfnb as rf
from rfnb import Dim, batch_dim

FEAT, TIME = Dim(4, name="feat"), Dim(None, name="time")

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, about what it does not compile


def given(raw: torch.Tensor) -> torch.Tensor:
    x = rf.convert_to_tensor(raw, dims=[batch_dim, TIME, FEAT], lengths=[raw.shape[1], 2])
    return rf.softmax(x, axis=TIME).raw_tensor


def of_a_new_dim(raw: torch.Tensor) -> torch.Tensor:
    time = Dim([raw.shape[1], 2], name="time")
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, FEAT])
    return rf.reduce_mean(x, axis=time).raw_tensor


def computed(raw: torch.Tensor) -> torch.Tensor:
    x = rf.convert_to_tensor(raw, dims=[batch_dim, TIME, FEAT], lengths=torch.tensor([raw.shape[1], 2]))
    y, pooled = rf.max_pool1d(x, pool_size=2, padding="same", in_spatial_dim=TIME)
    joined, both = rf.concat((x, TIME), (y, pooled))
    return rf.reduce_sum(joined, axis=both).raw_tensor


def over_steps(raw: torch.Tensor) -> torch.Tensor:
    x = rf.convert_to_tensor(raw, dims=[batch_dim, TIME, FEAT], lengths=[raw.shape[1], 2])
    loop = rf.Loop(axis=TIME)
    loop.state.h = rf.zeros([batch_dim, FEAT])
    with loop:
        loop.state.h = rf.tanh(loop.state.h * 0.5 + loop.unstack(x))
        ys = loop.stack(loop.state.h)
    return rf.reduce_sum(ys, axis=TIME).raw_tensor


@pytest.mark.slow
@pytest.mark.parametrize("fn", [given, of_a_new_dim, computed, over_steps])
def test_the_same_numbers_and_gradients(fn: Callable[[torch.Tensor], torch.Tensor]):
    torch._dynamo.reset()
    compiled = torch.compile(fn, backend="eager")  # a compiler of C++ may be missing
    for frames in (5, 6, 3):
        raw = torch.randn(2, frames, 4, requires_grad=True)
        expected, found = fn(raw), compiled(raw)
        torch.testing.assert_close(found, expected)
        weights = torch.randn_like(expected)
        torch.testing.assert_close(*(torch.autograd.grad((y * weights).sum(), raw)[0] for y in (found, expected)))
