"""Places in the user's code: a code object and an instruction, resolved to cell, line and name only when needed.

`steps_of` finds them in the frames of an error: which are the user's, which are rfnb's, and which belong to neither.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import linecache
import os
import re
import sys
import sysconfig
import threading
import warnings
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Generic, NamedTuple, TypeVar

from rfnb.errors import LoopWarning
from rfnb.printable import terminal_text

T = TypeVar("T")
PACKAGE = str(Path(__file__).parents[2]) + "/"


class CodeSpan(NamedTuple):
    """A range of source text. Lines are 1-based, columns 0-based, as in `ast`."""

    line: int
    end_line: int
    col: int
    end_col: int


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """A notebook cell, with the text that was run."""

    number: int
    cell_id: str | None
    text: str

    @property
    def skipped_lines(self) -> int:
        """Leading blank lines, which IPython drops before it compiles a cell."""
        return len(self.text) - len(self.text.lstrip("\n"))


CELLS: dict[str, NotebookCell] = {}
"""The notebook cells that ran, by the file name under which IPython compiled them."""

MARIMO = re.compile(r"__marimo__cell_(.+)_(?:\.py)?")
"""The names of the files under which marimo compiles its cells, with the id of the cell."""
LISTED: dict[str, str] = {}
"""What texts that are in no file are called, by the file name that stands for them."""


LAYERS: weakref.WeakKeyDictionary[CodeType, Mapping[int, str]] = weakref.WeakKeyDictionary()
"""By code that stands for the lines of a net dict, the names of its layers by line."""


def codes_in(code: CodeType) -> Iterator[CodeType]:
    """The code of functions and classes in a code object."""
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield part
            yield from codes_in(part)


def words_of(code: CodeType) -> Iterator[str]:
    """The names that some code has, and the functions in it, but for local variables."""
    return (word for part in (code, *codes_in(code)) for word in part.co_names)


class Source(NamedTuple):
    """A place in the user's code. Cheap to take; line and text are resolved only when they are read."""

    code: CodeType
    lasti: int

    @property
    def file(self) -> str:
        """The file name under which the code was compiled."""
        return self.code.co_filename

    @property
    def cell(self) -> NotebookCell | None:
        """The notebook cell of this place; None if it is not in one."""
        return CELLS.get(self.code.co_filename)

    @property
    def span(self) -> CodeSpan:
        """The range of the expression, in lines of the compiled text."""
        return _spans[self]

    @property
    def line(self) -> int:
        """The line number in the file, or in the cell as the user sees it."""
        return self.span.line + (self.cell.skipped_lines if self.cell else 0)

    @property
    def layer(self) -> str | None:
        """The name of the layer of a net dict that this line describes; None if it describes none."""
        return LAYERS.get(self.code, {}).get(self.line)

    def place(self) -> str:
        """The place as text: "cell 4, line 2" or "model.py:31"."""
        if self.cell is not None:
            return f"cell {self.cell.number}, line {self.line}"
        if self.file in LISTED:
            return f"{LISTED[self.file]}, line {self.line}"
        name = os.path.basename(self.file)  # noqa: PTH119
        marimo = MARIMO.fullmatch(name)
        return f"{name}:{self.line}" if marimo is None else f"cell {marimo[1]}, line {self.line}"

    def text(self) -> str:
        """The source text of the expression, shortened; its first line, if it spans several."""
        line, span = linecache.getline(self.file, self.span.line), self.span
        if span.end_line == span.line and span.end_col > span.col:
            line = line.encode()[span.col : span.end_col].decode()  # columns count bytes
        text = line.strip()
        return text if len(text) <= 80 else text[:79] + "…"

    def syntax(self) -> ast.AST | None:
        """The parsed expression or statement; None if the source text is no longer available."""
        first, last, col, end_col = self.span
        lines = [linecache.getline(self.file, number).encode() for number in range(first, last + 1)]
        lines[-1] = lines[-1][:end_col] if end_col else lines[-1]
        text = b"".join([lines[0][col:], *lines[1:]]).decode(errors="replace").strip()
        for form in (f"({text})", text):
            try:
                statement = parsed(form).body[0]
            except (SyntaxError, ValueError, IndexError):
                continue
            return statement.value if isinstance(statement, ast.Expr) else statement
        return None

    def names(self) -> tuple[str, ...]:
        """The names of the values made here: `a, b = f(x)` gives ("a", "b"), `loop.state.h = …` gives ("h",).

        This is the one rule for what a value is called, in runs, views, checks, errors and graphs alike.
        """
        return _names_at[self]

    def name(self, output: int = 0, outputs: int = 1) -> str | None:
        """The name of one of several outputs of an op here; None if the line does not name each of them."""
        names = self.names()
        return names[output] if len(names) == outputs else None


