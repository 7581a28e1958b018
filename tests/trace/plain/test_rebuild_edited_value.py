"""What may replace the value of a variable of plain Python code."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.errors import DtypeError, LoopError
from rfnb.trace.plain.rebuild import edited_value
from tests.trace.plain.programs import equal

LONG = torch.zeros(2, dtype=torch.long)
TRUE = torch.tensor([True])


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (torch.zeros(2, 3), 1, torch.ones(2, 3)),
        (torch.zeros(2, 3), [1, 2, 3], torch.tensor([[1.0, 2.0, 3.0]] * 2)),
        (torch.zeros(2, 3).t(), torch.ones(3, 2, dtype=torch.float64), torch.ones(3, 2)),
        (torch.zeros(2, dtype=torch.half), 1.5, torch.full((2,), 1.5, dtype=torch.half)),
        (torch.zeros(2), True, torch.ones(2)),
        (torch.zeros(2), float("-inf"), torch.full((2,), float("-inf"))),
        (torch.zeros(()), np.float64(2), torch.tensor(2.0)),
        (LONG, [1, 2], torch.tensor([1, 2])),
        (TRUE, False, torch.tensor([False])),
        (np.zeros(3, np.int8), 5, np.full(3, 5, np.int8)),
        (np.zeros(3), torch.ones(3), np.ones(3)),
        (np.float32(1), 2, np.float32(2)),
        (3, 7, 7),
        (3, 5.0, 5),
        (3, torch.tensor(4), 4),
        (10**30, 10**31, 10**31),
        (3.0, 7, 7.0),
        (True, False, False),
        ("a", "b", "b"),
        ([1], [2, 3], [2, 3]),
        ([1, 2], torch.tensor([3.0, 4.0]), [3, 4]),
        ((1, 2.5), np.array([3, 4]), (3.0, 4.0)),
        ({"a": 1}, {}, {}),
        (None, 3, 3),
    ],
)
def test_a_value_that_fits_has_the_type_of_the_old_one(old, new, expected):
    assert equal(edited_value("x", old, new), expected)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (3, 2.5, DtypeError),
        (3, "a", LoopError),
        (True, 3, DtypeError),
        (1, torch.ones(2), LoopError),
        (torch.zeros(2), [1, 2, 3], LoopError),
        (torch.zeros(2), None, LoopError),
        (torch.zeros(2, dtype=torch.half), 1e9, DtypeError),
        (torch.zeros(2), 1j, DtypeError),
        (LONG, 1.5, DtypeError),
        (TRUE, 2, DtypeError),
        (np.zeros(3, np.int8), 500, DtypeError),
        ("a", 3, LoopError),
        ([1], 5, LoopError),
        ([1], torch.ones(2), LoopError),
        (["a"], torch.ones(1), LoopError),
    ],
)
def test_a_value_that_does_not_fit_is_refused(old, new, error):
    with pytest.raises(error, match="`x`"):
        edited_value("x", old, new)


def test_a_new_value_shares_no_memory():
    new, row = torch.ones(2), [[1]]
    edited_value("x", torch.zeros(2), new).add_(1)
    edited_value("x", [], row)[0].append(2)
    assert new.tolist() == [1, 1] and row == [[1]]


def test_a_tensor_of_rfnb_keeps_its_dims():
    a, b = rf.Dim(2, name="a"), rf.Dim(3, name="b")
    old = rf.zeros([a, b])
    assert edited_value("x", old, 2).raw_tensor.tolist() == [[2, 2, 2], [2, 2, 2]]
    new = edited_value("x", old, rf.convert_to_tensor([1.0, 2.0], dims=[a]))
    assert new.dims == (a, b) and new.raw_tensor.tolist() == [[1, 1, 1], [2, 2, 2]]
