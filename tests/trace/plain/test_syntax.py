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
    "if t:\n    h = 1\nelse:\n    continue\nx = h": [],
    "match t:\n    case 0:\n        h = 0\n    case _:\n        h = h + 1": ["h"],
    "match t:\n    case 0:\n        h = 0\n    case 1:\n        h = 1\nx = h": ["h"],
    "match t:\n    case 0:\n        h = 0\n    case other if h:\n        h = 1": ["h"],
    "match t:\n    case 0:\n        h = 0\n    case h:\n        pass\nx = h": [],
    "try:\n    h = 1 / t\nexcept ZeroDivisionError:\n    h = h + 1": ["h"],
    "try:\n    h = 1 / t\nexcept ZeroDivisionError:\n    pass\nx = h": ["h"],
    "try:\n    h = 1 / t\nexcept ZeroDivisionError:\n    h = 0\nx = h": [],
    "try:\n    h = 1 / t\nexcept ZeroDivisionError:\n    raise\nfinally:\n    h = h + 1": [],
    "try:\n    h = 1 / t\nexcept ZeroDivisionError as error:\n    h = str(error)": [],
}


@pytest.mark.parametrize("body", CARRIED)
def test_what_may_be_read_before_it_is_assigned_is_carried(body, tmp_path):
    text = "def loop(h):\n    for t in range(3):\n" + "".join(f"        {line}\n" for line in body.split("\n"))
    assert list(outline(module(text, tmp_path / "carried.py").loop.__code__).loops[0].carried) == CARRIED[body]


def test_a_statement_has_none_of_those_inside_it(tmp_path):
    text = """def loop(items):
    for item in items:
        try:
            match item:
                case {"a": first, **others} if len(others) > 0:
                    x = first
                case [*parts]:
                    y = parts
        except ValueError as error:
            z = 1
"""
    statements = outline(module(text, tmp_path / "inside.py").loop.__code__).statements
    assert {at.line: (at.end, {*at.assigned}) for at in statements} == {
        2: (2, {"item"}), 3: (3, {"error"}), 4: (4, {"first", "others", "parts"}), 6: (6, {"x"}), 8: (8, {"y"}),
        10: (10, {"z"}),
    }  # fmt: skip
