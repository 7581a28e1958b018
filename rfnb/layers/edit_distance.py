"""Distances between sequences of labels: edit_distance."""

from __future__ import annotations

from typing import Any

from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.network.axes import time_of
from rfnb.network.layer import Layer
from rfnb.network.options import REQUIRED, layer
from rfnb.ops.loss import edit_distance
from rfnb.ops.math import cast
from rfnb.ops.shape import set_sparse_dim


class EditDistance(Layer, layer_class="edit_distance"):
    """The fewest insertions, deletions and substitutions from `a` to `b` (Levenshtein 1966). {a}, {b} → {}"""

    sourceless = True
    a: Any = layer(REQUIRED)
    b: Any = layer(REQUIRED)

    def compute(self, a: Tensor, b: Tensor) -> Tensor:
        """{…, a}, {…, b} → {…}"""
        first, second = time_of(a), time_of(b)
        if first is None or second is None:
            raise NetworkError("edit_distance needs two sequences", got=f"{a.describe_dims()}, {b.describe_dims()}")
        a, b = (set_sparse_dim(cast(x, "int64"), None) for x in (a, b))
        return edit_distance(a, first, b, second)
