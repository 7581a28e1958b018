"""The types of results."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf

TWO = rf.Dim(2, name="two")
TRUTH = rf.convert_to_tensor(torch.tensor([True, False]), dims=[TWO])
WHOLE = rf.convert_to_tensor(torch.tensor([3, 4]), dims=[TWO])


@pytest.mark.parametrize(
    ("result", "dtype", "values"),
    [
        (TRUTH + 1, "int64", [2, 1]),
        (1 - TRUTH, "int64", [0, 1]),
        (TRUTH - 1, "int64", [0, -1]),
        (1.5 - TRUTH, "float32", [0.5, 1.5]),
        (WHOLE - TRUTH, "int64", [2, 4]),
        (WHOLE + 1.5, "float32", [4.5, 5.5]),
        (WHOLE + np.float64(1.5), "float32", [4.5, 5.5]),
        (WHOLE + np.int64(1), "int64", [4, 5]),
    ],
)
def test_numbers_beside_tensors(result, dtype, values):
    assert (result.dtype, result.raw_tensor.tolist()) == (dtype, values)
