"""The view of a nested structure: a foldable tree with a line per tensor; equal parts share a line."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import named_parts
from rfnb.core.ground.text import count_of, cut
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.display.kit import blocks as page, options
from rfnb.display.kit.data import Data, DimView, describe_axes, describe_dim, dims_html, dims_text, read
from rfnb.display.markup import style
from rfnb.display.markup.html import bounded_in
from rfnb.display.markup.numbers import Number, percent, real, short, size
from rfnb.display.tensor.arrays import class_of, data_of, is_array
from rfnb.display.tensor.stats import measure, moments
from rfnb.display.tensor.value import value_text
from rfnb.errors import ViewError


@dataclass
class TreeNode:
    """A value or a part of a nested structure.

    Args:
        name: of the part.
        what: "dict", "Tensor", "torch.Tensor", "int".
        dims: of a tensor.
        dtype: of a tensor; of a plain one, with its shape.
        text: statistics of a tensor, or the value.
        flags: "3 NaN".
        bytes: of the tensors here and below.
        tensors: how many there are here and below.
        repeat: so many children of the same structure, one after the other; 0: no such group.
        children: its parts.
    """

    name: str
    what: str
    dims: list[DimView] = field(default_factory=list)
    dtype: str = ""
    text: str = ""
    flags: list[str] = field(default_factory=list)
    bytes: int = 0
    tensors: int = 0
    repeat: int = 0
    children: list[TreeNode] = field(default_factory=list)


PLAIN = (bool, int, float, complex, str, bytes, type(None))
FEW = 8
TEXT = 60
"""Longest string shown, in characters."""


def fill(node: TreeNode, value: object, *, look: bool, closely: bool = True) -> int:
    """Fills in facts about a value, with `look` also about a tensor's entries. Returns its number of entries."""
    if isinstance(value, PLAIN):
        node.text = _clipped(value)
    elif isinstance(value, Dim):
        node.text = value.describe()
    elif isinstance(value, Tensor) or hasattr(type(value), "shape") or isinstance(value, list | tuple):
        try:
            data = read(value) if isinstance(value, Tensor) else data_of(value)
        except Exception as error:
            node.dims = [describe_dim(dim, value.lengths) for dim in value.dims] if isinstance(value, Tensor) else []
            node.text = f"({error.what if isinstance(error, ViewError) else f'no numbers: {page.reason(error)}'})"
        else:
            _add(node, data, look=look, closely=closely)
            return data.entries
    return 0


def _add(node: TreeNode, data: Data, *, look: bool, closely: bool) -> None:
    """Adds facts about a tensor's entries, if they can be read."""
    notes = page.Notes(*data.notes)
    notes.attempt("numbers", lambda: _tensor(node, data, look, closely), None)
    node.text += f"{'  ' if node.text else ''}({notes.text()})" if notes.lines else ""


def _tensor(node: TreeNode, data: Data, look: bool, closely: bool) -> None:
    plain = data.cls != "Tensor"
    node.dims = [] if plain else describe_axes(data.axes, data.feature)
    node.dtype = f"{data.dtype} {list(data.shape)}" if plain else data.dtype
    node.tensors = 0 if data.cls in ("list", "tuple") else 1
    node.bytes = node.tensors * data.entries * int(getattr(data.raw.dtype, "itemsize", 0))
    if data.device not in ("cpu", "None"):
        node.dtype += f" {data.device}"
    if look and data.device != "meta":
        node.text, node.flags = in_short(data, closely=closely)


def in_short(data: Data, *, closely: bool = True) -> tuple[str, list[str]]:
    """The numbers if there are few, else `μ 0.1 σ 1 [-3 .. 3]`, or `≈ μ 0.1 …` for a sample; and NaN and Inf."""
    measured = measure(data, closely=closely)
    flags = [] if measured is None else [f"{bad.count:,} {word}" for word, bad in measured.bad.items()]
    if data.entries <= FEW or data.sparse is not None:
        return value_text(data), flags
    if measured is None:
        return "only padding", flags
    values = moments(measured.frames)
    if values["min"] == "nan":
        return "no finite entries", flags
    return ("≈ " if measured.where else "") + _in_words(values, data.dtype == "bool"), flags


def _in_words(values: Mapping[str, Number], of_bools: bool) -> str:
    if of_bools:
        return f"true {percent(real(values['mean']))}"
    low, mean, high, std = (short(values[key]) for key in ("min", "mean", "max", "std"))
    return f"all {low}" if values["min"] == values["max"] else f"μ {mean} σ {std} [{low} .. {high}]"


