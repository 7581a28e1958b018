"""Chooses the nodes drawn open, and lists the boxes of the picture as rows of text, from top to bottom.

Open are requested nodes, those around a failure, and loops while there is room.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from rfnb.core.graph.meter import SUMMED
from rfnb.core.ground.text import did_you_mean
from rfnb.display.graph.cards import amount
from rfnb.display.graph.measures import COLUMNS as NUMBERS
from rfnb.display.graph.schema import GraphNode, GraphValue, GraphView
from rfnb.display.kit.blocks import Table
from rfnb.display.kit.data import dims_text
from rfnb.display.markup.numbers import percent
from rfnb.errors import ViewError

ROOM = 26
"""Number of boxes that a picture may have to be taken in at a glance."""
FOLDED = ("module", "section")
PORTS = ("input", "output", "frame")


def opened(view: GraphView, depth: int | None, paths: Sequence[str], twins: Mapping[str, str]) -> list[str]:
    """Ids of open nodes. depth: number of levels; None: as many as fit. Raises ViewError for an unknown path."""
    by_path: dict[str, list[str]] = {}
    for ids, node in nodes(view):
        if node["path"]:
            by_path.setdefault(node["path"], ids)
    selection = dict.fromkeys(key for path in paths for key in _ids(by_path, path, twins))
    selection |= dict.fromkeys(node["id"] for _, node in nodes(view) if node["status"] == "failed" and node["body"])
    if depth is not None:
        selection |= dict.fromkeys(node["id"] for ids, node in nodes(view) if node["body"] and len(ids) <= depth)
    else:
        selection |= dict.fromkeys(_what_fits(view, set(selection)))
    return list(selection)


def nodes(view: GraphView) -> Iterator[tuple[list[str], GraphNode]]:
    """Each node once, with the ids from the outermost node to itself."""
    visited: set[str] = set()
    bodies: list[tuple[list[str], str]] = [([], view["root"])]
    for outer, key in bodies:
        if key in visited:
            continue
        visited.add(key)
        for node in view["bodies"][key]["nodes"]:
            ids = [*outer, node["id"]]
            yield ids, node
            if node["body"]:
                bodies.append((ids, node["body"]))


def shown(view: GraphView) -> Iterator[tuple[int, GraphNode]]:
    """The visible nodes with their depth, from top to bottom: open nodes before their bodies."""
    is_open = set(view["open"])
    waiting = [(0, node) for node in reversed(view["bodies"][view["root"]]["nodes"])]
    while waiting:
        depth, node = waiting.pop()
        yield depth, node
        if node["id"] in is_open and node["body"]:
            waiting += [(depth + 1, inner) for inner in reversed(view["bodies"][node["body"]]["nodes"])]


def _what_fits(view: GraphView, chosen: set[str]) -> Iterator[str]:
    """Opens nodes level by level while they fit, loops and branches first."""
    count = len(view["bodies"][view["root"]]["nodes"])
    level, depth = [view["root"]], 0
    while level:
        children = [node for key in level for node in view["bodies"][key]["nodes"] if node["body"]]
        level = []
        for node in sorted(children, key=lambda n: (n["id"] not in chosen, n["kind"] in FOLDED)):
            body = view["bodies"][node["body"] or ""]["nodes"]
            single = sum(n["kind"] not in PORTS for n in children) == 1 and count < 8
            room = ROOM * 2 if single or node["kind"] not in FOLDED else ROOM if depth == 0 else 0
            if node["id"] in chosen or (node["status"] != "ghost" and count + len(body) <= room):
                count += len(body)
                level.append(node["body"] or "")
                yield node["id"]
        depth += 1


def _ids(by_path: Mapping[str, list[str]], path: str, twins: Mapping[str, str]) -> list[str]:
    """Ids of the node with this path and of the nodes around it. Its body may be shared with an equal module."""
    parts = path.split(".")
    starts = [".".join(parts[:end]) for end in range(len(parts), 0, -1)]
    start = next((start for start in starts if start in by_path), "")
    twin = _twin(path, twins)
    if start == path or twin in by_path:
        inner = [] if start == path else [i for i in by_path[twin] if i not in by_path.get(_twin(start, twins), [])]
        return [*by_path.get(start, []), *inner]
    names = ", ".join(list(by_path)[:12])
    raise ViewError(
        "graph: no such part to open", got=repr(path), expected=names,
        hint=did_you_mean(path, by_path, "{}"),
    )  # fmt: skip


def _twin(path: str, twins: Mapping[str, str]) -> str:
    """The corresponding path in the equal module whose body is shown."""
    parts = path.split(".")
    for end in range(1, len(parts) + 1):
        start = ".".join(parts[:end])
        if start in twins:
            return _twin(".".join([twins[start], *parts[end:]]), twins)
    return path


COLUMNS = ("node", "class", "output", "parameters", "notes")
MOST = 400
"""Largest number of rows."""
SIGNS = {"input": "→ ", "output": "← ", "frame": "→ ", "state": "↻ "}


def to_table(view: GraphView) -> Table:
    """A row for each box; inner boxes are indented."""
    measured, columns = view.get("measured"), list(COLUMNS)
    if measured:
        columns[1:1] = [NUMBERS[measured["show"]], *(["share"] if measured["show"] in SUMMED else [])]
    rows = [[f"{'  ' * depth}{name(node)}", *_number(view, node), *_cells(view, node)] for depth, node in shown(view)]
    if len(rows) > MOST:
        rows = [*rows[:MOST], [f"… {len(rows) - MOST:,} more", *[""] * (len(columns) - 1)]]
    return Table(columns, rows)


def _number(view: GraphView, node: GraphNode) -> list[str]:
    """What was measured of a box; no cells if nothing was measured at all."""
    measured, number = view.get("measured"), node.get("number")
    if not measured:
        return []
    share = None if number is None else number["share"]
    shares = ["" if share is None else percent(share)] if measured["show"] in SUMMED else []
    return ["" if number is None else number["text"], *shares]


def name(node: GraphNode) -> str:
    """`layers.0–11 × 12`, `→ x`"""
    times = f" × {node['times']}" if node["times"] > 1 else ""
    return f"{SIGNS.get(node['kind'], '')}{node['name']}{times}"


def value_text(view: GraphView, value: GraphValue) -> str:
    """`{batch:3, time:2–5 Σ10}`, `[3, 5]`"""
    if value["shape"] is not None:
        return str(value["shape"])
    return dims_text(view["dims"][i] for i in value["dims"])


def _cells(view: GraphView, node: GraphNode) -> list[str]:
    role = {"input": "in", "output": "out", "frame": "in, each step", "state": "state"}.get(node["kind"], node["cls"])
    many = len(node["outputs"]) > 1
    outputs = ", ".join(f"{value['name']} " * many + value_text(view, value) for value in node["outputs"])
    number, failure = node.get("number"), view["failure"]
    failed = "stops" if failure is None else f"failed {'here' if failure['node'] == node['id'] else 'inside'}"
    notes = [failed] if node["status"] == "failed" else []
    notes = [*(number["more"] if number else []), *notes, *node["notes"], *filter(None, [node["options"]])]
    return [
        "" if role == node["name"] else role, outputs, amount(node["params"]) if node["params"] else "",
        " · ".join(notes),
    ]  # fmt: skip
