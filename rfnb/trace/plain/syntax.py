"""What the lines of plain Python code do: the loops they belong to, the variables they assign and read."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
from collections.abc import Container, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, count, pairwise
from types import CodeType
from typing import Any, NamedTuple

from rfnb.core.ground.source import PerPlace, Source
from rfnb.trace.plain.containers import Path, path_of
from rfnb.trace.plain.user_code import ChangedText, text_of

LOOPS = (ast.For, ast.AsyncFor, ast.While)
Loop = ast.For | ast.AsyncFor | ast.While
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
SCOPES = (*FUNCTIONS, ast.ClassDef, ast.GeneratorExp, ast.ListComp, ast.SetComp, ast.DictComp)
CALLS = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom)
LEAVES = (ast.Continue, ast.Return, ast.Raise)
"""Statements after which the next one does not run; after `break`, that after an inner loop does."""
HIDES = frozenset("data numpy storage untyped_storage from_numpy asarray as_tensor frombuffer from_dlpack set_".split())
"""Attributes by which the memory of a tensor is written so that its counter of changes stays the same."""
JUMPS = frozenset((*dis.hasjrel, *dis.hasjabs))
BEFORE = -1
"""Stands for no statement: of a value from before the loop, or that a line only read."""
NEXT, CACHE = (dis.opmap["FOR_ITER"], dis.opmap["GET_ANEXT"]), dis.opmap["CACHE"]


BACK = {number for name, number in dis.opmap.items() if "JUMP_BACKWARD" in name and "NO_INTERRUPT" not in name}
BACK.add(dis.opmap["FOR_ITER"])  # that of a `for` which never gets to its second item


@dataclass(frozen=True, slots=True)
class LoopText:
    """A loop as it is written.

    header: its text without the colon. first, last: its lines. short: its body begins without a new line. around:
    the loops around it, outermost first. carried: the variables that an iteration reads before it assigns them, and
    assigns; also attributes, which a function that it calls may assign. names: all that it uses, without what the
    header assigns. assigned: all variables that the header and the body assign.
    """

    header: str
    first: int
    last: int
    short: bool
    around: tuple[int, ...]
    carried: tuple[str, ...]
    names: tuple[str, ...]
    assigned: frozenset[str]


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement without the statements inside it.

    line, end: where it begins and ends. loops: the loops whose iterations it belongs to, outermost first. assigned: the
    variables that it assigns. read: other variables that it reads, which it may change in place. writes: those of them
    that it changes by its form: `x += …`, `x[…] = …`, `x.add_(…)`; also attributes. parts: attributes that it assigns,
    as they are written. calls: whether it calls a function. hides: it may change tensors where nothing counts changes:
    by `x.data`, `x.numpy()`. simple: whether it runs as a whole, once it runs.
    """

    line: int
    end: int
    loops: tuple[int, ...]
    assigned: tuple[str, ...]
    read: tuple[str, ...]
    writes: tuple[str, ...]
    parts: tuple[str, ...]
    calls: bool
    hides: bool
    simple: bool


class CodePlace(NamedTuple):
    """What begins at an instruction.

    statement: its number. starts: whether the statement begins here; else it goes on. begins: the loops of which an
    iteration begins here, outermost first. tentative: the last of them may as well end here.
    """

    statement: int
    starts: bool
    begins: tuple[int, ...] = ()
    tentative: bool = False


class Use(NamedTuple):
    """A variable or attribute that a statement assigns, or reads and may change.

    always: whether the statement has assigned it once it has ended.
    """

    name: str
    statement: int
    line: int
    always: bool
    reads: bool


Row = tuple[str, bool, bool, Path | None, Use]
"""A use of a variable: its name, whether it reads it, whether it always assigns it, the attribute, and the use."""


