"""Numbers, arrays and raw tensors as Tensors whose dims are called by their positions: axis0, axis1, …"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from rfnb.core.dims import align
from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import EMPTY
from rfnb.core.ground import raw as raw_registry
from rfnb.core.tensor.tensor import Tensor, tensor_of


def plain_tensor(value: Any) -> Tensor:
    """A number, an array or a raw tensor as a Tensor."""
    raw = value
    if isinstance(value, bool | int | float | np.generic | np.ndarray):
        raw = raw_registry.selected().from_numpy_raw(np.asarray(value), None)
    shape = raw_registry.backend_of_raw(raw).get_shape_tuple_raw(raw)
    return tensor_of(raw, align.sig([_axis(i, int(n)) for i, n in enumerate(shape)]), EMPTY)


@lru_cache(maxsize=512)
def _axis(position: int, size: int) -> Dim:
    dim = Dim(size, name=f"axis{position}")
    dim.made = None  # by no line of the user
    return dim