def _clipped(value: object) -> str:
    return cut(repr(value[:TEXT] if isinstance(value, str | bytes) else value), TEXT)


ALIKE = 3
"""Fewest consecutive parts of equal structure that become one line."""


class Folder(dict[str, Any]):
    """A level of names with dots: "layers.0.weight" is in `layers`, `0`."""


class Walk:
    """Makes the nodes; counts them and detects cycles."""

    def __init__(self) -> None:
        self.nodes = self.entries = 0
        self.inside: list[int] = []

    def node(self, name: str, value: object) -> TreeNode:
        """The node of a value and its parts, within the limits."""
        self.nodes += 1
        node = TreeNode(name, "" if isinstance(value, Folder) else class_of(value))
        is_leaf = isinstance(value, Tensor | Dim | str | bytes) or is_array(value)
        parts = None if is_leaf else parts_of(value)
        if parts is None:
            closely = self.entries <= options.TREE_ENTRIES
            self.entries += fill(node, value, look=self.nodes <= options.TREE_STATS, closely=closely)
        elif id(value) in self.inside:
            node.text = "… itself"
        elif parts and (len(self.inside) >= options.TREE_DEPTH or self.nodes > options.TREE_NODES):
            node.text = f"… {count_of(len(parts), 'part')} inside"
        else:
            self._children(node, value, parts)
        return node

    def _children(self, node: TreeNode, value: object, parts: Sequence[tuple[str, object]]) -> None:
        self.inside.append(id(value))
        head = itertools.islice(parts, options.TREE_CHILDREN)
        children = [self.node(name, part) for name, part in head if self.nodes <= options.TREE_NODES]
        self.inside.pop()
        node.children = grouped(children)
        add_up(node)
        if len(children) < len(parts):
            node.children.append(TreeNode("…", "", text=f"{len(parts) - len(children):,} more"))
        if not parts:
            node.text = "empty"


def parts_of(value: object) -> list[tuple[str, object]] | None:
    """Names and values of the parts; None for a leaf."""
    if isinstance(value, TensorDict):
        return list(value.data.items())  # not by `[]`, which binds dims
    if isinstance(value, Mapping):
        named = {str(key): part for key, part in value.items()}
        return list((unfolded(named) or named).items())
    parts = named_parts(value)
    return None if parts is None else [(str(name), part) for name, part in parts]


def unfolded(named: Mapping[str, object]) -> Folder | None:
    """Names with dots as nested levels; None if there are none, or if a name is both a level and a value."""
    if not any("." in name for name in named):
        return None
    top = Folder()
    for name, part in named.items():
        *folders, leaf = name.split(".")
        at = top
        for folder in folders:
            at = at.setdefault(folder, Folder())
            if not isinstance(at, Folder):
                return None
        if leaf in at:
            return None
        at[leaf] = part
    return top


def grouped(children: list[TreeNode]) -> list[TreeNode]:
    """Parts of equal structure, with consecutive numbers as names, joined in one node."""
    nodes: list[TreeNode] = []
    for run in _runs(children):
        nodes += [_group(run)] if len(run) >= ALIKE and run[0].tensors else run
    return nodes


def add_up(node: TreeNode) -> None:
    """Adds up the totals of the parts."""
    node.bytes = sum(child.bytes for child in node.children)
    node.tensors = sum(child.tensors for child in node.children)
    wrong = sum(bool(leaf.flags) for _, leaf in _leaves(node, ()))
    node.flags = [f"{wrong} not finite"] if wrong else []


def _group(run: list[TreeNode]) -> TreeNode:
    first = run[0]
    number = re.search(r"\d+$", run[-1].name)
    name = f"{first.name}–{number[0] if number else run[-1].name}"
    node = replace(first, name=name, text="", repeat=len(run), children=run)
    add_up(node)
    return node


def _runs(children: list[TreeNode]) -> Iterator[list[TreeNode]]:
    run: list[TreeNode] = []
    for child in children:
        if run and not (_follows(run[-1].name, child.name) and _structure(run[-1]) == _structure(child)):
            yield run
            run = []
        run.append(child)
    if run:
        yield run


def _follows(name: str, other: str) -> bool:
    earlier, later = (re.fullmatch(r"(.*?)(\d+)", word) for word in (name, other))
    return bool(earlier and later and earlier[1] == later[1] and int(later[2]) == int(earlier[2]) + 1)