@dataclass(frozen=True)
class Outline:
    """The loops and statements of a code object, and the place of each instruction by its offset."""

    loops: tuple[LoopText, ...]
    statements: tuple[Statement, ...]
    places: dict[int, CodePlace]
    jumps: frozenset[int]
    """Jumps back inside of a line with which an iteration begins."""
    headers: dict[int, int]
    """By statement, the loop of which it is the header."""
    writes: dict[int, tuple[str, ...]]
    """By statement, the variables that it, or another one that runs before the next line begins, changes in place."""
    groups: tuple[tuple[int, ...], ...]
    """For each statement, those that run with it before the next line begins."""
    uses: tuple[tuple[Use, ...], ...]
    """For each statement, the variables and attributes that may have other values when the next line begins."""
    paths: dict[str, Path]
    """The attributes that the statements name, by their text."""
    outside: tuple[str, ...]
    """The variables of the module that are assigned, or of which an attribute is."""
    shared: frozenset[str]
    """The variables that other functions may assign."""
    lines: Sequence[str]
    """All lines of its file or cell."""

    def header_of(self, loop: int) -> int:
        """The statement that is the header of a loop."""
        return next(statement for statement, number in self.headers.items() if number == loop)

    @cached_property
    def tests(self) -> frozenset[int]:
        """The headers of `while` loops."""
        return frozenset(number for number, loop in self.headers.items() if self.loops[loop].header.startswith("while"))

    @cached_property
    def inside(self) -> tuple[dict[int, CodePlace], ...]:
        """For each loop, the places with which no loop begins or ends, and no test, while it is the innermost one; the
        last ones are those outside of loops.
        """
        places = [entry for entry in self.places.items() if not (entry[1].begins or entry[1].statement in self.tests)]
        insides = (
            {
                at: place
                for at, place in places
                if loop in self.statements[place.statement].loops or self.headers.get(place.statement) == loop
            }
            for loop in range(len(self.loops))
        )
        return *insides, dict(places)

    @cached_property
    def rows_without(self) -> dict[frozenset[str], list[tuple[Row, ...]]]:
        """The rows without those of some attributes, for frames that were looked at before."""
        return {}

    @cached_property
    def rows(self) -> list[tuple[Row, ...]]:
        """The uses of each statement: name, whether it reads and always assigns it, and the attribute."""
        paths = self.paths
        return [
            tuple((use.name, use.reads, use.always, paths.get(use.name), use) for use in uses) for uses in self.uses
        ]


def outline(code: CodeType) -> Outline | None:
    """The outline of a code object; None if it has no loop, or if its text is no longer available."""
    with suppress(ChangedText):
        return _outlines[Source(code, 0)]
    return None


def why_unknown(code: CodeType) -> str | None:
    """Why the outline of a code object cannot be made; None if it can."""
    if is_compiled(code):
        return "it runs as torch.compile made it, without its lines"
    if (change := change_of(code)) is not None:
        return change
    if _has_no_statements(code) or _scope(code) is not None:
        return None
    examples = ", as that of a magic cell such as %%time, of `python -c`, or of a text that is executed"
    return f"its source cannot be read{examples if code.co_filename.startswith('<') else ''}"


def change_of(code: CodeType) -> str | None:
    """A word about a file that has another text than some code was compiled from; None if it has the same."""
    try:
        _scope(code)
    except ChangedText as error:
        return str(error)
    return None


def _has_no_statements(code: CodeType) -> bool:
    return code.co_name.startswith("<") and code.co_name != "<module>"


def may_loop(code: CodeType) -> bool:
    """Whether the instructions of a code object jump back, as those of loops do; its text is not read."""
    return not _has_no_statements(code) and not BACK.isdisjoint(code.co_code[::2])


def is_compiled(code: CodeType) -> bool:
    """Whether `torch.compile` made a code object, whose instructions are not those of its lines."""
    return any(name.startswith(("__compiled_fn", "__resume_at")) for name in code.co_names)


