"""A call of an op in the body of a loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rfnb.core.graph.graph import Node
    from rfnb.core.tensor.op import OpRow
    from rfnb.core.tensor.tensor import Tensor


@dataclass(slots=True, eq=False)
class OpCall:
    """A call of an op in the body, kept to repeat it for all steps, or when its raw calls depend on a growing size.

    given: the tensors among its arguments.
    """

    row: OpRow
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    given: list[Tensor]
    result: Any
    node: Node
