"""The value of a layer that is known before there is a batch."""

from __future__ import annotations

from collections.abc import Mapping

from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.network.build.node import Node


def value_of(path: str, nodes: Mapping[str, Node], known: dict[str, Tensor] | None = None) -> Tensor:
    """The output of a layer, computed from constants and parameters. Raises NetworkError if it needs anything else."""
    known = {} if known is None else known
    if path not in known:
        node = nodes[path]
        if node.kind != "layer" or node.layer is None or node.loop is not None:
            got = f"{path!r}, which is known in a batch only"
            raise NetworkError(
                "a layer without data is needed here", got=got, expected='for example "class": "constant"'
            )
        sources = [value_of(source, nodes, known) for source in node.sources]
        inputs = {name: value_of(source, nodes, known) for name, source in node.inputs.items()}
        known[path] = node.layer(*sources, **inputs)
    return known[path]