def outline_of_calls(code: CodeType) -> Outline | None:
    """The outline of a function or cell each call of which is an iteration; None if its text is no longer available.

    The function is the last of the loops, and its arguments are what the last of the statements assigns.
    """
    with suppress(ChangedText):
        return _outlines_of_calls[Source(code, 0)]
    return None


def _outline_of_calls(source: Source) -> Outline | None:
    scope = _scope(source.code)
    text = None if scope is None or not scope.body else _outline_of(source.code, scope)
    if text is None:
        return None
    is_cell = isinstance(scope, ast.Module)
    arguments = () if is_cell else tuple(n.arg for n in ast.walk(scope.args) if isinstance(n, ast.arg))
    target = ast.Tuple([ast.Name(name, ast.Store()) for name in arguments], ast.Store())
    start = 1 if is_cell else scope.lineno
    place = {"lineno": start, "end_lineno": scope.body[-1].end_lineno}
    node = ast.For(target, ast.Constant(None), scope.body, [], **place)
    loop, header = len(text.loops), len(text.statements)
    call = _loop(node, (), text.paths, False)
    call = replace(call, header=source.code.co_name, carried=(*arguments, *call.carried))
    line = Statement(start, start, (), arguments, (), (), (), False, False, True)
    return replace(
        text,
        loops=(*(replace(inner, around=(loop, *inner.around)) for inner in text.loops), call),
        statements=(*(replace(inner, loops=(loop, *inner.loops)) for inner in text.statements), line),
        headers={**text.headers, header: loop},
        groups=(*text.groups, (header,)),
        uses=(*text.uses, tuple(Use(name, header, line.line, True, False) for name in arguments)),
    )


def _outline(source: Source) -> Outline | None:
    if not may_loop(source.code):
        return None
    scope = _scope(source.code)
    text = None if scope is None else _outline_of(source.code, scope)
    has_loop = text is not None and any(place.begins for place in text.places.values())
    return text if has_loop else None  # also a cell is compiled statement by statement


def _outline_of(code: CodeType, scope: Any) -> Outline:
    nodes, loops_of, loops = _gathered(scope.body)
    places, short = _places(code, nodes, loops, _instructions(code, nodes))
    jumps = _jumps_back(code, places)
    expressions = [[*_own_nodes(node)] for node in nodes]
    statements = tuple(map(_statement, nodes, loops_of, expressions))
    paths, of_module = _paths(code, statements, expressions)
    shared = {name for n in ast.walk(scope) if isinstance(n, ast.Nonlocal) for name in n.names} | {*code.co_freevars}
    targets = {name for header in loops for name in statements[header].assigned}
    variables = {*paths, *of_module, *_variables(code, statements)}
    groups = _groups(nodes)
    writes = {group[0]: tuple(name for number in group for name in statements[number].writes) for group in groups}
    texts = tuple(_loop(nodes[header], loops_of[header], paths, header in short) for header in loops)
    return Outline(
        texts,
        statements,
        places | jumps,
        frozenset(jumps),
        {header: number for number, header in enumerate(loops)},
        {number: names for number, names in writes.items() if names},
        groups,
        tuple(
            tuple(use for use in _uses(statements, group, paths, targets, shared) if use.name in variables)
            for group in groups
        ),
        paths,
        of_module,
        frozenset(shared).union(of_module, *(text.names for text in texts if code.co_name == "<module>")),
        text_of(code).lines,
    )


def local_names(code: CodeType) -> set[str]:
    """The variables of a function, also those of functions around it."""
    return {*code.co_varnames, *code.co_cellvars, *code.co_freevars}


def _variables(code: CodeType, statements: Sequence[Statement]) -> set[str]:
    """The names that can be variables of the frame: not those of the module, of a class, or of Python."""
    if code.co_flags & inspect.CO_OPTIMIZED:
        return local_names(code)
    assigned = {name for statement in statements for name in statement.assigned}
    reads = {name for statement in statements for name in statement.read}
    return assigned | {name for name in reads if not hasattr(builtins, name)}


