"""The last iteration of a plain loop that was not recorded and raised: its variables, from the traceback."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType, ModuleType, TracebackType

from rfnb.core.ground.source import locals_of
from rfnb.printable import error_text
from rfnb.trace.plain.containers import PLAIN
from rfnb.trace.plain.iterations import Iterations
from rfnb.trace.plain.log import Log
from rfnb.trace.plain.remembered import run_of
from rfnb.trace.plain.syntax import BEFORE, Outline, Use, outline
from rfnb.trace.plain.user_code import is_yours
from rfnb.trace.plain.values import keep
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
    number, log = text.statements[raising].loops[0], Log()
    loop = Iterations(frame.f_code, text, number, log)
    log.statements += _statements_of(text, number)  # nobody knows which of them ran
    before: dict[str, int] = {}
    for use, value in variables_at(frame, text, number, raising):
        if use.statement == BEFORE:
            before[use.name] = len(log)
        elif not loop.starts:
            loop.starts.append(len(log))
        log.add(use, value if type(value) in PLAIN else keep(value, copied=True), None)
    loop.begins_with(before)
    loop.starts = loop.starts or [len(log)]
    loop.ran, loop.end, loop.ran_end = [0], len(log), len(log.statements)
    loop.failed = Failure(0, error_text(error), line=text.statements[raising].line)
    return loop


def variables_at(frame: FrameType, text: Outline, number: int, running: int) -> Iterator[tuple[Use, object]]:
    """The variables of a loop at a statement that runs, each with its value and the line that assigned it; first those
    that no statement before this one assigns."""
    statements, names = text.statements, locals_of(frame)
    uses: dict[str, Use] = {}
    for at in _statements_of(text, number):
        for name in statements[at].assigned:
            if at < running or name not in uses:
                uses[name] = Use(name, at if at < running else BEFORE, statements[at].line, True, False)
    for name in statements[running].read:
        uses.setdefault(name, Use(name, running, statements[running].line, False, True))
    for use in sorted(uses.values(), key=lambda use: (use.statement != BEFORE, use.line)):
        value = names.get(use.name, frame.f_globals.get(use.name))
        is_missing = use.name not in names and use.name not in frame.f_globals
        if not (is_missing or (use.reads and (isinstance(value, ModuleType) or callable(value)))):
            yield use, value


def _statements_of(text: Outline, number: int) -> list[int]:
    """The header of a loop, and the statements of its body."""
    header = text.header_of(number)
    return [at for at, statement in enumerate(text.statements) if number in statement.loops or at == header]
