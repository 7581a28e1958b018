"""The view of a module of rfnb or torch: a tree with the parameters of each part. Layers of equal form are one card."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from posixpath import commonpath
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.graph.call_recorder import note_of
from rfnb.core.ground.text import count_of, cut, first_of
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import RawTensor
from rfnb.display.kit import blocks as page, options
from rfnb.display.kit.data import DimView, colour_of, describe_dim, dim_word, dims_text
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, bounded_in, el
from rfnb.display.markup.numbers import Number, amount, plain, real, short, size
from rfnb.nn.module.module import Module

if TYPE_CHECKING:
    import torch
    from torch import nn

    Part = Module | nn.Module


@dataclass(frozen=True)
class ParamRow:
    """A parameter or buffer of a module.

    Args:
        path: "encoder.layers.0.weight".
        shape: of a plain tensor, which has no dims; None if there is none yet.
        buffer: it is not a parameter of the model proper.
        shared: where it is shown, and counted, first.
        weight_decay: of its own; None: none of its own.
        norm: None: not looked at.
        grad: the norm of the gradient; None: there is none.
    """

    path: str
    dims: list[DimView]
    shape: list[int] | None
    dtype: str
    device: str
    count: int
    bytes: int
    trainable: bool
    buffer: bool
    shared: str | None
    weight_decay: Number | None
    norm: Number | None
    mean: Number | None
    std: Number | None
    grad: Number | None


@dataclass(frozen=True)
class ModuleNode:
    """A module and its parts; or several consecutive modules of equal form.

    Args:
        name: "encoder", or "0–11".
        note: "in:26 → out:128".
        settings: "activation=silu"; told where layers that are alike differ in them.
        repeat: how many there are.
        params: by name: the rows of each of them.
        count: parameters here and below; of all of them, but inside of a card those of one.
        frozen: how many of these are not trained.
        differs: in what those that are alike are not.
        shared: where it is shown first.
    """

    name: str
    cls: str
    note: str
    settings: list[str]
    repeat: int
    params: list[list[ParamRow]]
    count: int
    frozen: int
    differs: list[str]
    shared: str | None
    children: list[ModuleNode]


def children_of(module: Part) -> list[tuple[str, Part]]:
    """The direct submodules; one that occurs twice is listed twice."""
    if isinstance(module, Module):
        return [(name, part) for name, part in vars(module).items() if isinstance(part, Module)]
    return [(name, part) for name, part in module._modules.items() if part is not None]


def parameters_of(module: Part) -> Iterator[tuple[str, Parameter | torch.Tensor, bool]]:
    """The parameters of the module itself, and whether each is a buffer."""
    if isinstance(module, Module):
        for name, part in vars(module).items():
            if isinstance(part, Parameter):
                yield name, part, part.auxiliary
        return
    for buffers, table in ((False, module._parameters), (True, module._buffers)):
        for name, part in table.items():
            if part is not None:
                yield name, part, buffers


Moments = tuple[Number | None, Number | None, Number | None]
"""Norm, mean and standard deviation."""


class ModuleRows:
    """Collects rows of parameters, and notes on what was left out."""

    def __init__(self) -> None:
        self.rows: list[ParamRow] = []
        self.notes = page.Notes()
        self._paths: dict[int, str] = {}  # of those that are there, by id
        self._left = options.MODULE_ENTRIES
        self._skipped = 0

    def add(self, path: str, parameter: object, *, buffer: bool) -> ParamRow:
        """Adds a parameter."""
        shared = self._paths.setdefault(id(parameter), path)
        self.rows.append(self._row(path, parameter, buffer, None if shared == path else shared))
        return self.rows[-1]

    def _row(self, path: str, parameter: Any, buffer: bool, shared: str | None) -> ParamRow:
        of_rfnb = isinstance(parameter, Parameter)
        raw = parameter.raw_tensor if of_rfnb else parameter
        shape = [] if _has_no_shape(raw) else [int(n) for n in raw.shape]
        count = 0 if _has_no_shape(raw) else math.prod(shape)
        small = not _has_no_shape(raw) and not getattr(raw, "is_meta", False) and shared is None
        grad = getattr(raw, "grad", None) if getattr(raw, "is_leaf", False) else None
        values = self._moments(path, raw, count) if small else (None, None, None)
        return ParamRow(
            path=path,
            dims=[describe_dim(dim, parameter.lengths) for dim in parameter.dims] if of_rfnb else [],
            shape=None if of_rfnb or _has_no_shape(raw) else shape,
            dtype=str(parameter.dtype).removeprefix("torch."),
            device=str(getattr(raw, "device", "cpu")),
            count=count,
            bytes=int(getattr(raw, "nbytes", 0)) if count else 0,
            trainable=bool(parameter.trainable if of_rfnb else parameter.requires_grad),
            buffer=buffer,
            shared=shared,
            weight_decay=getattr(parameter, "weight_decay", None) or None,
            norm=values[0],
            mean=values[1],
            std=values[2],
            grad=self._moments(f"gradient of {path}", grad, count)[0] if small and grad is not None else None,
        )

    def _moments(self, what: str, raw: object, count: int) -> Moments:
        if count > self._left:
            self._skipped += 1
            return None, None, None
        self._left -= count
        unknown: Moments = (None, None, None)
        return self.notes.attempt(f"norm of {what}", lambda: moments(raw), unknown)

    def note(self) -> str | None:
        """Notes on what was left out, in one line."""
        if self._skipped:
            self.notes.add(f"no norms of {count_of(self._skipped, 'large tensor')}")
            self._skipped = 0
        return self.notes.text()


def moments(raw: RawTensor) -> Moments:
    """Norm, mean and standard deviation, computed on the device of the numbers; None for integers."""
    if not hasattr(raw, "detach"):
        array = np.asarray(raw)
        if array.dtype.kind != "f":
            return None, None, None
        norm, mean = (float(x) for x in (np.linalg.norm(array.astype(np.float64)), array.mean()))
        return _moments(norm, mean, array.size)
    if not raw.is_floating_point():
        return None, None, None
    raw = raw.detach()
    raw = raw.float() if raw.element_size() < 4 else raw
    return _moments(float(raw.norm()), float(raw.mean()), raw.numel())


def _moments(norm: float, mean: float, count: int) -> Moments:
    """Norm, mean and standard deviation, the last from the first two."""
    spread = math.sqrt(max(norm**2 / count - mean**2, 0.0)) if count and math.isfinite(norm) else math.nan
    return plain(norm), plain(mean), plain(spread)


def _has_no_shape(raw: object) -> bool:
    """Whether a parameter belongs to a lazy module that was not called yet."""
    return hasattr(raw, "materialize") or not hasattr(raw, "shape")


WORDS = str | int | float | bool | None


def settings_of(module: object) -> list[str]:
    """ "activation=silu", "heads=4": short attributes that are neither modules nor tensors."""
    return [
        f"{name}={word}"
        for name, value in vars(module).items()
        if not name.startswith("_") and name != "training" and (word := _word(value)) is not None
    ]


def _word(value: object) -> str | None:
    if isinstance(value, WORDS):
        return cut(str(value), 40)
    return getattr(value, "__name__", None) if callable(value) else None


LINES = 4
"""Largest number of differences listed."""


def grouped(nodes: Sequence[ModuleNode]) -> list[ModuleNode]:
    """The nodes, with neighbours of equal form, and equal names except for a number, joined."""
    return [_merged(list(group)) for _, group in groupby(nodes, _key)]


def _key(node: ModuleNode) -> object:
    return re.sub(r"\d+", "#", node.name), _form(node)


def _form(node: ModuleNode) -> object:
    """The form of a layer: classes, options and dims, but not dtypes, devices or what is trained."""
    params = [[(_name(row), dims_text(row.dims), row.shape, row.buffer, row.shared) for row in p] for p in node.params]
    children = [(child.name, _form(child)) for child in node.children]
    return node.cls, node.note, node.repeat, node.shared, params, children


def _merged(group: list[ModuleNode]) -> ModuleNode:
    first = group[0]
    if len(group) == 1:
        return first
    return replace(
        _together(group),
        name=f"{first.name}–{group[-1].name}",
        repeat=len(group),
        count=sum(node.count for node in group),
        frozen=sum(node.frozen for node in group),
        differs=_differences(group),
    )


def _together(group: Sequence[ModuleNode]) -> ModuleNode:
    """The tree of the first layer with the parameters of all. Differences mention parameters not trained in some."""
    columns = zip(*(node.params for node in group), strict=True)
    children = zip(*(node.children for node in group), strict=True)
    return replace(
        group[0],
        params=[[row for rows in column for row in rows] for column in columns],
        frozen=min(node.frozen for node in group),
        children=[_together(twins) for twins in children],
    )


def _differences(group: Sequence[ModuleNode]) -> list[str]:
    """ "0, 1: not trained", "3: float16 in up.weight, up.bias", "4: up.activation=silu" """
    layers = [list(_params(node)) for node in group]
    usual = [
        [_most(Counter(values)) for values in zip(*map(_setting, twins), strict=True)]
        for twins in zip(*layers, strict=True)
    ]
    odd: dict[str, list[str]] = {}
    for node, layer, settings in zip(group, layers, _unusual(group), strict=True):
        words = ", ".join(filter(None, [_odd(layer, usual), *settings]))
        if words:
            odd.setdefault(words, []).append(node.name)
    lines = [f"{_names(names)}: {words}" for words, names in odd.items()]
    return lines[:LINES] + ([f"{len(lines) - LINES} more that differ"] if len(lines) > LINES else [])


def _setting(row: ParamRow) -> tuple[str, str, str]:
    return row.dtype, row.device, "trained" if row.trainable else "not trained"


def _odd(rows: Sequence[ParamRow], usual: Sequence[Sequence[str]]) -> str:
    """Unusual properties of a layer's parameters; parameters are named unless all have the property."""
    oddities: dict[str, list[str]] = {}
    for row, typical in zip(rows, usual, strict=True):
        for fact, expected in zip(_setting(row), typical, strict=True):
            if fact != expected:
                oddities.setdefault(fact, []).append(row.path)
    top = len(commonpath([row.path.replace(".", "/") for row in rows])) + 1 if oddities and len(rows) > 1 else 0
    return ", ".join(
        fact if len(paths) == len(rows) else f"{fact} in {first_of([path[top:] for path in paths], 2)}"
        for fact, paths in oddities.items()
    )


