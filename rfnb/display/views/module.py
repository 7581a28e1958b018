"""The view of a module: its tree, with the parameters of each part."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from rfnb.core.dim import Dim
from rfnb.display import style
from rfnb.display.html import Html, el, join
from rfnb.display.numbers import count_of, size
from rfnb.display.schema import ModuleNode, ModuleView, ParamRow
from rfnb.display.views.dim import describe_dim
from rfnb.display.views.dims import dims_html, dims_text

if TYPE_CHECKING:
    from rfnb.core.parameter import Parameter

DEPTH = 12
OPEN_DEPTH = 2
WIDTH = {"float64": 8, "int64": 8, "float16": 2, "bfloat16": 2, "int8": 1, "uint8": 1, "bool": 1}


def describe(module: Any) -> ModuleView:
    """The module and all below it."""
    seen: set[int] = set()
    root = _node("", module, seen, 0)
    return {"kind": "module", "root": root, "count": root["count"], "bytes": _bytes(root)}


def to_text(view: ModuleView) -> str:
    """A line for each module and parameter."""
    lines = [f"{'  ' * depth}{node_text(node)}" for depth, node in _walk(view["root"])]
    return "\n".join([f"{lines[0]} · {size(view['bytes'])}", *lines[1:]])


def to_html(view: ModuleView) -> Html:
    """The same, folding."""
    total = el("span", f" · {size(view['bytes'])}", style=style.QUIET)
    return el("div", _fold(view["root"], 0, total), style=style.BOX)


def node_text(node: Any) -> str:
    """`rnn: LSTM in:26 → out:128  80,000 parameters`, `weight {in:26, out:128} float32`"""
    if "cls" not in node:
        fixed = "" if node["trainable"] else "  not trained"
        return f"{node['name']} {dims_text(node['dims'])} {node['dtype']}{fixed}"
    name = f"{node['name']}: " if node["name"] else ""
    words = [f"{name}{node['cls']}", node["note"], count_of(node["count"], "parameter")]
    return "  ".join(word for word in words if word)


def _node(name: str, module: Any, seen: set[int], depth: int) -> ModuleNode:
    known = id(module) in seen or depth > DEPTH
    seen.add(id(module))
    params = [] if known else [_param(n, p) for n, p in module.named_parameters(recurse=False)]
    children = [] if known else [_node(n, child, seen, depth + 1) for n, child in module.named_children()]
    return {
        "name": name,
        "cls": type(module).__name__,
        "note": "shown above" if known else _note(module),
        "params": params,
        "count": sum(p["count"] for p in params) + sum(c["count"] for c in children),
        "children": children,
    }


def _param(name: str, param: Parameter) -> ParamRow:
    dims = [describe_dim(dim, param.lengths) for dim in param.dims]
    return {
        "name": name,
        "dims": dims,
        "dtype": str(param.dtype),
        "count": math.prod(dim["size"] for dim in dims),
        "trainable": bool(param.trainable),
    }


def _note(module: Any) -> str:
    dims = [getattr(module, name, None) for name in ("in_dim", "out_dim")]
    words = [f"{d.name}:{d.dimension if d.dimension is not None else '?'}" for d in dims if isinstance(d, Dim)]
    return " → ".join(words)


def _bytes(node: ModuleNode) -> int:
    own = sum(p["count"] * WIDTH.get(p["dtype"], 4) for p in node["params"])
    return own + sum(_bytes(child) for child in node["children"])


def _walk(node: ModuleNode, depth: int = 0) -> Iterator[tuple[int, Any]]:
    yield depth, node
    for param in node["params"]:
        yield depth + 1, param
    for child in node["children"]:
        yield from _walk(child, depth + 1)


def _fold(node: ModuleNode, depth: int, more: Html | None = None) -> Html:
    name = f"{node['name']}: " if node["name"] else ""
    note = f"  {node['note']}" if node["note"] else ""
    title = join(
        el("span", name + node["cls"], style=style.NAME),
        el("span", note, "  ", count_of(node["count"], "parameter"), style=style.QUIET),
        more,
    )
    if not node["params"] and not node["children"]:
        return el("div", title, style="padding-left:16px")
    rail = f"margin-left:5px;padding-left:12px;border-left:1px solid {style.tint(style.GREY, 0.4)}"
    inside = el("div", [_row(p) for p in node["params"]], [_fold(c, depth + 1) for c in node["children"]], style=rail)
    return el("details", el("summary", title, style="cursor:pointer"), inside, open=depth < OPEN_DEPTH)


def _row(param: ParamRow) -> Html:
    fixed = "" if param["trainable"] else "  not trained"
    return el(
        "div",
        el("span", param["name"], " ", style=style.NUMBERS),
        dims_html(param["dims"]),
        el("span", param["dtype"], fixed, style=style.QUIET),
    )