def _structure(node: TreeNode) -> tuple[object, ...]:
    dims = tuple((dim["name"], dim["size"]) for dim in node.dims)
    children = tuple((child.name, _structure(child)) for child in node.children)
    return node.what, node.dtype, dims, node.tensors, children


OPEN_DEPTH = 2
OPEN_NODES = 40
"""Number of parts above which a part is folded at first."""


@page.shows(
    "tree",
    "rfnb.core.tensor.tensor_dict.TensorDict",
    "rfnb.core.tensor.tensor_dict.State",
    "collections.abc.Mapping",
    "builtins.dict",
    "builtins.list",
    "builtins.tuple",
)
def describe(structure: object) -> page.Page:
    """The structure and its parts as folds, within the limits."""
    walk, cls = Walk(), class_of(structure)
    root = walk.node("", structure)
    notes = page.Notes()
    if walk.nodes > options.TREE_NODES:
        notes.add(f"the first {options.TREE_NODES:,} parts")
    if walk.nodes > options.TREE_STATS:
        notes.add(f"numbers of the first {options.TREE_STATS} parts")
    rows = [[".".join(path), *_cells(node)] for path, node in _leaves(root, ())]
    blocks = [
        _block(root, 0, OPEN_DEPTH if _height(root) <= OPEN_NODES else 1),
        page.Note(", ".join(notes.lines) or None),
    ]
    return page.Page("tree", cls, blocks, page.Table(["path", "type", "dims", "dtype", "value"], rows))


def node_text(node: TreeNode) -> str:
    """`weight {in:4, out:2} float32  μ 0.1 σ 1 [-2 .. 2]`, `0–11 × 12  4 tensors, 12 kB`"""
    dims = dims_text(node.dims) if node.dims or node.what == "Tensor" else ""
    words = " ".join(word for word in (_name(node), _what(node), dims, node.dtype) if word)
    return "  ".join(word for word in (words, total(node), node.text, *node.flags) if word)


def total(node: TreeNode) -> str:
    """`4 tensors, 12 kB`: the totals of a node with parts."""
    if not node.children or not node.tensors:
        return ""
    if not node.repeat:
        return f"{count_of(node.tensors, 'tensor')}, {size(node.bytes)}"
    share = node.tensors // node.repeat
    return f"{count_of(share, 'tensor')} each, {size(node.bytes)}" if share > 1 else size(node.bytes)


def _cells(node: TreeNode) -> list[str | None]:
    dims = dims_text(node.dims) if node.dims else None
    return [node.what, dims, node.dtype or None, " ".join([node.text, *node.flags])]


def _name(node: TreeNode) -> str:
    return f"{node.name} × {node.repeat}" if node.repeat else node.name


def _what(node: TreeNode) -> str:
    """The class, unless the rest of the line implies it."""
    return "" if node.what in ("Tensor", "Dim", "int", "float", "bool", "str", "NoneType") else node.what


def _leaves(node: TreeNode, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], TreeNode]]:
    """All leaves, with their paths."""
    if not node.children:
        yield path, node
    for child in node.children:
        yield from _leaves(child, path if child.repeat else (*path, child.name))


def _height(node: TreeNode) -> int:
    """The number of lines that a terminal shows."""
    children = node.children[0].children if node.repeat else node.children
    return 1 + sum(map(_height, children))


def _block(node: TreeNode, depth: int, opened: int, bare: bool = False) -> page.Block:
    """A fold of the parts, or a line. bare: without values, which those that it stands for do not share."""
    if bare:
        node = replace(node, text="", flags=[])
    if not node.children:
        return page.Line(_line(node), look="padding-left:16px")
    inside = [_block(child, depth + 1, opened, bare) for child in node.children]
    if node.repeat:  # a terminal shows the parts of the first one
        blocks_of_first = [_block(child, depth + 1, opened, True) for child in node.children[0].children]
        inside = [page.Only("html", inside), page.Only("text", blocks_of_first)]
    return page.Fold(_line(node), inside, not node.repeat and depth < opened, rail=True)


def _line(node: TreeNode) -> page.Span:
    beside = " ".join(word for word in (_what(node), node.dtype, total(node)) if word)
    words = [
        page.Span(_name(node), "font-family:monospace"),
        " ",
        page.Span(dims_html(bounded_in(node.dims))),
        page.quiet(beside, " ") if beside else None,
        page.Span(node.text, f"{style.NUMBERS};display:inline-block") if node.text else None,
        " " if node.flags else None,
        *(page.chip(flag, style.ALARM) for flag in node.flags),
    ]
    return page.Span(words, text=node_text(node))
