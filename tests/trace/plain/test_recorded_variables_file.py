"""Recorded loops of random programs in files: each value, mark and error of a loaded run is that of the run."""

from __future__ import annotations

import contextlib
import re
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, strategies as st

import rfnb as rf
from rfnb.errors import RfError
from rfnb.trace.run.variables import ABSENT
from tests.examples import examples
from tests.trace.plain.programs import module
from tests.trace.plain.test_recorder_forget import eager  # noqa: F401, a fixture

EXPRESSIONS = [
    "i", "-i", "i * 0.5", "i % 2 == 0", "float('nan')", "2**63 + i", "2**80", "1j", "None", "'ab'[i % 2]", "range(i)",
    "torch.ones(i % 2 + 1)", "torch.full((2,), i)", "torch.tensor(i % 2 == 0)", "torch.zeros(0)", "torch.tensor(i)",
    "torch.ones(2, dtype=torch.bfloat16) * i", "torch.complex(torch.ones(2), torch.ones(2))", "x", "y", "total", "len",
    "np.float64(i)", "np.int32(i)", "np.bool_(i)", "np.ones((2, 1)) * i", "np.array([None, i])", "np.complex64(i)",
    "[1.0, 0]", "[i, 2**63]", "[True, i]", "[i, i]", "[i, 2**80]", "(i, 0.5)", "[]", "()", "[None, i]", "Box(i)",
    "[np.float64(i)]", "[torch.ones(1), x]", "(x, y)", "{'a': i, 't': x}", "{(i, 1): 0.5, None: []}", "{1.0: [True]}",
    "{i}", "deque([i, 2])", "Point(i, 0.5)", "Record(i, x)", "torch.ones(i % 3, 1).shape", "[[i], [0.5, i]]",
]  # fmt: skip
STATEMENTS = [
    "{name} = {value}",
    "{name} = {value}; {name} = {other}",
    "if i % 3 == 1: {name} = {value}",
    "if i % 2: {name} = {value}\n        else: {name} = {other}",
    "for j in range(2):\n            if (i + j) % 2: {name} = {value}\n            else: {name} = {other}",
    "items.append({value})",
    "items.append({value}); items.append({other})",
    "items = [{value}] if i % 4 == 3 else items",
    "numbers.append(i)",
    "numbers.append({value})",
    "nested[i % 2].append(i)",
    "total = total + i",
    "if isinstance({name}, torch.Tensor): {name} += 1",
    "box.h = {value}",
    "box.items.append(i)",
    "h = torch.tanh(h + i)",
    "if i == 5: raise ValueError({value})",
]
HEAD = """from collections import deque, namedtuple
from dataclasses import dataclass

import numpy as np
import torch

Point = namedtuple("Point", ["x", "y"])


@dataclass
class Record:
    n: object
    h: object


class Box:
    def __init__(self, h):
        self.h, self.items = h, []


def program():
    x, y, h, total, given = None, torch.ones(2), torch.zeros(3), 0, {given}
    items, numbers, nested, box = [], [], [[], []], Box(0)
    for i in range({steps}):
        pass
"""

statements = st.builds(
    lambda statement, name, value, other: statement.format(name=name, value=value, other=other),
    st.sampled_from(STATEMENTS),
    st.sampled_from(["x", "y", "given", "late"]),
    st.sampled_from(EXPRESSIONS),
    st.sampled_from(EXPRESSIONS),
)


@st.composite
def texts(draw):
    """A program, which only reads variables that have a value."""
    head = HEAD.replace("{given}", draw(st.sampled_from(EXPRESSIONS[:11]).filter(lambda value: "i" not in value)))
    lines = draw(st.lists(statements, min_size=1, max_size=6))
    steps = str(draw(st.integers(1, 8)))
    return head.replace("{steps}", steps) + "".join(f"        {line}\n" for line in lines)


def plain(value):
    """A value that can be compared."""
    if isinstance(value, rf.Tensor):
        return "Tensor", [dim.name for dim in value.dims], plain(value.raw_tensor)
    if isinstance(value, torch.Tensor):
        return "torch", str(value.dtype), value.shape, value.detach().reshape(-1).tolist().__repr__()
    if isinstance(value, np.ndarray | np.generic):
        return type(value).__name__, str(value.dtype), value.shape, repr(value.tolist())
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(part) for part in value]
    if isinstance(value, dict):
        return "dict", [(plain(key), plain(part)) for key, part in value.items()]
    return type(value).__name__, str(value)


def said(read, *arguments):
    """The value, or the error."""
    try:
        return plain(read(*arguments))
    except (KeyError, RfError) as error:
        return plain(error)


def face(run):
    """All that a run says about its steps and variables."""
    replay, begun = run.replay, run.steps + (run.failed is not None)
    names = replay.variable_names()
    for step in range(begun):
        yield step, "values", [plain([*row]) for row in run[step].values()], run[step].texts(), run[step].check
        yield step, "lost", len(replay.lost(step)) > 0
        for name in names:
            yield step, name, said(run[step].__getitem__, name), said(partial(replay.variable, after=True), name, step)
            yield step, name, said(replay.state, name, step), said(replay.variable, name, step)
    for name in names:
        yield name, said(run.stack, name)
    yield names, run.states, run.flags, replay.forgotten, replay.kept_from


def assert_same(run, again):
    """What a file does not have says so: ranges, and numbers that torch does not have."""
    for ours, theirs in zip(face(run), face(again), strict=True):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert one == other or (ABSENT in str(other) and re.search("range|object", str((one, ours)))), (
                ours,
                theirs,
            )


def check(text):
    rf.runs.clear()
    with tempfile.TemporaryDirectory() as folder:
        program = module(text, Path(folder) / "random_program.py").program
        with rf.recording("all"), rf.record_loops(program), contextlib.suppress(Exception):
            program()
        for run in rf.runs:
            again = rf.load_run(run.save(Path(folder) / "x.rfrun"))
            assert_same(run, again)
            assert again.save(Path(folder) / "y.rfrun").read_bytes() == (Path(folder) / "x.rfrun").read_bytes()
    rf.runs.clear()


PHASES = [Phase.generate]
"""Without the explanation of a failure, which traces the lines that run."""


@given(texts())
@examples(40, phases=PHASES)
def test_a_loaded_run_says_what_the_run_says(text):
    check(text)


@given(texts())
@examples(25, phases=PHASES, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_loaded_run_of_which_steps_were_forgotten_says_the_same(eager, text):  # noqa: F811
    check(text)
