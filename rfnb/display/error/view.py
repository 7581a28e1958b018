"""The card of an error: the user's line, the call with its operands as strips of dims, a hint, and the traceback.

In strips, equal dims are below each other, and dims that do not fit are marked.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypedDict

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Lengths
from rfnb.core.ground.source import Source, innermost_call, is_own, is_users, steps_of
from rfnb.display.error.failed_call import Argument, OperandCell, aligned, dims_in, failed_call
from rfnb.display.kit.blocks import Notes
from rfnb.display.kit.data import DimView, describe_dim, dim_word, named_pill, names_of, size_word
from rfnb.display.markup import elements, style
from rfnb.display.markup.elements import fold, note_html, note_text, quiet, wide
from rfnb.display.markup.html import Html, el, join
from rfnb.errors import fact_lines
from rfnb.printable import error_text, printable_name


class StripCell(TypedDict):
    """A dim of an operand, or a size of an array without dims."""

    dim: DimView | None
    word: str  # "time:3–5 Σ8", "time [5, 3]"
    odd: bool  # it does not fit


class StripRow(TypedDict):
    """An operand: its dims below equal dims of the others, with None where it lacks a dim."""

    name: str  # of the parameter
    text: str  # what the user's line says
    type: str  # "float32", "Dim", "numpy.ndarray"
    cells: list[StripCell | None]


class DimOrigin(TypedDict):
    """Where a dim comes from."""

    dim: DimView
    name: str  # "time¹" if another dim has the same name
    where: str  # "ceil(time/2), made in cell 3, line 1"
    text: str | None  # the expression that made it
    odd: bool


class CodeView(TypedDict):
    """Some lines of the user's code, and the expression in question."""

    place: str
    function: str | None  # None outside of functions
    first_line: int  # 1-based, in the file or cell
    lines: list[str]
    marks: list[list[int]]  # per line: [start, end] of the expression in it, or []


class FrameView(TypedDict):
    """A frame of a traceback."""

    place: str
    function: str
    text: str
    whose: Literal["user", "rfnb", "other"]


class CauseView(TypedDict):
    """An earlier error, and how it relates to this one."""

    error: str  # "KeyError: 'x'"
    relation: Literal["caused by", "while handling"]
    frames: list[FrameView]


class ErrorView(TypedDict):
    """An error: the user's line, the call in it, and the dims that do not fit."""

    kind: Literal["error"]
    name: str  # of the class
    what: str
    facts: list[list[str]]  # [["expected", "..."], ["hint", "..."]]
    notes: list[str]
    code: CodeView | None
    call: str | None  # the function of rfnb: "reduce_sum", "layers.0: Linear"
    rows: list[StripRow]
    origins: list[DimOrigin]
    frames: list[FrameView]
    causes: list[CauseView]
    note: str | None  # what could not be told


# -- the code

AROUND = 2
"""Number of lines shown above and below the place."""
LINES = 12
"""Largest number of lines shown of an expression."""
WIDTH = 200


def describe_code(source: Source) -> CodeView:
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
    name = source.code.co_name
    return {
        "place": source.place(),
        "function": None if name.startswith("<module") else name,
        "first_line": first + source.line - span.line,
        "lines": lines,
        "marks": [_mark(source, number, line) for number, line in enumerate(lines, first)],
    }


def _mark(source: Source, number: int, line: str) -> list[int]:
    """Start and end of the expression on a line, in characters; columns of Python count bytes."""
    span = source.span
    if not span.line <= number <= span.end_line:
        return []
    data = line.encode()
    start = span.col if number == span.line else len(data) - len(data.lstrip())
    end = span.end_col if number == span.end_line and span.end_col else len(data)
    return [len(data[:at].decode(errors="replace")) for at in (start, end)]


def code_text(code: CodeView) -> list[str]:
    """The place, then the lines with `^` below the expression."""
    lines = [_where(code)]
    for number, (line, mark) in enumerate(zip(code["lines"], code["marks"], strict=True), code["first_line"]):
        lines.append(f"  {'→' if mark else ' '} {number:>4}  {line}")
        if mark and mark[1] > mark[0]:
            lines.append(" " * (10 + mark[0]) + "^" * (mark[1] - mark[0]))
    return lines


def _where(code: CodeView) -> str:
    return code["place"] + (f", in {code['function']}" if code["function"] else "")


