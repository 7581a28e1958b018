"""Loops of plain Python in all forms, each with the iterations and lines that calls between its statements count.

Neither pytest nor torch is imported, so that other Pythons run these cases too.
"""

from __future__ import annotations

import ast
import asyncio
import contextlib
import linecache
import sys
import types
from collections.abc import Coroutine, Iterator
from types import CodeType, FrameType
from typing import Any

from rfnb.trace.plain.iterations import Iterations
from rfnb.trace.plain.recorder import Client, Recording
from rfnb.trace.plain.syntax import LOOPS, SIMPLE

PROGRAMS = {
    "for": """
def program(items):
    total = 0
    for item in items:
        total = total + item
    return total
""",
    "for in one line": """
def program(items):
    total = 0
    for item in items: total += item
    return total
""",
    "for in one line, two statements": """
def program(items):
    total = 0
    for item in items: total += item; double = 2 * total
    for item in items: pass
    for item in items: continue
    return total
""",
    "nested, the inner one in one line": """
def program(items):
    total = 0
    for item in items:
        for other in range(item): total += other
        while total > 20: total -= 7
        done = total
    return total
""",
    "while": """
def program(items):
    n = len(items)
    while n:
        n = n - 1
    return n
""",
    "while in one line": """
def program(items):
    n, k = len(items), 0
    while n > 0: n -= 1
    while k < 3 and (n := n + 1): k += 1; m = n
    while n > 100: n -= 1
    return n
""",
    "while True": """
def program(items):
    n = 0
    while True:
        n += 1
        if n > len(items):
            break
        if n % 2:
            continue
        k = n
    return n
""",
    "while True, body of one line": """
def program(items):
    rest = iter(items)
    try:
        while True:
            item = next(rest)
    except StopIteration:
        item = None
    rest = iter(items)
    try:
        while True: item = next(rest)
    except StopIteration:
        item = None
    return item
""",
    "while True, body of one statement": """
def program(items):
    n = 0
    while True:
        if (n := n + 1) > 4: break
    while True:
        if n == 0:
            break
        n -= 1
    return n
""",
    "continue first": """
def program(items):
    for item in items:
        if item % 2: continue
        if item == 4:
            continue
        k = item
    else:
        k = None
    return k
""",
    "break and else": """
def program(items):
    for item in items:
        for other in items:
            if other > item:
                break
        else:
            last = item
    else:
        last = None
    while True:
        break
    for item in items: break
    else: last = 1
    return last
""",
    "try": """
def program(items):
    done = []
    for item in items:
        try:
            if item == 2:
                raise ValueError(item)
            done.append(1 / item)
        except ValueError as error:
            done.append(error.args)
            continue
        except ZeroDivisionError: done.append(None)
        else:
            done.append(item)
        finally:
            k = len(done)
        after = k
    return done
""",
    "the body is a try": """
def program(items):
    k = 0
    while True:
        try:
            k = k + 1
            if k == 3:
                break
        finally:
            m = k
    for item in items:
        with contextlib.suppress(ZeroDivisionError):
            k = 1 / item
    return k, m
""",
    "try around": """
def program(items):
    try:
        for item in items:
            k = 1 / (item - 2)
    except ZeroDivisionError:
        k = None
    finally:
        for item in items:
            m = item
    return k
""",
    "headers over lines": """
def program(items):
    for item, other in zip(
        items,
        [n * n for n in items],
        strict=True,
    ):
        total = item + other
    for (
        item
    ) in items:
        k = item
    for item in (
        items): k = item
    n = 0
    while (
        n < 3
        and k
    ):
        n = (
            n
            + 1
        )
    return total
""",
    "statements over lines": """
def program(items):
    for item in items:
        pair = [
            item,
            item +
            1,
        ]; k = 1
        text = (f"{item}"
                "end")
        if (item
                and k):
            k = max(
                k,
                item,
            )
    return pair
""",
    "comprehensions beside": """
def program(items):
    for item in items:
        squares = [n * n for n in range(item)]
        pairs = {
            n: n
            for n in squares
            if n
        }
        total = sum(n for n in squares)
    for item in [n for n in items]: k = [n for n in items]
    while [n for n in range(9) if n > len(k)]: k = [*k, *[n for n in range(2)]]
    return total
""",
    "match": """
def program(items):
    for item in items:
        match item:
            case 0: k = 0
            case 1 | 2:
                k = 1
            case int(n) if n > 3:
                k = n
            case _:
                pass
        after = k
    return k
""",
    "with": """
def program(items):
    for item in items:
        with contextlib.suppress(ZeroDivisionError), contextlib.nullcontext(item) as n:
            k = 1 / n
            m = k
        after = item
    return after
""",
    "a return in an inner loop": """
def program(items):
    for item in items:
        for other in items:
            if other + item == 5:
                return other
""",
    "functions in the body": """
def program(items):
    for item in items:
        def twice(n):
            return 2 * n
        @contextlib.contextmanager
        def opened(n=item):
            yield n
        class Box:
            value = item
        k = twice(item)
        f = lambda n: n + item; k = f(k)
        with opened() as m:
            k = m
    return k
""",
    "a generator": """
def numbers(n):
    for i in range(n):
        square = i * i
        yield square
    while n: yield n; n -= 1
def program(items):
    for item in numbers(3):
        k = item
    return [*numbers(2)]
""",
    "yield from and send": """
def inner(n):
    for i in range(n):
        got = yield i
        while got: got -= 1
def outer(n):
    for i in range(2):
        yield from inner(n)
        last = i
def program(items):
    running = outer(2)
    k = next(running)
    try:
        while True: k = running.send(k)
    except StopIteration:
        pass
    return k
""",
    "async": """
async def ticks(n):
    for i in range(n):
        await pause()
        yield i
async def work(n):
    total = 0
    async for i in ticks(n):
        total += i
    for i in range(n):
        await pause(); k = i
    async with asyncio.Lock() as lock:
        for i in range(n): await pause()
    return [i async for i in ticks(2)]
def program(items):
    return run(work(3))
""",
    "recursion": """
def down(n):
    for i in range(n):
        down(i)
def program(items):
    return down(3)
""",
    "dead code, constants, del": """
def program(items):
    for item in items:
        "no docstring"
        ...
        if 0:
            never = 1
        while False:
            never = 2
        if True:
            k = item
        del k
        assert item is not None
        if not item: continue
        import math
        global counted
        counted = item
    return item
""",
    "an error leaves it": """
def program(items):
    for item in items:
        for other in items:
            k = 1 / (2 - other)
""",
    "empty": """
def program(items):
    for item in []: k = item
    for item in []:
        k = item
    while items and not items: k = 1
    else: k = 2
    return k
""",
}


