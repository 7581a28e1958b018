"""The one IR: nodes with nested bodies. It holds what happened, with dims and places, and no tensor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.source import Source

if TYPE_CHECKING:
    from rfnb.core.graph.model_graph import LoopFacts, ModuleFacts

Kind = Literal["", "input", "parameter", "constant", "state", "frame"]
"""Where a value comes from, if not from its node; a "frame" of what a loop unstacks has one as well."""


@dataclass(slots=True)
class Value:
    """Something a node made, or the graph got from outside (`node` is None).

    From `dtype` on it is for model graphs, which are looked at when the tensors are gone. sizes: of the dims.
    shape: of a plain tensor, which has no dims. path: of a parameter.
    """

    number: int
    name: str
    dims: tuple[Dim, ...]
    sparse_dim: Dim | None = None
    node: Node | None = None
    output: int = 0
    dtype: str = ""
    sizes: tuple[Size | None, ...] = ()
    shape: tuple[int, ...] | None = None
    kind: Kind = ""
    path: str = ""

    def describe_dims(self) -> str:
        """ "{batch:3, time:2–5, feat:4}", as it was in the call; "[3, 5, 4]" of a plain tensor."""
        if self.shape is not None:
            return f"[{', '.join(map(str, self.shape))}]"
        pairs = zip(self.dims, self.sizes or (None,) * len(self.dims), strict=True)
        return "{" + ", ".join(f"{dim.name}:{'?' if size is None else size.span()}" for dim, size in pairs) + "}"


@dataclass(slots=True)
class Node:
    """One call of an op, a module or a loop; the ops that it is made of are its body.

    From `name` on it is for model graphs. name: of a module in its parent. ghost: it was not called. same: two nodes
    with one number do the same, with other parameters; 0 if that is not known.
    """

    number: int
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    path: str = ""  # of the module that called it: "decoder.att"
    source: Source | None = None  # the user's line that runs
    at: Source | None = None  # the line of the loop's body that led there; the same, unless it calls a function
    body: list[Node] = field(default_factory=list)
    tape: tuple[int, int] = (0, 0)  # the raw calls that it made, in the tape of the graph
    name: str = ""
    module: ModuleFacts | None = None
    loop: LoopFacts | None = None
    ghost: bool = False
    same: int = 0

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
