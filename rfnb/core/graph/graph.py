"""The one IR: nodes with nested bodies. It holds what happened, with dims and places, and no tensor."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.facts import Facts, LoopFacts, ModuleFacts, SideFacts
from rfnb.core.ground.source import Source

ValueKind = Literal["", "input", "parameter", "constant", "state", "frame"]
"""Where a value comes from, if not from its node; a "frame" of what a loop unstacks has one as well."""

NodeKind = Literal["op", "module", "loop", "cond", "side", "state", "input", "section"]
"""What a node is: the call of an op, a module or a loop; a branch, whose body is its two sides; in the body of a loop a
state that is read, or another input that a line asks for (a frame, the step number); a section of a picture, which
stands for several nodes."""


@dataclass(slots=True)
class Value:
    """Something a node made, or the graph got from outside (`node` is None).

    The fields from `dtype` on are filled in call graphs, which are read when the tensors are gone. sizes: of the dims.
    shape: of a plain tensor, which has no dims. kind: where it comes from. path: of a parameter.
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
    kind: ValueKind = ""
    path: str = ""

    def describe_dims(self) -> str:
        """ "{batch:3, time:2–5, feat:4}", as it was in the call; "[3, 5, 4]" of a plain tensor."""
        if self.shape is not None:
            return f"[{', '.join(map(str, self.shape))}]"
        pairs = zip(self.dims, self.sizes or (None,) * len(self.dims), strict=True)
        return "{" + ", ".join(f"{dim.name}:{'?' if size is None else size.span()}" for dim, size in pairs) + "}"


@dataclass(slots=True)
class Node:
    """One call. The calls that it is made of are its body.

    op: the name of the op, the class of a module. name: what it is called where `op` does not say it, as a module in
    its parent. facts: what is known of a node of this kind.
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
    kind: NodeKind = "op"
    name: str = ""
    facts: Facts | None = None

    @property
    def line(self) -> int | None:
        """The line of the body that led here."""
        return None if self.at is None else self.at.line

    @property
    def module(self) -> ModuleFacts | None:
        """The facts of a module."""
        return self.facts if isinstance(self.facts, ModuleFacts) else None

    @property
    def loop(self) -> LoopFacts | None:
        """The facts of a loop."""
        return self.facts if isinstance(self.facts, LoopFacts) else None

    @property
    def ghost(self) -> bool:
        """Whether it is a side of a branch that was not taken."""
        return isinstance(self.facts, SideFacts) and not self.facts.taken


def all_nodes(nodes: Iterable[Node]) -> list[Node]:
    """Nodes and all in their bodies, in the order they began."""
    found, open_ = [], list(nodes)[::-1]
    while open_:
        node = open_.pop()
        found.append(node)
        open_ += reversed(node.body)
    return found


@dataclass(slots=True)
class Graph:
    """Nodes in the order they ran, and the values between them."""

    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def add_value(self, name: str, dims: tuple[Dim, ...], sparse_dim: Dim | None = None) -> Value:
        """A new value, from outside until a node claims it."""
        value = Value(len(self.values), name, dims, sparse_dim)
        self.values.append(value)
        return value

    def all_nodes(self) -> list[Node]:
        """All nodes, bodies included, in the order they began."""
        return all_nodes(self.nodes)


@dataclass(slots=True)
class BodyGraph(Graph):
    """The body of a loop, traced once for all steps. Values are named when they are asked for, by `Recorder.name_of`.

    body_values: how many of the values the user's code made; the others are computed by the loop itself.
    """

    body_values: int = 0

    def consumers(self, number: int) -> list[Node]:
        """The nodes that read a value."""
        return [node for node in self.all_nodes() if number in node.inputs]


@dataclass(slots=True)
class CallGraph(Graph):
    """One call of a model, loops included. Nodes and values are numbered and named by `core.graph.graph_names`.

    forms: by number of a module or loop, what it does: nodes of one form do the same with other parameters.
    """

    forms: dict[int, int] = field(default_factory=dict)
