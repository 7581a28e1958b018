"""Data flow between the nodes of a graph: which values each reads and gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from rfnb.core.graph.graph import Node
from rfnb.core.graph.model_graph import ModelGraph


class Flow:
    """Values read and given by each node, its body included; without parameters, and without hidden constants."""

    def __init__(self, graph: ModelGraph, hide: Iterable[str]):
        kinds = {"parameters": "parameter", "constants": "constant"}
        hidden = {kinds[kind] for kind in hide if kind in kinds}
        self.hidden = {value.number for value in graph.values if value.kind in hidden}
        self.made_up = self._starts(graph) if "constants" in hide else set()
        self._counts = self._bookkeeping(graph) if "parameters" in hide else set()
        self._left_out = self.hidden | self.made_up
        self._reads: dict[int, dict[int, None]] = {}
        self._makes: dict[int, set[int]] = {}

    def _starts(self, graph: ModelGraph) -> set[int]:
        """Values computed only to start a loop from, and zeros that modules start with besides their input."""
        nodes = graph.graph.all_nodes()
        free = {node.outputs[0]: node for node in nodes if not node.inputs and len(node.outputs) == 1 and not node.body}
        zeros = {n for n, node in free.items() if node.name == "zeros"}
        starts = zeros | {state.initial for node in nodes if node.loop for state in node.loop.states}
        uses = set(_used(graph.nodes, zeros)) | {n for _, n in graph.outputs}
        return {n for n in free.keys() & starts - uses if n is not None}

    def _bookkeeping(self, graph: ModelGraph) -> set[int]:
        """Numbers of ops that only update something, such as a counter of calls: they depend on parameters and buffers
        alone, and their results are not used.
        """
        nodes = graph.graph.all_nodes()
        uses = {n for node in nodes for n in node.inputs} | {n for _, n in graph.outputs}
        of_parameters = {value.number for value in graph.values if value.kind == "parameter"}
        ops = [node for node in nodes if node.module is None and node.loop is None and not node.body and node.outputs]
        idle = [node for node in ops if uses.isdisjoint(node.outputs)]
        return {node.number for node in idle if node.inputs and of_parameters.issuperset(node.inputs)}

    def is_shown_elsewhere(self, node: Node) -> bool:
        """Whether an op is left out, because the card of a state shows it, or it involves parameters only."""
        return node.number in self._counts or (len(node.outputs) == 1 and node.outputs[0] in self.made_up)

    def reads(self, node: Node) -> dict[int, None]:
        """Numbers of values from outside, in the order in which they are read."""
        if node.number not in self._reads:
            self._look(node)
        return self._reads[node.number]

    def makes(self, node: Node) -> set[int]:
        """Numbers of values that a node computes or hands on."""
        if node.number not in self._makes:
            self._look(node)
        return self._makes[node.number]

    def _look(self, node: Node) -> None:
        reads = {number: None for number in node.inputs if number not in self._left_out}
        makes = inner_values(node)
        for child in node.body:
            reads.update((number, None) for number in self.reads(child) if number not in makes)
            makes |= self.makes(child)
        self._reads[node.number] = reads
        self._makes[node.number] = makes.union(node.outputs)


def _used(nodes: Iterable[Node], starts: set[int], told: Set[int] = frozenset()) -> Iterator[int]:
    """Values that are read, without initial values of loops, and without `starts` passed besides a module's input."""
    for node in nodes:
        passed = starts.intersection(node.inputs) if node.module is not None else set[int]()
        inner = told | passed if len(passed) < len(node.inputs) else told
        if node.loop is None:
            yield from (n for n in node.inputs if n not in inner)
        yield from _used(node.body, starts, inner)


def results(node: Node) -> set[int | None]:
    """Values that a body passes outside or to its next step."""
    if node.loop is None:
        return set(node.outputs)
    states = {state.after for state in node.loop.states}
    return states | {inner for inner, _ in (*node.loop.stacked, *node.loop.lasts)} | {node.loop.end}


def inner_values(node: Node) -> set[int]:
    """Values passed to the steps of a loop."""
    if node.loop is None:
        return set()
    states = {state.before for state in node.loop.states if state.before is not None}
    return states | {frame for _, frame in node.loop.unstacked}
