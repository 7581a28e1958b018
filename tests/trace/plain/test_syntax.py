"""Iterations and lines of loops are found in the bytecode of this version of Python."""

from __future__ import annotations

import pytest

from tests.trace.plain.loop_cases import PROGRAMS, difference


@pytest.mark.parametrize("name", PROGRAMS)
def test_iterations_and_lines_are_those_that_run(name):
    assert difference(name) is None
