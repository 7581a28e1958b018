"""The values of a step of plain Python by name: one look-up for attributes, expressions, searches and stacks."""

from __future__ import annotations

import numpy as np
import pytest

import rfnb as rf


@pytest.fixture(autouse=True)
def _no_runs():
    rf.runs.clear()
    yield
    rf.runs.clear()


def run_of(steps=4):
    [run] = rf.runs
    assert run.steps == steps
    return run


@pytest.mark.parametrize("words", ["a", "a + 1", "a[:2]", "a[::-1]", "np.log(a + 1)"])
def test_arrays_of_numpy_in_expressions(words):
    for t in rf.steps(range(4)):
        a = np.arange(3.0) + t
    run, expected = run_of(), [eval(words, {"a": np.arange(3.0) + t, "np": np}) for t in range(4)]
    assert [run[t].eval(words).numpy().tolist() for t in range(4)] == [value.tolist() for value in expected]
    assert run.stack(words).numpy().tolist() == np.stack(expected).tolist() and a[0] == 3
