"""The JSON of dims and of tables of dims."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.display.kit.schema import DimView


class DimPage(TypedDict):
    """A dim with the labels of its entries."""

    kind: Literal["dim"]
    dim: DimView
    tags: list[str] | None
    vocab: list[str] | None  # the first 40 labels
    vocab_size: int | None
    note: str | None  # why there is no size, then `dim.size` is 0


class DimRow(TypedDict):
    """A row of a table of dims."""

    dim: DimView
    name: str  # "time¹" if another one in the table has the same name
    known: bool  # whether it has a size now
    role: str  # "dynamic batch", "static feature"
    text: str | None  # the expression that made it
    tensors: list[str]  # the names of the first few
    tensor_count: int
    parameters: list[str]
    parameter_count: int
    modules: list[str]
    module_count: int
    same_as: list[str]  # those that were declared to have the same size
    conflicts: list[str]
    notes: list[str]  # quieter: "has the size of hidden in w"


class DimTableView(TypedDict):
    """Dims and the objects that have them, conflicts first."""

    kind: Literal["dims"]
    name: str
    rows: list[DimRow]
    note: str | None
