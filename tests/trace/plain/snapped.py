"""The truth about loops as they are written: copies of the variables at the beginning of each iteration.

`snapped` compiles a module once more, with a call in each loop that copies the local variables.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
from collections import defaultdict, deque
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np
import torch

from rfnb.trace.plain.recorder import Entry, Iterations
from rfnb.trace.plain.values import Kept, Opaque, Parts, Summary

ANY = object()
"""Stands for a value that is not compared: of an object, or one that is marked as lost."""
ATOMS = (type(None), bool, int, float, complex, str, bytes)


def normal(value: Any) -> Any:
    """A value as tuples, lists and bytes; ANY for objects."""
    if isinstance(value, torch.Tensor | np.ndarray):
        array = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
        return type(value).__name__, str(array.dtype), array.shape, array.tobytes()
    if isinstance(value, ATOMS):
        return type(value).__name__, repr(value)
    if isinstance(value, list | tuple | deque | set | frozenset):
        return [normal(item) for item in value]
    if isinstance(value, dict):
        return [str(key) for key in value], [normal(item) for item in value.values()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = vars(value)
        return [*inside], [normal(item) for item in inside.values()]
    return ANY


def normal_kept(value: Any) -> Any:
    """The same for a value that was recorded; ANY where it is marked as lost."""
    if isinstance(value, Kept):
        return ANY if value.changed() or value.note else normal_kept(value.value)
    if isinstance(value, Parts):
        items = [normal_kept(item) for item in value.items]
        return items if value.keys is None or issubclass(value.kind, tuple) else ([*map(str, value.keys)], items)
    return ANY if isinstance(value, Opaque | Summary) else normal(value)


def is_equal(a: Any, b: Any) -> bool:
    """Whether two normal values are the same, or one of them is not compared."""
    if a is ANY or b is ANY:
        return True
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(is_equal, a, b))
    return bool(a == b)


class Copies:
    """Takes copies of the variables of frames. frames: for each, what it copied, with the line of the loop."""

    def __init__(self) -> None:
        self.frames: dict[FrameType, list[tuple[int, dict[str, Any]]]] = {}
        self.recursive: set[str] = set()  # functions that call themselves

    def __call__(self, line: int, names: dict[str, Any]) -> None:
        frame = sys._getframe(1)
        if frame not in self.frames:
            self.frames[frame] = []
            around = frame.f_back
            while around is not None:
                if around.f_code is frame.f_code:
                    self.recursive.add(frame.f_code.co_name)
                around = around.f_back
        self.frames[frame].append((line, {name: normal(value) for name, value in names.items()}))


def snapped(module: ModuleType) -> tuple[ModuleType, Copies]:
    """The module, with copies taken by the loops in its functions."""
    tree, copies = ast.parse(inspect.getsource(module)), Copies()
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            node.body.insert(0, ast.parse(f"__copies({node.lineno}, dict(locals()))").body[0])
    again = ModuleType(module.__name__)
    again.__dict__["__copies"], again.__file__ = copies, module.__file__
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = again  # dataclasses look there
    try:
        exec(compile(ast.fix_missing_locations(tree), "snapped", "exec"), again.__dict__)
    finally:
        sys.modules[module.__name__] = before or module
    return again, copies


class All:
    """A client that wants all loops of a file."""

    def __init__(self, file: str):
        self._file = file
        self.loops: list[Iterations] = []
        self.done = self.loops.append

    def chooses(self, code: CodeType) -> bool:
        return code.co_filename == self._file

    def wants(self, *_: Any) -> bool:
        return True

    def name(self, *_: Any) -> None:
        return None

    def left(self) -> None:
        pass


def check(loops: list[Iterations], copies: Copies) -> int:
    """Each iteration has the values that were copied. Returns how many values were compared."""
    checked = 0
    expected: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for frame, taken in copies.frames.items():
        expected[frame.f_code.co_name] += taken
    for name in expected.keys() - copies.recursive:
        own = [loop for loop in loops if loop.code.co_name == name]
        logs = list(dict.fromkeys(id(loop.log) for loop in own))
        steps = sorted(
            ((loop, step) for loop in own for step in range(len(loop.starts))),
            key=lambda at: (logs.index(id(at[0].log)), at[0].ran[at[1]], len(at[0].text.around)),
        )
        assert [loop.text.first for loop, _ in steps] == [line for line, _ in expected[name]], name
        states = {id(loop): before(loop) for loop in own}
        for (loop, step), (_, names) in zip(steps, expected[name], strict=True):
            for variable, value in states[id(loop)][step].items():
                if variable in names and variable not in targets(loop):
                    where = (name, loop.text.header, step, variable, value, names[variable])
                    assert is_equal(value, names[variable]), where
                    checked += value is not ANY and names[variable] is not ANY
    return checked


def before(loop: Iterations) -> list[dict[str, Any]]:
    """The variables at the beginning of each iteration."""
    names = {entry.name: _of_entry(entry) for entry in loop.initial}
    states = []
    for step in range(len(loop.starts)):
        states.append(dict(names))
        names |= {entry.name: _of_entry(entry) for entry in loop.entries(step)}
    return states


def targets(loop: Iterations) -> set[str]:
    """The variables that the header assigns."""
    return set(loop.outline.statements[next(s for s, n in loop.outline.headers.items() if n == loop.number)].assigned)


def _of_entry(entry: Entry) -> Any:
    return normal_kept(entry.value if entry.version is None else Kept.of_raw(entry.value, entry.version))
