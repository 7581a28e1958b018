"""The JSON of graphs of model calls."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from rfnb.display.kit.data import DimView


class GraphValue(TypedDict):
    """A value that a node of a graph gives."""

    value: int
    name: str
    dims: list[int]  # positions in the `dims` of the view
    shape: list[int] | None  # of a plain tensor, which has no dims
    changed: bool  # no input of the node has the same dims


class NodeNumber(TypedDict):
    """What was measured of a box."""

    text: str  # "3.2 ms"; "NaN" or "infinity" if there is one
    share: float | None  # of the whole call; None if numbers are not summed
    tint: float  # from 0 to 1, which is the darkest
    bad: Literal["", "NaN", "infinity"]
    more: list[str]  # "16 µs a step"


class GraphMeasured(TypedDict):
    """What was measured of the nodes of a graph."""

    show: Literal["time", "memory", "activation", "gradient"]
    calls: int  # over how many calls
    device: str
    legend: list[str]
    alarm: str | None  # the first NaN or infinity
    rows: list[list[str | float | None]]  # the largest first: path, class, number, share, largest, calls, notes


class GraphNode(TypedDict):
    """A box of a graph: a module, an op, a loop, a side of a branch, or an input or output."""

    id: str
    kind: Literal["module", "op", "loop", "cond", "side", "section", "input", "output", "frame", "state"]
    name: str
    cls: str  # of a module; the op
    path: str  # "encoder.layers.0"
    outputs: list[GraphValue]
    params: int
    times: int  # so many alike, one after the other, are this one box
    options: str  # of a module: "in:26 → out:128"
    notes: list[str]  # "200 steps, 87–200 by sequence"
    status: Literal["done", "failed", "ghost"]
    body: str | None
    number: NotRequired[NodeNumber]  # if something was measured
    place: NotRequired[Literal["before", "after"]]  # of a layer that has left the loop that it is written in


class GraphEdge(TypedDict):
    """An edge between two nodes of a body. `back`: into the next step of a loop."""

    source: str
    target: str
    value: int  # -1: none
    back: bool


class GraphBody(TypedDict):
    """The content of a node, or of the whole graph."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]


class GraphFailure(TypedDict):
    """The error that ended the call."""

    node: str | None
    path: str
    error: str
    text: str
    place: str | None
    hint: str | None


class GraphView(TypedDict):
    """The graph of one call of a model."""

    kind: Literal["graph"]
    name: str
    dims: list[DimView]
    bodies: dict[str, GraphBody]
    root: str
    open: list[str]  # ids of nodes that are drawn with their body
    params: int
    failure: GraphFailure | None
    note: str | None
    measured: NotRequired[GraphMeasured]
