"""The graph of a model as Graphviz source, for other tools that draw, export and rearrange graphs."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from typing import Any

from rfnb.display.graph.cards import ACCENT, BORDER, FAILED, FAILED_PAPER, OP, PAPER, PORT, amount, number_line, tinted
from rfnb.display.graph.schema import GraphNode, GraphView
from rfnb.display.graph.unfold import name, value_text
from rfnb.errors import ViewError
from rfnb.printable import visible

SECONDS = 20.0
"""Longest time to wait for the program `dot`, in seconds."""
FORMATS = ("svg", "png", "pdf")


def to_dot(view: GraphView) -> object:
    """A `graphviz.Source`: open nodes as clusters, carried states as dashed edges. Raises ViewError without graphviz.

    No program is needed for the text: `source.source`, `source.save("model.dot")`.
    """
    try:
        import graphviz
    except ImportError:
        raise ViewError(
            "to_dot: the Python package graphviz is not installed", hint="pip install graphviz; or view.text, view.html"
        ) from None
    return _source_class(graphviz.Source)(dot_text(view), filename="model.dot")


@cache
def _source_class(base: Any) -> Any:
    """A `graphviz.Source` that waits at most `SECONDS` for the program `dot`, and shows its text without it."""

    class DotSource(base):
        def pipe(self, format: str | None = None, **options: object) -> bytes:
            return rendered(self, format or "svg") if not options else super().pipe(format=format, **options)

        def _repr_mimebundle_(self, include: object = None, exclude: object = None, **_: object) -> dict[str, str]:
            try:
                return {"text/plain": self.source, "image/svg+xml": self.pipe("svg").decode()}
            except ViewError as error:
                return {"text/plain": f"({error.what})\n{self.source}"}

    return DotSource


def rendered(source: Any, form: str = "svg", *, seconds: float = SECONDS) -> bytes:
    """The output of the program `dot` as "svg", "png" or "pdf".

    Raises ViewError if the program is missing, fails, or takes too long.
    """
    if form not in FORMATS:
        raise ViewError("rendered: no such format", got=repr(form), expected=", ".join(FORMATS))
    program = shutil.which("dot")
    if program is None:
        raise ViewError(
            "rendered: the program `dot` is not installed",
            hint="apt install graphviz; without it: view.save('model.html') draws the graph",
        )
    try:
        process = subprocess.run(
            [program, f"-T{form}"], input=source.source.encode(), capture_output=True, timeout=seconds, check=True
        )
    except subprocess.TimeoutExpired:
        raise ViewError(
            f"rendered: dot took longer than {seconds:g} s", hint="seconds=…, or a smaller picture: depth=0"
        ) from None
    except subprocess.CalledProcessError as error:
        words = error.stderr.decode(errors="replace").strip().splitlines()
        raise ViewError("rendered: dot failed", got=words[0] if words else f"exit status {error.returncode}") from None
    return process.stdout


# -- the text


def dot_text(view: GraphView) -> str:
    """The graph in the language of Graphviz."""
    look = [
        "compound=true; rankdir=TB; fontname=Helvetica; fontsize=11; bgcolor=transparent;",
        f'node [shape=box, style="rounded,filled", fillcolor="{PAPER}", color="{BORDER}"];',
        "node [fontname=Helvetica, fontsize=10];",
        'edge [color="#878c96", arrowsize=0.6, fontname=Helvetica, fontsize=9];',
    ]
    return "\n".join(["digraph {", *_indented([*look, *_body(view, view["root"], "")]), "}"]) + "\n"


def _body(view: GraphView, key: str, around: str) -> list[str]:
    """Nodes and edges of a body. A body that is drawn twice has its nodes twice, with different prefixes `around`."""
    body, is_open = view["bodies"][key], set(view["open"])
    nodes = {node["id"]: node for node in body["nodes"]}
    lines = [line for node in body["nodes"] for line in _node(view, node, around, is_open=node["id"] in is_open)]
    for edge in body["edges"]:
        tail, tail_box = _end(view, nodes[edge["source"]], around, first=False)
        head, head_box = _end(view, nodes[edge["target"]], around, first=True)
        look = {key: box for key, box in (("ltail", tail_box), ("lhead", head_box)) if box}
        if edge["back"]:
            look |= {"style": "dashed", "constraint": "false", "color": ACCENT, "label": "t−1 → t"}
        elif edge["value"] < 0:
            look |= {"style": "dashed"}
        lines.append(f"{quoted(tail)} -> {quoted(head)}{_attributes(look)};")
    return lines


def _node(view: GraphView, node: GraphNode, around: str, *, is_open: bool) -> list[str]:
    key = around + node["id"]
    if not is_open or not node["body"]:
        return [f"{quoted(key)}{_attributes(_look(view, node))};"]
    cls = node["cls"] if node["cls"] != node["name"] else ""
    title = " ".join(filter(None, [name(node), cls, number_line(node), *node["notes"][:1]]))
    rim = {
        "label": title,
        "labeljust": "l",
        "style": "rounded",
        "color": FAILED if node["status"] == "failed" else BORDER,
    }
    if node["kind"] == "loop":
        rim["peripheries"] = "2"
    lines = [f"{k}={quoted(v)};" for k, v in rim.items()] + _body(view, node["body"], f"{key}.")
    return [f"subgraph {quoted('cluster_' + key)} {{", *_indented(lines), "}"]


def _look(view: GraphView, node: GraphNode) -> dict[str, str]:
    outputs = [value_text(view, value) for value in node["outputs"][:3]]
    cls = node["cls"] if node["cls"] != node["name"] else ""
    count = amount(node["params"]) if node["params"] else ""
    if node["kind"] == "op" and not any(value["changed"] for value in node["outputs"]):
        outputs = []
    number = node.get("number")
    extra = [] if number is None else number["more"]
    words = [f"{name(node)} {cls}".strip(), number_line(node), *outputs, count, *extra, *node["notes"]]
    look = {"label": "\n".join(filter(None, words))}
    if number is not None:
        look["fillcolor"] = tinted(node, PAPER)
    if node["status"] == "ghost":
        return look | {"style": "rounded,dashed"}
    if node["status"] == "failed":
        return look | {"color": FAILED, "fillcolor": FAILED_PAPER}
    if node["kind"] == "loop":
        return look | {"peripheries": "2"}
    fill = {"op": OP, "input": PORT, "output": PORT, "frame": PORT}.get(node["kind"])
    return look | ({"fillcolor": fill} if fill else {})


def _end(view: GraphView, node: GraphNode, around: str, *, first: bool) -> tuple[str, str | None]:
    """The node that an edge ends at; for an open node, a node inside and the cluster around it."""
    key = around + node["id"]
    box = f"cluster_{key}" if node["body"] and node["id"] in view["open"] else None
    while node["body"] and node["id"] in view["open"] and view["bodies"][node["body"]]["nodes"]:
        node = view["bodies"][node["body"]]["nodes"][0 if first else -1]
        key = f"{key}.{node['id']}"
    return key, box


def _attributes(look: dict[str, str]) -> str:
    return " [" + ", ".join(f"{key}={quoted(value)}" for key, value in look.items()) + "]" if look else ""


def quoted(text: str) -> str:
    r"""Text as a Graphviz string, without escape sequences of its own.

    >>> print(quoted('say "a\\n"'))
    "say \"a\\n\""
    """
    escaped = visible(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]
