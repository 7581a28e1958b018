"""Pages: what a view shows, as blocks. Three printers write them: as text, as HTML, and as plain JSON.

>>> words = Grid([["kiwi", 3], ["fig", 12]], ["word", "count"])
>>> print(to_text(Page("lexicon", "fruit", [Line("2 words"), words])))
2 words
  word  count
  kiwi  3
  fig   12
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from textwrap import indent
from typing import Any, Literal, TypeVar

from rfnb.display.kit.data import DimView, dim_pill, dim_word, dims_html, dims_text
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, bounded_in, el, join, note_html, quiet as quiet_html, wide
from rfnb.display.markup.numbers import plain as number, short
from rfnb.errors import RfError, fact_lines
from rfnb.printable import bounded, encodable, error_message, printable_name

__all__ = "Facts Figure Fold Grid Group Line Note Only Page Row bold chip mono name quiet web".split()
__dir__ = __all__.copy  # what is offered for completion: no imports


T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


class Notes:
    """Collects what could not be shown, and why, as one line.

    >>> notes = Notes()
    >>> notes.attempt("picture", lambda: 1 / 0, None)
    >>> notes.text()
    'no picture: ZeroDivisionError: division by zero'
    """

    def __init__(self, *lines: str):
        self.lines = list(lines)

    def add(self, line: str | None) -> None:
        """Adds a line, unless it is None."""
        if line:
            self.lines.append(line)

    def attempt(self, part: str, make: Callable[[], T], otherwise: T) -> T:
        """The result of `make`; if it raises, `otherwise`, and a note."""
        try:
            return make()
        except Exception as error:
            self.add(f"no {part}: {reason(error)}")
            return otherwise

    def text(self) -> str | None:
        """All lines, or None if there are none."""
        return "; ".join(self.lines) or None


def reason(error: BaseException) -> str:
    """An error in one line: message and hint of an rfnb error, class and first line of any other."""
    if isinstance(error, RfError):
        return f"{error.what}; {error.hint}" if error.hint else error.what
    lines = error_message(error).splitlines()
    return f"{type(error).__name__}: {lines[0][:200]}" if lines else type(error).__name__


@dataclass(frozen=True)
class Span:
    """Words with a look of their own in HTML.

    Args:
        words: what HTML shows.
        look: a CSS style.
        text: what a terminal shows in their place.
        title: what is shown on hover.
        tag: the element.
    """

    words: Words
    look: str = ""
    text: str | None = None
    title: str | None = None
    tag: str = "span"


Words = str | int | float | None | Span | Sequence["Words"]
"""Text, numbers, spans, and lists of these; None is nothing."""


def quiet(*words: Words) -> Span:
    """Words in a quieter colour.

    >>> plain(quiet("figs"))
    'figs'
    """
    return Span(words, style.QUIET)


def name(*words: Words) -> Span:
    """The name of what is shown.

    >>> plain(name("figs"))
    'figs'
    """
    return Span(words, style.NAME)


def head(title: Words, *facts: Words) -> Line:
    """The first line of most views: the name of what is shown, and facts in a quieter colour.

    >>> print(to_text(Page("fruit", "kiwi", [head("kiwi", " · 3 figs")])))
    kiwi · 3 figs
    """
    return Line(name(title), quiet(*facts), look=style.HEAD)


def bold(*words: Words) -> Span:
    """Bold words.

    >>> plain(bold("figs"))
    'figs'
    """
    return Span(words, tag="b")


def mono(*words: Words) -> Span:
    """Words in the font of code.

    >>> plain(mono("figs"))
    'figs'
    """
    return Span(words, style.NUMBERS)


def chip(words: Words, colour: str, text: str | None = None) -> Span:
    """A word that should be noticed.

    >>> plain(chip("NaN", style.ALARM, text="[NaN]"))
    '[NaN]'
    """
    return Span([words, web(" ")], style.chip(colour), text)


def web(*words: Words) -> Span:
    """Words that only HTML has.

    >>> plain(web("click here"))
    ''
    """
    return Span(words, text="")


def pill(dim: DimView) -> Span:
    """A dim with its size, in its colour."""
    dim = bounded_in(dim)
    return Span(dim_pill(dim), text=dim_word(dim))


def pills(dims: Iterable[DimView]) -> Span:
    """The dims of a tensor."""
    dims = [bounded_in(dim) for dim in dims]
    return Span(dims_html(dims), text=dims_text(dims))


def plain(words: Words) -> str:
    """The words as text."""
    if isinstance(words, Span):
        return plain(words.words) if words.text is None else bounded(words.text)
    if isinstance(words, list | tuple):
        return "".join(map(plain, words))
    return "" if words is None else short(words) if isinstance(words, int | float) else bounded(str(words))


def markup(words: Words) -> Html:
    """The words as HTML."""
    if isinstance(words, Span):
        content, look = markup(words.words), words.look or None
        is_plain = words.tag == "span" and not look and not words.title
        return content if is_plain else el(words.tag, content, style=look, title=words.title)
    if isinstance(words, list | tuple):
        return join([markup(word) for word in words])
    return words if isinstance(words, Html) else join(plain(words))


# -- blocks


@dataclass(frozen=True, init=False)
class Line:
    """A line of words; `look` is its CSS style, `indent` how many spaces a terminal shows before it.

    >>> print(to_text(Page("fruit", "kiwi", [Line("2 ", bold("words"))])))
    2 words
    """

    words: Words
    look: str = ""
    indent: int = 0

    def __init__(self, *words: Words, look: str = "", indent: int = 0):
        for field, value in (("words", words), ("look", look), ("indent", indent)):
            object.__setattr__(self, field, value)


@dataclass(frozen=True)
class Facts:
    """Labelled facts, one below the other.

    >>> print(to_text(Page("fruit", "kiwi", [Facts([("colour", "green"), ("number", 3)])])))
      colour  green
      number  3
    """

    rows: Sequence[tuple[str, Words]]


@dataclass(frozen=True)
class Row:
    """A row of a grid that is not like the others: its CSS style, more style of its cells, or lines below it.

    >>> print(to_text(Page("fruit", "kiwi", [Grid([["fig", 12], Row(["kiwi", 3], below=["since May"])])])))
      fig   12
      kiwi  3
        since May
    """

    cells: Sequence[Words]
    look: str = style.PLAIN_ROW
    below: Sequence[Words] = ()
    cell: str = ""


@dataclass(frozen=True)
class Grid:
    """Rows of cells in columns.

    Args:
        rows: the cells of each, or a `Row`.
        columns: the header; None has none.
        looks: the CSS style of each column.
        indent: how many spaces a terminal shows before it.
        head: the CSS style of the header, or of each of its cells.

    >>> print(to_text(Page("fruit", "kiwi", [Grid([["kiwi", 3], ["fig", 12]], ["word", "count"])])))
      word  count
      kiwi  3
      fig   12
    """

    rows: Sequence[Sequence[Words] | Row]
    columns: Sequence[str] | None = None
    looks: Sequence[str] = ()
    indent: int = 2
    head: str | Sequence[str] = style.LEFT_CELL
    look: str = style.TABLE


@dataclass(frozen=True)
class Table:
    """Named columns and rows; `pandas.DataFrame(list(table))` turns it into a data frame.

    >>> Table(["state", "norm"], [["h", 0.123456], ["c", None]])
    state  norm
    h      0.123
    c
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Each row as a dict."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def lines(self) -> list[str]:
        """The columns and rows as text, aligned."""
        return aligned([[printable_name(_word(cell)) for cell in row] for row in (self.columns, *self.rows)])

    def __repr__(self) -> str:
        return encodable("\n".join(self.lines()))

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self), "text/html": str(table_html(self))}