def code_html(code: CodeView) -> Html:
    """The code as HTML; long lines are wrapped."""
    rows = [
        _line_html(number, line, mark)
        for number, (line, mark) in enumerate(zip(code["lines"], code["marks"], strict=True), code["first_line"])
    ]
    where = quiet(_where(code), tag="div")
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
    described: list[StripRow] = [
        {
            "name": row.argument.name,
            "text": row.argument.text,
            "type": row.type,
            "cells": [_cell(column[number], names) if number in column else None for column in columns],
        }
        for number, row in enumerate(rows)
        if row.cells or row.argument.text
    ]
    return described, _origins(cells, names)


def _cell(cell: OperandCell, names: dict[int, str]) -> StripCell:
    if cell.dim is None or cell.lengths is None:
        return {"dim": None, "word": str(cell.number), "odd": cell.odd}
    dim = describe_dim(cell.dim, cell.lengths)
    lengths = dim["lengths"]
    size = f":{size_word(dim)}"
    if cell.spelled and lengths and len(lengths) <= SHOWN_LENGTHS:
        size = f" {lengths}"
    return {"dim": dim, "word": names[cell.dim.serial] + size, "odd": cell.odd}


def _origins(cells: Sequence[OperandCell], names: dict[int, str]) -> list[DimOrigin]:
    """The origin of each dim, first of dims that do not fit; two origins for a dim with two lengths."""
    origins: dict[Any, DimOrigin] = {}
    for cell in cells:
        if cell.dim is not None and cell.lengths is not None:
            bound = cell.size.made if cell.spelled and cell.size is not None else None
            place = None if bound is None else bound.place()
            origin = _origin(cell.dim, names[cell.dim.serial], cell.lengths, place, odd=cell.odd)
            if origin["dim"]["made"] or place:
                origins.setdefault((cell.dim.serial, place), origin)
    return sorted(origins.values(), key=lambda origin: not origin["odd"])


def _origin(dim: Dim, name: str, lengths: Lengths, bound: str | None, *, odd: bool) -> DimOrigin:
    view = describe_dim(dim, lengths)
    formula = view["formula"] if view["formula"] != dim.name else None
    place = f"made in {view['made']}" if view["made"] else None
    where = ", ".join(part for part in (formula, place, f"bound in {bound}" if bound else None) if part)
    text = None if dim.made is None else dim.made.text() or None
    return {"dim": view, "name": name, "where": where, "text": text, "odd": odd}


def strips_text(rows: Sequence[StripRow]) -> list[str]:
    """One line per operand, in columns, with `^` below dims that do not fit."""
    words = [[cell["word"] if cell else "" for cell in row["cells"]] for row in rows]
    table = [[*head, *cells] for head, cells in zip(_heads(rows), words, strict=True)]
    columns = list(zip(*(row["cells"] for row in rows), strict=True))
    odd = [any(cell is not None and cell["odd"] for cell in column) for column in columns]
    if any(odd):
        widths = [max(len(cell["word"]) if cell else 0 for cell in column) for column in columns]
        marks = ["^" * size if wrong else "" for wrong, size in zip(odd, widths, strict=True)]
        table.append(["", "", "", *marks])
    return elements.aligned(table)


def _heads(rows: Sequence[StripRow]) -> list[list[str]]:
    return [[row["name"], row["text"] if row["text"] != row["name"] else "", row["type"]] for row in rows]


def origins_text(origins: Sequence[DimOrigin]) -> list[str]:
    """`time+1  made in cell 3, line 1: rf.pad(x, …)`"""
    width = max((len(origin["name"]) for origin in origins), default=0)
    return [
        f"{origin['name']:<{width}}  {origin['where']}" + (f": {origin['text']}" if origin["text"] else "")
        for origin in origins
    ]


def strips_html(rows: Sequence[StripRow]) -> Html:
    """The operands as rows of pills."""
    lines = [_row_html(row, head) for row, head in zip(rows, _heads(rows), strict=True)]
    return wide(el("table", lines, style=style.TABLE))


def _row_html(row: StripRow, head: list[str]) -> Html:
    name, text, kind = head
    look = f"{style.LABEL_CELL};vertical-align:middle"
    cells = [
        el("td", name, style=look),
        el("td", text, style=f"{look};opacity:1;font-weight:bold;white-space:normal;max-width:18em"),
        el("td", kind, style=look),
        *(
            el("td", _pill(cell), style="padding:3px 2px 3px 0;text-align:left;border:none;background:none")
            for cell in row["cells"]
        ),
    ]
    return el("tr", cells, style=style.PLAIN_ROW)


def _pill(cell: StripCell | None) -> Html | None:
    if cell is None:
        return None
    dim = cell["dim"]
    odd = f";outline:2px solid {style.ALARM}" if cell["odd"] else ""
    mark = el("b", "≠ ") if cell["odd"] else None
    if dim is None:
        return el("span", mark, cell["word"], " ", style=style.pill(None) + odd)
    return named_pill(dim, [mark, cell["word"]], odd)


