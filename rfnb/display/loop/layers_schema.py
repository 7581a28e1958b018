"""The JSON of `net.explain(…)`."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class LayerPlaceView(TypedDict):
    """A layer of a recurrent net, and where it is computed."""

    name: str
    cls: str
    line: int | None  # of the config
    where: Literal["before the loop", "each step", "after the loop"]
    step: str  # its dims in a step
    whole: str  # its dims outside of the loop
    path: list[str]  # each needs the next one; they keep the layer in the steps
    why: str
    seconds: NotRequired[float | None]  # of a call; absent if it was not measured


class NetExplanationView(TypedDict):
    """Where the layers of a recurrent layer are computed."""

    kind: Literal["net_explanation"]
    name: str
    axis: str
    layers: list[LayerPlaceView]