class PerPlace(Generic[T]):
    """A cache with one entry for each place in the user's code, made on first use and kept while the code exists.

    Keyed by the identity of the code, not by equality: a cell that is run again is a different place.
    """

    def __init__(self, make: Callable[[Source], T]):
        self._make = make
        self._made: dict[int, tuple[weakref.ref[CodeType], dict[int, T]]] = {}  # by id of the code, and `lasti`

    def __getitem__(self, source: Source) -> T:
        values = self._of_code(source.code)
        if source.lasti not in values:
            values[source.lasti] = self._make(source)
        return values[source.lasti]

    def __setitem__(self, source: Source, made: T) -> None:
        self._of_code(source.code)[source.lasti] = made

    def _of_code(self, code: CodeType) -> dict[int, T]:
        key = id(code)
        if key not in self._made:
            self._made[key] = weakref.ref(code, lambda _: self._made.pop(key, None)), {}
        return self._made[key][1]


def user_frame(start: FrameType | None = None) -> FrameType | None:
    """The innermost frame outside rfnb."""
    frame: FrameType | None = start or sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame


def line_of_user() -> Source | None:
    """The place in the user's own code, and not in an installed package that it called, that is running now."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code):
        frame = frame.f_back
    return None if frame is None else Source(frame.f_code, frame.f_lasti)


def user_source(depth: int = 1) -> Source | None:
    """The place in the user's code that is running now, `depth` calls up or more: a frame takes time to look at."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return None if frame is None else tuple.__new__(Source, (frame.f_code, frame.f_lasti))


def assigned_name() -> str | None:
    """The name that the user's code is assigning to now; None if there is none, or more than one."""
    frame = user_frame(sys._getframe(1))
    return None if frame is None else Source(frame.f_code, frame.f_lasti).name()


def public_function() -> str:
    """The name of the rfnb function that the user's code called. For messages only: it walks the stack."""
    frame: FrameType | None = sys._getframe(1)
    outermost = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith((PACKAGE, contextlib.__file__)):
        outermost = frame if frame.f_code.co_filename.startswith(PACKAGE) else outermost
        frame = frame.f_back
    owner = type(locals_of(outermost)["self"]).__name__ if outermost.f_code.co_name == "__init__" else None
    return owner or op_name(outermost) or outermost.f_code.co_name.replace("<lambda>", "operator")


def op_name(frame: FrameType) -> str | None:
    """The name of the op whose wrapper a frame runs; None for other functions."""
    names = locals_of(frame)
    row = names.get("_op_row") or names.get("row")
    if row is not None:
        return str(row.name)
    return names.get("name") if frame.f_code.co_name == "call" else None


def frame_of(code: CodeType) -> FrameType | None:
    """The innermost frame that runs `code`."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame


def source_in(file: str) -> Source | None:
    """The innermost place in `file` that is running."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != file:
        frame = frame.f_back
    return None if frame is None else Source(frame.f_code, frame.f_lasti)


def locals_of(frame: FrameType) -> dict[str, Any]:
    """The local variables of a frame by name."""
    snapshot = frame.f_locals
    variables = dict(snapshot)
    if type(snapshot) is dict and frame.f_code.co_flags & inspect.CO_NEWLOCALS:
        snapshot.clear()  # until Python 3.12 the frame keeps this copy, and with it everything the variables held
    return variables


