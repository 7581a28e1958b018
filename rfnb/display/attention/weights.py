"""Attention weights of one sequence as views work with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.display.kit.data import Axis, to_numpy

Side = Any
"""A Dim, labels as strings (of each sequence, or of the one), a sparse Tensor with a vocab, or None."""

ROLES = ("layer", "batch", "head", "row", "col")


@dataclass(frozen=True)
class Weights:
    """Of one sequence: for each layer [heads, rows, columns], padding included.

    rows, cols: the axes, with their true size. layers, heads: their numbers; -1 for a mean. names: of the layers.
    """

    name: str
    tag: str | None
    index: int | None
    raws: list[Any]
    layers: list[int]
    heads: list[int]
    names: list[str]
    rows: Axis
    cols: Axis

    def matrix(self, layer: int, head: int) -> np.ndarray:
        """[rows, columns] of one head, by its place."""
        raw = self.raws[layer][head]
        return to_numpy(raw[tuple(slice(0, size) for size in self.full)]).astype(np.float32, copy=False)

    @property
    def shape(self) -> tuple[int, int]:
        """How many true rows and columns there are."""
        return self.rows.size, self.cols.size

    @property
    def full(self) -> tuple[int, int]:
        """How many rows and columns there are with the padding."""
        rows, cols = (int(size) for size in self.raws[0].shape[1:])
        return rows, cols


def split(raw: Any, roles: list[str], index: int | None) -> list[Any]:
    """[heads, rows, columns] of each layer."""
    if index is not None:
        at = roles.index("batch")
        raw = raw[(slice(None),) * at + (index,)]
        roles = [role for role in roles if role != "batch"]
    wanted = [role for role in ROLES if role in roles]
    order = [roles.index(role) for role in wanted]
    raw = raw.permute(order) if hasattr(raw, "permute") else raw.transpose(order)
    if "head" not in roles:
        raw = raw[..., None, :, :]
    return [raw[layer] for layer in range(int(raw.shape[0]))] if "layer" in roles else [raw]
