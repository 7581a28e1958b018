"""The user's code: which files it is in, and the variables of modules that its functions assign."""

from __future__ import annotations

import contextlib
import dis
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from rfnb.core.ground.source import CELLS, MARIMO, PACKAGE
from rfnb.trace.plain.containers import MISSING


@cache
def _installed() -> tuple[str, ...]:
    """The folders of the standard library and of installed packages."""
    paths = sysconfig.get_paths()
    return tuple(str(Path(paths[name])) + "/" for name in ("stdlib", "platstdlib", "purelib", "platlib"))


def is_yours(file: str) -> bool:
    """Whether a file is the user's: a cell, or a file outside of installed packages."""
    if file in CELLS or MARIMO.fullmatch(file.rpartition("/")[2]):
        return True
    if file.startswith("<") and not file.startswith(("<doctest", "<ipython-input-")):
        return False
    return not file.startswith((PACKAGE, *_installed())) and "/site-packages/" not in file


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code of functions and classes in a code object."""
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from codes_in(part)


@contextlib.contextmanager
def same_globals(words: Collection[str], names: dict[str, Any], values: Mapping[str, Any]) -> Iterator[None]:
    """Keeps the variables of modules that functions of the user assign: those of the loop's module, and of the modules
    of what the loop names.
    """
    tables = {id(table): table for table in (names, *map(_table_of, (*map(names.get, words), *values.values())))}
    variables = {(id(owner), name): owner for table in tables.values() for owner, name in _assigned(table)}
    before = [(owner, name, owner.get(name, MISSING)) for (_, name), owner in variables.items()]
    try:
        yield
    finally:
        for owner, name, value in before:
            if value is MISSING:
                owner.pop(name, None)
            else:
                owner[name] = value


def _table_of(value: Any) -> dict[str, Any]:
    """The variables of a module, or of that in which a function, or the class of an object, was made."""
    if type(value) is FunctionType:
        return value.__globals__
    kind = value if issubclass(type(value), type) else type(value)
    module = value if type(value) is ModuleType else sys.modules.get(kind.__module__)
    return {} if module is None else vars(module)


def _assigned(table: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The variables of modules that functions and methods of the user in a module assign."""
    for part in [*table.values()]:
        for function in vars(part).values() if issubclass(type(part), type) else (part,):
            if type(function) is FunctionType and is_yours(function.__code__.co_filename):
                for code in (function.__code__, *codes_in(function.__code__)):
                    for line in dis.get_instructions(code):
                        if line.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                            yield function.__globals__, line.argval