def _uses(
    statements: Sequence[Statement],
    group: Sequence[int],
    paths: Mapping[str, Path],
    targets: Set[str],
    shared: set[str],
) -> Iterator[Use]:
    for number in group:
        statement = statements[number]
        always = statement.simple and number == group[0]
        yield from (Use(name, number, statement.line, always, False) for name in statement.assigned)
        captured = sorted(shared.difference(statement.assigned)) if statement.calls else ()
        reads = dict.fromkeys((*statement.read, *captured))
        yield from (Use(name, number, statement.line, False, True) for name in reads)
        yield from (Use(name, number, statement.line, always, False) for name in statement.parts if name in paths)
        for path in paths.values():
            if path.text not in statement.parts and _may_change(statement, path, targets):
                yield Use(path.text, number, statement.line, False, True)


def _may_change(statement: Statement, path: Path, targets: Set[str]) -> bool:
    """Whether a statement that does not assign an attribute may give it another value.

    targets: the variables that headers assign. After the last line of an iteration, they have other objects already.
    """
    if not path.variables.isdisjoint(statement.assigned) or path.text in statement.writes:
        return True
    if any(part.startswith((f"{path.text}.", f"{path.text}[")) for part in statement.parts):
        return True
    if statement.calls:
        return path.root in statement.read or not path.variables.isdisjoint(targets)
    return any(part.rpartition(".")[2] == path.steps[-1] for part in statement.parts)  # the same object by another name


def _paths(
    code: CodeType, statements: Sequence[Statement], expressions: Sequence[Sequence[ast.AST]]
) -> tuple[dict[str, Path], tuple[str, ...]]:
    """The attributes that the code names, and the variables of the module that it changes."""
    in_function = code.co_flags & inspect.CO_OPTIMIZED  # else it is a module or a class, which has all its variables
    local = local_names(code) if in_function else None
    called = {id(node.func) for nodes in expressions for node in nodes if isinstance(node, ast.Call)}
    written = {text for statement in statements for text in (*statement.parts, *statement.writes)}
    paths: dict[str, Path] = {}
    for node in chain.from_iterable(expressions):
        path = path_of(node) if isinstance(node, ast.Attribute) and id(node) not in called else None
        if path is None or path.text in paths:
            continue
        path = path._replace(written=path.text in written)
        if local is None or path.root in local or path.written:
            paths[path.text] = path
    if local is None:
        return paths, ()
    assigned = {name for statement in statements for name in statement.assigned}
    return paths, tuple(assigned.union(path.root for path in paths.values()) - local)


_outlines: PerPlace[Outline | None] = PerPlace(_outline)


def read_again(code: CodeType, loop: ast.stmt, like: Outline, number: int) -> None:
    """From now on, the outline of some code is that of a function, of which it runs only loop `number`."""
    nodes, _, loops = _gathered([loop])
    offset, (places, short) = like.header_of(number), _places(code, nodes, loops, _instructions(code, nodes))
    jumps = _jumps_back(code, places)
    moved = {
        at: place._replace(statement=offset + place.statement, begins=tuple(number + inner for inner in place.begins))
        for at, place in (places | jumps).items()
    }
    texts = [*like.loops]
    for inner, header in enumerate(loops, number):
        texts[inner] = replace(texts[inner], short=header in short)
    _outlines[Source(code, 0)] = replace(like, loops=tuple(texts), places=moved, jumps=frozenset(jumps))


_outlines_of_calls: PerPlace[Outline | None] = PerPlace(_outline_of_calls)


def _scope(code: CodeType) -> Any:
    """The node of a function or class, or of a whole text, that a code object was compiled from."""
    if is_compiled(code) or _has_no_statements(code):
        return None
    return text_of(code).scope(code)


