"""Nested structures as trees: dicts, lists, tuples, dataclasses and TensorDicts, with equal parts grouped."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.nested import named_parts
from rfnb.core.ground.text import count_of
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.display.kit import options
from rfnb.display.tensor.arrays import class_of, is_array
from rfnb.display.tree.leaf import fill
from rfnb.display.tree.schema import TreeNode

ALIKE = 3
"""Fewest consecutive parts of equal structure that become one line."""


class Folder(dict[str, Any]):
    """A level of names with dots: "layers.0.weight" is in `layers`, `0`."""


class Walk:
    """Makes the nodes; counts them and detects cycles."""

    def __init__(self) -> None:
        self.nodes = self.entries = 0
        self.inside: list[int] = []

    def node(self, name: str, value: Any) -> TreeNode:
        """The node of a value and its parts, within the limits."""
        self.nodes += 1
        node = empty(name, "" if isinstance(value, Folder) else class_of(value))
        parts = None if _is_leaf(value) else parts_of(value)
        if parts is None:
            closely = self.entries <= options.TREE_ENTRIES
            self.entries += fill(node, value, look=self.nodes <= options.TREE_STATS, closely=closely)
        elif id(value) in self.inside:
            node["text"] = "… itself"
        elif parts and (len(self.inside) >= options.TREE_DEPTH or self.nodes > options.TREE_NODES):
            node["text"] = f"… {count_of(len(parts), 'part')} inside"
        else:
            self._children(node, value, parts)
        return node

    def _children(self, made: TreeNode, value: Any, parts: Sequence[tuple[str, Any]]) -> None:
        self.inside.append(id(value))
        head = itertools.islice(parts, options.TREE_CHILDREN)
        children = [self.node(name, part) for name, part in head if self.nodes <= options.TREE_NODES]
        self.inside.pop()
        made["children"] = grouped(children)
        add_up(made)
        if len(children) < len(parts):
            made["children"].append({**empty("…", ""), "text": f"{len(parts) - len(children):,} more"})
        if not parts:
            made["text"] = "empty"


def empty(name: str, what: str) -> TreeNode:
    """A node without parts."""
    return {
        "name": name, "what": what, "dims": [], "dtype": "", "text": "", "flags": [],
        "bytes": 0, "tensors": 0, "repeat": 0, "children": [],
    }  # fmt: skip


def parts_of(value: Any) -> list[tuple[str, Any]] | None:
    """Names and values of the parts; None for a leaf."""
    if isinstance(value, TensorDict):
        return list(value.data.items())  # not by `[]`, which binds dims
    if isinstance(value, Mapping):
        named = {str(key): part for key, part in value.items()}
        return list((unfolded(named) or named).items())
    parts = named_parts(value)
    return None if parts is None else [(str(name), part) for name, part in parts]


def unfolded(named: Mapping[str, Any]) -> Folder | None:
    """Names with dots as nested levels; None if there are none, or if a name is both a level and a value."""
    if not any("." in name for name in named):
        return None
    top = Folder()
    for name, part in named.items():
        *folders, last = name.split(".")
        at: Any = top
        for folder in folders:
            at = at.setdefault(folder, Folder())
            if not isinstance(at, Folder):
                return None
        if last in at:
            return None
        at[last] = part
    return top


def grouped(children: list[TreeNode]) -> list[TreeNode]:
    """Parts of equal structure, with consecutive numbers as names, joined in one node."""
    nodes: list[TreeNode] = []
    for run in _runs(children):
        nodes += [_group(run)] if len(run) >= ALIKE and run[0]["tensors"] else run
    return nodes


def add_up(node: TreeNode) -> None:
    """Adds up the totals of the parts."""
    node["bytes"] = sum(child["bytes"] for child in node["children"])
    node["tensors"] = sum(child["tensors"] for child in node["children"])
    wrong = sum(1 for leaf in leaves(node) if leaf["flags"])
    node["flags"] = [f"{wrong} not finite"] if wrong else []


def leaves(node: TreeNode) -> Iterator[TreeNode]:
    """All leaves below a node."""
    for child in node["children"]:
        yield from leaves(child) if child["children"] else [child]


def _is_leaf(value: Any) -> bool:
    return isinstance(value, Tensor | Dim | str | bytes) or is_array(value)


def _group(run: list[TreeNode]) -> TreeNode:
    first = run[0]
    number = re.search(r"\d+$", run[-1]["name"])
    name = f"{first['name']}–{number[0] if number else run[-1]['name']}"
    node: TreeNode = {**first, "name": name, "text": "", "repeat": len(run), "children": run}
    add_up(node)
    return node


def _runs(children: list[TreeNode]) -> Iterator[list[TreeNode]]:
    run: list[TreeNode] = []
    for child in children:
        if run and not (_follows(run[-1]["name"], child["name"]) and _structure(run[-1]) == _structure(child)):
            yield run
            run = []
        run.append(child)
    if run:
        yield run


def _follows(name: str, other: str) -> bool:
    earlier, later = (re.fullmatch(r"(.*?)(\d+)", word) for word in (name, other))
    return bool(earlier and later and earlier[1] == later[1] and int(later[2]) == int(earlier[2]) + 1)


def _structure(node: TreeNode) -> tuple[Any, ...]:
    dims = tuple((dim["name"], dim["size"]) for dim in node["dims"])
    children = tuple((child["name"], _structure(child)) for child in node["children"])
    return node["what"], node["dtype"], dims, node["tensors"], children
