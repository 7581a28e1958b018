"""The one IR: nodes with nested bodies. It holds what happened, with dims and places, and no tensor."""

from __future__ import annotations

from dataclasses import dataclass, field

from rfnb.core.dim import Dim
from rfnb.core.source import Source


@dataclass(slots=True)
class Value:
    """Something a node made, or the graph got from outside (`node` is None)."""

    number: int
    name: str
    dims: tuple[Dim, ...]
    sparse_dim: Dim | None = None
    node: Node | None = None
    output: int = 0


@dataclass(slots=True)
class Node:
    """One call of an op, a module or a loop; the ops that it is made of are its body."""

    number: int
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    path: str = ""  # of the module that called it: "decoder.att"
    source: Source | None = None  # the user's line that runs
    at: Source | None = None  # the line of the loop's body that led there; the same, unless it calls a function
    body: list[Node] = field(default_factory=list)
    tape: tuple[int, int] = (0, 0)  # the raw calls that it made, in the tape of the graph

    @property
    def line(self) -> int | None:
        """The line of the body that led here."""
        return None if self.at is None else self.at.line


@dataclass(slots=True)
class Graph:
    """Nodes in the order they ran, and the values between them."""

    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    body_values: int = 0  # how many of them the user's code made; the rest is what the loop does itself

    def add_value(self, name: str, dims: tuple[Dim, ...], sparse_dim: Dim | None = None) -> Value:
        """A new value, from outside until a node claims it."""
        value = Value(len(self.values), name, dims, sparse_dim)
        self.values.append(value)
        return value

    def walk(self) -> list[Node]:
        """All nodes, bodies included, in the order they began."""
        found, open_ = [], list(reversed(self.nodes))
        while open_:
            node = open_.pop()
            found.append(node)
            open_ += reversed(node.body)
        return found

    def consumers(self, number: int) -> list[Node]:
        """The nodes that read a value."""
        return [node for node in self.walk() if number in node.inputs]
