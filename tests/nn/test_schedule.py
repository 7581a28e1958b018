"""Values on lines between points."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf

POINTS = {0: 1.0, 10: 3.0, 20: 2.0}
finite = st.floats(-1000, 1000, width=32)


@given(st.dictionaries(st.integers(-1000, 1000), finite, min_size=1, max_size=5), st.lists(finite, max_size=6))
def test_it_is_that_of_numpy(points, xs):
    keys = sorted(points)
    entry = rf.Dim(len(xs), name="entry")
    x = rf.convert_to_tensor(np.array(xs, "float32"), dims=[entry])
    expected = np.interp(xs, keys, [points[key] for key in keys]) if xs else np.zeros(0)
    np.testing.assert_allclose(rf.PiecewiseLinear(points)(x).raw_tensor, expected, atol=1e-2, rtol=1e-4)


@pytest.mark.parametrize(
    ("x", "y"),
    [(-5, 1.0), (0, 1.0), (5, 2.0), (10, 3.0), (15.0, 2.5), (20, 2.0), (1e9, 2.0), (-np.inf, 1), (np.inf, 2)],
)
def test_numbers(x, y):
    found = rf.PiecewiseLinear(POINTS)(x)
    assert (found.item(), found.dims, found.dtype) == (y, (), "float32")
    assert rf.PiecewiseLinear(list(POINTS.items())[::-1])(x).item() == y


@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
def test_values_are_float32_whatever_the_numbers_are(dtype):
    with rf.set_default_float_dtype_ctx("float64"):
        found = rf.PiecewiseLinear(POINTS)(rf.convert_to_tensor(5, dtype=dtype))
    assert (found.item(), found.dtype) == (2.0, "float32")


def test_one_point():
    assert [rf.PiecewiseLinear({3: 7.0})(x).item() for x in (1, 3, 5)] == [7.0] * 3


@pytest.mark.parametrize("points", [{}, [], [(1, 2.0), (1, 3.0)]])
def test_points_that_are_none_are_told(points):
    with pytest.raises(rf.errors.ParameterError, match="one value for each x"):
        rf.PiecewiseLinear(points)


def test_gradients_are_the_slopes():
    raw = torch.tensor([-1.0, 5.0, 15.0, 25.0], requires_grad=True)
    y = rf.PiecewiseLinear(POINTS)(rf.convert_to_tensor(raw, dims=[rf.Dim(4, name="entry")]))
    y.raw_tensor.sum().backward()
    torch.testing.assert_close(raw.grad, torch.tensor([0.0, 0.2, -0.1, 0.0]))


def test_a_scheduler_takes_the_step_of_the_run():
    scheduler = rf.PiecewiseLinearStepwiseScheduler(POINTS)
    for step, value in [(0, 1.0), (5, 2.0), (100, 2.0), (rf.convert_to_tensor(15), 2.5)]:
        rf.init_train_step_run_ctx(step=step)
        assert scheduler().item() == value
        assert scheduler("anything", time=3).item() == value
    assert not list(rf.torch_parameters(scheduler))
