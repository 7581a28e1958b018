"""The last iteration of a plain loop that was not recorded and raised: its variables, from the traceback."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType, ModuleType, TracebackType

from rfnb.core.ground.source import locals_of
from rfnb.printable import error_text
from rfnb.trace.plain.record import is_yours
from rfnb.trace.plain.recorder import BEFORE, Iterations, Log
from rfnb.trace.plain.remembered import run_of
from rfnb.trace.plain.syntax import Outline, Use, outline
from rfnb.trace.plain.values import PLAIN, keep
from rfnb.trace.run.failure import Failure
from rfnb.trace.run.run import Run


def last_iteration(error: BaseException, cell_id: str | None) -> Run | None:
    """The Run of one step that has the variables of the innermost loop of the user which an error has left.

    cell_id: of the cell that raised. None if the error was not raised in a loop.
    """
    for frame, line in reversed(list(_lines(error.__traceback__))):
        text = outline(frame.f_code) if is_yours(frame.f_code.co_filename) else None
        raising = None if text is None else _statement_at(text, line)
        if text is not None and raising is not None and text.statements[raising].loops:
            return run_of(_iterations(frame, text, raising, error), raised_in=cell_id or "")
    return None


def _lines(traceback: TracebackType | None) -> Iterator[tuple[FrameType, int]]:
    while traceback is not None:
        yield traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next


def _statement_at(text: Outline, line: int) -> int | None:
    """The innermost statement at a line."""
    numbers = [n for n, statement in enumerate(text.statements) if statement.line <= line <= statement.end]
    return max(numbers, default=None)


def _iterations(frame: FrameType, text: Outline, raising: int, error: BaseException) -> Iterations:
    """One iteration of the outermost loop around a statement, with the variables of a frame at their lines."""
    statements, names, log = text.statements, locals_of(frame), Log()
    number = statements[raising].loops[0]
    loop = Iterations(frame.f_code, text, number, log)
    uses: dict[str, Use] = {}
    for at, statement in enumerate(statements):
        if number not in statement.loops and at != text.header_of(number):
            continue
        log.statements.append(at)  # nobody knows which of them ran
        for name in statement.assigned:
            if at < raising or name not in uses:
                uses[name] = Use(name, at if at < raising else BEFORE, statement.line, True, False)
    for name in statements[raising].read:
        uses.setdefault(name, Use(name, raising, statements[raising].line, False, True))
    before: dict[str, int] = {}
    for use in sorted(uses.values(), key=lambda use: (use.statement != BEFORE, use.line)):
        value = names.get(use.name, frame.f_globals.get(use.name))
        is_missing = use.name not in names and use.name not in frame.f_globals
        if is_missing or (use.reads and (isinstance(value, ModuleType) or callable(value))):
            continue
        if use.statement == BEFORE:
            before[use.name] = len(log.items)
        elif not loop.starts:
            loop.starts.append(len(log.items))
        log.items += (use, value if type(value) in PLAIN else keep(value, copied=True), None)
    loop.begins_with(before)
    loop.starts = loop.starts or [len(log.items)]
    loop.ran, loop.end, loop.ran_end = [0], len(log.items), len(log.statements)
    loop.failed = Failure(0, error_text(error), line=statements[raising].line)
    return loop
