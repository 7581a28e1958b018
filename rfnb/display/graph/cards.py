"""Drawings of nodes: light cards with dark words and dims as pills, readable on any page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import wrap

from rfnb.core.ground.text import cut
from rfnb.display.graph.schema import GraphNode, GraphValue, GraphView
from rfnb.display.kit.data import UNKNOWN, DimView, colour_of, dim_word
from rfnb.display.layout.layers import BoxSize
from rfnb.display.markup import svg
from rfnb.display.markup.html import Html
from rfnb.display.markup.numbers import percent

INK, DARKER, QUIET, FAINT = "#23262d", "#4a505b", "#596069", svg.WORDS
PAPER, BORDER = "#f4f5f8", "#b4bac6"
OP, PORT = "#e7e9ee", "#dfe8f3"
FAILED, FAILED_PAPER = "#c22f2f", "#fdecea"
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


PAD = 10.0
FRAME = {"pad": 14.0, "head": 32.0}
"""Margins of an open node: its body is at (pad, head)."""


@dataclass(frozen=True, slots=True)
class Card(BoxSize):
    """A drawn node. exits: by value, how far right of the axis its line leaves."""

    svg: Html = field(kw_only=True)
    exits: dict[int, float] = field(default_factory=dict)


def card(view: GraphView, node: GraphNode) -> Card:
    """The card of a closed node."""
    if node["kind"] in ("input", "output", "frame"):
        return _port(view, node)
    if node["kind"] == "state":
        return _state(view, node)
    if node["kind"] == "op" and node["status"] == "done" and node["body"] is None:
        return _op(view, node)
    return _module(view, node)


# -- small ones


def _op(view: GraphView, node: GraphNode) -> Card:
    """An op: a quiet word, with its new dims below."""
    name, number = svg.elided(node["name"], 11, 150), node.get("number")
    text = "" if number is None or number["text"] == "–" else number["text"]
    wide, high = svg.width(name, 11) + 18 + (svg.width(text, 10, bold=True) + 7 if text else 0.0), 21.0
    capsule = _capsule(name, wide, high, tinted(node, OP), QUIET if number is None else INK, text)
    labels = [(value, pills_of(view, value)) for value in node["outputs"] if value["changed"]][:3]
    if not labels:
        return Card(wide, high, svg=capsule)
    lines = [row for _, pills in labels for row in rows_of(pills)]
    tail = 5 + 19.0 * len(lines)
    width = max(wide, wide / 2 + 8 + max(width_of(line) for line in lines))
    parts = [drawn(line, wide / 2 + 8, high + 5 + 19 * i) for i, line in enumerate(lines)]  # right of the line
    return Card(width, high + tail, tail, wide / 2, svg=svg.group(capsule, parts))


def _capsule(name: str, wide: float, high: float, fill: str, ink: str, number: str = "") -> Html:
    rim = svg.rect(
        0, 0, wide, high, rx=high / 2, fill=fill, stroke=FAILED if fill == FAILED_PAPER else BORDER, stroke_opacity=0.6
    )
    if not number:
        return svg.group(rim, svg.words(wide / 2, high / 2 + 3.9, name, text_anchor="middle", fill=ink))
    bad = fill == FAILED_PAPER
    return svg.group(
        rim,
        svg.words(9, high / 2 + 3.9, name, fill=ink),
        svg.words(
            wide - 9, high / 2 + 3.7, number, font_size=10, font_weight="bold", text_anchor="end",
            fill=FAILED if bad else INK,
        ),
    )  # fmt: skip


def tinted(node: GraphNode, paper: str) -> str:
    """The colour of a box: its paper, tinted by what was measured; red for NaN and infinity."""
    number = node.get("number")
    if number is None:
        return paper
    return FAILED_PAPER if number["bad"] else mixed(HEAT, number["tint"], paper)


def number_line(node: GraphNode) -> str:
    """What was measured of a box, with its share: "3.2 ms · 41 %"."""
    number = node.get("number")
    if number is None:
        return ""
    return number["text"] if number["share"] is None else f"{number['text']} · {percent(number['share'])}"


def _port(view: GraphView, node: GraphNode) -> Card:
    """An input or output: its name, and its dims unless they are shown outside."""
    name = svg.elided(node["name"], 11, 170, bold=True)
    nested = node["kind"] == "input" and node not in view["bodies"][view["root"]]["nodes"]
    pills = [] if nested else [pill for value in node["outputs"][:1] for pill in pills_of(view, value)]
    lines = rows_of(pills) if pills else []
    note = "each step" if node["kind"] == "frame" else " ".join(node["notes"])
    end = svg.width(name, 11, bold=True)
    head = end + (svg.width(note, 10) + 8 if note else 0.0)
    beside = len(lines) == 1 and head + width_of(lines[0]) < ROOM + 40
    wide = 2 * PAD + (head + 8 + width_of(lines[0]) if beside else max([head, *map(width_of, lines)]))
    high = 24.0 if beside or not lines else 25.0 + 19 * len(lines)
    parts = [
        svg.rect(0, 0, wide, high, rx=12, fill=PORT, stroke="#a9b8cc"),
        svg.words(PAD, 16, name, font_weight="bold", fill=INK),
        svg.words(PAD + end + 8, 16, note, font_size=10, fill=QUIET) if note else None,
    ]
    for i, line in enumerate(lines):
        parts += drawn(line, PAD + head + 8 if beside else PAD, 4 if beside else 22 + 19 * i)
    return Card(wide, high, svg=svg.group(parts))


def _state(view: GraphView, node: GraphNode) -> Card:
    """A state of a loop."""
    name = svg.elided(node["name"], 11, 150, bold=True)
    end = PAD + svg.width(f"{name}:", 11, bold=True) + 5
    way, start = "t−1 → t", " ".join(node["notes"])
    lines = [row for value in node["outputs"][:1] for row in rows_of(pills_of(view, value))]
    edge = end + svg.width(way, 11) + (8 + svg.width(start, 10) if start else 0.0)
    wide = max(edge + PAD, 2 * PAD + max(map(width_of, lines)))
    parts = [
        svg.rect(0, 0, wide, 25 + 19 * len(lines), rx=7, fill=PAPER, stroke=ACCENT, stroke_dasharray="4 3"),
        svg.words(PAD, 16, f"{name}:", font_weight="bold", fill=INK),
        svg.words(end, 16, way, fill=ACCENT),
        svg.words(end + svg.width(way, 11) + 8, 16, start, font_size=10, fill=QUIET) if start else None,
        [drawn(line, PAD, 22 + 19 * i) for i, line in enumerate(lines)],
    ]
    return Card(wide, 25.0 + 19 * len(lines), svg=svg.group(parts))


# -- modules and loops


@dataclass(slots=True)
class TextLine:
    """A line of words and pills, with words at the right end."""

    words: str = ""
    pills: list[Pill] = field(default_factory=list)
    right: str = ""
    ink: str = QUIET
    bold: bool = False

    @property
    def width(self) -> float:
        """The width of the line."""
        parts = [svg.width(self.words, 10, bold=self.bold), width_of(self.pills), svg.width(self.right, 10)]
        return sum(parts) + 8 * (sum(part > 0 for part in parts) - 1)

    def drawn(self, x: float, y: float, end: float) -> list[Html | None]:
        """The line as SVG, 19 pixels high, from `x` to `end`."""
        indent = svg.width(self.words, 10, bold=self.bold) + 8 if self.words else 0.0
        weight = "bold" if self.bold else None
        return [
            svg.words(x, y + 11.7, self.words, font_size=10, font_weight=weight, fill=self.ink) if self.words else None,
            *drawn(self.pills, x + indent, y),
            svg.words(end, y + 11.7, self.right, font_size=10, text_anchor="end", fill=QUIET) if self.right else None,
        ]


def _module(view: GraphView, node: GraphNode) -> Card:
    """A module: name and class, dims and parameters, notes."""
    title, head = _title(node, INK, QUIET)
    lines = _lines(view, node)
    wide = max(2 * PAD + max([head, *(line.width for line in lines)]), 76.0)
    high = 28.0 + 19 * len(lines) - (4 if lines else 0)
    marks = [line.drawn(PAD, 24 + 19 * i, wide - PAD) for i, line in enumerate(lines)]
    deep = 6.0 if node["times"] > 1 and node["status"] != "ghost" else 0.0
    return Card(wide + deep, high + deep, axis=wide / 2, svg=svg.group(_paper(node, wide, high), title, marks))


def _lines(view: GraphView, node: GraphNode) -> list[TextLine]:
    """The lines below the title; the first ends with the number of parameters."""
    outputs, number = node["outputs"][:3], node.get("number")
    lines = []
    if number is not None:
        lines = [TextLine(number_line(node), ink=FAILED if number["bad"] else INK, bold=True)]
        extra = [part for word in number["more"] for part in wrap(word, 44)]
        lines += [TextLine(word, ink=DARKER) for word in extra]
    for value in outputs:
        name = svg.elided(value["name"], 10, 90) if len(outputs) > 1 else ""
        rows = rows_of(pills_of(view, value))
        lines += [TextLine(name if i == 0 else "", row) for i, row in enumerate(rows)]
    ink = {"failed": FAILED, "ghost": FAINT, "done": QUIET if number is None else DARKER}[node["status"]]
    lines += [TextLine(note, ink=ink) for note in _notes(view, node)]
    if node["params"]:
        lines = lines or [TextLine()]
        lines[0].right = amount(node["params"])
    return lines


def _notes(view: GraphView, node: GraphNode, lines: int = 3) -> list[str]:
    plain = any(value["shape"] is not None for value in node["outputs"])  # dims tell what the options say
    notes = [svg.elided(note, 10, ROOM) for note in (*node["notes"], *([node["options"]] if plain else [])) if note]
    failure = view["failure"]
    if failure is not None and failure["node"] == node["id"]:
        return wrap(
            f"{failure['error']}: {failure['text'].partition(chr(10))[0]}", 44, max_lines=lines, placeholder=" …"
        )
    return notes[:lines]


def _title(node: GraphNode, ink: str, quiet: str, y: float = 16) -> tuple[list[Html | None], float]:
    """The title line and its width."""
    name = svg.elided(node["name"], 12, 200, bold=True)
    cls = "" if node["cls"] in ("", node["name"]) else svg.elided(node["cls"], 11, 170)
    times = f"× {node['times']}" if node["times"] > 1 else ""
    if node["status"] == "ghost":
        ink = quiet = FAINT
    x = PAD + svg.width(name, 12, bold=True)
    parts: list[Html | None] = [svg.words(PAD, y, name, font_size=12, font_weight="bold", fill=ink)]
    if cls:
        parts.append(svg.words(x + 7, y, cls, fill=quiet))
        x += 7 + svg.width(cls, 11)
    if times:
        wide = svg.width(times, 11, bold=True) + 10
        parts.append(svg.rect(x + 8, y - 12, wide, 16, rx=8, fill=ACCENT))
        parts.append(svg.words(x + 8 + wide / 2, y, times, text_anchor="middle", font_weight="bold", fill="#ffffff"))
        x += 8 + wide
    return parts, x - PAD


def _paper(node: GraphNode, wide: float, high: float) -> list[Html]:
    if node["status"] == "ghost":
        look = {"fill": "#808080", "fill_opacity": 0.05, "stroke": "#8a8a8a", "stroke_dasharray": "4 3"}
        return [svg.rect(0, 0, wide, high, rx=7, **look)]
    failed = node["status"] == "failed"
    bad = failed or bool(node.get("number") and node["number"]["bad"])
    fill, stroke = (FAILED_PAPER, FAILED) if bad else (tinted(node, MOVED.get(node.get("place", ""), PAPER)), BORDER)
    behind = [svg.rect(d, d, wide, high, rx=7, fill=fill, stroke=stroke) for d in (6, 3) if node["times"] > 1]
    sheet = svg.rect(0, 0, wide, high, rx=7, fill=fill, stroke=stroke, stroke_width=1.6 if failed else 1)
    if node["kind"] != "loop":
        return [*behind, sheet]
    return [*behind, sheet, svg.rect(2.5, 2.5, wide - 5, high - 5, rx=5, fill="none", stroke=stroke)]


def frame(view: GraphView, node: GraphNode, width: float, height: float) -> Card:
    """The frame of an open node around a body of this size."""
    title, head = _title(node, FAINT, FAINT, 20)
    failed = node["status"] == "failed"
    number = node.get("number")
    params = [amount(node["params"])] if node["params"] else []
    measured = number_line(node)
    chip = svg.width(measured, 10, bold=True) + 12 if measured else 0.0
    start = PAD + head + 10 + (chip + 8 if chip else 0.0)
    words = " · ".join([*params, *_notes(view, node, 2 if node["kind"] == "loop" else 1)])
    for word in [] if number is None else number["more"]:  # as many as there is room for
        longer = " · ".join(filter(None, [words, word]))
        words = longer if start + svg.width(longer, 10) + PAD <= width + 2 * FRAME["pad"] else words
    wide = max(start + svg.width(words, 10) + PAD, width + 2 * FRAME["pad"])
    high = FRAME["head"] + height + FRAME["pad"]
    place = node.get("place")
    back = {"fill": "#808080", "fill_opacity": 0.06} if place is None else {"fill": MOVED[place], "fill_opacity": 0.35}
    line = back | {"stroke": FAILED if failed else "#8d929c"}
    parts = [
        svg.rect(0, 0, wide, high, rx=9, **line),
        svg.rect(3, 3, wide - 6, high - 6, rx=7, **line | {"fill": "none"}) if node["kind"] == "loop" else None,
        title,
        svg.rect(start - chip - 8, 8, chip, 17, rx=4, fill=tinted(node, PAPER), stroke=BORDER) if chip else None,
        svg.words(start - chip - 2, 20, measured, font_size=10, font_weight="bold", fill=INK) if chip else None,
        svg.words(start, 20, words, font_size=10, fill=FAINT) if words else None,
    ]
    return Card(wide, high, svg=svg.group(parts))


def amount(count: int) -> str:
    """A number of parameters in short form.

    >>> [amount(n) for n in (15, 80000, 1234567, 7_000_000_000)]
    ['15', '80 k', '1.23 M', '7 G']
    """
    for unit, size in (("G", 10**9), ("M", 10**6), ("k", 10**3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return str(count)