def _unusual(group: Sequence[ModuleNode]) -> list[list[str]]:
    """Unusual settings of each layer, without settings that differ in all of many layers and only number them."""
    settings = [list(_settings(node)) for node in group]
    common = Counter(setting for layer in settings for setting in layer)
    values = Counter(setting.partition("=")[0] for setting in common)
    numbers = {name for name, count in values.items() if count == len(group) > 2}
    return [
        [setting for setting in layer if 2 * common[setting] <= len(group) and setting.partition("=")[0] not in numbers]
        for layer in settings
    ]


def _settings(node: ModuleNode, path: str = "") -> Iterator[str]:
    """ "activation=silu", "up.bias=True" """
    yield from (path + setting for setting in node.settings)
    for child in node.children:
        yield from _settings(child, f"{path}{child.name}.")


def _params(node: ModuleNode) -> Iterator[ParamRow]:
    for rows in node.params:
        yield from rows
    for child in node.children:
        yield from _params(child)


def _names(names: list[str]) -> str:
    start = ", ".join(names[:4])
    return start if len(names) <= 4 else f"{start} … {names[-1]} ({len(names)} of them)"


BAD = ("nan", "inf", "-inf")
_GRADIENT = " in the gradient"


@page.shows("module", "rfnb.nn.module.module.Module", "torch.nn.modules.module.Module")
def describe(module: Part) -> page.Page:
    """A module and all its parts: a line for each parameter, a fold for each part."""
    rows = ModuleRows()
    root = read_module(module, rows)
    unique = [row for row in rows.rows if row.shared is None]
    dtypes, devices = (Counter[str]() for _ in range(2))
    for row in unique:
        dtypes[row.dtype] += row.count
        devices[row.device] += row.count
    usual = (_most(dtypes), _most(devices))
    frozen = f" ({amount(root.frozen)} not trained)" if root.frozen else ""
    size_ = size(sum(row.bytes for row in unique))
    total = " · ".join(filter(None, [f"{count_of(root.count, 'parameter')}{frozen}", size_, *usual]))
    flags = [f"{row.path}: {word}" for row in unique for word in _flags(row)]
    flags.sort(key=lambda flag: flag.endswith(_GRADIENT))  # bad values first: they are often the cause
    bad = first_of(flags, 3)
    heads = [page.head(root.cls, f"  {total}")]
    heads += [page.Line(page.chip(bad, style.ALARM, text=f"! {bad}"))] if bad else []
    tree = list(_blocks(root, usual))
    blocks: list[page.Block] = [
        *heads,
        page.Group(tree, f"{style.RAIL};overflow-x:auto;{style.NUMBERS}", 2, options.MODULE_LINES - len(heads)),
        page.Note(rows.note(), indent=0),
    ]
    parts = [
        page.Group([page.Line(block.title) if isinstance(block, page.Fold) else block], indent=2) for block in tree
    ]
    tail = page.Line(f"  … {len(parts) - 12} more") if len(parts) > 12 else None
    short_ = [heads[0], page.Group(heads[1:], indent=2), *parts[:12], tail]
    return page.Page("module", root.cls, blocks, page.Table(COLUMNS, list(map(_cells, rows.rows))), short_)


