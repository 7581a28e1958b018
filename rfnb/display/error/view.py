"""The card of an error: the user's line, the call with its operands as strips of dims, a hint, and the traceback.

In strips, equal dims are below each other, and dims that do not fit are marked.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.ground.source import Source, innermost_call, is_own, is_users, steps_of
from rfnb.display.error.failed_call import Argument, OperandCell, aligned, dims_in, failed_call
from rfnb.display.kit import blocks as page
from rfnb.display.kit.data import DimView, describe_dim, dim_word, named_pill, names_of, size_word
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, bounded_in, el, join, quiet as quiet_html
from rfnb.printable import bounded, error_text, printable_name


class StripCell(NamedTuple):
    """A dim of an operand, or a size of an array without dims."""

    dim: DimView | None
    word: str  # "time:3–5 Σ8", "time [5, 3]"
    odd: bool  # it does not fit


class StripRow(NamedTuple):
    """An operand: its dims below equal dims of the others, with None where it lacks a dim."""

    name: str  # of the parameter
    text: str  # what the user's line says
    type: str  # "float32", "Dim", "numpy.ndarray"
    cells: list[StripCell | None]


class DimOrigin(NamedTuple):
    """Where a dim comes from."""

    dim: DimView
    name: str  # "time¹" if another dim has the same name
    where: str  # "ceil(time/2), made in cell 3, line 1"
    text: str | None  # the expression that made it
    odd: bool


class Code(NamedTuple):
    """Some lines of the user's code, and the expression in question."""

    place: str
    function: str | None  # None outside of functions
    first_line: int  # 1-based, in the file or cell
    lines: list[str]
    marks: list[list[int]]  # per line: [start, end] of the expression in it, or []

    @property
    def where(self) -> str:
        """Place and function."""
        return bounded(self.place + (f", in {self.function}" if self.function else ""))


class Frame(NamedTuple):
    """A frame of a traceback."""

    place: str
    function: str
    text: str
    whose: Literal["user", "rfnb", "other"]


class Cause(NamedTuple):
    """An earlier error, and how it relates to this one."""

    error: str  # "KeyError: 'x'"
    relation: Literal["caused by", "while handling"]
    frames: list[Frame]


# -- the code

AROUND = 2
"""Number of lines shown above and below the place."""
LINES = 12
"""Largest number of lines shown of an expression."""
WIDTH = 200


def describe_code(source: Source) -> Code:
    """The place as cell or file and line, with the code around it."""
    span, all_lines = source.span, linecache.getlines(source.file)
    end = min(span.end_line, span.line + LINES)
    if span.line > len(all_lines):  # its text is gone
        all_lines = []
    first, last = max(1, span.line - AROUND) if all_lines else span.line, min(len(all_lines), end + AROUND)
    while first < span.line and not all_lines[first - 1].strip():
        first += 1
    while last > end and not all_lines[last - 1].strip():
        last -= 1
    lines = [line.rstrip("\n")[:WIDTH] for line in all_lines[first - 1 : last]]
    name, marks = source.code.co_name, [_mark(source, number, line) for number, line in enumerate(lines, first)]
    function = None if name.startswith("<module") else name
    return Code(source.place(), function, first + source.line - span.line, lines, marks)


def _mark(source: Source, number: int, line: str) -> list[int]:
    """Start and end of the expression on a line, in characters; columns of Python count bytes."""
    span = source.span
    if not span.line <= number <= span.end_line:
        return []
    data = line.encode()
    start = span.col if number == span.line else len(data) - len(data.lstrip())
    end = span.end_col if number == span.end_line and span.end_col else len(data)
    return [len(data[:at].decode(errors="replace")) for at in (start, end)]


def code_text(code: Code) -> list[str]:
    """The place, then the lines with `^` below the expression."""
    lines = [code.where]
    for number, (line, mark) in enumerate(zip(code.lines, code.marks, strict=True), code.first_line):
        lines.append(f"  {'→' if mark else ' '} {number:>4}  {line}")
        if mark and mark[1] > mark[0]:
            lines.append(" " * (10 + mark[0]) + "^" * (mark[1] - mark[0]))
    return lines


def code_html(code: Code) -> Html:
    """The code as HTML; long lines are wrapped."""
    pairs = enumerate(zip(code.lines, code.marks, strict=True), code.first_line)
    rows = [_line_html(number, line, mark) for number, (line, mark) in pairs]
    where = quiet_html(code.where, tag="div")
    return el("div", where, el("table", rows, style=f"{style.TABLE};width:100%") if rows else None)