@dataclass(frozen=True)
class Fold:
    """Blocks below a title, which a click reveals; a terminal shows them all.

    >>> print(to_text(Page("fruit", "kiwi", [Fold("more", [Line("and figs")])])))
    more
      and figs
    """

    title: Words
    blocks: Sequence[Block]
    is_open: bool = False
    rail: bool = False


@dataclass(frozen=True)
class Group:
    """Blocks with a CSS style around them, which a terminal indents; at most so many lines of them.

    >>> print(to_text(Page("fruit", "kiwi", [Group([Line("figs")], indent=2)])))
      figs
    """

    blocks: Iterable[Block]
    look: str = ""
    indent: int = 0
    most: int | None = None


@dataclass(frozen=True)
class Figure:
    """What is drawn in a way of its own: HTML, or a function that draws it, and the lines that a terminal shows for it.

    >>> print(to_text(Page("fruit", "kiwi", [Figure(rf.el("hr"), ["---"])])))
    ---
    """

    html: Html | Callable[[], Html | None] | None
    lines: Sequence[str] = ()


@dataclass(frozen=True)
class Note:
    """What is left out, and why; None is nothing.

    >>> print(to_text(Page("fruit", "kiwi", [Note("and 5 more"), Note(None)])))
      (and 5 more)
    """

    words: str | None
    indent: int = 2


