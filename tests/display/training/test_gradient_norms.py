"""Norms of the gradients of any module, also of parameters without numbers."""

import math

import pytest
import torch

import rfnb as rf


@pytest.mark.parametrize(
    ("model", "reason"),
    [(torch.nn.LazyLinear(3), "no shape yet"), (torch.nn.Linear(2, 3, device="meta"), "on meta")],
)
def test_parameters_without_numbers_are_named(model, reason):
    whole = torch.nn.Sequential(torch.nn.Linear(2, 2), model)
    whole[0](torch.ones(1, 2)).sum().backward()
    norms = rf.gradient_norms(whole)
    assert norms.bad == {"1.weight": reason, "1.bias": reason}
    assert norms.total == pytest.approx(math.sqrt(4 + 2)) and set(norms.weights) == {"0.weight", "0.bias"}
    assert f"{reason}: 1.weight, 1.bias" in rf.show(norms).text and reason in rf.show(norms).html


def test_gradients_of_all_kinds_of_numbers():
    net = torch.nn.Linear(2, 3, dtype=torch.complex64)
    net(torch.ones(1, 2, dtype=torch.complex64)).real.sum().backward()
    assert rf.gradient_norms(net).total == pytest.approx(3)  # six weights, three biases
    table = torch.nn.Embedding(5, 3, sparse=True)
    table(torch.tensor([1, 2, 2])).sum().backward()
    assert rf.gradient_norms(table).total == pytest.approx(math.sqrt(3 * (1 + 4)))
