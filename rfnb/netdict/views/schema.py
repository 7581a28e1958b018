"""The JSON of networks of net dicts and of their reports."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.display.graph.schema import GraphView
from rfnb.display.kit.schema import DimView


class LayerOption(TypedDict):
    """An option of a layer."""

    name: str
    given: str  # as in the net dict
    became: str  # the dim or layer that it means; empty if it is what was given


class LayerParam(TypedDict):
    """A parameter of a layer."""

    name: str  # in checkpoints: "encoder/W"
    dims: list[DimView]
    count: int
    trained: bool


class TakenRow(TypedDict):
    """A sequence, and which of its frames a mask takes."""

    name: str
    frames: int
    taken: int
    cells: list[float]  # of each frame, or of some frames together, the part that is taken


class TakenFrames(TypedDict):
    """The frames that masked_computation takes of the last batch."""

    axis: str
    width: int  # number of cells of the longest sequence
    rows: list[TakenRow]
    more: int  # sequences that are not listed


class LayerCard(TypedDict):
    """A layer, or several that differ in their names only."""

    path: str
    alike: list[str]  # paths of the others
    cls: str
    line: int | None  # of the config
    status: Literal["constructed", "stops", "waits", "unused"]
    reason: str  # why it stops, or what it waits for
    dims: list[DimView]  # of its output, in the declared order
    dtype: str
    sources: list[str]
    options: list[LayerOption]
    params: list[LayerParam]
    taken: TakenFrames | None


class NetworkView(TypedDict):
    """The network of a net dict."""

    kind: Literal["network"]
    name: str
    graph: GraphView
    layers: int  # constructed ones
    stops: int
    unused: int
    cards: list[LayerCard]
    chosen: str | None  # the layer that alone is shown, by its path
    note: str | None