def read_module(module: Part, rows: ModuleRows) -> ModuleNode:
    """The tree of a module, whose parameters are added to the rows."""
    return _node("", "", module, rows, {}, 0)


def _most(counts: Counter[str]) -> str:
    return counts.most_common(1)[0][0] if counts else ""


def _node(key: str, path: str, module: Part, rows: ModuleRows, seen: dict[int, str], depth: int) -> ModuleNode:
    shared = seen.setdefault(id(module), path)
    repeated = (shared != path or depth > options.MODULE_DEPTH) and depth > 0
    prefix = f"{path}." if path else ""
    params = [] if repeated else [rows.add(prefix + n, p, buffer=b) for n, p, b in parameters_of(module)]
    parts = [] if repeated else children_of(module)
    children = [_node(name, prefix + name, part, rows, seen, depth + 1) for name, part in parts]
    counted = [row for row in params if row.shared is None and not row.buffer]
    return ModuleNode(
        name=key,
        cls=type(module).__name__,
        note=note_of(module),
        settings=settings_of(module),
        repeat=1,
        params=[[row] for row in params],
        count=sum(row.count for row in counted) + sum(child.count for child in children),
        frozen=sum(row.count for row in counted if not row.trainable) + sum(c.frozen for c in children),
        differs=[],
        shared=(shared or "the whole") if repeated else None,
        children=grouped(children),
    )


