"""The view of a nested structure: a foldable tree with a line per tensor; equal parts share a line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rfnb.core.ground.text import count_of
from rfnb.display.kit import options
from rfnb.display.kit.dims import dims_html, dims_text
from rfnb.display.markup import style
from rfnb.display.markup.grid import Table
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.numbers import size
from rfnb.display.markup.widgets_html import chip, note_html, note_text, quiet
from rfnb.display.tensor.arrays import class_of
from rfnb.display.tree.nested import Walk
from rfnb.display.tree.schema import TreeNode, TreeView

OPEN_DEPTH = 2
OPEN_NODES = 40
"""Number of parts above which a part is folded at first."""


def describe(structure: Any) -> TreeView:
    """The JSON of the structure and its parts, within the limits."""
    walk = Walk()
    root = walk.node("", structure)
    notes = []
    if walk.nodes > options.TREE_NODES:
        notes.append(f"the first {options.TREE_NODES:,} parts")
    if walk.nodes > options.TREE_STATS:
        notes.append(f"numbers of the first {options.TREE_STATS} parts")
    return {"kind": "tree", "name": class_of(structure), "root": root, "note": ", ".join(notes) or None}


def to_text(view: TreeView) -> str:
    """One line per part; the first of equal parts stands for all."""
    lines = [f"{'  ' * depth}{node_text(node)}" for depth, node in _lines(view["root"], 0)]
    return "\n".join(lines + note_text(view["note"]))


def to_html(view: TreeView) -> Html:
    """The tree with folds."""
    fits = sum(1 for _ in _lines(view["root"], 0)) <= OPEN_NODES
    return el("div", _fold(view["root"], 0, OPEN_DEPTH if fits else 1), note_html(view["note"]), style=style.BOX)


def to_table(view: TreeView) -> Table:
    """A row for each leaf."""
    rows = [[".".join(path), *_cells(node)] for path, node in _leaves(view["root"], ())]
    return Table(["path", "type", "dims", "dtype", "value"], rows)


def node_text(node: TreeNode) -> str:
    """`weight {in:4, out:2} float32  μ 0.1 σ 1 [-2 .. 2]`, `0–11 × 12  4 tensors, 12 kB`"""
    dims = dims_text(node["dims"]) if node["dims"] or node["what"] == "Tensor" else ""
    words = " ".join(word for word in (_name(node), _what(node), dims, node["dtype"]) if word)
    return "  ".join(word for word in (words, total(node), node["text"], *node["flags"]) if word)


def total(node: TreeNode) -> str:
    """`4 tensors, 12 kB`: the totals of a node with parts."""
    if not node["children"] or not node["tensors"]:
        return ""
    if not node["repeat"]:
        return f"{count_of(node['tensors'], 'tensor')}, {size(node['bytes'])}"
    share = node["tensors"] // node["repeat"]
    return f"{count_of(share, 'tensor')} each, {size(node['bytes'])}" if share > 1 else size(node["bytes"])


def _cells(node: TreeNode) -> list[str | None]:
    dims = dims_text(node["dims"]) if node["dims"] else None
    return [node["what"], dims, node["dtype"] or None, " ".join([node["text"], *node["flags"]])]


def _name(node: TreeNode) -> str:
    return f"{node['name']} × {node['repeat']}" if node["repeat"] else node["name"]


def _what(node: TreeNode) -> str:
    """The class, unless the rest of the line implies it."""
    return "" if node["what"] in ("Tensor", "Dim", "int", "float", "bool", "str", "NoneType") else node["what"]


def _lines(node: TreeNode, depth: int) -> Iterator[tuple[int, TreeNode]]:
    yield depth, node
    if not node["repeat"]:
        for child in node["children"]:
            yield from _lines(child, depth + 1)
        return
    for child in node["children"][0]["children"]:
        for level, part in _lines(child, depth + 1):
            yield level, {**part, "text": "", "flags": []}  # the others differ


def _leaves(node: TreeNode, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], TreeNode]]:
    if not node["children"]:
        yield path, node
    for child in node["children"]:
        yield from _leaves(child, path if child["repeat"] else (*path, child["name"]))


def _fold(node: TreeNode, depth: int, opened: int) -> Html:
    if not node["children"]:
        return el("div", _line(node), style="padding-left:16px")
    children = el("div", [_fold(child, depth + 1, opened) for child in node["children"]], style=style.RAIL)
    shut = node["repeat"] or depth >= opened
    return el("details", el("summary", _line(node), style="cursor:pointer"), children, open=not shut)


def _line(node: TreeNode) -> Html:
    beside = " ".join(word for word in (_what(node), node["dtype"], total(node)) if word)
    return join(
        el("span", _name(node), style="font-family:monospace"),
        " ",
        dims_html(node["dims"]),
        quiet(beside, " ") if beside else None,
        el("span", node["text"], style=style.NUMBERS + ";display:inline-block") if node["text"] else None,
        " " if node["flags"] else None,
        [chip(flag, style.ALARM) for flag in node["flags"]],
    )
