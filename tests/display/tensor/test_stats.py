"""Statistics compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.display.tensor import stats
from rfnb.display.tensor.value import describe_value


@pytest.mark.parametrize("entries", [2, 3, 32, 1000])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_a_histogram_is_that_of_numpy(entries, scale):
    values = np.random.default_rng(entries).normal(size=entries).round(1) * scale  # many lie on the edges of bins
    seen = stats._histogram(values, float(values.min()), float(values.max()))
    assert seen == np.histogram(values, bins=8)[0].tolist()
    assert stats._histogram(values, 1.0, 1.0) is None


@pytest.mark.parametrize(("last", "alarms"), [(0.0, []), (float("nan"), ["inf"]), (float("inf"), ["inf"])])
def test_a_large_tensor_is_masked_only_if_all_other_entries_are_finite(last, alarms):
    x = torch.zeros(300_000, 16)  # a sample is measured, and the first frames that are not finite
    x[:150_000, 0], x[-1, -1] = -torch.inf, last
    dims = [rf.Dim(size, name=name) for size, name in zip(x.shape, ("frames", "feat"), strict=True)]
    view = describe_value("x", rf.convert_to_tensor(x, dims=dims), at={}, pictures=False)
    assert view["alarms"] == alarms and ("−inf" in view["flags"]) == (not alarms)


def test_complex_numbers_are_shown_as_absolute_values():
    x = rf.convert_to_tensor(torch.tensor([3 + 4j, -1j]), dims=[rf.Dim(2, name="two")])
    assert describe_value("x", x, at={}, pictures=False)["text"] == "|5| |1|"


NUMBERS = st.sampled_from([0.0, 1.5, -2.0, float("inf"), -float("inf"), float("nan")])


@given(st.lists(NUMBERS, min_size=1, max_size=6))
def test_values_are_alarming_where_a_search_finds_them_not_finite(numbers):
    x = torch.zeros(())
    for _ in rf.steps(range(1), name="masked"):
        x = torch.tensor(numbers)  # noqa: F841
    run = rf.runs["masked"]
    view = describe_value("x", run[0].x, at={}, pictures=False)
    assert bool(view["alarms"]) == bool(run.find(rf.when.not_finite()))
    infinite = {number for number in numbers if not np.isfinite(number)}
    assert ("−inf" in view["flags"]) == (infinite == {-np.inf} and bool(np.isfinite(numbers).any()))


def test_a_tensor_of_five_axes_has_statistics():
    time, *static = rf.Dim(None, name="time"), *(rf.Dim(2, name=name) for name in "abc")
    x = rf.convert_to_tensor(np.arange(48.0).reshape(2, 3, 2, 2, 2), dims=[rf.batch_dim, time, *static], lengths=[3, 1])
    frames = np.append(np.arange(24.0), np.arange(24.0, 32.0))
    assert f"μ {frames.mean():.3g}" in repr(x)