def _line_html(number: int, line: str, mark: list[int]) -> Html:
    start, end = mark or (0, 0)
    meant = f"text-decoration:underline 2px {style.ALARM};font-weight:bold"
    text = join(line[:start], el("span", line[start:end], style=meant), line[end:]) if mark else line
    shade = f"background-color:{style.tint(style.ALARM, 0.1)}" if mark else f"background:none;{style.QUIET}"
    number_look = f"padding:1px 10px 1px 4px;text-align:right;border:none;background:none;{style.QUIET if mark else ''}"
    cells = [el("td", str(number), style=number_look), el("td", text, style=f"{style.CODE};{_CELL};width:100%")]
    return el("tr", cells, style=shade)


_CELL = "padding:1px 4px;text-align:left;border:none;background:none;white-space:pre-wrap;overflow-wrap:anywhere"


# -- strips of dims

SHOWN_LENGTHS = 8
"""Largest number of lengths that are listed."""


def describe_strips(
    arguments: Sequence[Argument], odd: Sequence[object] = ()
) -> tuple[list[StripRow], list[DimOrigin]]:
    """A row for each argument, and the origins of their dims. odd: dims known not to fit."""
    rows, columns = aligned(arguments, odd)
    cells = [cell for row in rows for cell in row.cells]
    names = names_of(dims_in(cells))
    described = [
        StripRow(
            row.argument.name,
            row.argument.text,
            row.type,
            [_cell(column[number], names) if number in column else None for column in columns],
        )
        for number, row in enumerate(rows)
        if row.cells or row.argument.text
    ]
    return described, _origins(cells, names)


def _cell(cell: OperandCell, names: dict[int, str]) -> StripCell:
    if cell.dim is None or cell.lengths is None:
        return StripCell(None, str(cell.number), cell.odd)
    dim = describe_dim(cell.dim, cell.lengths)
    lengths = dim["lengths"]
    size = f":{size_word(dim)}"
    if cell.spelled and lengths and len(lengths) <= SHOWN_LENGTHS:
        size = f" {lengths}"
    return StripCell(dim, names[cell.dim.serial] + size, cell.odd)


def _origins(cells: Sequence[OperandCell], names: dict[int, str]) -> list[DimOrigin]:
    """The origin of each dim, first of dims that do not fit; two origins for a dim with two lengths."""
    origins: dict[tuple[int, str | None], DimOrigin] = {}
    for cell in cells:
        if cell.dim is not None and cell.lengths is not None:
            bound = cell.size.made if cell.spelled and cell.size is not None else None
            place = None if bound is None else bound.place()
            origin = _origin(cell.dim, names[cell.dim.serial], cell.lengths, place, odd=cell.odd)
            if origin.dim["made"] or place:
                origins.setdefault((cell.dim.serial, place), origin)
    return sorted(origins.values(), key=lambda origin: not origin.odd)


def _origin(dim: Dim, name: str, lengths: Lengths, bound: str | None, *, odd: bool) -> DimOrigin:
    view = describe_dim(dim, lengths)
    formula = view["formula"] if view["formula"] != dim.name else None
    place = f"made in {view['made']}" if view["made"] else None
    where = ", ".join(part for part in (formula, place, f"bound in {bound}" if bound else None) if part)
    text = None if dim.made is None else dim.made.text() or None
    return DimOrigin(view, name, where, text, odd)


def _strips(rows: Sequence[StripRow]) -> list[page.Block]:
    """A row for each operand, in columns; a terminal shows `^` below dims that do not fit."""
    grid = [[row.name, row.text if row.text != row.name else "", row.type, *map(_pill, row.cells)] for row in rows]
    columns = list(zip(*(row.cells for row in rows), strict=True))
    widths = [max(len(cell.word) if cell else 0 for cell in column) for column in columns]
    odd = [any(cell is not None and cell.odd for cell in column) for column in columns]
    marks = ["", "", "", *("^" * width if wrong else "" for wrong, width in zip(odd, widths, strict=True))]
    label = f"{style.LABEL_CELL};vertical-align:middle"
    written = f"{label};opacity:1;font-weight:bold;white-space:normal;max-width:18em"
    looks = [label, written, label, *["padding:3px 2px 3px 0;text-align:left;border:none;background:none"] * len(odd)]
    return [
        page.Only("text", [page.Grid([*grid, *([marks] if any(odd) else [])])]),
        page.Only("html", [page.Grid(grid, looks=looks)]),
    ]


