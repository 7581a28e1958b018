"""Attention weights of one sequence, as views use them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from rfnb.display.kit.data import Axis, to_numpy

Side = Any
"""How a side is given: a Dim, labels (one list, or one for each sequence), a sparse Tensor with a vocab, or None."""

Unit = Literal["head", "hypothesis"]
SEVERAL: dict[Unit, str] = {"head": "heads", "hypothesis": "hypotheses"}

ROLES = ("layer", "batch", "head", "row", "col")


@dataclass(frozen=True)
class Weights:
    """Weights of one sequence: [heads, rows, columns] for each layer, padding included.

    rows, cols: the axes, with their true size. layers, heads: their numbers; -1 for a mean. names: names of layers.
    unit: what is shown in the place of heads.
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
    unit: Unit = "head"

    def matrix(self, layer: int, head: int) -> np.ndarray:
        """The matrix [rows, columns] of one head, by its place."""
        raw = self.raws[layer][head]
        return to_numpy(raw[tuple(slice(0, size) for size in self.full)]).astype(np.float32, copy=False)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns without padding."""
        return self.rows.size, self.cols.size

    @property
    def full(self) -> tuple[int, int]:
        """Number of rows and columns with padding."""
        rows, cols = (int(size) for size in self.raws[0].shape[1:])
        return rows, cols


def split(raw: Any, roles: list[str], index: int | None) -> list[Any]:
    """The weights of each layer, [heads, rows, columns]."""
    if index is not None:
        at = roles.index("batch")
        raw = raw[(slice(None),) * at + (index,)]
        roles = [role for role in roles if role != "batch"]
    layout = [role for role in ROLES if role in roles]
    order = [roles.index(role) for role in layout]
    raw = raw.permute(order) if hasattr(raw, "permute") else raw.transpose(order)
    if "head" not in roles:
        raw = raw[..., None, :, :]
    return [raw[layer] for layer in range(int(raw.shape[0]))] if "layer" in roles else [raw]
