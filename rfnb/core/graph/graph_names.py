"""The last pass over a call graph: it numbers nodes, names values after the user's variables, and finds equal forms."""

from __future__ import annotations

from typing import Any

from rfnb.core.graph.graph import CallGraph, Node
from rfnb.core.ground.source import Source


def name_graph(graph: CallGraph, caller: Source | None = None) -> None:
    """Numbers nodes in the order in which they began, names values, and finds nodes of the same form.

    caller: the line that called `rf.model_graph`. It assigns the graph, so its targets are not names of values.
    """
    for number, node in enumerate(graph.all_nodes()):
        node.number = number
    _name(graph, graph.nodes, caller)
    likeness = _Likeness(graph)
    for node in graph.nodes:
        likeness.form(node)


def _name(graph: CallGraph, nodes: list[Node], around: Source | None) -> None:
    """Names values after the variables that lines assign, which hold the outputs of the last node of each line.

    around: the line that led to these nodes; it names the node around them.
    """
    last = {node.source: node for node in nodes if node.source is not None and node.source != around and node.outputs}
    for source, node in last.items():
        names = source.names()
        if len(names) == len(node.outputs):
            for name, number in zip(names, node.outputs, strict=True):
                value = graph.values[number]
                value.name = value.name or ("" if value.node is None else name)
    for node in nodes:
        if node.body:
            _name(graph, node.body, node.source)


class _Likeness:
    """Assigns the same number to nodes of the same form: the same ops on values with the same dims."""

    def __init__(self, graph: CallGraph):
        self._graph = graph
        self._forms: dict[Any, int] = {}
        self._kinds: dict[int, Any] = {}  # by number of the value

    def form(self, node: Node) -> int:
        """The number of a node's form. For modules and loops, the graph stores it."""
        local: dict[int, int] = {}  # values in the order in which the body meets them
        body = []
        for inner in node.body:
            form = self.form(inner)
            reads = tuple([self._seen(local, number) for number in inner.inputs])
            makes = tuple([self._seen(local, number) for number in inner.outputs])
            body.append((form, reads, makes))
        note = node.module.note if node.module is not None else ""
        key = (node.op, note, node.ghost, tuple(body))
        found = self._forms.setdefault(key, len(self._forms) + 1)
        if node.kind in ("module", "loop"):
            self._graph.forms[node.number] = found
        return found

    def _seen(self, local: dict[int, int], number: int) -> tuple[int, Any]:
        return local.setdefault(number, len(local)), self._kind(number)

    def _kind(self, number: int) -> Any:
        kind = self._kinds.get(number)
        if kind is None:
            value = self._graph.values[number]
            kind = self._kinds[number] = (value.kind == "parameter", value.dtype, value.describe_dims())
        return kind