# -- words


def _name(row: ParamRow) -> str:
    return row.path.rpartition(".")[2]


def _shape(row: ParamRow) -> str:
    if row.shape is not None:
        return str(row.shape)
    return dims_text(row.dims) if row.dims or row.count else "no shape yet"


def _flags(row: ParamRow) -> list[str]:
    """ "NaN", "Inf in the gradient" """
    norms = ((row.norm, ""), (row.grad, _GRADIENT))
    return [f"{'NaN' if value == 'nan' else 'Inf'}{where}" for value, where in norms if value in BAD]


def _span(values: Sequence[Number | None]) -> str | None:
    """One number, or the range of several."""
    numbers = sorted(real(value) for value in values if value is not None and value not in BAD)
    if not numbers:
        return None
    low, high = short(numbers[0]), short(numbers[-1])
    return low if low == high else f"{low} … {high}"


def _facts(rows: list[ParamRow], usual: tuple[str, str]) -> list[str]:
    """Unusual properties: dtype, device and whether it is trained; then norms."""
    first = rows[0]
    words = [first.dtype] if first.dtype != usual[0] else []
    words += [first.device] if first.device != usual[1] else []
    words += ["buffer"] if first.buffer else [] if any(row.trainable for row in rows) else ["not trained"]
    if first.shared is not None:
        return [*words, f"the same as {first.shared}"]
    norms, grads = _span([row.norm for row in rows]), _span([row.grad for row in rows])
    words += [f"‖·‖ {norms}"] if norms is not None else []
    return [*words, f"‖grad‖ {grads}"] if grads is not None else words