def _span_at(source: Source) -> CodeSpan:
    line, end_line, col, end_col = next(islice(source.code.co_positions(), source.lasti // 2, None))
    start = source.code.co_firstlineno
    return CodeSpan(line or start, end_line or line or start, col or 0, end_col or 0)


_spans = PerPlace(_span_at)
_names_at = PerPlace(lambda source: _assignments(source.file).get(source.span, ()))
_parsed: dict[str, tuple[list[str], dict[CodeSpan, tuple[str, ...]]]] = {}


def _assignments(file: str) -> dict[CodeSpan, tuple[str, ...]]:
    """The assigned names, by the place of the assigned expression. A file whose lines have changed is parsed again."""
    lines = linecache.getlines(file)
    entry = _parsed.get(file)
    if entry is None or entry[0] is not lines:
        if len(_parsed) >= 64:
            _parsed.clear()
        entry = _parsed[file] = (lines, _targets("".join(lines)))
    return entry[1]


def parsed(text: str) -> ast.Module:
    """The syntax tree of a text. One thread at a time: CPython 3.11 counts the depth of trees for all threads together,
    and raises SystemError if another thread parses during a garbage collection."""
    with _parsing:
        return ast.parse(text)


_parsing = threading.RLock()


def _new_lock() -> None:
    """In a forked process, no thread is left that would release the lock."""
    global _parsing
    _parsing = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_lock)


def _targets(text: str) -> dict[CodeSpan, tuple[str, ...]]:
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError):
        return {}
    names: dict[CodeSpan, tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            names |= _named(node.targets[0], node.value)
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr) and node.value is not None:
            names |= _named(node.target, node.value)
        elif isinstance(node, ast.AugAssign):
            names[_span(node)] = _names(node.target)
    return names


def _named(target: ast.expr, value: ast.expr) -> dict[CodeSpan, tuple[str, ...]]:
    """The names of an assigned value; `a, b = f(x), g(x)` names the parts as well."""
    names = {_span(value): _names(target)}
    targets, values = (part.elts if isinstance(part, _SEVERAL) else [] for part in (target, value))
    starred = any(isinstance(part, ast.Starred) for part in (*targets, *values))
    if len(targets) == len(values) and not starred:
        for pair in zip(targets, values, strict=True):
            names |= _named(*pair)
    return names


_SEVERAL = (ast.Tuple, ast.List)


def _span(node: Any) -> CodeSpan:
    return CodeSpan(node.lineno, node.end_lineno, node.col_offset, node.end_col_offset)


def _names(target: ast.expr) -> tuple[str, ...]:
    parts = target.elts if isinstance(target, _SEVERAL) else [target]
    return tuple(value_name(ast.unparse(part)) for part in parts)


def value_name(target: str) -> str:
    """The name of a value that is assigned to `target`: that of a state of a loop, else the target as it is written.

    >>> [value_name(target) for target in ("att", "self.weight", "loop.state.h", "self.loop.state.dec.h")]
    ['att', 'self.weight', 'h', 'dec.h']
    """
    return re.sub(r"^.+?\.state\.", "", target)


@dataclass(frozen=True, slots=True)
class Block:
    """The source lines of a `with` block, in a file or a cell."""

    file: str | None
    cell_id: str | None
    cell_text: str | None
    first_line: int
    lines: tuple[str, ...]


NO_BLOCK = Block(None, None, None, 1, ())


def with_block(source: Source | None) -> Block:
    """The `with` statement around `source`, including its header; without lines if the text is no longer available."""
    return NO_BLOCK if source is None else _blocks[source]


def _block(source: Source) -> Block:
    text = linecache.getlines(source.file)
    first, last = _with_lines("".join(text), source.span.line)
    cell = source.cell
    shift = cell.skipped_lines if cell else 0
    lines = tuple(line.rstrip("\n") for line in text[first - 1 : last])
    return Block(
        file=None if cell else source.file,
        cell_id=cell.cell_id if cell else None,
        cell_text=cell.text if cell else None,
        first_line=first + shift,
        lines=lines,
    )


_blocks = PerPlace(_block)


def _with_lines(text: str, line: int) -> tuple[int, int]:
    try:
        tree = parsed(text)
    except (SyntaxError, ValueError):
        return line, line
    blocks = [n for n in ast.walk(tree) if isinstance(n, ast.With) and n.lineno <= line <= (n.end_lineno or n.lineno)]
    innermost = max(blocks, key=lambda n: n.lineno, default=None)
    return (line, line) if innermost is None else (innermost.lineno, innermost.end_lineno or line)


def ipython_shell() -> Any:
    """The running IPython shell; None outside of IPython."""
    ipython = sys.modules.get("IPython")
    return None if ipython is None else ipython.get_ipython()