def _gathered(body: Sequence[ast.stmt]) -> tuple[list[Any], list[tuple[int, ...]], list[int]]:
    """Statements in the order of the text, for each the loops around it, and which are the headers of loops."""
    rows = [*_with_loops(body, (), count())]
    nodes = [node for node, _ in rows]
    return nodes, [loops for _, loops in rows], [at for at, node in enumerate(nodes) if isinstance(node, LOOPS)]


def _with_loops(
    body: Sequence[ast.stmt], around: tuple[int, ...], numbers: Iterator[int]
) -> Iterator[tuple[ast.stmt, tuple[int, ...]]]:
    for node in body:
        yield node, around
        inner = (*around, next(numbers)) if isinstance(node, LOOPS) else around
        for field, block in () if isinstance(node, (*FUNCTIONS, ast.ClassDef)) else _blocks(node):
            yield from _with_loops(block, inner if field == "body" else around, numbers)


def _blocks(node: ast.stmt) -> Iterator[tuple[str, list[ast.stmt]]]:
    """The blocks of statements inside a statement, each with its name: "body", "orelse", …"""
    for field in ("body", "orelse", "finalbody"):
        block = getattr(node, field, None)
        if isinstance(block, list) and block:
            yield field, block
    for part in _clauses(node):
        yield "part", part.body


Spans = list[int | None]


def _instructions(code: CodeType, nodes: Sequence[Any]) -> Spans:
    """For each instruction, the number of the innermost statement that it was compiled from."""
    by_position: dict[tuple[object, ...], int | None] = {}
    spans = [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in nodes]
    for decorated in (n for n in nodes if getattr(n, "decorator_list", None)):
        decorator = min(decorated.decorator_list, key=lambda d: d.lineno)
        spans[nodes.index(decorated)] = ((decorator.lineno, 0), (decorated.end_lineno, decorated.end_col_offset))
    numbers: Spans = []
    for position in code.co_positions():
        if position not in by_position:
            line, end_line, col, end_col = position
            by_position[position] = None
            if line is not None and end_line is not None and col is not None and end_col is not None:
                candidates = [i for i, (a, b) in enumerate(spans) if a <= (line, col) and (end_line, end_col) <= b]
                by_position[position] = max(candidates, default=None)  # later ones are inside of earlier ones
        numbers.append(by_position[position])
    return numbers


def _places(
    code: CodeType, nodes: Sequence[Any], loops: Sequence[int], run: Spans
) -> tuple[dict[int, CodePlace], dict[int, int]]:
    """What begins at each instruction of a statement; by header, loops whose body begins without a new line."""
    ends = [_last_inside(nodes, number) for number in range(len(nodes))]
    present = {number for number in run if number is not None}
    firsts: dict[int, tuple[int, ...]] = {}  # by the statement that a loop's body begins with, the loops
    headers = dict(enumerate(loops))
    short: dict[int, int] = {}
    for loop, header in enumerate(loops):
        body = range(nodes.index(nodes[header].body[0]), ends[nodes.index(nodes[header].body[-1])] + 1)
        start = next((number for number in body if number in present and not _has_no_start(nodes[number])), None)
        if start is not None:
            firsts[start] = (*firsts.get(start, ()), loop)
        elif header in present:  # `pass` in the line of the header
            short[header] = loop
    lines = [position[0] for position in code.co_positions()]
    for index, (previous, number) in enumerate(pairwise(run)):
        if lines[index] == lines[index + 1] and number is not None:
            short |= {headers[loop]: loop for loop in firsts.get(number, ()) if headers[loop] == previous}
    next_items = _next_items(code, {header for header in loops if not isinstance(nodes[header], ast.While)}, run)
    visited: set[int] = set()
    places: dict[int, CodePlace] = {}
    for index, number in enumerate(run):
        if number is None:
            continue
        previous = run[index - 1] if index else None
        back = "BACKWARD" in _name_before(code, index)
        starts = previous != number and (isinstance(nodes[number], (*LOOPS, *SIMPLE)) or number not in visited)
        begins = firsts.get(number, ()) if number not in visited else ()
        if not begins and not back:  # the code of a `finally` block is there twice
            begins = tuple(loop for loop in firsts.get(number, ()) if headers[loop] == previous)
        tentative = number in short and (number not in visited or index in next_items)
        if tentative:
            begins = (*begins, short[number]) if number not in visited else (short[number],)
        visited.add(number)
        places[2 * index] = CodePlace(number, starts, begins, tentative)
    return places, short


