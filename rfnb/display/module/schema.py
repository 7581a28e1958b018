"""The JSON of modules."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.display.kit.schema import DimView
from rfnb.display.markup.schema import Number


class ParamRow(TypedDict):
    """A parameter or buffer of a module."""

    path: str  # "encoder.layers.0.weight"
    dims: list[DimView]
    shape: list[int] | None  # of a plain tensor, which has no dims; None if there is none yet
    dtype: str
    device: str
    count: int
    bytes: int
    trainable: bool
    buffer: bool  # it is no parameter of the model proper
    shared: str | None  # where it is shown, and counted, first
    weight_decay: Number | None  # of its own; None: none of its own
    norm: Number | None  # None: not looked at
    mean: Number | None
    std: Number | None
    grad: Number | None  # the norm of the gradient; None: there is none


class ModuleNode(TypedDict):
    """A module and its parts; or several consecutive modules of equal form."""

    name: str  # "encoder", or "0–11"
    cls: str
    note: str  # "in:26 → out:128"
    settings: list[str]  # "activation=silu"; told where layers that are alike differ in them
    repeat: int  # how many there are
    params: list[list[int]]  # by name: the rows of each of them
    count: int  # parameters here and below; of all of them, but inside of a card those of one
    frozen: int  # how many of these are not trained
    differs: list[str]  # in what those that are alike are not
    shared: str | None  # where it is shown first
    children: list[ModuleNode]


class ModuleView(TypedDict):
    """The tree of a module, and its parameters in order."""

    kind: Literal["module"]
    root: ModuleNode
    rows: list[ParamRow]
    count: int
    frozen: int
    bytes: int
    dtype: str  # that of most
    device: str
    bad: list[str]  # "layers.3.weight: NaN"
    note: str | None