def follow_cells() -> None:
    """Starts recording the cells that IPython runs, including the current one. Does nothing outside of IPython."""
    shell = ipython_shell()
    if shell is None or getattr(shell, "_rfnb_follows", False):
        return
    shell._rfnb_follows = True
    past = shell.history_manager.input_hist_raw  # by the numbers of cells; begins with an empty entry
    shell.events.register("pre_run_cell", lambda info: _remember(shell, info.raw_cell, info.cell_id, len(past)))
    if past[-1]:
        parent = shell.get_parent() if hasattr(shell, "get_parent") else {}
        _remember(shell, past[-1], (parent or {}).get("metadata", {}).get("cellId"), len(past) - 1)


def _remember(shell: Any, text: str, cell_id: str | None, number: int) -> None:
    for form in (text, text.lstrip("\n")):
        CELLS[shell.compile.get_code_name(form, shell.transform_cell(form), number)] = NotebookCell(
            number, cell_id, text
        )
    while len(CELLS) > 4000:
        CELLS.pop(next(iter(CELLS)))


_PYTHON = (sysconfig.get_path("stdlib") + "/", "<frozen")

Step = tuple[FrameType, Source]
"""A frame, and the place in it where the error passed."""


def steps_of(error: BaseException) -> list[Step]:
    """The frames from the outermost to the one that raised the error."""
    steps, at = [], error.__traceback__
    while at is not None:
        steps.append((at.tb_frame, Source(at.tb_frame.f_code, at.tb_lasti)))
        at = at.tb_next
    return steps


def is_own(code: CodeType) -> bool:
    """Whether this is rfnb's own code."""
    return code.co_filename.startswith(PACKAGE)


def is_users(code: CodeType) -> bool:
    """Whether this is the user's code: not rfnb's, not Python's, and not an installed package's."""
    return not (is_own(code) or code.co_filename.startswith(_PYTHON) or "-packages/" in code.co_filename)


def innermost_call(error: BaseException) -> int | None:
    """The index of the innermost step in the user's code; None if the error passed through none.

    If there is no code of the user, installed packages count as such.
    """
    steps = steps_of(error)
    for whose in (is_users, lambda code: not is_own(code)):
        numbers = [number for number, (_, source) in enumerate(steps) if whose(source.code)]
        if numbers:
            return numbers[-1]
    return None


class Listing:
    """Some lines of a file, each of which is a place like that of an op in the user's code.

    Args:
        file: the file. first: the number of its first line here, from 1. lines: the text.
    """

    def __init__(self, file: str, first: int, lines: Sequence[str]):
        self.code = _code_of_lines(file, first, lines)
        places: dict[int, Source] = {}
        for place, (line, *_) in zip(count(0, 2), self.code.co_positions(), strict=False):
            if line is not None and line >= first:
                places.setdefault(line, Source(self.code, place))
        self._places = places
        self.head = places[first]
        _blocks[self.head] = Block(file, None, None, first, tuple(lines))

    def name(self, layers: Mapping[str, int]) -> None:
        """Says which layer each line describes. layers: the lines by the names of layers."""
        LAYERS[self.code] = {line: name for name, line in reversed([*layers.items()])}

    @classmethod
    def of_text(cls, what: str, lines: Sequence[str]) -> Listing:
        """Lines that are in no file. what: the name that is shown instead: "net dict, line 3"."""
        text = "\n".join(lines)
        file = f"<{what} {zlib.crc32(text.encode(errors='replace')):08x}>"  # the same text is the same place
        linecache.cache[file] = (len(text), None, [f"{line}\n" for line in lines], file)
        LISTED[file] = what
        return cls(file, 1, lines)

    def at(self, line: int) -> Source:
        """The place of a line; the first one if it is not among them."""
        return self._places.get(line, self.head)


def _code_of_lines(file: str, first: int, lines: Sequence[str]) -> CodeType:
    """A code object, never run, with an instruction that covers each line."""
    names = ["_" * max(len(line.encode(errors="replace")), 1) for line in lines]
    return compile("\n" * (first - 1) + "\n".join(names), file, "exec")


def warn(text: str) -> None:
    """Warns at the line of the user's code that runs now."""
    frame = user_frame()
    file, line = (__file__, 1) if frame is None else (frame.f_code.co_filename, frame.f_lineno)
    warnings.warn_explicit(terminal_text(text), LoopWarning, file, line)
