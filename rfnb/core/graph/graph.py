"""The intermediate representation: nodes with nested bodies, their dims and places in the code, but no tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.source import Source
from rfnb.printable import printable_name


@dataclass(frozen=True, slots=True)
class ModuleFacts:
    """A called module.

    path: "encoder.layers.0", "" for the model itself. count, trainable: the number of values in its parameters, and how
    many of them are trained, including modules inside. note: its options, "in:26 → out:128". call: the number of
    earlier calls.
    """

    cls: str
    path: str
    count: int = 0
    trainable: int = 0
    note: str = ""
    call: int = 0


@dataclass(frozen=True, slots=True)
class LoopState:
    """A state of a loop, by numbers of values: `initial` and `final` are outside the loop, `before` and `after` inside.

    `after` is None if the body never sets the state, `final` if it is never read. dim: set instead of values if the
    state is a growing axis.
    """

    name: str
    initial: int | None = None
    before: int | None = None
    after: int | None = None
    final: int | None = None
    dim: Dim | None = None


@dataclass(frozen=True, slots=True)
class LoopFacts:
    """A loop. axis, size: the Dim of its steps, and the number of steps of each sequence; None if not known.

    unstacked: pairs (value outside, its frame in the body). stacked, lasts: pairs (value in the body, value outside).
    end: the condition in the body that ends a sequence, if there is one.
    """

    name: str
    axis: Dim | None
    size: Size | None
    states: tuple[LoopState, ...] = ()
    unstacked: tuple[tuple[int, int], ...] = ()
    stacked: tuple[tuple[int, int], ...] = ()
    lasts: tuple[tuple[int, int], ...] = ()
    end: int | None = None
    include_eos: bool = True

    @property
    def steps(self) -> int | None:
        """The number of steps of the longest sequence; None if not known."""
        return None if self.size is None else self.size.max


@dataclass(frozen=True, slots=True)
class SideFacts:
    """A side of a branch.

    when: the value of the condition that selects it. taken: False if only the other side ran; the steps of a loop may
    run both.
    """

    when: bool
    taken: bool = True

    @property
    def name(self) -> str:
        """The argument of `rf.cond` that computes it."""
        return "true_fn" if self.when else "false_fn"


Facts = ModuleFacts | LoopFacts | SideFacts
"""The types of `Node.facts`."""


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
    """One call of a model, including its loops. `name_graph` numbers its nodes and names its values.

    forms: the form of each module and loop, by number of the node. Nodes with the same form run the same ops, each
        with its own parameters.
    """

    forms: dict[int, int] = field(default_factory=dict)


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
        self._forms: dict[object, int] = {}
        self._kinds: dict[int, object] = {}  # by number of the value

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

    def _seen(self, local: dict[int, int], number: int) -> tuple[int, object]:
        return local.setdefault(number, len(local)), self._kind(number)

    def _kind(self, number: int) -> Any:
        kind = self._kinds.get(number)
        if kind is None:
            value = self._graph.values[number]
            kind = self._kinds[number] = (value.kind == "parameter", value.dtype, value.describe_dims())
        return kind
