"""Where a dim of a value comes from: dims that layers make for the same number are one Dim, of several origins."""

from __future__ import annotations

from collections.abc import Mapping

from rfnb.core.dims.dim import Dim
from rfnb.network.build.node import NetNode


def origin_of(nodes: Mapping[str, NetNode], path: str, dim: Dim) -> str:
    """The path of the layer that made a dim of a value, or of the data that has it."""
    visited: set[str] = set()
    while path not in visited:
        visited.add(path)
        node = nodes[path]
        frames = node.loop.sources if node.kind == "frame" and node.loop is not None else ()
        sources = [name for name in (node.of, *node.needs, *frames) if name in nodes]
        path = next((name for name in sources if dim in nodes[name].template.dims), path)
    return path
