"""The JSON of nested structures."""

from __future__ import annotations

from typing import Literal, TypedDict

from rfnb.display.kit.schema import DimView


class TreeNode(TypedDict):
    """A value or a part of a nested structure."""

    name: str
    what: str  # "dict", "Tensor", "torch.Tensor", "int", …
    dims: list[DimView]
    dtype: str
    text: str  # statistics of a tensor, or the value
    flags: list[str]  # "3 NaN", …
    bytes: int  # of the tensors here and below
    tensors: int
    repeat: int  # so many children of the same structure, one after the other; 0: no such group
    children: list[TreeNode]


class TreeView(TypedDict):
    """A nested structure: dict, list, tuple, State, TensorDict."""

    kind: Literal["tree"]
    name: str
    root: TreeNode
    note: str | None
