"""A place in the user's code: some lines around it, with the expression in question marked."""

from __future__ import annotations

import linecache

from rfnb.core.ground.source import Source
from rfnb.display.error.schema import CodeView
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.widgets_html import quiet

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
    meant = (
        f"text-decoration:underline;text-decoration-color:{style.ALARM};text-decoration-thickness:2px;font-weight:bold"
    )
    text = join(line[:start], el("span", line[start:end], style=meant), line[end:]) if mark else line
    shade = f"background-color:{style.tint(style.ALARM, 0.1)}" if mark else f"background:none;{style.QUIET}"
    number_look = "padding:1px 10px 1px 4px;text-align:right;border:none;background:none;opacity:0.65"
    cells = [el("td", str(number), style=number_look), el("td", text, style=f"{style.CODE};{_CELL};width:100%")]
    return el("tr", cells, style=shade)


_CELL = "padding:1px 4px;text-align:left;border:none;background:none;white-space:pre-wrap;overflow-wrap:anywhere"
