"""The states of the generators that all code shares, which are read from memory as long as they stay the same."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from rfnb.trace.plain import generators
from rfnb.trace.plain.hidden_state import HiddenStateRecorder

CHANGES = {
    "random": lambda: random.random(),
    "gauss": lambda: random.gauss(0, 1),
    "the second of two normal numbers": lambda: random.gauss(0, 1),
    "a seed": lambda: random.seed(3),
    "rand": lambda: np.random.rand(),
    "randn": lambda: np.random.randn(),
    "the second of two of randn": lambda: np.random.randn(),
    "a seed of numpy": lambda: np.random.seed(4),
    "a state of numpy": lambda: np.random.set_state(np.random.RandomState(9).get_state()),
}


def states():
    return random.getstate(), generators.frozen(np.random.get_state(legacy=False))


def test_each_draw_and_each_seed_is_seen():
    for name, change in CHANGES.items():
        before = generators.other_numbers()
        assert generators.other_numbers() is before, name
        change()
        assert generators.other_numbers() == states() != before, name


def test_memory_is_read_here():
    assert generators._look() is not None and generators.torch_memory() is not None


DRAWS = {
    "rand": lambda: torch.rand(1),
    "randn": lambda: torch.randn(1),
    "the second of two of randn": lambda: torch.randn(1),
    "randn of doubles": lambda: torch.randn(1, dtype=torch.float64),
    "the second of two doubles": lambda: torch.randn(1, dtype=torch.float64),
    "many": lambda: torch.randn(5000),
    "dropout": lambda: torch.dropout(torch.ones(3), 0.5, True),
    "a permutation": lambda: torch.randperm(3),
    "a seed": lambda: torch.manual_seed(3),
    "a state": lambda: torch.set_rng_state(torch.Generator().manual_seed(8).get_state()),
}


def test_each_draw_from_torch_is_seen():
    torch.manual_seed(1)
    hidden = HiddenStateRecorder((lambda: None).__code__, {}, False, lambda size: None)
    for name, draw in DRAWS.items():
        before = hidden.numbers()
        assert hidden.numbers() is before, name
        draw()
        [words] = hidden.numbers().torch
        assert b"".join(words) == torch.get_rng_state().numpy().tobytes() != b"".join(before.torch[0]), name


@pytest.mark.parametrize("kind", ["PCG64", "Philox"])
def test_other_bit_generators_of_numpy(kind):
    own = np.random.get_bit_generator()
    try:
        np.random.set_bit_generator(getattr(np.random, kind)(3))
        before = generators.other_numbers()
        np.random.rand()
        assert generators.other_numbers() == states() != before
    finally:
        np.random.set_bit_generator(own)
    assert generators.other_numbers() == states()