@dataclass(frozen=True)
class Only:
    """Blocks that only a terminal shows ("text"), or only HTML ("html").

    >>> print(to_text(Page("fruit", "kiwi", [Only("text", [Line("figs")]), Only("html", [Line("kiwis")])])))
    figs
    """

    where: Literal["text", "html"]
    blocks: Iterable[Block]


Block = Line | Facts | Grid | Table | Fold | Group | Figure | Note | Only | None


@dataclass(frozen=True)
class Later:
    """Blocks that are made when they are printed, each time.

    >>> print(to_text(Page("fruit", "kiwi", Later(lambda: [Line("figs")]))))
    figs
    """

    make: Callable[[], Iterable[Block]]

    def __iter__(self) -> Iterator[Block]:
        return iter(self.make())


@dataclass(frozen=True)
class Page:
    """What a view shows of an object.

    Args:
        kind: of the view.
        name: of the object, which is also the title of a saved page.
        blocks: what is shown, from above; None is nothing.
        table: what `view.table()` gives.
        short: what `repr` shows in place of all blocks.
        drawing: a view whose picture is saved as SVG, and drawn as a figure.

    >>> rf.page.Page("fruit", "kiwi", [rf.page.Line("green")]).name
    'kiwi'
    """

    kind: str
    name: str
    blocks: Iterable[Block]
    table: Table | None = None
    short: Sequence[Block] | None = None
    drawing: Any = None


def shows(kind: str, *classes: str) -> Callable[[F], F]:
    """Marks the function that makes the page of an object, or its JSON: rfnb reads the marks from the files of views.

    kind: of the view. classes: their full names; subclasses are shown alike.
    """
    return lambda make: make


def note_page(shown: str, why: str) -> Page:
    """The page of an object that cannot be shown, with the reason."""
    return Page("note", shown, [Line(shown, quiet(f" ({why})"))])


# -- text


def to_text(page: Page) -> str:
    """The page as text."""
    return "\n".join(lines_of(page.blocks))


def to_repr(page: Page) -> str:
    """The page as text, in short."""
    return "\n".join(lines_of(page.blocks if page.short is None else page.short))


def lines_of(blocks: Iterable[Block]) -> Iterator[str]:
    """The lines of blocks as a terminal shows them."""
    for block in blocks:
        yield from _lines(block)


def _lines(block: Block) -> Iterable[str]:
    match block:
        case Line(words, _, spaces):
            text = plain(words)
            return indent(text, " " * spaces).split("\n")
        case Facts(rows):
            return fact_lines((plain(label), plain(words)) for label, words in rows)
        case Grid():
            return [" " * block.indent + line for line in _grid_lines(block)]
        case Table():
            return block.lines()
        case Fold(title, blocks):
            heading = plain(title)
            return [heading, *_indented(blocks, 2)] if heading else lines_of(blocks)
        case Group(blocks, _, spaces, most):
            lines = list(_indented(blocks, spaces))
            if most is None or len(lines) <= most:
                return lines
            return [*lines[:most], f"… {len(lines) - most} more lines; all: .table()"]
        case Only("text", blocks):
            return lines_of(blocks)
        case Figure(_, lines):
            return lines
        case Note(words, spaces) if words:
            return [f"{' ' * spaces}({bounded(words)})"]
    return []


def _indented(blocks: Iterable[Block], spaces: int) -> Iterator[str]:
    return (f"{' ' * spaces}{line}" if line else line for line in lines_of(blocks))


def _rows(grid: Grid) -> list[Row]:
    return [row if isinstance(row, Row) else Row(row) for row in grid.rows]


def _grid_lines(grid: Grid) -> Iterator[str]:
    rows = _rows(grid)
    head = [] if grid.columns is None else [Row(grid.columns)]
    lines = aligned([[printable_name(plain(cell)) for cell in row.cells] for row in [*head, *rows]])
    for line, row in zip(lines, [*head, *rows], strict=True):
        yield line
        yield from map(plain, row.below)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """One line per row, with aligned columns; short rows are filled with empty cells.

    >>> aligned([["state", "norm"], ["h", "0.12"], ["cell"]])
    ['state  norm', 'h      0.12', 'cell']
    """
    widths = [max(map(len, column)) for column in zip_longest(*rows, fillvalue="")]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _word(cell: object) -> str:
    if cell is None:
        return ""
    return short(cell) if isinstance(cell, int | float) and not isinstance(cell, bool) else bounded(str(cell))


