"""Modules that a call which failed did not come to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import groupby

from rfnb.core.graph.facts import ModuleFacts
from rfnb.core.graph.graph import Node
from rfnb.core.graph.model_graph import ModelGraph
from rfnb.display.graph.words import joined, within
from rfnb.display.schema import GraphNode


def around_failure(graph: ModelGraph) -> set[int]:
    """The numbers of the node that failed, and of those that it is in."""
    failure = graph.failure
    if failure is None or failure.node is None:
        return set()
    way: list[Node] = []
    for depth, node in graph.walk():
        way[depth:] = [node]
        if node.number == failure.node:
            return {each.number for each in way}
    return set()


def ghosts_in(graph: ModelGraph, around: Node | None, failed: Collection[int]) -> list[list[ModuleFacts]]:
    """Those of the body of a node, None for the whole; what is alike together."""
    if graph.failure is None or (around is not None and (around.number not in failed or around.module is None)):
        return []
    home = around.module.path if around is not None and around.module else ""
    failing = {node.module.path for node in graph.graph.all_nodes() if node.module and node.number in failed}
    homes = [max((path for path in failing if within(m.path, path)), key=len, default="") for m in graph.unused]
    here = [module for module, its in zip(graph.unused, homes, strict=True) if its == home]
    return [list(alike) for _, alike in groupby(here, _form)]


def _form(module: ModuleFacts) -> tuple[str, int, str]:
    return module.cls, module.count, module.path.rpartition(".")[0]


def ghost(key: str, several: Sequence[ModuleFacts], home: str) -> GraphNode:
    """The box of several that are alike."""
    first = several[0]
    names = [m.path.removeprefix(f"{home}.") for m in several]
    return {
        "id": key, "kind": "module", "name": joined(names[0], names[-1]), "cls": first.cls, "path": first.path,
        "outputs": [], "params": sum(m.count for m in several), "times": len(several), "options": first.note,
        "notes": ["not reached"], "status": "ghost", "body": None,
    }  # fmt: skip