def _pill(cell: StripCell | None) -> page.Span | None:
    if cell is None:
        return None
    odd = f";outline:2px solid {style.ALARM}" if cell.odd else ""
    words = [el("b", "≠ ") if cell.odd else None, bounded(cell.word)]
    if cell.dim is None:
        return page.Span(el("span", words, " ", style=style.pill(None) + odd), text=cell.word)
    return page.Span(named_pill(bounded_in(cell.dim), words, odd), text=cell.word)


def _origins_grid(origins: Sequence[DimOrigin], *, odd: bool) -> list[page.Block]:
    """`time+1  made in cell 3, line 1: rf.pad(x, …)`"""
    rows = [
        [
            page.Span(named_pill(bounded_in(origin.dim), bounded(origin.name)), text=origin.name),
            page.Span(origin.where, style.QUIET, f"{origin.where}: {origin.text}" if origin.text else None),
            page.web(origin.text),
        ]
        for origin in origins
        if origin.odd == odd
    ]
    return [page.Grid(rows)] if rows else []


# -- the traceback

FRAMES = 40
CAUSES = 4


def describe_frames(error: BaseException) -> list[Frame]:
    """Frames from the user's first line on; the first and last ones if there are very many."""
    frames = [_frame(source) for _, source in steps_of(error)]
    first = next((i for i, frame in enumerate(frames) if frame.whose == "user"), 0)
    frames = frames[first:]
    if len(frames) <= FRAMES:
        return frames
    left_out = Frame("", "", f"… {len(frames) - FRAMES} more", "other")
    return [*frames[: FRAMES // 2], left_out, *frames[-FRAMES // 2 :]]


def _frame(source: Source) -> Frame:
    code = source.code
    generated = code.co_qualname.startswith("make.<locals>")  # by `core.tensor.op`: there is no such line in the file
    place = source.place() if is_users(code) else f"{_path_of(source)}:{source.line}"
    whose: Literal["user", "rfnb", "other"] = "rfnb" if is_own(code) else "user" if is_users(code) else "other"
    return Frame(place, code.co_name, "" if generated else source.text(), whose)


def _path_of(source: Source) -> str:
    """The path of a library's file, from the name of its package on."""
    if is_own(source.code):
        return f"rfnb{source.file.rpartition('/rfnb')[2]}"
    return source.file.partition("-packages/")[2] or source.file


def describe_causes(error: BaseException) -> Iterator[Cause]:
    """The errors that caused this one, the nearest first."""
    for _ in range(CAUSES):
        cause = error.__cause__
        earlier = cause or (None if error.__suppress_context__ else error.__context__)
        if earlier is None:
            return
        error = earlier
        relation: Literal["caused by", "while handling"] = "caused by" if cause is not None else "while handling"
        yield Cause(error_text(error)[:2000], relation, describe_frames(error))


def cause_text(cause: Cause) -> str:
    """ "caused by cell 5, line 2: KeyError: 'a'" """
    places = [frame.place for frame in cause.frames if frame.whose == "user"]
    return " ".join([cause.relation, *(f"{place}:" for place in places[-1:]), cause.error])


def _cause(cause: Cause) -> list[page.Block]:
    message = page.Line(cause.error, look=f"{style.CODE};white-space:pre-wrap")
    fold = page.Fold(cause_text(cause).splitlines()[0], [message, _frame_lines(cause.frames)])
    return [page.Only("text", [page.Line(cause_text(cause))]), page.Only("html", [fold])]


def _frame_lines(frames: Sequence[Frame]) -> page.Group:
    """A line for the place and one for the code of each frame; frames of libraries are quiet."""
    lines: list[page.Block] = []
    for frame in frames:
        library, place = (style.QUIET, "") if frame.whose != "user" else ("", style.QUIET)
        where = page.Line(f"{frame.place}, in {frame.function}" if frame.place else "", look=place)
        lines.append(page.Group([where, page.Line(frame.text, look="padding-left:16px")], look=library))
    return page.Group(lines, look=f"{style.NUMBERS};margin:2px 0 4px 14px;overflow-wrap:anywhere")


# -- the card

WORDS = 4000
"""Longest fact, in characters."""


@page.shows("error", "builtins.Exception")
def describe(error: BaseException) -> page.Page:
    """The message, the line, the operands and the hint; then what called it. Parts that cannot be told are left out."""
    notes = page.Notes()
    call = notes.attempt("call", lambda: failed_call(error), None)
    place = notes.attempt("place", lambda: place_of(error), None)
    dims = getattr(error, "dims", ())
    empty: tuple[list[StripRow], list[DimOrigin]] = [], []
    rows, origins = notes.attempt("operands", lambda: describe_strips(call.arguments, dims) if call else empty, empty)
    code = notes.attempt("line", lambda: None if place is None else describe_code(place), None)
    frames = notes.attempt("traceback", lambda: describe_frames(error), list[Frame]())
    causes = notes.attempt("cause", lambda: list(describe_causes(error)), list[Cause]())
    name, message = type(error).__name__, str(getattr(error, "what", error))[:WORDS]
    facts = _facts(error, rows, has_origins=bool(origins))
    title = page.Line(page.name(call.title)) if call else None
    operands: list[page.Block] = [page.Group([title, *_strips(rows)], look="margin-top:6px")] if rows else []
    regular = _origins_grid(origins, odd=False)
    parts: list[list[page.Block]] = [
        [page.Figure(code_html(code), code_text(code))] if code else [],
        operands,
        _origins_grid(origins, odd=True),
        [page.Only("text", [page.Facts(facts)]), page.Only("html", [_facts_grid(facts)])] if facts else [],
        [page.Line(page.quiet(str(note))) for note in getattr(error, "__notes__", [])],
        [page.Only("text", [page.Line(line) for line in _callers(code, frames)])],
        [page.Only("html", [page.Fold("where the other dims come from", regular)])] if regular else [],
        [page.Only("html", [page.Fold("traceback", [_frame_lines(frames)])])] if frames else [],
        [block for cause in causes for block in _cause(cause)],
        [page.Note(notes.text(), indent=0)],
    ]
    head = page.Line(page.Span(name, style.MARKED, f"{name}:", tag="b"), " ", message, look="margin-bottom:4px")
    apart = [block for part in parts for block in [*([page.Line("")] if any(page.lines_of(part)) else []), *part]]
    look = f"border-left:4px solid {style.ALARM};padding:2px 0 2px 12px"
    cells = [[*row[:3], "  ".join("≠ " * cell.odd + cell.word for cell in row.cells if cell)] for row in rows]
    table = page.Table(["operand", "text", "type", "dims"], cells) if rows else None
    return page.Page("error", name, [page.Group([head, *apart], look)], table)


def _facts(error: BaseException, rows: Sequence[StripRow], *, has_origins: bool) -> list[tuple[str, str]]:
    """The facts that strips and origins do not already show."""
    names = ["got", "expected", *([] if has_origins else ["made"]), "hint"]
    facts = [(name, str(fact)[:WORDS]) for name in names if (fact := getattr(error, name, None)) is not None]
    return [(name, fact) for name, fact in facts if not (name == "got" and _is_shown(fact, rows))]


def _is_shown(fact: str, rows: Sequence[StripRow]) -> bool:
    """Whether a fact only repeats dims of the strips: "`a` {batch:2, time:3–5} and `b` {feat:4}"."""
    words = [printable_name(dim_word(cell.dim)) for row in rows for cell in row.cells if cell and cell.dim]
    named = [dim for group in re.findall(r"{(.*?)}", fact) for dim in group.split(", ") if dim]
    return bool(named) and all(any(word.startswith(dim) for word in words) for dim in named)


def _facts_grid(facts: Sequence[tuple[str, str]]) -> page.Grid:
    fact_look = "padding:1px 0;text-align:left;border:none;background:none;white-space:pre-wrap;overflow-wrap:anywhere"
    rows = [[name, page.bold(fact) if name == "hint" else fact] for name, fact in facts]
    looks = [f"{style.LABEL_CELL};vertical-align:top", fact_look]
    return page.Grid(rows, looks=looks, look=f"{style.TABLE};font-family:sans-serif;font-size:13px")


def place_of(error: BaseException) -> Source | None:
    """The user's line that raised an error."""
    at = getattr(error, "at", None)
    if isinstance(at, Source):
        return at
    number = innermost_call(error)
    return None if number is None else steps_of(error)[number][1]


def _callers(code: Code | None, frames: Sequence[Frame]) -> list[str]:
    """The user's lines that called the one shown."""
    users = [frame for frame in frames if frame.whose == "user"]
    callers = users[:-1] if users and code is not None and users[-1].place == code.place else users
    return [f"called in {frame.place}: {frame.text}".removesuffix(": ") for frame in callers]
