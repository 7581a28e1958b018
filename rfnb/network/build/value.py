"""The value of a layer that is known before there is a batch."""

from __future__ import annotations

from collections.abc import Mapping

from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.network.build.node import NetNode


def value_of(path: str, nodes: Mapping[str, NetNode]) -> Tensor:
    """The output of a layer, computed from constants and parameters. Raises NetworkError if it needs anything else."""
    values: dict[str, Tensor] = {}
    todo = [path]
    while todo:
        at = todo[-1]
        node = nodes[at]
        if node.kind != "layer" or node.layer is None or node.loop is not None:
            got = f"{at!r}, which is known in a batch only"
            raise NetworkError(
                "a layer without data is needed here", got=got, expected='for example "class": "constant"'
            )
        missing = list(dict.fromkeys(need for need in (*node.sources, *node.inputs.values()) if need not in values))
        if missing:
            todo += missing
            continue
        inputs = {name: values[source] for name, source in node.inputs.items()}
        values[todo.pop()] = node.layer(*(values[source] for source in node.sources), **inputs)
    return values[path]
