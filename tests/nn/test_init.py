"""Initial values have the distribution that their name promises."""

from __future__ import annotations

import math

import pytest
import torch

import rfnb as rf

IN, OUT = rf.Dim(200, name="in"), rf.Dim(300, name="out")


@pytest.fixture(autouse=True)
def seed():
    rf.set_random_seed(1)


@pytest.mark.parametrize(
    ("init", "variance"),
    [
        (rf.init.Glorot(), 2 / 500),
        (rf.init.He(), 2 / 200),
        (rf.init.HeUniform(), 2 / 200),
        (rf.init.VarianceScaling(), 1 / 200),
        (rf.init.VarianceScaling(3.0, "fan_out", "normal"), 3 / 300),
        (rf.init.Normal(0.1, truncated=False), 0.01),
        (rf.init.Normal(0.1), 0.01 * 0.87962566**2),
    ],
    ids=repr,
)
def test_variance(init, variance):
    values = init((IN, OUT), "float32").raw_tensor
    assert values.var().item() == pytest.approx(variance, rel=0.03)
    assert values.mean().item() == pytest.approx(0, abs=0.01 * math.sqrt(variance))


def test_uniform_has_sharp_limits():
    values = rf.init.Glorot()((IN, OUT), "float32").raw_tensor
    limit = math.sqrt(6 / 500)
    assert 0.99 * limit < values.abs().max() <= limit


@pytest.mark.parametrize("mode", ["fan_in", "fan_out"])
def test_the_fans_of_a_filter_are_those_of_torch(mode):
    sizes = [rf.Dim(3, name="wide"), rf.Dim(4, name="high")]
    values = rf.init.VarianceScaling(2.0, mode, "normal")((OUT, IN, *sizes), "float32").raw_tensor
    same = torch.nn.init.kaiming_normal_(torch.empty(values.shape), mode=mode, nonlinearity="relu")
    assert values.std().item() == pytest.approx(same.std().item(), rel=0.02)


def test_as_initial_value_of_a_parameter():
    weight = rf.Parameter([IN, OUT])
    weight.initial = rf.init.Normal(0.5)
    assert 0.4 < weight.raw_tensor.std().item() < 0.5
    assert weight.raw_tensor.abs().max().item() <= 1.0


def test_into_a_parameter():
    weight = rf.Parameter([IN, OUT])
    values = rf.init.Normal(0.5)((IN, OUT), "float32", out=weight)
    assert (weight.raw_tensor == values.raw_tensor).all()


def test_unknown_words_are_refused():
    with pytest.raises(rf.errors.ParameterError, match="unknown mode"):
        rf.init.VarianceScaling(mode="fan")
