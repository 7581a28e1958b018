"""The graph of a model: modules, ops and loops of one call, folded by module.

**The picture.** Data flows down; a long graph continues in a next column. Each body (of a module, a loop, a side of a
branch) is laid out on its own, and a node that is open is as large as its body. In the SVG each node is
`<g data-node="n12" transform="translate(x,y)">`, with `data-body="b3"` if there is something inside, and `data-open`
if it is open; each edge is `<g data-edge="7">` with one `<path>`, whose arrow is a marker. What is written below a node
(the dims that it gives) is part of the node: edges have no words. Ids of nodes are unique within the view; a body that
several nodes share is drawn once for each of them that is open.

**For scripts** (`to_scripts`) the same picture as parts:

    {"kind": "graph", "root": "b0", "open": ["n3"],          # open: ids of the nodes that the picture draws open
     "frame": {"pad": 14, "head": 30},                       # of an open node: its body is at (pad, head)
     "bodies": {"b0": {
         "width": 640, "height": 420,
         "columns": [[0, 310], [310, 640]],                  # left and right end; a column is as good as a row of text
         "svg": "<g>…</g>",                                  # all of it, its open nodes open
         "nodes": [{"id": "n3", "name": "encoder", "path": "encoder", "text": "encoder Encoder …",  # text: searched
                    "x": 20, "y": 60, "w": 300, "h": 200,    # as drawn in `svg`, from the corner of this body
                    "rank": 2, "column": 0,
                    "tail": 18,                              # lines leave at y + h - tail: words are below; 0 mostly
                    "body": "b1",                            # None if there is nothing inside
                    "open": True,
                    "other": {"w": 180, "h": 56, "tail": 0, "svg": "<g>…</g>"} | None}],
                                                             # the node in its other state, at (0, 0): the closed card
                                                             # of an open one; of a closed one its frame and title
                                                             # without the body, which is bodies[body]; None without
         "edges": [{"id": 7, "from": "n1", "to": "n3", "back": False, "shape": "smooth",
                    "points": [[90, 40], [90, 60]]}]}}}

The size of an open node is `max(other.w, body.width + 2 * pad)` by `head + body.height + pad`; its tail is 0.

*Edges* are drawn again from their points. shape "smooth": between two points (x, y) and (u, v) a straight line if
x = u, else the curve `C x,(y+v)/2 u,(y+v)/2 u,v`; "round": upright and level lines with corners of radius 8. The last
point is the tip of the arrow. `back` edges are dashed. The first point of an edge moves with the lower end of its node,
the last one with the upper end.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from rfnb.core.graph.model_graph import ModelGraph
from rfnb.core.ground.text import count_of, first_of
from rfnb.display.graph import measures
from rfnb.display.graph.cards import ACCENT, BORDER, FAILED, FAILED_PAPER, OP, PAPER, PORT, amount, number_line, tinted
from rfnb.display.graph.fold import GraphFolder
from rfnb.display.graph.picture import WIDTH, Painter, to_scripts as to_scripts
from rfnb.display.graph.schema import GraphFailure, GraphNode, GraphView
from rfnb.display.graph.unfold import name, opened, to_table as boxes, value_text
from rfnb.display.kit import blocks as page
from rfnb.display.markup import svg
from rfnb.display.markup.html import Html, el, wide
from rfnb.errors import ViewError
from rfnb.printable import visible

LEGIBLE = 0.75
"""Smallest scale of the picture in a narrow cell; beyond, it scrolls sideways."""
HIDE = ("parameters", "constants")


@page.shows("graph", "rfnb.core.graph.model_graph.ModelGraph")
def describe(
    graph: ModelGraph, *, depth: int | None = None, open: str | Sequence[str] = (), hide: Iterable[str] = HIDE
) -> GraphView:
    """The graph as nested boxes.

    Args:
        depth: so many levels are open: 0 shows the outermost boxes only; if it is not given, what can be taken in at a
            glance.
        open: paths of modules which are open, with all around them: `open="encoder.layers.3"`.
        hide: what is left out: "parameters", "constants" (tensors that are not inputs, and that nothing made).

    Raises ViewError if there is no module with such a path.
    """
    folder = GraphFolder(graph, hide)
    view: GraphView = {
        "kind": "graph",
        "name": graph.name,
        "root": folder.root(),
        "dims": folder.described.dims,
        "bodies": folder.bodies,
        "open": [],
        "params": graph.count,
        "failure": _failure(graph, folder),
        "note": _note(graph),
    }
    measured = measures.describe(graph)
    if measured is not None:
        view["measured"] = measured
    paths = [open] if isinstance(open, str) else open
    return view | {"open": opened(view, depth, paths, folder.twins)}


def _failure(graph: ModelGraph, folder: GraphFolder) -> GraphFailure | None:
    failure = graph.failure
    if failure is None:
        return None
    way = [node for node in graph.graph.all_nodes() if node.number in folder.failed and node.number in folder.ids]
    return {
        "node": folder.ids[way[-1].number] if way else None,
        "path": way[-1].module.path if way and way[-1].module else way[-1].path if way else "",
        "error": failure.error,
        "text": failure.text,
        "place": failure.place,
        "hint": failure.hint,
    }


def _note(graph: ModelGraph) -> str | None:
    unused = [] if graph.failure else [module.path for module in graph.unused]
    notes = [f"not called: {first_of(unused, 8)}"] if unused else []
    return "; ".join([*(["without numbers, on the meta device"] if graph.meta else []), *graph.notes, *notes]) or None


# -- text


def to_page(view: GraphView) -> page.Page:
    """A line of facts, the picture or a row for each visible box, and the failure; numbers sorted, and the rows folded.

    The table has the rows; of a graph with numbers a row for each node, the largest number first.
    """
    rows, measured, facts = boxes(view), view.get("measured"), _facts(view)
    sorts = measures.sorted_table(measured) if measured else None
    tables = [] if sorts is None else [(f"sorted: {count_of(len(sorts), 'part')}", sorts)]
    tables += [(f"as a table: {count_of(len(rows), 'row')}", rows)]
    blocks: list[page.Block] = [
        page.head(view["name"], page.Span(f" · {facts}", text=f"  {facts}")),
        *measures.legend(view),
        page.Figure(lambda: picture_html(view), [f"  {line}" for line in rows.lines()]),
        *(page.Line(line, look=_NOTE) for line in _notes(view)),
        page.Only("html", [page.Fold(words, [table]) for words, table in tables]),
    ]
    return page.Page("graph", view["name"], blocks, rows if sorts is None else sorts)


def _facts(view: GraphView) -> str:
    params = f"{amount(view['params'])} parameters" if view["params"] else "no parameters"
    return f"{params} · failed" if view["failure"] else params


def _notes(view: GraphView) -> list[str]:
    """The failure in full, and notes on what was left out."""
    failure = view["failure"]
    lines = [f"({view['note']})"] if view["note"] else []
    if failure is None:
        return lines
    where = " in ".join(filter(None, ["failed", failure["path"]]))
    place = f" ({failure['place']})" if failure["place"] else ""
    hint = [f"  hint      {failure['hint']}"] if failure["hint"] and failure["hint"] not in failure["text"] else []
    return [f"{where}{place}: {failure['error']}: {failure['text']}", *hint, *lines]


# -- HTML


def to_svg(view: GraphView, width: float = WIDTH) -> str:
    """The picture as SVG; long graphs continue in further columns within `width`."""
    return Painter(view, width).image(legend=list(page.lines_of(measures.legend(view, 0))))[0]


def picture_html(view: GraphView) -> Html:
    """The picture, which scrolls sideways where it would become too small."""
    picture, width = Painter(view).image()
    look = f"width:{svg.number(width)}px;max-width:100%;min-width:{svg.number(LEGIBLE * width)}px;height:auto"
    words = f"graph of {view['name']}: {len(boxes(view))} boxes, listed below"
    return wide(el("img", src=svg.data_uri(picture), alt=words, style=look))


_NOTE = "font-family:monospace;font-size:12px;white-space:pre-wrap;margin:4px 0"


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