def _has_no_start(node: object) -> bool:
    """Whether no instruction is that with which a statement begins: in `try: x = 1`, it is that of the assignment."""
    return isinstance(node, ast.Try | ast.TryStar) and node.body[0].lineno == node.lineno


def _next_items(code: CodeType, headers: Set[int], run: Spans) -> set[int]:
    """The instructions with which a loop takes its next item; before them are those of comprehensions in its header."""
    places: dict[int | None, int] = {}  # by header
    items = set()
    for index, number in enumerate(run):
        if number in headers and code.co_code[2 * index] in NEXT:
            places[number] = index
        previous = run[index - 1] if index else None
        if previous != number and previous in places:
            items.add(places[previous])
    return items | {*places.values()}


def _jumps_back(code: CodeType, places: dict[int, CodePlace]) -> dict[int, CodePlace]:
    """By jumps back inside of a line with which an iteration begins, what begins there."""
    lines = dict(zip(range(0, len(code.co_code), 2), (position[0] for position in code.co_positions()), strict=True))
    return {
        jump.offset: places[jump.argval]
        for jump in dis.get_instructions(code)
        if jump.opcode in JUMPS and jump.argval < jump.offset and lines[jump.argval] == lines[jump.offset]
        if jump.argval in places and places[jump.argval].begins
    }


def _name_before(code: CodeType, index: int) -> str:
    """The name of the instruction before one."""
    index -= 1
    while index > 0 and code.co_code[2 * index] == CACHE:
        index -= 1
    return dis.opname[code.co_code[2 * index]]


def _last_inside(nodes: Sequence[ast.AST], number: int) -> int:
    """The last statement inside of a statement; statements are numbered in the order of the text."""
    ids = {id(node) for node in ast.walk(nodes[number])}
    end = number
    while end + 1 < len(nodes) and id(nodes[end + 1]) in ids:
        end += 1
    return end


SIMPLE = (
    *(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Delete, ast.Raise, ast.Assert, ast.Pass),
    *(ast.Break, ast.Continue, ast.Import, ast.ImportFrom),
)


def _clauses(node: ast.AST) -> list[Any]:
    """The handlers and cases of a statement."""
    return [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]


def _head_end(node: Any) -> int:
    """The last line of a statement, handler or case, without what is inside it."""
    if isinstance(node, ast.stmt) and not any(_blocks(node)):
        return node.end_lineno or node.lineno
    inside = (ast.stmt, ast.ExceptHandler, ast.match_case)
    parts = [part for part in ast.iter_child_nodes(node) if not isinstance(part, inside)]
    return max(getattr(node, "lineno", 0), *(getattr(part, "end_lineno", None) or 0 for part in parts), 0)


def _groups(nodes: Sequence[ast.stmt]) -> tuple[tuple[int, ...], ...]:
    """For each statement, those that run with it before the next line begins: in a line where it, or a clause, ends."""
    groups = []
    for number, node in enumerate(nodes):
        group, ends = [number], {*map(_head_end, (node, *_clauses(node)))}
        for following in range(number + 1, len(nodes)):
            if nodes[following].lineno > max(ends) or isinstance(node, FUNCTIONS):
                break
            if nodes[following].lineno in ends:
                group.append(following)
                ends.update(map(_head_end, (nodes[following], *_clauses(nodes[following]))))
        groups.append(tuple(group))
    return tuple(groups)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a statement, without the statements inside it and without the insides of other scopes."""
    if isinstance(node, FUNCTIONS):
        yield from _read_by_scope(node)
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            continue
        yield child
        if isinstance(child, ast.NamedExpr) or not isinstance(child, SCOPES):
            yield from _own_nodes(child)
        else:
            yield from _read_by_scope(child)


def _read_by_scope(node: ast.AST) -> Iterator[ast.AST]:
    """What a comprehension or a function reads and, by `:=`, assigns outside of itself."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
    for inner in ast.walk(node):
        if isinstance(inner, ast.NamedExpr):
            names.discard(inner.target.id)
    for inner in ast.walk(node):
        if isinstance(inner, ast.NamedExpr) or (isinstance(inner, ast.Name) and inner.id not in names):
            yield inner.target if isinstance(inner, ast.NamedExpr) else inner


