"""Groups of neighbouring nodes: repetitions become one box, and very many boxes are divided into sections."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from rfnb.core.graph.graph import Node
from rfnb.core.graph.model_graph import ModelGraph
from rfnb.display.graph.flow import Flow

PERIOD = 8
"""Longest sequence of different boxes that counts as the unit of a repetition."""
TIMES = 3
"""Fewest repetitions that become one box; two suffice for a single module."""
SIDE_BY_SIDE = 6
"""Fewest repetitions if one does not read what the one before gives."""
BOXES = 60
"""Number of boxes above which a body is divided into sections."""


class EqualLayers:
    """Groups repeated nodes, or sections of many nodes, under new nodes with negative numbers."""

    def __init__(self, graph: ModelGraph, flow: Flow, failed: Collection[int]):
        self.graph, self.flow, self.failed = graph, flow, failed
        self._count = 0

    def groups(self, nodes: Sequence[Node]) -> list[list[Node]]:
        """The groups of a body; each becomes one box."""
        groups = self._repeated(nodes)
        if len(groups) <= BOXES:
            return groups
        size = math.isqrt(len(groups) - 1) + 1
        parts = [groups[i : i + size] for i in range(0, len(groups), size)]
        return [[self._section([node for group in part for node in group])] for part in parts]

    def _repeated(self, nodes: Sequence[Node]) -> list[list[Node]]:
        keys = [self._key(node) for node in nodes]
        groups: list[list[Node]] = []
        start = 0
        while start < len(nodes):
            period, times = _longest(keys, start)
            if times < SIDE_BY_SIDE and not self._follow(nodes[start : start + period * times], period):
                period, times = 1, 1  # query, key and value are three boxes
            end = start + period * times
            if period == 1:
                groups.append(list(nodes[start:end]))
            else:
                groups.append([self._section(nodes[i : i + period]) for i in range(start, end, period)])
            start = end
        return groups

    def _follow(self, nodes: Sequence[Node], period: int) -> bool:
        """Whether each repetition reads values of the one before."""
        makes = [self.flow.makes(node) for node in nodes]
        reads = [self.flow.reads(node) for node in nodes]
        starts = range(0, len(nodes) - period, period)
        return all(set().union(*makes[i : i + period]) & _keys(reads[i + period : i + 2 * period]) for i in starts)

    def _key(self, node: Node) -> Any:
        """A key that is equal for equal nodes: modules of one parent, or ops, which have a string."""
        if node.number in self.failed or node.ghost:
            return "alone", node.number
        if form := self.graph.form_of(node):
            return form, node.module.path.rpartition(".")[0] if node.module else node.path
        return " ".join([node.op, *(self.graph.values[number].describe_dims() for number in node.outputs)])

    def _section(self, nodes: Sequence[Node]) -> Node:
        self._count += 1
        return Node(-self._count, "", (), nodes[-1].outputs, nodes[0].path, body=list(nodes), kind="section")


def _keys(reads: Sequence[dict[int, None]]) -> set[int]:
    return {number for numbers in reads for number in numbers}


def _longest(keys: Sequence[Any], start: int) -> tuple[int, int]:
    """Period and count of the longest repetition from `start` on; (1, 1) if nothing is repeated."""
    best = (1, 1)
    for period in range(1, min(PERIOD, (len(keys) - start) // 2) + 1):
        if all(isinstance(key, str) for key in keys[start : start + period]):
            continue
        end = start + period
        while end < len(keys) and keys[end] == keys[end - period]:
            end += 1
        times = (end - start) // period
        if times >= (2 if period == 1 else TIMES) and period * times > best[0] * best[1]:
            best = period, times
    return best
