"""Writes the graph of a body as plain data, and reads it: ops, names, dims, and places as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, get_args

from rfnb.core.graph.graph import BodyGraph, Node, NodeKind, Value
from rfnb.core.ground.source import Source, value_name
from rfnb.core.tensor.op import OPS
from rfnb.errors import RunFileError
from rfnb.trace.run.file.dims import DimReader, DimWriter
from rfnb.trace.run.file.fields import chosen, conform, count, get


class StoredPlace(NamedTuple):
    """A place in the code that was run, as text, with the interface of `Source`."""

    file: str
    line: int
    shown: str
    expression: str
    assigned: tuple[str, ...]
    code: None = None
    cell: None = None

    def place(self) -> str:
        """The place as text: "cell 4, line 2" or "model.py:31"."""
        return self.shown

    def text(self) -> str:
        """The expression in the code, shortened."""
        return self.expression

    def names(self) -> tuple[str, ...]:
        """The names of the values computed here."""
        return self.assigned


def write_graph(graph: BodyGraph, name_of: Callable[[Value], str], dims: DimWriter) -> dict[str, object]:
    """The graph as JSON."""
    places: dict[tuple[object, ...], int] = {}
    numbers = {id(node): number for number, node in enumerate(graph.all_nodes())}

    def place(source: Source | StoredPlace | None) -> int | None:
        return None if source is None else places.setdefault(_words(source), len(places))

    def node(given: Node) -> dict[str, object]:
        plain = {"number": given.number, "op": given.op, "kind": given.kind, "path": given.path}
        ends = {"inputs": list(given.inputs), "outputs": list(given.outputs)}
        where = {"source": place(given.source), "at": place(given.at)}
        return {**plain, **ends, **where, "body": [node(inner) for inner in given.body]}

    def value(given: Value) -> dict[str, object]:
        index = None if given.node is None else numbers.get(id(given.node))
        plain = {"name": name_of(given), "node": index, "output": given.output}
        return {**plain, "dims": [dims.dim(dim) for dim in given.dims], "sparse": dims.dim(given.sparse_dim)}

    nodes, values = [node(item) for item in graph.nodes], [value(item) for item in graph.values]
    return {"nodes": nodes, "values": values, "body_values": graph.body_values, "places": [list(p) for p in places]}


def _words(source: Source | StoredPlace) -> tuple[object, ...]:
    return source.file, source.line, source.place(), source.text(), source.names()


def read_graph(data: object, dims: DimReader) -> BodyGraph:
    """The graph from JSON. Raises RunFileError if it is not consistent."""
    places = [_place(entry) for entry in get(data, "places", list)]

    def place(number: int | None) -> Any:
        return None if number is None else chosen(places, number, "places")

    def node(entry: object) -> Node:
        inputs, outputs = get(entry, "inputs", tuple[int, ...]), get(entry, "outputs", tuple[int, ...])
        source, at = place(get(entry, "source", int | None)), place(get(entry, "at", int | None))
        body = [node(inner) for inner in get(entry, "body", list)]
        return Node(get(entry, "number", int), get(entry, "op", str), inputs, outputs, get(entry, "path", str),
                    source, at, body, kind=_kind(entry))  # fmt: skip

    graph = BodyGraph([node(entry) for entry in get(data, "nodes", list)])
    nodes = graph.all_nodes()
    for entry in get(data, "values", list):
        axes = tuple(dims.dim(number) for number in get(entry, "dims", list))
        value = graph.add_value(get(entry, "name", str), axes, dims.dim_or_none(entry["sparse"]))
        index = get(entry, "node", int | None)
        value.node, value.output = None if index is None else chosen(nodes, index, "nodes"), get(entry, "output", int)
    graph.body_values = count(data, "body_values", len(graph.values))
    if not all(0 <= n < len(graph.values) for node in _own_nodes(graph.nodes) for n in (*node.inputs, *node.outputs)):
        raise RunFileError("the graph in the file refers to missing values")
    return graph


def _own_nodes(nodes: list[Node]) -> Iterator[Node]:
    """The nodes whose values belong to this graph; loops inside the body have their own graphs."""
    for node in nodes:
        yield node
        yield from _own_nodes([] if node.kind == "loop" else node.body)


def _kind(entry: Any) -> NodeKind:
    """The kind of a node; kinds that this version does not know become "op"."""
    kind = get(entry, "kind", str) if "kind" in entry else _kind_by_op(entry)
    return next((option for option in get_args(NodeKind) if option == kind), "op")


def _kind_by_op(entry: Any) -> str:
    """Infers the kind of a node, for files of rfnb 0.1.0 and earlier, which do not contain it."""
    op: str = entry["op"]
    return KIND_BY_OP.get(op) or ("module" if entry["body"] and op not in OPS else "op")


KIND_BY_OP: dict[str, NodeKind] = {
    "Loop": "loop", "cond": "cond", "true_fn": "side", "false_fn": "side",
    "state": "state", "unstack": "input", "iter_idx": "input",
}  # fmt: skip


def _place(data: Iterable[object]) -> StoredPlace:
    place: StoredPlace = conform([*data, None, None], StoredPlace, "places")
    return place._replace(assigned=tuple(map(value_name, place.assigned)))
