"""The last pass over the graph of a call: numbers in order, names from the user's lines, and what is alike."""

from __future__ import annotations

from typing import Any

from rfnb.core.graph.graph import CallGraph, Node
from rfnb.core.ground.source import Source


def tidy(graph: CallGraph, asked: Source | None = None) -> None:
    """Nodes are numbered in the order they began, values called as the user's lines call them.

    asked: the line that asked for the graph; what it assigns is the graph.
    """
    for number, node in enumerate(graph.all_nodes()):
        node.number = number
    _name(graph, graph.nodes, asked)
    likeness = _Likeness(graph)
    for node in graph.nodes:
        likeness.form(node)


def _name(graph: CallGraph, nodes: list[Node], around: Source | None) -> None:
    """What a line assigns is the last that it makes. Lines of rfnb count as the user's line that led there."""
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
    """Gives one number to nodes of one form: the same ops between values of the same dims."""

    def __init__(self, graph: CallGraph):
        self._graph = graph
        self._forms: dict[Any, int] = {}
        self._kinds: dict[int, Any] = {}  # of values

    def form(self, node: Node) -> int:
        """The number of its form; the graph keeps that of modules and loops."""
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
        found = self._kinds.get(number)
        if found is None:
            value = self._graph.values[number]
            found = self._kinds[number] = (value.kind == "parameter", value.dtype, value.describe_dims())
        return found
