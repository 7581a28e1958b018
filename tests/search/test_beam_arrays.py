"""The steps of `rf.search.decode` for hypotheses that stay apart agree with those of `loop.choice`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.core.ground import backends
from rfnb.search.beam import BeamState, advance, advance_apart
from rfnb.search.rules import BeamRules

LABELS = 5


def both(
    seed: int, ends: tuple[int, ...], living: int, apart: int, most: int | None, exponent: float
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Labels, parents, scores and counts of the hypotheses after a step: by `advance`, and by `advance_apart`.

    Scores are few different numbers, so that many are equal; some hypotheses have ended, and some places have none.
    """
    random, size, backend = np.random.default_rng(seed), living + apart, backends.selected()
    scores = random.choice(np.array([-3, -2, -1, -np.inf], "float32"), (3, living, LABELS), p=[0.3, 0.3, 0.3, 0.1])
    base = random.choice(np.array([-4, -3, -np.inf], "float32"), (3, size), p=[0.4, 0.4, 0.2])
    ended = np.arange(size) >= living
    ended = np.stack([ended, ended, ended | (seed % 2 == 0)]) | (base == -np.inf)  # the last sequence may be over
    counts = random.integers(1, 4, (3, size)).astype("float32")
    rules = BeamRules(ends=ends, living=living, most_ended=most, exponent=exponent)
    batch, beam, label, after = (
        rf.Dim(n, name=name) for n, name in ((3, "batch"), (size, "beam"), (LABELS, "label"), (size, "after"))
    )
    wide = np.concatenate([scores, np.zeros((3, apart, LABELS), "float32")], axis=1)
    tensors = [rf.convert_to_tensor(torch.from_numpy(x), dims=[batch, beam]) for x in (base, counts, ended)]
    whole = rf.convert_to_tensor(torch.from_numpy(wide), dims=[batch, beam, label])
    expected = advance(BeamState(None, None, *tensors), whole, rules, axis=label, beam=beam, out_beam=after, count=4)
    made: Any = advance_apart(
        BeamState(None, None, base, counts, ended), torch.from_numpy(scores), rules, backend,
        is_end=np.isin(np.arange(LABELS), ends), places=size + 2, step=3, device=None,
    )  # fmt: skip
    parts = [part.copy_transpose([batch, after]).raw_tensor.numpy() for part in expected[:4]]
    return parts, [part[:, :size] for part in made[:4]]


@pytest.mark.parametrize("exponent", [0.0, 1.0])
@pytest.mark.parametrize("most", [None, 2])
@pytest.mark.parametrize(("ends", "living", "apart"), [((0,), 2, 2), ((1, 3), 2, 3), ((4,), 1, 2), ((0, 2), 3, 3)])
def test_hypotheses_apart_get_the_places_of_a_choice(
    ends: tuple[int, ...], living: int, apart: int, most: int | None, exponent: float
) -> None:
    for seed in range(25):
        expected, made = both(seed, ends, living, apart, most, exponent)
        there = expected[2] != -np.inf
        np.testing.assert_array_equal(made[2], expected[2])
        for part in (0, 1, 3):
            np.testing.assert_array_equal(made[part][there], expected[part][there], err_msg=f"seed {seed}")
