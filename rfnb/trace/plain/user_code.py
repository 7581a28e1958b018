"""The user's code: the text it was compiled from, its files, and variables of modules that its functions assign."""

from __future__ import annotations
import __future__

import ast
import contextlib
import dis
import linecache
import os
import sys
import sysconfig
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from rfnb.core.ground.source import CELLS, MARIMO, PACKAGE, codes_in, parsed
from rfnb.trace.plain.containers import MISSING

NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
MOST_FILES = 8
"""Number of files whose syntax trees are kept."""


class ChangedText(Exception):
    """A file does not have the text any more that some code was compiled from."""


class Text:
    """A text with its functions and classes.

    Args:
        lines: of the text.
        file: where it is; compiled code is compared if it is a file that can change.
    """

    def __init__(self, lines: Sequence[str], file: str):
        self.lines, self._file = lines, file
        self._whole = "".join(lines)
        self._nodes = _nodes_of(self._whole) if lines else {}
        self._codes: dict[int, list[CodeType]] = {}  # by the flags that code which is executed has from other code

    def scope(self, code: CodeType) -> Any:
        """The node of a function or class, or of the whole text, that code was compiled from; None if there is none.

        Raises ChangedText if the file had another text then.
        """
        if self._nodes and not self._has(code):
            raise ChangedText(f"{os.path.basename(self._file)} has changed since its code was loaded: reload it")  # noqa: PTH119
        return self._nodes.get(_key(code))

    def _has(self, code: CodeType) -> bool:
        entry = linecache.cache.get(self._file, ())
        if len(entry) == 1 or entry[1:2] in ((), (None,)):
            return True  # such as a cell, whose text stays
        flags = code.co_flags & __future__.annotations.compiler_flag
        if flags not in self._codes:
            self._codes[flags] = [*_codes_of(self._whole, self._file, flags)]
        key = _key(code)
        candidates = (candidate for candidate in self._codes[flags] if _key(candidate) == key)
        return any(_is_same(code, candidate) for candidate in candidates) or _is_rewritten(code)


def text_of(code: CodeType) -> Text:
    """The text of the file or cell of code, as it is now."""
    file = code.co_filename
    linecache.checkcache(file)
    lines, text = linecache.getlines(file), _texts.get(file)
    if text is None or text.lines is not lines:
        if len(_texts) >= MOST_FILES:
            _texts.clear()
        text = _texts[file] = Text(lines, file)
    return text


_texts: dict[str, Text] = {}


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_name, 0 if code.co_name == "<module>" else code.co_firstlineno


def _nodes_of(text: str) -> Mapping[tuple[str, int], object]:
    """The functions and classes of a text by name and first line, and the whole."""
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError):
        return {}
    nodes: dict[tuple[str, int], object] = {("<module>", 0): tree}
    for node in ast.walk(tree):
        if isinstance(node, NAMED):
            nodes.setdefault((node.name, first_line(node)), node)
    return nodes


def first_line(statement: ast.stmt) -> int:
    """The first line of a statement, or of the decorators before it."""
    return min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])


def _codes_of(text: str, file: str, flags: int) -> Iterator[CodeType]:
    """The code of a text, and that of all functions and classes in it."""
    try:
        code = compile(text, file, "exec", flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return
    yield code
    yield from codes_in(code)


def _is_same(code: CodeType, candidate: CodeType) -> bool:
    """Whether two pieces of code have the same instructions, from the same lines and columns."""
    candidate = candidate.replace(co_flags=code.co_flags, co_filename=code.co_filename)  # a decorator may set flags
    return code == candidate and [*code.co_positions()] == [*candidate.co_positions()]


def _is_rewritten(code: CodeType) -> bool:
    """Whether a module was not compiled as its text is written: pytest rewrites `assert`, others add checks."""
    modules = (module for module in [*sys.modules.values()] if getattr(module, "__file__", None) == code.co_filename)
    loaders = [getattr(getattr(module, "__spec__", None), "loader", None) for module in modules]
    return any(loader is not None and type(loader) is not SourceFileLoader for loader in loaders)


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


@contextlib.contextmanager
def same_globals(words: Collection[str], names: dict[str, object], values: Mapping[str, object]) -> Iterator[None]:
    """Keeps the variables of modules that functions of the user assign: those of the loop's module, and of the modules
    of what the loop names.
    """
    tables = {id(table): table for table in (names, *map(_table_of, (*map(names.get, words), *values.values())))}
    variables = {(id(owner), name): owner for table in tables.values() for owner, name in _assigned(table)}
    originals = [(owner, name, owner.get(name, MISSING)) for (_, name), owner in variables.items()]
    try:
        yield
    finally:
        for owner, name, value in originals:
            if value is MISSING:
                owner.pop(name, None)
            else:
                owner[name] = value


def _table_of(value: object) -> dict[str, object]:
    """The variables of a module, or of that in which a function, or the class of an object, was made."""
    if type(value) is FunctionType:
        return value.__globals__
    kind = value if issubclass(type(value), type) else type(value)
    module = value if type(value) is ModuleType else sys.modules.get(kind.__module__)
    return {} if module is None else vars(module)


def _assigned(table: Mapping[str, object]) -> Iterator[tuple[dict[str, object], str]]:
    """The variables of modules that functions and methods of the user in a module assign."""
    for part in [*table.values()]:
        for function in vars(part).values() if issubclass(type(part), type) else (part,):
            if type(function) is FunctionType and is_yours(function.__code__.co_filename):
                for code in (function.__code__, *codes_in(function.__code__)):
                    for line in dis.get_instructions(code):
                        if line.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
                            yield function.__globals__, line.argval
