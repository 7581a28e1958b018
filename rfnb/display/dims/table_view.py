"""The table of dims: size or lengths, origin, and the objects that have each; probable mistakes come first.

Objects are models, tensors, batches, runs, graphs and containers of these. Probable mistakes are equal names, one Dim
under different lengths, and sizes that agree by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from rfnb.core.dims import dim_math
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.graph.graph import Graph
from rfnb.core.ground.nested import form_of, named_parts
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.display.dims.dim_view import DimRow, DimTableView
from rfnb.display.kit.dims import colour_of, describe_dim, named_pill, names_of, origin, size_word
from rfnb.display.markup import elements, style
from rfnb.display.markup.elements import Table, aligned, chip, note_html, note_text, quiet
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.numbers import bars
from rfnb.nn.module.module import Module

MOST = 20_000
"""Largest number of objects searched."""
DEPTH = 6


@dataclass
class DimUse:
    """A dim and the names of the objects that have it. sizes: its sizes in some of them, each once."""

    dim: Dim
    tensors: list[str] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    modules: list[str] = field(default_factory=list)
    sizes: list[tuple[str, Size]] = field(default_factory=list)


class Uses:
    """All dims of some objects, by serial. together: the dims of each tensor, by its name."""

    def __init__(self, objects: Iterable[tuple[str, Any]]):
        self.by_serial: dict[int, DimUse] = {}
        self.together: dict[str, tuple[Dim, ...]] = {}
        self.left_out = False
        self._seen: set[int] = set()
        for name, value in objects:
            self._add(name, value, DEPTH)

    def _add(self, name: str, held: Any, depth: int) -> None:
        if id(held) in self._seen:
            return
        if depth == 0 or len(self._seen) >= MOST:
            self.left_out = True
            return
        if isinstance(held, Dim):
            self._use(held)
        elif isinstance(held, Tensor):
            self._seen.add(id(held))
            self._tensor(name, held)
        elif isinstance(held, Module):
            self._module(name, held)
        elif isinstance(held, Graph):
            for value in held.values:
                self._dims(value.name, value.dims, value.sparse_dim, "tensors")
        else:
            self._parts(name, held, depth)

    def _parts(self, name: str, held: Any, depth: int) -> None:
        if isinstance(held, TensorDict):
            held = held.data
        if isinstance(held, Mapping | list | tuple | set | frozenset):
            self._seen.add(id(held))
            pairs = held.items() if isinstance(held, Mapping) else enumerate(held)
            for key, part in pairs:
                self._add(f"{name}[{key!r:.40}]", part, depth - 1)
            return
        if form_of(type(held)) is not None:  # a dataclass or a namespace
            self._seen.add(id(held))
            for key, part in named_parts(held) or ():
                self._add(f"{name}.{key}", part, depth - 1)
            return
        graph = getattr(held, "graph", None)
        if isinstance(graph, Graph):  # a run, or the graph of a model
            self._add(name, graph, depth)
            if isinstance(getattr(held, "axis", None), Dim):
                self._use(held.axis)

    def _use(self, dim: Dim) -> DimUse:
        return self.by_serial.setdefault(dim.serial, DimUse(dim))

    def _tensor(self, name: str, tensor: Tensor) -> None:
        kind = "parameters" if isinstance(tensor, Parameter) else "tensors"
        self._dims(name, tensor.dims, tensor.sparse_dim, kind)
        for dim in tensor.dims:
            size, sizes = tensor.lengths.size(dim), self._use(dim).sizes
            if size is not None and not any(size.agrees(earlier) for _, earlier in sizes):
                sizes.append((name, size))

    def _dims(self, name: str, dims: tuple[Dim, ...], sparse: Dim | None, kind: str) -> None:
        for dim in dict.fromkeys([*dims, *([sparse] if sparse is not None else [])]):
            getattr(self._use(dim), kind).append(name)
        self.together.setdefault(name, dims)

    def _module(self, name: str, module: Module) -> None:
        for path, part in module.named_modules():
            if id(part) in self._seen:
                continue
            self._seen.add(id(part))
            place = f"{name}.{path}" if path else name
            for value in vars(part).values():
                if isinstance(value, Dim) and place not in self._use(value).modules:
                    self._use(value).modules.append(place)
            for key, parameter in part.named_parameters(recurse=False):
                self._add(f"{place}.{key}", parameter, DEPTH)


MOST_NAMED = 3
"""Largest number of dims and tensors named in a sentence."""


def lengths_of(use: DimUse) -> Lengths:
    """The current lengths of a dim; after a reset, those of a tensor that has it."""
    if not use.sizes or use.dim.lengths.size(use.dim) is not None:
        return use.dim.lengths
    return EMPTY.bind({use.dim: use.sizes[-1][1]})


def size_of(use: DimUse) -> Size | None:
    """The size of a dim under lengths; None if unknown."""
    return lengths_of(use).size(use.dim)


def by_name(found: Sequence[DimUse]) -> dict[str, list[DimUse]]:
    """The dims by name."""
    groups: dict[str, list[DimUse]] = {}
    for use in found:
        groups.setdefault(use.dim.name, []).append(use)
    return groups


def namesakes(use: DimUse, group: Sequence[DimUse], names: Mapping[int, str]) -> list[str]:
    """A sentence about other dims of the same name, if there are some."""
    twins = [twin for twin in group if twin is not use]
    if not twins:
        return []
    words = ", ".join(names[twin.dim.serial] for twin in twins[:MOST_NAMED]) + (
        ", …" if len(twins) > MOST_NAMED else ""
    )
    own_size = size_of(use)
    differ = any(own_size and (size := size_of(twin)) and not own_size.agrees(size) for twin in twins)
    return [f"same name as {words}, not the same Dim{', and not the same size' if differ else ''}"]


def rebound(use: DimUse) -> list[str]:
    """A sentence about tensors that were made under other lengths than the current ones."""
    current = size_of(use)
    old = [(name, size) for name, size in use.sizes if current is not None and not size.agrees(current)]
    return [
        f"other {'lengths' if size.dims else 'size'} in {name}: {_span(size)}{size.place()}"
        for name, size in old[:MOST_NAMED]
    ]


def _span(size: Size) -> str:
    if not size.values.ndim or not size.ragged:
        return str(size.max)
    return f"{int(size.values.min())}–{size.max} Σ{int(size.values.sum())}"


def by_chance(uses: Uses, names: Mapping[int, str]) -> dict[int, list[str]]:
    """Notes, by serial, on dims of equal size that occur in one tensor without being related."""
    pairs: dict[int, dict[int, str]] = {}
    for tensor, dims in uses.together.items():
        for a, b in combinations(dims[:8], 2):
            if _sizes_alike(uses.by_serial[a.serial], uses.by_serial[b.serial]):
                pairs.setdefault(a.serial, {}).setdefault(b.serial, tensor)
                pairs.setdefault(b.serial, {}).setdefault(a.serial, tensor)
    return {
        serial: [f"has the size of {names[peer]} in {tensor}" for peer, tensor in list(peers.items())[:MOST_NAMED]]
        for serial, peers in pairs.items()
    }


def _sizes_alike(a: DimUse, b: DimUse) -> bool:
    size_a, size_b = size_of(a), size_of(b)
    if size_a is None or size_b is None or size_a.max != size_b.max or size_a.max < 2:
        return False
    return a.dim.base is not b.dim.base and not set(a.dim.roots) & set(b.dim.roots)


NAMES = 3
"""Largest number of names in a list of tensors, parameters or modules."""
BARS = 32
COLUMNS = ("dim", "kind", "size", "made", "used by")


def describe(objects: Iterable[tuple[str, Any]], name: str = "dims") -> DimTableView:
    """The dims of named objects as JSON."""
    uses = Uses(objects)
    entries = sorted(uses.by_serial.values(), key=lambda use: use.dim.serial)
    groups = by_name(entries)
    names = names_of(use.dim for use in entries)
    notes = by_chance(uses, names)
    rows = [_row(use, groups[use.dim.name], names, notes.get(use.dim.serial, [])) for use in entries]
    remarks = [*(["no dims"] if not rows else []), *(["not everything was searched"] if uses.left_out else [])]
    return {
        "kind": "dims",
        "name": name,
        "rows": sorted(rows, key=lambda row: not row["conflicts"]),
        "note": "; ".join(remarks) or None,
    }


def _row(use: DimUse, group: Sequence[DimUse], names: dict[int, str], notes: list[str]) -> DimRow:
    dim = use.dim
    text = None if dim.made is None else dim.made.text() or None
    return {
        "dim": describe_dim(dim, lengths_of(use)),
        "name": names[dim.serial],
        "known": size_of(use) is not None,
        "role": " ".join(filter(None, ("dynamic" if dim.is_dynamic() else "static", dim.kind))),
        "text": text,
        "tensors": use.tensors[:NAMES],
        "tensor_count": len(use.tensors),
        "parameters": use.parameters[:NAMES],
        "parameter_count": len(use.parameters),
        "modules": use.modules[:NAMES],
        "module_count": len(use.modules),
        "same_as": [names.get(alias.serial, alias.name) for alias in dim_math.followed(dim)],
        "conflicts": [*namesakes(use, group, names), *rebound(use)],
        "notes": notes,
    }


# -- text


def to_text(view: DimTableView) -> str:
    """Aligned columns, with conflicts below their dim."""
    if not view["rows"]:
        return f"({view['note']})"
    head, *rows = aligned([COLUMNS, *map(_words, view["rows"])])
    lines = [head]
    for row, line in zip(view["rows"], rows, strict=True):
        lines.append(line)
        lines += [f"  ≠ {conflict}" for conflict in row["conflicts"]]
        lines += [f"    {note}" for note in _quiet(row)]
    return "\n".join(lines + note_text(view["note"], ""))


def to_table(view: DimTableView) -> Table:
    """A row for each dim, with conflicts and notes."""
    rows = [[*_words(row), "; ".join([*row["conflicts"], *_quiet(row)])] for row in view["rows"]]
    return Table([*COLUMNS, "notes"], rows)


def _words(row: DimRow) -> list[str]:
    return [row["name"], row["role"], _size_words(row), _made(row), ", ".join(_used_by(row))]


def _size_words(row: DimRow) -> str:
    return f"{size_word(row['dim'])}{f' {blocks}' if (blocks := _bars(row)) else ''}" if row["known"] else "?"


def _bars(row: DimRow) -> str:
    """Bars for the first lengths, relative to the longest."""
    lengths = row["dim"]["lengths"] or []
    return bars(lengths[:BARS]) + ("…" if len(lengths) > BARS else "") if len(lengths) > 1 else ""


def _made(row: DimRow) -> str:
    return (origin(row["dim"]) or "").removeprefix(f"{row['dim']['name']}, ")


def _used_by(row: DimRow) -> list[str]:
    """`["3 tensors: x, y, z", "1 parameter: model.weight"]`"""
    groups = [
        (row["tensor_count"], "tensor", row["tensors"]),
        (row["parameter_count"], "parameter", row["parameters"]),
        (row["module_count"], "module", row["modules"]),
    ]
    return [
        f"{count_of(count, word)}: {', '.join(names)}{', …' if count > len(names) else ''}"
        for count, word, names in groups
        if count
    ]


def _quiet(row: DimRow) -> list[str]:
    return [*(f"declared the same as {name}" for name in row["same_as"]), *row["notes"]]


# -- HTML


def to_html(view: DimTableView) -> Html:
    """The table with each dim in its colour."""
    if not view["rows"]:
        return el("div", f"({view['note']})", style=f"{style.BOX};{style.QUIET}")
    head = el("thead", elements.row(*COLUMNS, look=_HEAD, tag="th"))
    rows = [_html_row(row) for row in view["rows"]]
    return el("div", el("table", head, el("tbody", rows), style=_TABLE), note_html(view["note"]), style=style.BOX)


_CELL = "padding:4px 14px 4px 0;text-align:left;border:none;background:none;vertical-align:top"
_HEAD = f"{_CELL};font-weight:normal;opacity:0.65"
_TABLE = f"{style.TABLE};font-family:sans-serif;font-size:13px;line-height:1.45"


def _html_row(row: DimRow) -> Html:
    line = f"background:none;border-top:1px solid {style.tint(style.GREY, 0.25)}"
    code = el("div", row["text"], style=f"{style.NUMBERS};{style.QUIET}") if row["text"] else None
    notes = [quiet(note, tag="div") for note in _quiet(row)]
    cells = [
        el("td", named_pill(row["dim"], row["name"]), style=_CELL),
        el("td", row["role"], style=f"{_CELL};{style.QUIET}"),
        el("td", _size_html(row), style=f"{_CELL};white-space:nowrap"),
        el("td", _made(row), code, style=f"{_CELL};min-width:12em;overflow-wrap:anywhere"),
        el("td", [el("div", words) for words in _used_by(row)], notes, style=_CELL),
    ]
    warnings = [chip(f"≠ {word}", style.ALARM) for word in row["conflicts"]]
    warning_row = el("tr", el("td", warnings, colspan=len(COLUMNS), style=_CELL), style=style.PLAIN_ROW)
    return join(el("tr", cells, style=line), warning_row if warnings else None)


def _size_html(row: DimRow) -> Html:
    if not row["known"]:
        return quiet("?")
    hue = colour_of(row["dim"]) or style.GREY
    blocks = _bars(row)
    box = el("div", blocks, style=f"color:{hue};font-family:monospace;line-height:1") if blocks else None
    return el("div", size_word(row["dim"]), box, style=style.NUMBERS)
