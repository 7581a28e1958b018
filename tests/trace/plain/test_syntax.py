"""Iterations and lines of loops are found in the bytecode of this version of Python."""

from __future__ import annotations

import pytest

from rfnb.trace.plain.syntax import outline
from tests.trace.plain.loop_cases import PROGRAMS, difference
from tests.trace.plain.programs import module


@pytest.mark.parametrize("name", PROGRAMS)
def test_iterations_and_lines_are_those_that_run(name):
    assert difference(name) is None


CARRIED = {
    "if t == 0:\n    h = 0\nelse:\n    h = h + 1": ["h"],
    "if t == 0:\n    h = 0\nh = h + 1": ["h"],
    "if t == 0:\n    h = 0\nelse:\n    h = 1\nh = h + 1": [],
    "h = 0\nif t:\n    h = h + 1": [],
    "if t:\n    h = 1\nh = 2\nx = h": [],
    "if t:\n    h = 1\nelif t > 3:\n    h = 2\nx = h": ["h"],
    "if h is None:\n    h = 1": ["h"],
}


@pytest.mark.parametrize("body", CARRIED)
def test_what_may_be_read_before_it_is_assigned_is_carried(body, tmp_path):
    text = "def loop(h):\n    for t in range(3):\n" + "".join(f"        {line}\n" for line in body.split("\n"))
    assert list(outline(module(text, tmp_path / "carried.py").loop.__code__).loops[0].carried) == CARRIED[body]