@types.coroutine
def pause() -> Iterator[None]:
    """An await that suspends."""
    yield


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, without an event loop."""
    while True:
        try:
            work.send(None)
        except StopIteration as error:
            return error.value


NAMES = {"contextlib": contextlib, "asyncio": asyncio, "pause": pause, "run": run}
Lines = list[Any]
"""What runs of an outermost loop: the numbers of lines, and a word for each iteration that begins."""


class Counted(ast.NodeTransformer):
    """Calls `_begin` in front of each iteration, `_line` in front of each simple statement, `_end` after each loop."""

    def __init__(self, tree: ast.AST):
        self.loops = [node for node in _in_order(tree) if isinstance(node, LOOPS)]
        self.lines = _lines_of(tree)

    def visit(self, node: Any) -> Any:
        loop = self.loops.index(node) if node in self.loops else None
        self.generic_visit(node)
        if isinstance(node, SIMPLE):
            return [node] if self.lines[node.lineno] is not node else [_call("_line", node.lineno), node]
        if loop is None:
            return node
        node.body = [_call("_begin", loop), *node.body]
        node.orelse = [_call("_end", loop), *node.orelse]
        return ast.Try([node], [], [], [_call("_end", loop)])


def _in_order(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        yield node
        yield from _in_order(node)


def _lines_of(tree: ast.AST) -> dict[int, ast.AST]:
    """By line, the first statement, `case` or `except` that begins in it."""
    nodes = [node for node in _in_order(tree) if isinstance(node, ast.stmt | ast.match_case | ast.ExceptHandler)]
    return {getattr(node, "pattern", node).lineno: node for node in reversed(nodes)}


def _call(name: str, number: int) -> ast.stmt:
    return ast.Expr(ast.Call(ast.Name(name, ast.Load()), [ast.Constant(number)], []))


class Truth:
    """What the calls between the statements of a program count."""

    def __init__(self) -> None:
        self.done: list[Lines] = []
        self._open: dict[FrameType, tuple[list[int], Lines]] = {}  # by frame, the loops that run, and what ran

    def line(self, number: int) -> None:
        """A statement is about to run."""
        frame = sys._getframe(1)
        if frame in self._open:
            self._open[frame][1].append(number)

    def begin(self, loop: int) -> None:
        """An iteration begins."""
        running, lines = self._open.setdefault(sys._getframe(1), ([], []))
        if loop not in running:
            running.append(loop)
        lines.append(f"loop {loop}")

    def end(self, loop: int) -> None:
        """A loop ends."""
        frame = sys._getframe(1)
        if frame in self._open:
            running, lines = self._open[frame]
            if loop in running:
                running.remove(loop)
            if not running:
                self.done.append(lines)
                del self._open[frame]


class AllLoops(Client):
    """A client that wants all loops of a file."""

    def __init__(self, file: str):
        self._file = file
        self.loops: list[Iterations] = []

    def chooses(self, code: CodeType) -> bool:
        return code.co_filename == self._file

    def done(self, loop: Iterations) -> None:
        self.loops.append(loop)


def outcome(names: dict[str, Any]) -> Any:
    """The result of a program, or its error."""
    try:
        return names["program"]([0, 1, 2, 3, 4])
    except ZeroDivisionError as error:
        return repr(error)


def counted(text: str) -> tuple[Any, list[Lines]]:
    """The result of a program, and what runs of its loops."""
    truth, tree = Truth(), ast.parse(text)
    names = NAMES | {"_line": truth.line, "_begin": truth.begin, "_end": truth.end}
    exec(compile(ast.fix_missing_locations(Counted(tree).visit(tree)), "counted", "exec"), names)
    return outcome(names), truth.done


def recorded(text: str, file: str) -> tuple[Any, list[Lines]]:
    """The result of a program while it is recorded, and what runs of its loops."""
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    names = dict(NAMES)
    exec(compile(text, file, "exec"), names)
    client, recording = AllLoops(file), Recording()
    recording.add(client)
    try:
        result = outcome(names)
    finally:
        recording.remove(client)
    return result, [_lines(loop, client.loops) for loop in client.loops if loop.starts and not loop.inside]


def _lines(outer: Iterations, loops: list[Iterations]) -> Lines:
    tree = ast.parse("".join(linecache.getlines(outer.code.co_filename)))
    kinds = {line: isinstance(node, SIMPLE) for line, node in _lines_of(tree).items()}
    numbers = [node.lineno for node in _in_order(tree) if isinstance(node, LOOPS)]
    begins: dict[int, list[Any]] = {}
    for loop in sorted((loop for loop in loops if loop.log is outer.log), key=lambda loop: len(loop.text.around)):
        for start, _ in zip(loop.ran, loop.starts, strict=False):
            begins.setdefault(start, []).append(f"loop {numbers.index(loop.text.first)}")
    lines: Lines = []
    for at, statement in enumerate(outer.log.statements):
        lines += begins.get(at, ())
        if kinds[outer.outline.statements[statement].line]:
            lines.append(outer.outline.statements[statement].line)
    return [*lines, *begins.get(len(outer.log.statements), ())]


def difference(name: str) -> str | None:
    """How the recording of a program differs from what it does; None if it does not."""
    text = PROGRAMS[name]
    (result, truth), (same, lines) = counted(text), recorded(text, f"<doctest {name}>")
    if repr(result) != repr(same):
        return f"{result} is {same}"
    return None if _in_short(truth) == _in_short(lines) else f"{_in_short(truth)} is {_in_short(lines)}"


def _in_short(runs: list[Lines]) -> list[str]:
    """A line once, if several of its statements run one after the other."""
    return sorted(
        " ".join(str(item) for at, item in enumerate(run) if not at or item != run[at - 1] or isinstance(item, str))
        for run in runs
    )
