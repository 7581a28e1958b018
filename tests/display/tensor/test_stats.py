"""Statistics compared with numpy."""

from __future__ import annotations

import numpy as np
import pytest

from rfnb.display.tensor import stats


@pytest.mark.parametrize("entries", [2, 3, 32, 1000])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_a_histogram_is_that_of_numpy(entries, scale):
    values = np.random.default_rng(entries).normal(size=entries).round(1) * scale  # many lie on the edges of bins
    seen = stats._histogram(values, float(values.min()), float(values.max()))
    assert seen == np.histogram(values, bins=8)[0].tolist()
    assert stats._histogram(values, 1.0, 1.0) is None
