"""The views of dims: a single Dim, and the table of the dims of many objects; probable mistakes come first.

Objects are models, tensors, batches, runs, graphs and containers of these. Probable mistakes are equal names, one Dim
under different lengths, and sizes that agree by chance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from operator import itemgetter

from rfnb.core.dims import dim_math
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY, Lengths, Size
from rfnb.core.graph.graph import Graph
from rfnb.core.ground.nested import form_of, named_parts
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.display.kit import blocks as page, options
from rfnb.display.kit.data import (
    UNKNOWN,
    DimView,
    colour_of,
    describe_dim,
    dim_word,
    named_pill,
    names_of,
    origin,
    size_word,
)
from rfnb.display.markup import style
from rfnb.display.markup.html import bounded_in
from rfnb.display.markup.numbers import bars
from rfnb.display.tensor.entries import shown
from rfnb.display.tensor.view import bars_html
from rfnb.nn.module.module import Module
from rfnb.printable import bounded


@page.shows("dim", "rfnb.core.dims.dim.Dim")
def page_of_dim(dim: Dim) -> page.Page:
    """A dim under its current lengths, with a bar for each, and the labels of its entries."""
    size, view = dim.lengths.size(dim), describe_dim(dim, dim.lengths)
    tags = [] if size is None or size.tags is None else list(size.tags[: options.TAGS])
    lengths = view["lengths"] or []
    named = ", ".join(f"{tags[i]}: {n}" if i < len(tags) else str(n) for i, n in enumerate(lengths))
    facts = [f"lengths {named}"] if view["lengths"] is not None else []
    blocks: list[page.Block] = [
        page.Line(page.quiet("Dim "), page.pill(view), look=style.HEAD),
        *(page.Line(fact, look=style.QUIET, indent=2) for fact in _facts(dim, view)),
    ]
    if 0 < len(lengths) <= options.BARS:
        blocks.append(page.Figure(bars_html(lengths, view, tags or None), [f"  {fact}" for fact in facts]))
    else:
        blocks += [page.Line(fact, look=style.QUIET, indent=2) for fact in facts]
    return page.Page("dim", dim.name, blocks, _table(view, tags), short=[page.Line(f"Dim{{{dim_word(view)}}}")])


def _table(dim: DimView, tags: list[str]) -> page.Table:
    """The length of each sequence; a single row for a static dim."""
    if dim["lengths"] is None:
        return page.Table(["dim", "size"], [[dim["name"], None if dim["size"] == UNKNOWN else dim["size"]]])
    rows = [[tags[i] if i < len(tags) else i, n] for i, n in enumerate(dim["lengths"])]
    return page.Table(["sequence", dim["name"]], rows)


def _facts(dim: Dim, view: DimView) -> Iterator[str]:
    if view["size"] == UNKNOWN:
        yield "no size yet: it comes with the data"
    if place := origin(view):
        yield place
    if (vocab := dim.vocab) is not None:
        labels = [str(vocab.decode(i)) for i in range(min(LABELS, len(vocab)))]
        tail = " …" if len(vocab) > LABELS else ""
        yield f"{count_of(len(vocab), 'label')}: {' '.join(map(shown, labels))}{tail}"


LABELS = 40
"""Labels of a vocab that are shown."""


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

    def __init__(self, objects: Iterable[tuple[str, object]]):
        self.by_serial: dict[int, DimUse] = {}
        self.together: dict[str, tuple[Dim, ...]] = {}
        self.left_out = False
        self._seen: set[int] = set()
        for name, value in objects:
            self._add(name, value, DEPTH)

    def _add(self, name: str, held: object, depth: int) -> None:
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

    def _parts(self, name: str, held: object, depth: int) -> None:
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
            if isinstance(axis := getattr(held, "axis", None), Dim):
                self._use(axis)

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
            getattr(self._use(dim), kind).extend([name] if name else [])  # a value inside of a graph may have none
        if name:
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


def by_name(uses: Sequence[DimUse]) -> dict[str, list[DimUse]]:
    """The dims by name."""
    groups: dict[str, list[DimUse]] = {}
    for use in uses:
        groups.setdefault(use.dim.name, []).append(use)
    return groups


def namesakes(use: DimUse, group: Sequence[DimUse], names: Mapping[int, str]) -> list[str]:
    """A sentence about other dims of the same name, if there are some."""
    twins = [twin for twin in group if twin is not use]
    if not twins:
        return []
    words = ", ".join([*(names[twin.dim.serial] for twin in twins[:MOST_NAMED]), *["…"] * (len(twins) > MOST_NAMED)])
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


@page.shows("dims")
def page_of_dims(objects: Iterable[tuple[str, object]], name: str = "dims") -> page.Page:
    """The dims of named objects, those with conflicts first."""
    uses = Uses(objects)
    entries = sorted(uses.by_serial.values(), key=lambda use: use.dim.serial)
    groups = by_name(entries)
    names = names_of(use.dim for use in entries)
    peers = by_chance(uses, names)
    conflicts = {use.dim.serial: [*namesakes(use, groups[use.dim.name], names), *rebound(use)] for use in entries}
    rows = []
    for use in entries:
        serial = use.dim.serial
        aliases = [names.get(alias.serial, alias.name) for alias in dim_math.followed(use.dim)]
        notes = [*(f"declared the same as {alias}" for alias in aliases), *peers.get(serial, [])]
        row = _row(use, names[serial], conflicts[serial], notes)
        cells = [*map(page.plain, row.cells), "; ".join([*conflicts[serial], *notes])]
        rows.append((not conflicts[serial], row, cells))
    rows.sort(key=itemgetter(0))
    remarks = "; ".join([*([] if rows else ["no dims"]), *(["not everything was searched"] if uses.left_out else [])])
    grid = page.Grid([row for _, row, _ in rows], COLUMNS, [_CELL] * len(COLUMNS), indent=0, head=_HEAD, look=_TABLE)
    nothing = page.Line(f"({remarks})", look=style.QUIET)
    blocks: list[page.Block] = [grid, page.Note(remarks, indent=0)] if rows else [nothing]
    return page.Page("dims", name, blocks, page.Table([*COLUMNS, "notes"], [cells for *_, cells in rows]))


def _row(use: DimUse, name: str, conflicts: list[str], notes: list[str]) -> page.Row:
    dim = use.dim
    view, text = describe_dim(dim, lengths_of(use)), "" if dim.made is None else dim.made.text()
    code = page.web(page.Span(text, f"{style.NUMBERS};{style.QUIET}", tag="div")) if text else None
    uses = [
        f"{count_of(len(names), word)}: {', '.join(names[:NAMES])}{', …' if len(names) > NAMES else ''}"
        for names, word in ((use.tensors, "tensor"), (use.parameters, "parameter"), (use.modules, "module"))
        if names
    ]
    cells: list[page.Words] = [
        page.Span(named_pill(bounded_in(view), bounded(name)), text=name),
        page.quiet(" ".join(filter(None, ("dynamic" if dim.is_dynamic() else "static", dim.kind)))),
        _size(use, view),
        [(origin(view) or "").removeprefix(f"{view['name']}, "), code],
        page.Span(
            [
                *(page.Span(words, tag="div") for words in uses),
                *(page.Span(word, style.QUIET, tag="div") for word in notes),
            ],
            text=", ".join(uses),
        ),
    ]
    return page.Row(
        cells,
        f"background:none;border-top:1px solid {style.tint(style.GREY, 0.25)}",
        [*(page.chip(f"≠ {word}", style.ALARM, text=f"  ≠ {word}") for word in conflicts),
         *(page.Span(None, text=f"    {word}") for word in notes)],
    )  # fmt: skip


def _size(use: DimUse, dim: DimView) -> page.Words:
    """The size, or the range of the lengths with a bar for each of the first ones."""
    if size_of(use) is None:
        return page.quiet("?")
    lengths = dim["lengths"] or []
    blocks = bars(lengths[:BARS]) + ("…" if len(lengths) > BARS else "") if len(lengths) > 1 else ""
    hue = colour_of(dim) or style.GREY
    box = page.Span(blocks, f"color:{hue};font-family:monospace;line-height:1", text=f" {blocks}", tag="div")
    return page.Span([size_word(dim), box if blocks else None], f"{style.NUMBERS};white-space:nowrap")


_CELL = "padding:4px 14px 4px 0;text-align:left;border:none;background:none;vertical-align:top"
_HEAD = f"{_CELL};font-weight:normal;opacity:0.65"
_TABLE = f"{style.TABLE};font-family:sans-serif;font-size:13px;line-height:1.45"
