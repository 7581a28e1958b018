"""Dims as pills in the colours of all views, and the colours of drawings, readable on any page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rfnb.core.ground.text import cut
from rfnb.display.graph.schema import GraphValue, GraphView
from rfnb.display.kit.dims import UNKNOWN, colour_of, dim_word
from rfnb.display.kit.schema import DimView
from rfnb.display.markup import svg
from rfnb.display.markup.html import Html

INK, DARKER, QUIET, FAINT = "#23262d", "#4a505b", "#69707d", "#7f7f7f"
PAPER, BORDER = "#f4f5f8", "#b4bac6"
OP, PORT = "#e7e9ee", "#dfe8f3"
FAILED, FAILED_PAPER = "#d03a3a", "#fdecea"
ACCENT = "#4a6fa5"
MOVED = {"before": "#e2f1e6", "after": "#f6ead6"}
"""Papers of layers that are computed before the loop that they are written in, or after it."""
HEAT = "#f7b25e"
"""The darkest tint of what was measured."""
ROOM = 250.0
"""Largest width of a line of pills, in pixels."""
WORD = 22
"""Longest name of a dim, in characters."""


@dataclass(slots=True)
class Pill:
    """A dim, or the shape of a plain tensor."""

    text: str
    colour: str | None
    serial: int | None = None

    @property
    def width(self) -> float:
        """Width with padding."""
        return svg.width(self.text, 10) + 11


def pills_of(view: GraphView, value: GraphValue) -> list[Pill]:
    """The pills of a value, one for each dim."""
    if value["shape"] is not None:
        return [Pill(" × ".join(map(str, value["shape"])) or "scalar", None)]
    return [_pill(view["dims"][i]) for i in value["dims"]] or [Pill("scalar", None)]


def _pill(dim: DimView) -> Pill:
    name, _, size = dim_word(dim).rpartition(":")
    size = "" if dim["size"] == UNKNOWN else f" {size.partition(' ')[0]}"
    return Pill(cut(name, WORD) + size, colour_of(dim), dim["serial"])


def rows_of(pills: Sequence[Pill], room: float = ROOM) -> list[list[Pill]]:
    """Pills in lines not wider than `room`."""
    rows: list[list[Pill]] = [[]]
    for pill in pills:
        if rows[-1] and sum(p.width + 4 for p in rows[-1]) + pill.width > room:
            rows.append([])
        rows[-1].append(pill)
    return rows


def width_of(pills: Sequence[Pill]) -> float:
    """The width of a line of pills."""
    return sum(pill.width + 4 for pill in pills) - 4 if pills else 0.0


def drawn(pills: Sequence[Pill], x: float, y: float) -> list[Html]:
    """A line of pills as SVG, 16 pixels high."""
    marks = []
    for pill in pills:
        colour = pill.colour or "#8a8f99"
        parts = [
            svg.rect(x, y, pill.width, 16, rx=3, fill=mixed(colour, 0.17)),
            svg.rect(x, y, 2.5, 16, rx=1, fill=colour),
            svg.words(x + 6.5, y + 11.7, pill.text, font_size=10, fill=INK),
        ]
        marks.append(svg.group(parts, data_rfnb_dim=pill.serial))
        x += pill.width + 4
    return marks


def mixed(colour: str, share: float, on: str = "#ffffff") -> str:
    """The opaque colour of a tint on white, or on another colour.

    >>> mixed("#0072b2", 0.2)
    '#cce3f0'
    """
    pairs = [(int(colour[i : i + 2], 16), int(on[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(base - share * (base - part)):02x}" for part, base in pairs)