def _count(node: ModuleNode) -> str:
    if node.shared is not None:
        return f"the same as {node.shared}"
    if not node.count:
        return ""
    share = f"{amount(node.count // node.repeat)} each, " if node.repeat > 1 else ""
    frozen = node.frozen
    words = "" if not frozen else ", not trained" if frozen == node.count else f", {amount(frozen)} not trained"
    return f"{share}{count_of(node.count, 'parameter')}{words}"


def _title(node: ModuleNode) -> str:
    times = f" × {node.repeat}" if node.repeat > 1 else ""
    return f"{node.name}: {node.cls}{times}" if node.name else f"{node.cls}{times}"


# -- blocks


def _blocks(node: ModuleNode, usual: tuple[str, str]) -> Iterator[page.Block]:
    """A line for each parameter, and a fold for each part."""
    for rows in node.params:
        flags = list(dict.fromkeys(flag for row in rows for flag in _flags(row)))
        facts, shape = _facts(rows, usual), _shape(rows[0])
        yield page.Line(
            page.Span(
                [
                    page.Span([_name(rows[0]), page.web(" ")], COLUMN),
                    [page.Span(_pill(dim)) for dim in rows[0].dims] if rows[0].dims else page.quiet(f"{shape} "),
                    [page.chip(flag, style.ALARM) for flag in flags],
                    page.quiet(" · ".join(facts)),
                ],
                text="  ".join([f"{_name(rows[0])} {shape}", *facts, *(f"! {flag}" for flag in flags)]),
            ),
            look=ROW,
        )
    for child in node.children:
        facts = [word for word in (child.note, _count(child)) if word]
        label = page.bold(f"{child.name}: ") if child.name else None
        times = page.chip(f"× {child.repeat}", style.GREY) if child.repeat > 1 else None
        title = page.Span(
            [label, child.cls, " ", times, page.quiet(" · ".join(facts))], text="  ".join([_title(child), *facts])
        )
        content = [
            *(page.Line(page.quiet(page.Span(words, text=f"({words})"))) for words in child.differs),
            *_blocks(child, usual),
        ]
        is_open = child.repeat == 1 and 0 < len(child.children) <= 8  # too small to be folded
        yield page.Fold(title, content, is_open, rail=True) if content else page.Line(title, look="padding-left:13px")


COLUMNS = (
    *("name", "dims", "shape", "dtype", "device", "count", "trained", "weight decay", "shared with"),
    *("norm", "mean", "std", "grad norm"),
)


def _cells(row: ParamRow) -> list[object]:
    shape = [dim["size"] for dim in row.dims] if row.shape is None else row.shape
    names = ", ".join(dim["name"] for dim in row.dims)
    trained = "buffer" if row.buffer else "yes" if row.trainable else "no"
    facts = [row.dtype, row.device, row.count, trained, row.weight_decay, row.shared]
    numbers = [row.norm, row.mean, row.std, row.grad]
    return [row.path, names, "×".join(map(str, shape)), *facts, *numbers]


ROW = "white-space:nowrap"
COLUMN = "display:inline-block;min-width:8em;padding-right:8px"


def _pill(dim: DimView) -> Html:
    """A pill with few bytes of HTML, which takes font and wrapping from its row."""
    colour = colour_of(dim) or style.GREY
    look = f"background:{style.tint(colour, 0.16)};border-left:3px solid {colour};padding:0 5px;margin-right:4px"
    return el("span", dim_word(bounded_in(dim)), " ", class_="rfnb-dim", data_rfnb_dim=dim["serial"], style=look)