# -- HTML


def to_html(page: Page) -> Html:
    """The page as HTML."""
    return el("div", html_of(page.blocks), style=style.BOX)


def html_of(blocks: Iterable[Block]) -> Html:
    """Blocks as HTML, one below the other."""
    return join([_html(block) for block in blocks])


def _html(block: Block) -> Html | None:
    match block:
        case Line(words, look):
            content = markup(words)
            return el("div", content, style=look or None) if content else None
        case Facts(rows):
            return _grid_html(Grid(rows, looks=[FACT_LABEL, style.LEFT_CELL]))
        case Grid():
            return _grid_html(block)
        case Table():
            return table_html(block)
        case Fold(title, blocks, is_open, rail):
            content = html_of(blocks)
            summary = el("summary", markup(title), style=style.FOLD)
            return el("details", summary, el("div", content, style=style.RAIL) if rail else content, open=is_open)
        case Group(blocks, look, _, most):
            room = [most] if most is not None else [10**9]
            content = html_of(list(_first(blocks, room)))
            if room[0] <= 0 and most is not None:
                content = join(content, quiet_html("… and more; all: .table()", tag="div"))
            return el("div", content, style=look or None) if content else None
        case Only("html", blocks):
            return html_of(blocks)
        case Figure(html):
            return html() if callable(html) else html
        case Note(words):
            return note_html(words and bounded(words))
    return None


def _first(blocks: Iterable[Block], room: list[int]) -> Iterator[Block]:
    """The blocks for which there is room, in lines."""
    for block in blocks:
        if room[0] <= 0:
            return
        if isinstance(block, Fold | Group):
            room[0] -= isinstance(block, Fold)
            yield replace(block, blocks=list(_first(block.blocks, room)))
        else:
            room[0] -= not isinstance(block, Only)
            yield block


def _grid_html(grid: Grid) -> Html | None:
    rows = _rows(grid)
    if not rows:
        return None
    width = max(len(row.cells) for row in rows)
    looks = [*grid.looks, *[style.LEFT_CELL] * (width - len(grid.looks))]
    names, heads = grid.columns or (), [grid.head] * width if isinstance(grid.head, str) else grid.head
    head = [el("th", markup(word), style=look) for word, look in zip(names, heads, strict=False)]
    body = []
    for row in rows:
        cells = [el("td", markup(cell), style=look + row.cell) for cell, look in zip(row.cells, looks, strict=False)]
        body.append(el("tr", cells, style=row.look))
        if extra := markup(row.below):
            body.append(el("tr", el("td", extra, colspan=width, style=looks[0]), style=style.PLAIN_ROW))
    table = el("table", el("thead", el("tr", head, style=style.PLAIN_ROW)) if head else None, body, style=grid.look)
    return wide(table)


FACT_LABEL = f"{style.LABEL_CELL};vertical-align:top;padding-top:2px"


def table_html(table: Table) -> Html:
    """The table as HTML, with a header of column names."""
    rows = [el("tr", [_cell(_word(cell)) for cell in cells], style=style.PLAIN_ROW) for cells in table.rows]
    names = [el("th", bounded(name), style=style.LEFT_CELL) for name in table.columns]
    head = el("thead", el("tr", names, style=style.PLAIN_ROW))
    return wide(el("table", head, el("tbody", rows), style=style.TABLE))


def _cell(words: str) -> Html:
    """A cell that is not broken into a line for each word where the table is wider than its frame."""
    broken = "white-space:nowrap" if len(words) <= SHORT else "min-width:16em"
    return el("td", words, style=f"{style.LEFT_CELL};{broken}" if " " in words else style.LEFT_CELL)


SHORT = 24
"""Number of characters up to which the words of a cell stay in one line."""


# -- JSON


def to_data(page: Page) -> dict[str, object]:
    """The page as plain JSON: its kind, its name, its text, and the rows of its table by column."""
    data: dict[str, object] = {"kind": page.kind, "name": page.name, "text": to_text(page)}
    if page.table is None:
        return data
    return {**data, "rows": [{column: _json(cell) for column, cell in row.items()} for row in page.table]}


def _json(cell: object) -> object:
    if cell is None or isinstance(cell, bool):
        return cell
    return number(cell) if isinstance(cell, int | float) else str(cell)
