"""The truth about loops as they are written: copies of the variables at the beginning of each iteration.

`snapped` compiles a module once more, and `swapped` functions, with a call in each loop that copies local variables.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch

from rfnb.trace.plain.iterations import Iterations
from rfnb.trace.plain.log import Entry, Summary
from rfnb.trace.plain.recorder import Client
from rfnb.trace.plain.values import Kept, Opaque, Parts

ANY = object()
"""Stands for a value that is not compared: of an object, or one that is marked as lost."""
ATOMS = (type(None), bool, int, float, complex, str, bytes)


def normal(value: Any) -> Any:
    """A value as tuples, lists and bytes; ANY for objects."""
    if isinstance(value, torch.Tensor | np.ndarray):
        array = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
        return isinstance(value, torch.Tensor), str(array.dtype), array.shape, array.tobytes()
    if isinstance(value, ATOMS):
        return type(value).__name__, repr(value)
    if isinstance(value, list | tuple | deque | set | frozenset):
        return [normal(item) for item in value]
    if isinstance(value, dict):
        return [_key(key) for key in value], [normal(item) for item in value.values()]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inside = vars(value)
        return [*inside], [normal(item) for item in inside.values()]
    return ANY


def _key(key: Any) -> str:
    """The name of a key of a dict; of an object, its class."""
    return str(key) if isinstance(key, (*ATOMS, tuple)) and not re.search(r" [0-9a-f]{9,}$", str(key)) else "object"


def normal_kept(value: Any) -> Any:
    """The same for a value that was recorded; ANY where it is marked as lost."""
    if isinstance(value, Kept):
        return ANY if value.changed() or value.note else normal_kept(value.value)
    if isinstance(value, Parts):
        items = [normal_kept(item) for item in value.items]
        return items if value.keys is None or issubclass(value.kind, tuple) else ([*map(_key, value.keys)], items)
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
        self.recursive: set[tuple[str, int]] = set()  # functions that call themselves

    def __call__(self, line: int, names: dict[str, Any]) -> None:
        frame = sys._getframe(1)
        if frame not in self.frames:
            self.frames[frame] = []
            around = frame.f_back
            while around is not None:
                if around.f_code is frame.f_code:
                    self.recursive.add(key_of(frame.f_code))
                around = around.f_back
        self.frames[frame].append((line, {name: normal(value) for name, value in names.items()}))


def snapped(module: ModuleType) -> tuple[ModuleType, Copies]:
    """The module, with copies taken by the loops in its functions."""
    copies = Copies()
    again = ModuleType(module.__name__)
    again.__dict__["COPIES"], again.__file__ = copies, module.__file__
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = again  # dataclasses look there
    try:
        exec(compile(_with_copies(inspect.getsource(module)), "snapped", "exec"), again.__dict__)
    finally:
        sys.modules[module.__name__] = before or module
    return again, copies


@contextmanager
def swapped(functions: Sequence[Any]) -> Iterator[Copies]:
    """Copies are taken by the loops of functions while the block runs, in place of their code."""
    copies, before = Copies(), {}
    for function in map(_function, functions):
        file = function.__code__.co_filename
        code = _same_function(compile(_with_copies(Path(file).read_text(encoding="utf-8")), file, "exec"), function)
        before[function] = function.__code__
        function.__code__ = code
        function.__globals__["COPIES"] = copies
    try:
        yield copies
    finally:
        for function, code in before.items():
            function.__code__ = code
            del function.__globals__["COPIES"]


def _function(function: Any) -> FunctionType:
    made = inspect.unwrap(getattr(function, "__func__", function))
    assert isinstance(made, FunctionType)
    return made


def _same_function(code: CodeType, function: FunctionType) -> CodeType:
    """The code of a function in that of its file."""
    own, inside = function.__code__, [code]
    while inside:
        code = inside.pop()
        if key_of(code) == key_of(own):
            return code
        inside += [const for const in code.co_consts if isinstance(const, CodeType)]
    raise AssertionError(function)


def _with_copies(text: str) -> ast.Module:
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            node.body.insert(0, ast.parse(f"COPIES({node.lineno}, dict(locals()))").body[0])
    return ast.fix_missing_locations(tree)


class All(Client):
    """A client that wants all loops of files."""

    def __init__(self, *files: str):
        self._files = files
        self.loops: list[Iterations] = []

    def chooses(self, code: CodeType) -> bool:
        return code.co_filename in self._files

    def done(self, loop: Iterations) -> None:
        self.loops.append(loop)


def key_of(code: CodeType) -> tuple[str, int]:
    """What is the same for a function and for its copy."""
    return code.co_name, code.co_firstlineno


def check(loops: list[Iterations], copies: Copies, unset: Collection[str] = ()) -> int:
    """Each iteration has the values that were copied. Returns how many values were compared.

    unset: variables that are not compared, as their memory was not set.
    """
    checked = 0
    expected: dict[tuple[str, int], list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    for frame, taken in copies.frames.items():
        expected[key_of(frame.f_code)] += taken
    for name in expected.keys() - copies.recursive:
        own = [loop for loop in loops if key_of(loop.code) == name]
        logs = list(dict.fromkeys(id(loop.log) for loop in own))
        steps = sorted(
            ((loop, step) for loop in own for step in range(len(loop.starts))),
            key=lambda at: (logs.index(id(at[0].log)), at[0].ran[at[1]], len(at[0].text.around)),
        )
        assert [loop.text.first for loop, _ in steps] == [line for line, _ in expected[name]], name
        states = {id(loop): before(loop) for loop in own}
        for (loop, step), (_, names) in zip(steps, expected[name], strict=True):
            for variable, value in states[id(loop)][step].items():
                if variable in names and variable not in {*targets(loop), *unset}:
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
