"""The intermediate representation: nodes with nested bodies, their dims and places in the code, but no tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.graph.facts import Facts, LoopFacts, ModuleFacts, SideFacts
from rfnb.core.ground.source import Source
from rfnb.printable import printable_name

ValueKind = Literal["", "input", "parameter", "constant", "state", "frame"]
"""Where a value comes from, if no node made it. A "frame" of a value that a loop unstacks also has a node."""

NodeKind = Literal["op", "module", "loop", "cond", "side", "state", "input", "section"]
"""The kinds of nodes: "op", "module" and "loop" are calls; "cond" is a branch, whose body has two nodes "side". In the
body of a loop, "state" reads a state, and "input" is another input, such as a frame or the step number. A "section"
stands for several nodes of a picture."""


@dataclass(slots=True)
class Value:
    """A value that a node made, or that comes from outside the graph (`node` is None).

    The fields from `dtype` on are set in call graphs, which are read when the tensors no longer exist. sizes: the sizes
    of the dims. shape: the shape of a plain tensor, which has no dims. path: the path of a parameter.
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
        """The dims and sizes in the call: "{batch:3, time:2–5, feat:4}", or "[3, 5, 4]" for a plain tensor."""
        if self.shape is not None:
            return f"[{', '.join(map(str, self.shape))}]"
        pairs = zip(self.dims, self.sizes or (None,) * len(self.dims), strict=True)
        described = (f"{printable_name(dim.name)}:{'?' if size is None else size.span()}" for dim, size in pairs)
        return "{" + ", ".join(described) + "}"


@dataclass(slots=True)
class Node:
    """One call. The calls made inside it are its body.

    op: the name of the op, or the class of a module. name: a name besides `op`, such as that of a module in its parent.
    facts: more about a node that is a module, a loop or a side of a branch.
    """

    number: int
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...] = ()
    path: str = ""  # the module that made the call: "decoder.att"
    source: Source | None = None  # the user's line that made the call
    at: Source | None = None  # the line of the loop's body; differs from `source` inside functions that the body calls
    body: list[Node] = field(default_factory=list)
    tape: tuple[int, int] = (0, 0)  # its range of raw calls in the tape
    kind: NodeKind = "op"
    name: str = ""
    facts: Facts | None = None

    @property
    def line(self) -> int | None:
        """The line number in the body; None if not known."""
        return None if self.at is None else self.at.line

    @property
    def module(self) -> ModuleFacts | None:
        """The facts of a module; None for other nodes."""
        return self.facts if isinstance(self.facts, ModuleFacts) else None

    @property
    def loop(self) -> LoopFacts | None:
        """The facts of a loop; None for other nodes."""
        return self.facts if isinstance(self.facts, LoopFacts) else None

    @property
    def ghost(self) -> bool:
        """Whether it is a side of a branch that did not run."""
        return isinstance(self.facts, SideFacts) and not self.facts.taken


def all_nodes(nodes: Iterable[Node]) -> list[Node]:
    """The nodes and all nodes in their bodies, in the order in which they began."""
    result, open_ = [], list(nodes)[::-1]
    while open_:
        node = open_.pop()
        result.append(node)
        open_ += reversed(node.body)
    return result


@dataclass(slots=True)
class Graph:
    """Nodes in the order in which they ran, and the values that they read and make."""

    nodes: list[Node] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def add_value(self, name: str, dims: tuple[Dim, ...], sparse_dim: Dim | None = None) -> Value:
        """Adds a value, which comes from outside unless a node is set."""
        value = Value(len(self.values), name, dims, sparse_dim)
        self.values.append(value)
        return value

    def all_nodes(self) -> list[Node]:
        """All nodes, including those in bodies, in the order in which they began."""
        return all_nodes(self.nodes)


@dataclass(slots=True)
class BodyGraph(Graph):
    """The body of a loop, traced once for all steps. `Recorder.name_of` gives the names of values.

    body_values: the number of values that the user's code made; those after them are computed by the loop itself.
    """

    body_values: int = 0

    def consumers(self, number: int) -> list[Node]:
        """The nodes that read a value."""
        return [node for node in self.all_nodes() if number in node.inputs]


@dataclass(slots=True)
class CallGraph(Graph):
    """One call of a model, including its loops. `graph_names.name_graph` numbers its nodes and names its values.

    forms: the form of each module and loop, by number of the node. Nodes with the same form run the same ops, each
        with its own parameters.
    """

    forms: dict[int, int] = field(default_factory=dict)