def origins_html(origins: Sequence[DimOrigin]) -> Html:
    """A line for each dim: where it was made, and by which expression."""
    return wide(el("table", [_origin_row(origin) for origin in origins], style=style.TABLE))


def _origin_row(origin: DimOrigin) -> Html:
    cells = [
        el("td", named_pill(origin["dim"], origin["name"]), style=style.LEFT_CELL),
        el("td", origin["where"], style=f"{style.LEFT_CELL};{style.QUIET}"),
        el("td", origin["text"], style=style.LEFT_CELL),
    ]
    return el("tr", cells, style=style.PLAIN_ROW)


# -- the traceback

FRAMES = 40
CAUSES = 4


def describe_frames(error: BaseException) -> list[FrameView]:
    """Frames from the user's first line on; the first and last ones if there are very many."""
    frames = [_frame(source) for _, source in steps_of(error)]
    first = next((i for i, frame in enumerate(frames) if frame["whose"] == "user"), 0)
    frames = frames[first:]
    if len(frames) <= FRAMES:
        return frames
    left_out: FrameView = {"place": "", "function": "", "text": f"… {len(frames) - FRAMES} more", "whose": "other"}
    return [*frames[: FRAMES // 2], left_out, *frames[-FRAMES // 2 :]]


def _frame(source: Source) -> FrameView:
    code = source.code
    generated = code.co_qualname.startswith("make.<locals>")  # by `core.tensor.op`: there is no such line in the file
    return {
        "place": source.place() if is_users(code) else f"{_path_of(source)}:{source.line}",
        "function": code.co_name,
        "text": "" if generated else source.text(),
        "whose": "rfnb" if is_own(code) else "user" if is_users(code) else "other",
    }


def _path_of(source: Source) -> str:
    """The path of a library's file, from the name of its package on."""
    if is_own(source.code):
        return f"rfnb{source.file.rpartition('/rfnb')[2]}"
    return source.file.partition("-packages/")[2] or source.file


def describe_causes(error: BaseException) -> Iterator[CauseView]:
    """The errors that caused this one, the nearest first."""
    for _ in range(CAUSES):
        cause = error.__cause__
        earlier = cause or (None if error.__suppress_context__ else error.__context__)
        if earlier is None:
            return
        error = earlier
        yield {
            "error": error_text(error)[:2000],
            "relation": "caused by" if cause is not None else "while handling",
            "frames": describe_frames(error),
        }


def cause_text(cause: CauseView) -> str:
    """ "caused by cell 5, line 2: KeyError: 'a'" """
    places = [frame["place"] for frame in cause["frames"] if frame["whose"] == "user"]
    return " ".join([cause["relation"], *(f"{place}:" for place in places[-1:]), cause["error"]])


def frames_html(frames: Sequence[FrameView]) -> Html:
    """A line for the place and one for the code of each frame; frames of libraries are quiet."""
    return el(
        "div",
        [_frame_html(frame) for frame in frames],
        style=f"{style.NUMBERS};margin:2px 0 4px 14px;overflow-wrap:anywhere",
    )


def _frame_html(frame: FrameView) -> Html:
    where = f"{frame['place']}, in {frame['function']}" if frame["place"] else None
    is_library = frame["whose"] != "user"
    return el(
        "div",
        el("div", where, style=None if is_library else style.QUIET) if where else None,
        el("div", frame["text"], style="padding-left:16px") if frame["text"] else None,
        style=style.QUIET if is_library else None,
    )


def cause_html(cause: CauseView) -> Html:
    """The message of the error and its frames."""
    return join(el("div", cause["error"], style=f"{style.CODE};white-space:pre-wrap"), frames_html(cause["frames"]))


# -- the card

WORDS = 4000
"""Longest fact, in characters."""


def describe(error: BaseException) -> ErrorView:
    """An error as JSON, without tensors and frames. Parts that cannot be computed are left out."""
    notes = Notes()
    call = notes.attempt("call", lambda: failed_call(error), None)
    place = notes.attempt("place", lambda: _place(error), None)
    odd = getattr(error, "dims", ())
    empty: tuple[list[StripRow], list[DimOrigin]] = [], []
    strips = notes.attempt("operands", lambda: describe_strips(call.arguments, odd) if call else empty, empty)
    view: ErrorView = {
        "kind": "error",
        "name": type(error).__name__,
        "what": str(getattr(error, "what", error))[:WORDS],
        "facts": _facts(error),
        "notes": [str(note) for note in getattr(error, "__notes__", [])],
        "code": notes.attempt("line", lambda: None if place is None else describe_code(place), None),
        "call": call.title if call else None,
        "rows": strips[0],
        "origins": strips[1],
        "frames": notes.attempt("traceback", lambda: describe_frames(error), []),
        "causes": notes.attempt("cause", lambda: list(describe_causes(error)), []),
        "note": None,
    }
    view["note"] = notes.text()
    return view


def _facts(error: BaseException) -> list[list[str]]:
    facts = [(name, getattr(error, name, None)) for name in ("got", "expected", "made", "hint")]
    return [[name, str(fact)[:WORDS]] for name, fact in facts if fact is not None]


def _place(error: BaseException) -> Source | None:
    at = getattr(error, "at", None)
    if isinstance(at, Source):
        return at
    number = innermost_call(error)
    return None if number is None else steps_of(error)[number][1]


def _other_facts(view: ErrorView) -> list[list[str]]:
    """The facts that strips and origins do not already show."""
    return [
        [name, fact]
        for name, fact in view["facts"]
        if not (name == "made" and view["origins"]) and not (name == "got" and _is_shown(fact, view))
    ]


def _is_shown(fact: str, view: ErrorView) -> bool:
    """Whether a fact only repeats dims of the strips: "`a` {batch:2, time:3–5} and `b` {feat:4}"."""
    dims = [cell["dim"] for row in view["rows"] for cell in row["cells"] if cell and cell["dim"]]
    words = [printable_name(dim_word(dim)) for dim in dims]
    named = [dim for group in re.findall(r"{(.*?)}", fact) for dim in group.split(", ") if dim]
    return bool(named) and all(any(word.startswith(dim) for word in words) for dim in named)


def _callers(view: ErrorView) -> list[FrameView]:
    """The user's lines that called the one shown."""
    place = view["code"]["place"] if view["code"] else None
    users = [frame for frame in view["frames"] if frame["whose"] == "user"]
    return users[:-1] if users and users[-1]["place"] == place else users


def to_text(view: ErrorView) -> str:
    """The message, the line, the operands and the hint; then the callers."""
    parts = [
        [f"{view['name']}: {view['what']}"],
        code_text(view["code"]) if view["code"] else [],
        [str(view["call"]), *(f"  {line}" for line in strips_text(view["rows"]))] if view["rows"] else [],
        [f"  {line}" for line in origins_text([origin for origin in view["origins"] if origin["odd"]])],
        fact_lines(_other_facts(view)),
        view["notes"],
        [f"called in {frame['place']}: {frame['text']}".removesuffix(": ") for frame in _callers(view)],
        [cause_text(cause) for cause in view["causes"]],
        note_text(view["note"], ""),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines)


def to_html(view: ErrorView) -> Html:
    """The card as HTML; traceback and causes are folded."""
    odd = [origin for origin in view["origins"] if origin["odd"]]
    regular = [origin for origin in view["origins"] if not origin["odd"]]
    look = f"{style.BOX};border-left:4px solid {style.ALARM};padding:2px 0 2px 12px"
    return el(
        "div",
        el("div", el("b", view["name"], style=style.MARKED), " ", view["what"], style="margin-bottom:4px"),
        code_html(view["code"]) if view["code"] else None,
        _operands_html(view) if view["rows"] else None,
        origins_html(odd) if odd else None,
        _facts_html(_other_facts(view)),
        [quiet(note, tag="div") for note in view["notes"]],
        fold("where the other dims come from", origins_html(regular)) if regular else None,
        fold("traceback", frames_html(view["frames"])) if view["frames"] else None,
        [fold(cause_text(cause).splitlines()[0], cause_html(cause)) for cause in view["causes"]],
        note_html(view["note"]),
        style=look,
    )


def _operands_html(view: ErrorView) -> Html:
    return el("div", el("div", view["call"], style=style.NAME), strips_html(view["rows"]), style="margin-top:6px")


def _facts_html(facts: list[list[str]]) -> Html | None:
    if not facts:
        return None
    rows = [
        el(
            "tr",
            el("td", name, style=f"{style.LABEL_CELL};vertical-align:top"),
            el("td", el("b", fact) if name == "hint" else fact, style=_FACT),
            style=style.PLAIN_ROW,
        )
        for name, fact in facts
    ]
    return wide(el("table", rows, style=f"{style.TABLE};font-family:sans-serif;font-size:13px"))


_FACT = "padding:1px 0;text-align:left;border:none;background:none;white-space:pre-wrap;overflow-wrap:anywhere"