def assigned_by(node: ast.AST) -> str | None:
    """The variable that a part of a statement assigns: a target, a handler, or a pattern."""
    if isinstance(node, ast.Name):
        return node.id if isinstance(node.ctx, ast.Store) else None
    if isinstance(node, ast.MatchMapping):
        return node.rest
    return node.name if isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) else None


def _statement(node: ast.stmt, loops: tuple[int, ...], expressions: Sequence[ast.AST]) -> Statement:
    assigned = dict.fromkeys(filter(None, map(assigned_by, expressions)))
    reads = dict.fromkeys(n.id for n in expressions if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
        reads[node.target.id] = None
    parts = [n for n in expressions if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
    return Statement(
        node.lineno,
        _head_end(node),
        loops,
        tuple(assigned),
        tuple(name for name in reads if name not in assigned),
        tuple(dict.fromkeys(_written(node, expressions))),
        tuple(dict.fromkeys(map(ast.unparse, parts))),
        isinstance(node, LOOPS) or any(isinstance(n, (*CALLS, *SCOPES)) for n in expressions),
        any(map(_hides, expressions)),
        isinstance(node, SIMPLE),
    )


def _loop(loop: Loop, around: tuple[int, ...], paths: Mapping[str, Path], short: bool) -> LoopText:
    order: dict[str, bool | None] = {}  # by variable or attribute of the body, whether it is read before it is assigned
    for part in _in_order(loop)[isinstance(loop, ast.For | ast.AsyncFor) :]:
        _first_uses(part, order, paths)  # the iterable is evaluated before the steps
    stored = frozenset(filter(None, map(assigned_by, ast.walk(loop))))
    targets = set() if isinstance(loop, ast.While) else {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    names = [name for name in order if name not in targets]
    names += [
        path.text for path in paths.values() if path.text not in order and path.root in names
    ]  # a call may assign it
    return LoopText(
        f"while {ast.unparse(loop.test)}" if isinstance(loop, ast.While) else _for(loop),
        loop.lineno,
        loop.end_lineno or loop.lineno,
        short,
        around,
        tuple(name for name, reads in order.items() if reads and (name in stored or name in paths)),
        tuple(names),
        stored,
    )


def _hides(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in HIDES and ast.unparse(node) != "torch.utils.data"


def _written(node: object, expressions: Sequence[ast.AST]) -> Iterator[str]:
    """The variables whose values a statement changes by its form."""
    if isinstance(node, ast.AugAssign):
        yield from _roots(node.target)
    for part in expressions:
        if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Store | ast.Del):
            yield from _roots(part)
        called = part.func if isinstance(part, ast.Call) else None
        if isinstance(called, ast.Attribute) and called.attr.endswith("_") and not called.attr.endswith("__"):
            yield from _roots(called.value)
        for keyword in part.keywords if isinstance(part, ast.Call) else ():
            yield from _roots(keyword.value) if keyword.arg == "out" else ()


def _roots(node: object) -> Iterator[str]:
    """The variable that an expression is a part of, and the attributes on the way."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        path = path_of(node)
        if path is not None:
            yield path.text
        node = node.func if isinstance(node, ast.Call) else node.value
    if isinstance(node, ast.Name):
        yield node.id


def _for(loop: ast.For | ast.AsyncFor) -> str:
    targets = loop.target.elts if isinstance(loop.target, ast.Tuple) else []
    target = ", ".join(map(ast.unparse, targets)) if len(targets) > 1 else ast.unparse(loop.target)
    return f"for {target} in {ast.unparse(loop.iter)}"


def outside_of_functions(node: ast.AST) -> Iterator[ast.AST]:
    """A node and those in it, without the insides of functions and classes."""
    yield node
    if not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        for child in ast.iter_child_nodes(node):
            yield from outside_of_functions(child)


def _first_uses(node: ast.AST, order: dict[str, bool | None], paths: Container[str]) -> None:
    """Notes, for each variable, whether the first use in the order of execution reads it.

    None if it does not read it, but may not have been reached.
    """
    if isinstance(node, ast.If | ast.Match | ast.Try | ast.TryStar):
        head, branches = _alternatives(node)
        for part in head:
            _first_uses(part, order, paths)
        orders, ends = list[dict[str, bool | None]](), list[dict[str, bool | None]]()
        for branch in branches:
            orders.append({})
            for part in branch:
                _first_uses(part, orders[-1], paths)
            if not (branch and isinstance(branch[-1], LEAVES)):
                ends.append(orders[-1])
        for name in dict.fromkeys(chain(*orders)):
            is_assigned = bool(ends) and all(uses.get(name) is not None for uses in ends)
            is_read = any(uses.get(name) for uses in orders)
            _use(name, True if is_read else False if is_assigned else None, order)
        for part in getattr(node, "finalbody", ()):
            _first_uses(part, order, paths)
        return
    if isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        if node.value is not None:
            _first_uses(node.value, order, paths)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name | ast.Attribute):
            _use(ast.unparse(node.target), True, order)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            _first_uses(target, order, paths)
        return
    if isinstance(node, ast.Name):
        _use(node.id, isinstance(node.ctx, ast.Load), order)
    elif (assigned := assigned_by(node)) is not None:
        _use(assigned, False, order)
    if isinstance(node, ast.Attribute) and (text := ast.unparse(node)) in paths:
        _use(text, isinstance(node.ctx, ast.Load), order)
    for child in _read_by_scope(node) if isinstance(node, SCOPES) else _in_order(node):
        _first_uses(child, order, paths)


def _alternatives(node: ast.If | ast.Match | ast.Try | ast.TryStar) -> tuple[list[ast.AST], list[list[ast.AST]]]:
    """What decides between the branches of a statement, and these; a handler runs after some of the first one."""
    if isinstance(node, ast.If):
        return [node.test], [[*node.body], [*node.orelse]]
    if isinstance(node, ast.Match):
        cases = [[case.pattern, *filter(None, [case.guard]), *case.body] for case in node.cases]
        last = node.cases[-1]
        is_any = last.guard is None and isinstance(last.pattern, ast.MatchAs) and last.pattern.pattern is None
        return [node.subject], [*cases, *([] if is_any else [[]])]
    handlers: list[list[ast.AST]] = []
    for handler in node.handlers:
        name = ast.Name(handler.name, ast.Store()) if handler.name else None
        handlers.append([*filter(None, [handler.type, name]), *handler.body])
    return [], [[*node.body, *node.orelse], *handlers]


def _use(name: str, reads: bool | None, order: dict[str, bool | None]) -> None:
    """Notes a use of a variable, unless another one was reached before it."""
    if order.get(name) is None:
        order[name] = reads


def _in_order(node: ast.AST) -> list[ast.AST]:
    """The parts of a statement or expression, in the order of execution."""
    if isinstance(node, ast.For | ast.AsyncFor):
        return [node.iter, node.target, *node.body, *node.orelse]
    if isinstance(node, ast.NamedExpr):
        return [node.value, node.target]
    return list(ast.iter_child_nodes(node))
