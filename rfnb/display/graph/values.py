"""Names and dims of the values of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rfnb.core.graph.graph import Value
from rfnb.display.graph.schema import GraphValue
from rfnb.display.kit.data import Axis
from rfnb.display.kit.dims import UNKNOWN, describe_axes
from rfnb.display.kit.schema import DimView


class Values:
    """Describes values and collects their dims."""

    def __init__(self) -> None:
        self.dims: list[DimView] = []
        self._places: dict[Any, int] = {}

    def describe(self, value: Value, name: str, taken: Sequence[Any] = ()) -> GraphValue:
        """The JSON of a value. taken: signatures of the values that its node reads."""
        return {
            "value": value.number,
            "name": name,
            "dims": self._dims_of(value),
            "shape": None if value.shape is None else list(value.shape),
            "changed": signature(value) not in taken,
        }

    def _dims_of(self, value: Value) -> list[int]:
        sizes = value.sizes or (None,) * len(value.dims)
        key = tuple(
            (dim.serial, size and (size.max, size.values.tobytes()))
            for dim, size in zip(value.dims, sizes, strict=True)
        )
        missing = [k for k in key if k not in self._places]
        if missing:
            axes = [_axis(dim, size) for dim, size in zip(value.dims, sizes, strict=True)]
            for k, view in zip(key, describe_axes(axes), strict=True):
                if k not in self._places:
                    self._places[k] = len(self.dims)
                    self.dims.append(view | {"lengths": None})
        return [self._places[k] for k in key]


def _axis(dim: Any, size: Any) -> Axis:
    if size is None:
        return Axis(dim, UNKNOWN if dim.dimension is None else dim.dimension)
    return Axis(dim, size.max, size.dims, size.values if size.values.ndim else None)


def name_of(value: Value) -> str:
    """The user's name of a value, else the name of its op."""
    if value.name or value.node is None:
        return value.name or value.path or value.kind
    return value.node.name or value.node.op


def signature(value: Value) -> Any:
    """A key that is equal for values with the same dims, in any order."""
    return value.shape if value.shape is not None else frozenset(dim.serial for dim in value.dims)


def maker_of(value: Value) -> str:
    """The op that gives a value, or the number that it is."""
    return (value.node.name or value.node.op) if value.node else value.name
