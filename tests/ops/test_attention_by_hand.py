"""Causal attention written by hand, with a dim whose lengths grow along the frames."""

from __future__ import annotations

import math

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim

FEAT, HEADS = rf.Dim(8, name="feat"), rf.Dim(2, name="heads")
PER_HEAD = FEAT // HEADS


class ByHand(rf.Module):
    """Each frame attends to the frames up to itself."""

    def __init__(self):
        self.q, self.k, self.v = (rf.Linear(FEAT, FEAT, with_bias=False) for _ in range(3))

    def __call__(self, x: rf.Tensor, time: rf.Dim) -> tuple[rf.Tensor, rf.Tensor]:
        q, k, v = (rf.split_dims(part(x), axis=FEAT, dims=[HEADS, PER_HEAD]) for part in (self.q, self.k, self.v))
        hist = rf.Dim(rf.range_over_dim(time) + 1, name="hist")
        k, _ = rf.replace_dim(k, in_dim=time, out_dim=hist)
        v, _ = rf.replace_dim(v, in_dim=time, out_dim=hist)
        energy = rf.matmul(q, k, reduce=PER_HEAD) * (1 / math.sqrt(PER_HEAD.dimension))
        weights = rf.softmax(energy, axis=hist)
        context = rf.matmul(weights, v, reduce=hist)
        return rf.merge_dims(context, dims=[HEADS, PER_HEAD], out_dim=FEAT)[0], weights


def expected(model: ByHand, x: torch.Tensor) -> torch.Tensor:
    """The same for one sequence [time, feat], in torch."""
    parts = (part.weight.raw_tensor for part in (model.q, model.k, model.v))
    q, k, v = ((x @ weight).unflatten(-1, (2, 4)).transpose(0, 1) for weight in parts)
    found = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return found.transpose(0, 1).flatten(-2)


@pytest.mark.parametrize("lengths", [[5, 3, 1], [4, 4, 4], [2, 0, 3]])
def test_each_sequence_is_as_in_torch(lengths):
    time, model = rf.Dim(None, name="time"), ByHand()
    raw = torch.randn(3, max(lengths), 8, requires_grad=True)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, FEAT], lengths=lengths)
    y, weights = model(x, time)
    assert y.dims_set == x.dims_set and {dim.name for dim in weights.dims} == {"batch", "heads", "time", "hist"}
    y = y.copy_transpose(x.dims).copy_masked(0.0)
    alone = [expected(model, raw[i, :n]) for i, n in enumerate(lengths)]
    for i, (n, one) in enumerate(zip(lengths, alone, strict=True)):
        torch.testing.assert_close(y.raw_tensor[i, :n], one)
    wanted = [raw, *(part.weight.raw_tensor for part in (model.q, model.k, model.v))]
    found = torch.autograd.grad(y.raw_tensor.square().sum(), wanted)
    gradients = torch.autograd.grad(sum(one.square().sum() for one in alone), wanted)
    for one, other in zip(found, gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_a_time_of_fixed_size_and_a_new_batch():
    time, model = rf.Dim(4, name="time"), ByHand()
    x = rf.convert_to_tensor(torch.randn(4, 8), dims=[time, FEAT])
    y, weights = model(x, time)
    torch.testing.assert_close(y.copy_transpose(x.dims).raw_tensor, expected(model, x.raw_tensor))
    upper = weights.raw_tensor.triu(1)
    assert upper.shape[-2:] == (4, 4) and not upper.any()
    time = rf.Dim(None, name="time")
    for lengths in ([3, 2], [1, 5, 4]):
        x = rf.convert_to_tensor(
            torch.randn(len(lengths), max(lengths), 8), dims=[batch_dim, time, FEAT], lengths=lengths
        )
        last = model(x, time)[0].copy_transpose(x.dims).raw_tensor[-1, : lengths[-1]]
        torch.testing.assert_close(last, expected(model, x.raw_tensor[-1, : lengths[-1]]))
