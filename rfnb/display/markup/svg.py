"""SVG as nested calls, and the width of words. `html.el` escapes all text."""

from __future__ import annotations

import base64
import io
import struct
from collections.abc import Sequence
from itertools import pairwise

from rfnb.core.ground.text import cut
from rfnb.display.markup.html import Child, Html, el
from rfnb.errors import ViewError
from rfnb.printable import printable_name

FONT = "system-ui,-apple-system,'Segoe UI','DejaVu Sans',Verdana,sans-serif"
WORDS = "#666666"
"""Colour of words that stand on the page itself, outside of boxes."""
NARROW = frozenset("ijlI.,:;'|!ft()[]{} -/\\·")
WIDE = frozenset("mwMW@%—")
Point = tuple[float, float]


def width(text: str, size: float, *, bold: bool = False) -> float:
    """Upper bound of the width of a word, in common fonts.

    >>> width("time", 10) < width("batch", 10) < width("MMMMM", 10)
    True
    """
    ems = sum(map(_em, text))
    return ems * size * (1.1 if bold else 1.0)


def _em(char: str) -> float:
    if char in NARROW:
        return 0.4
    if char in WIDE:
        return 1.0
    if char > "\u2e7f":
        return 1.05
    return 0.72 if char.isupper() else 0.64


def elided(text: str, size: float, room: float, *, bold: bool = False) -> str:
    """The text, shortened in the middle if there is not enough room.

    >>> elided("encoder.layers.0.self_attention", 10, 100)
    'encoder.…ttention'
    """
    if width(text, size, bold=bold) <= room:
        return text
    length = max(2, int(len(text) * room / width(text, size, bold=bold)) - 1)
    while length > 2 and width(text[: length // 2] + "…" + text[-(length // 2) :], size, bold=bold) > room:
        length -= 1
    return f"{text[: length - length // 2]}…{text[len(text) - length // 2 :]}"


def number(x: float) -> str:
    """A coordinate with at most one decimal.

    >>> number(12.04), number(3.25)
    ('12', '3.3')
    """
    return f"{round(x + 1e-9, 1):g}"


def group(*children: Child, at: Point | None = None, **attrs: object) -> Html:
    """Parts that share one translation."""
    moved = None if at is None else f"translate({number(at[0])},{number(at[1])})"
    return el("g", *children, **attrs, transform=moved)


def rect(x: float, y: float, w: float, h: float, **attrs: object) -> Html:
    """A rectangle; `rx` rounds its corners."""
    return el("rect", x=number(x), y=number(y), width=number(w), height=number(h), **attrs)


def words(x: float, y: float, text: str, **attrs: object) -> Html:
    """A line of text from `x` on, standing on `y`."""
    return el("text", text, x=number(x), y=number(y), **attrs)


def path(points: Sequence[Point], *, smooth: bool, **attrs: object) -> Html:
    """A line through points. smooth: slanted pieces become curves; otherwise corners are rounded."""
    return el("path", d=_curves(points) if smooth else _corners(points), **attrs)


def _curves(points: Sequence[Point]) -> str:
    commands = "M" + _at(*points[0])
    for (x, y), (u, v) in pairwise(points):
        middle = (y + v) / 2
        commands += "L" + _at(u, v) if x == u else f"C{_at(x, middle)} {_at(u, middle)} {_at(u, v)}"
    return commands


def sideways(a: Point, b: Point) -> str:
    """The commands of a line from left to right, which leaves and arrives level.

    >>> sideways((0, 5), (10, 5)), sideways((0, 5), (10, 9))
    ('M0,5H10', 'M0,5C5,5 5,9 10,9')
    """
    if a[1] == b[1]:
        return f"M{_at(*a)}H{number(b[0])}"
    middle = (a[0] + b[0]) / 2
    return f"M{_at(*a)}C{_at(middle, a[1])} {_at(middle, b[1])} {_at(*b)}"


def _corners(points: Sequence[Point], radius: float = 8.0) -> str:
    commands = "M" + _at(*points[0])
    for before, at, after in zip(points, points[1:], points[2:], strict=False):
        commands += f"L{_at(*_towards(at, before, radius))}Q{_at(*at)} {_at(*_towards(at, after, radius))}"
    return commands + "L" + _at(*points[-1])


def _towards(at: Point, to: Point, most: float) -> Point:
    far = abs(to[0] - at[0]) + abs(to[1] - at[1])
    part = min(most, far / 2) / far if far else 0.0
    return at[0] + (to[0] - at[0]) * part, at[1] + (to[1] - at[1]) * part


def _at(x: float, y: float) -> str:
    return f"{number(x)},{number(y)}"


def image(width: float, height: float, *children: Html) -> Html:
    """A whole SVG of this size."""
    w, h = number(width), number(height)
    return el(
        "svg", *children, xmlns="http://www.w3.org/2000/svg", width=w, height=h, viewBox=f"0 0 {w} {h}",
        font_family=FONT, font_size=11,
    )  # fmt: skip


def of_png(uri: str) -> Html:
    """A PNG, given as a data URI, as an SVG of the same size."""
    size = struct.unpack(">II", base64.b64decode(uri.partition(",")[2])[16:24])
    return image(*size, el("image", href=uri, width=size[0], height=size[1], style="image-rendering:pixelated"))


def data_uri(svg: str) -> str:
    """An SVG as a data URI, for the `src` of an image, where words on the page itself are lighter if it is dark."""
    dark = el("style", f"@media (prefers-color-scheme:dark){{[fill='{WORDS}']{{fill:#a0a0a0}}}}")
    return "data:image/svg+xml;base64," + base64.b64encode(svg.replace(">", f">{dark}", 1).encode()).decode()


LONGEST = 30
"""Longest label, in characters."""


def figure_class() -> type:
    """The figure class of matplotlib, with a picture for notebooks that works without pyplot."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ViewError("figure: matplotlib is not installed", hint="pip install matplotlib") from None

    class NotebookFigure(Figure):
        def _repr_png_(self) -> bytes:
            file = io.BytesIO()
            self.savefig(file, format="png")
            return file.getvalue()

    return NotebookFigure


def literal(label: str) -> str:
    """Text on one line, shortened, in which `$` does not start a formula."""
    label = printable_name(label)
    return cut(label, LONGEST).replace("$", r"\$")
