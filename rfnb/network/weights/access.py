"""The variables of a network by the names that checkpoints have, and what a net dict says of a layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rfnb.network.layer import Layer
from rfnb.network.network import Network


def scope_of(layer: Layer, names: Mapping[int, str]) -> str | None:
    """What stands before the names of a layer's variables; None if it has none. names: by the id of parameters."""
    for name, parameter in layer.params.items():
        variable = names.get(id(parameter), "")
        if variable.endswith(name):
            return variable.removesuffix(name)
    return None


def options_of(net: Network, path: str) -> Mapping[str, Any]:
    """What the net dict says of a layer; empty for a layer that is not in it."""
    layers: Any = net._builder.scope.layers
    described: Any = {}
    for name in path.split("/"):
        described = layers.get(name) if isinstance(layers, Mapping) else None
        if not isinstance(described, Mapping):
            return {}
        layers = described.get("subnetwork") or described.get("unit")
    return described
